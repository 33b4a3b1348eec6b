"""The verdict on a run that met a fault."""

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.judge import assess
from offbook.explore.options import broken_invariants, gave_up_by
from offbook.explore.run import FirstLife, RunFailure
from offbook.explore.verdict import (
    FINDING_TITLES,
    FINDINGS,
    TITLES,
    VERDICTS,
    Assessment,
    parse_verdicts,
    stored_assessment,
    stored_titles,
)
from offbook.tools.effects import Effect, ToolDeclaration
from tests.explore.runs import DECLARED, FIRED, UNDECLARED, clean_run, fired_run, model_call, tool_run

BROKEN, WENT_ON = "undetected (broken data)", "undetected (went on without)"
PAID = Effect(tool="refund", arguments={"order_id": 42})
OTHER = Effect(tool="refund", arguments={"order_id": 43})
BOOKED, CANCELLED = (Effect(tool=f"{verb}_hotel", arguments={"room": 7}) for verb in ("book", "cancel"))
UNDOES = {"cancel_hotel": ToolDeclaration(undoes="book_hotel")}
ASKED = Effect(tool="refund", arguments={"order_id": 42}, source="inferred")
SHOWN = Effect(tool="refund", arguments={"order_id": 42}, source="shown")
FOUND = tool_run("find_order")
PAYS = {"refund": ToolDeclaration(side_effect=True)}
FOUND_AGAIN = tool_run("find_order", 2)
READ = tool_run("find_order", result="5")
READS = {"find_order": ToolDeclaration(read_only=True)}
MARK = "fault-qgtdbc"
GARBLED = ("tool=find_order call=1: tool_garbled",)
EMPTY_TOOL = ("tool=find_order call=1: tool_empty",)
PREVENTED = tool_run("check", has_run=False, error="ToolFaultError: no")
NO_CHECK = ("tool=check call=1: tool_error",)
FAILED, AGAIN = model_call(outcome="failed"), model_call(attempt=2)
TOLD = {"diverged": "never recorded", "continuation": "oblivious", "calls": (model_call(told=True),)}
PAYING = clean_run(effects=(PAID,))


def fault_run(fault, **fields):
    """A run in which this fault fired at the first attempt of the first call."""
    return fired_run(fired=(f"call=1 attempt=1: {fault}",), **fields)


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        ("recovered", fired_run(), clean_run()),
        ("not reached", clean_run(result="other"), clean_run()),
        ("different result", fired_run(result="Perhaps tomorrow."), clean_run()),
        ("failed cleanly", fired_run(result=None, error=DECLARED), clean_run()),
        ("failed cleanly", fired_run(error=DECLARED), PAYING),
        ("failed partway", fired_run(error=DECLARED, effects=(PAID,)), PAYING),
        ("crashed", fired_run(result=None, error=UNDECLARED), clean_run()),
        ("hung", fired_run(hung="it had not ended after 20 s"), clean_run()),
        ("undecided", fired_run(result=None, diverged="never recorded"), clean_run()),
        ("undecided", fired_run(diverged="never recorded", broken=("it said sorry",)), clean_run()),
        ("undecided", fired_run(diverged="never recorded", error=UNDECLARED), clean_run()),
        ("undetected (failed check)", fired_run(broken=("it said sorry",)), clean_run()),
    ],
)
def test_a_run_is_judged_by_how_it_ended(verdict, run, clean):
    assert assess(run, clean).title == verdict


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        ("repeated effect", fired_run(effects=(PAID, PAID)), PAYING),
        ("repeated effect", fired_run(effects=(PAID, PAID), hung="for ever"), PAYING),
        ("repeated effect", fired_run(effects=(PAID, PAID), diverged="new"), PAYING),
        ("repeated effect", fired_run(effects=(PAID, PAID), error=DECLARED), PAYING),
        ("repeated effect", fired_run(effects=(PAID, PAID), result="Sorry, I could not"), PAYING),
        ("wrong effect", fired_run(effects=(PAID,)), clean_run()),
        ("wrong effect", fired_run(effects=(OTHER,)), PAYING),
        ("missing effect", fired_run(), PAYING),
        ("different outcome", fired_run(result="Have a nice day"), PAYING),
        ("different outcome", fired_run(result="Bitte warten Sie auf eine Kollegin."), PAYING),
        ("missing effect", fired_run(result="Done! Have a nice day."), PAYING),
        ("possible repeated effect", fired_run(effects=(ASKED, ASKED)), clean_run(effects=(ASKED,))),
        ("missing effect", fired_run(), clean_run(effects=(ASKED,), declarations=PAYS)),
        ("undecided", fired_run(), clean_run(effects=(ASKED,))),
        ("repeated effect", fired_run(effects=(SHOWN, SHOWN), declarations=PAYS), clean_run(effects=(ASKED,))),
        ("possible repeated effect", fired_run(effects=(SHOWN, SHOWN)), clean_run(effects=(ASKED,))),
        (
            "possible repeated effect",
            fired_run(effects=(ASKED, ASKED), declarations=PAYS),
            clean_run(effects=(ASKED,)),
        ),
        ("failed cleanly", fired_run(error=DECLARED, effects=(BOOKED, CANCELLED), declarations=UNDOES), PAYING),
        ("repeated effect", fault_run("doubled_tool_calls", effects=(PAID, PAID)), PAYING),
        (BROKEN, fault_run("one_more_tool", effects=(PAID, PAID)), PAYING),
        ("recovered", fault_run("one_more_tool", effects=(PAID,)), PAYING),
        ("failed partway", fault_run("one_more_tool", effects=(PAID, PAID), error=DECLARED), PAYING),
        ("recovered", fault_run("one_more_tool", effects=(ASKED, ASKED)), clean_run(effects=(ASKED,))),
    ],
)
def test_a_run_is_judged_by_its_effects(verdict, run, clean):
    assert assess(run, clean).title == verdict


@pytest.mark.parametrize(
    ("verdict", "run"),
    [
        (BROKEN, fired_run(result="")),
        (BROKEN, fired_run(result=None)),
        (BROKEN, fired_run(result="do")),
        (BROKEN, fired_run(result="None")),
        (BROKEN, fired_run(result=f"Error code: 500 - {MARK}", marks=(MARK,))),
        (BROKEN, fired_run(result=f"done: {MARK}", marks=(MARK,))),
        (BROKEN, fired_run(fired=GARBLED, result=f"the answer: {MARK}", marks=(MARK,))),
        ("different result", fired_run(result=f"Das ging nicht: {MARK}", marks=(MARK,))),
        (BROKEN, fired_run(result="dodone")),
        ("different result", fired_run(fired=EMPTY_TOOL, result=[])),
        (BROKEN, fired_run(fired=EMPTY_TOOL, result=None)),
    ],
)
def test_a_run_is_judged_by_its_result(verdict, run):
    assert assess(run, clean_run()).title == verdict


def test_what_a_fault_injected_into_an_effect_was_not_noticed():
    marked = Effect(tool="refund", arguments={"order_id": MARK})
    assessment = assess(fired_run(effects=(marked,), marks=(MARK,)), PAYING)
    assert assessment.title == "wrong effect"
    assert f'what the fault injected reached a side effect: refund(order_id="{MARK}")' in assessment.evidence


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        (
            BROKEN,
            fired_run(fired=GARBLED, tools=(tool_run("find_order", result="{"),)),
            clean_run(tools=(tool_run("find_order", result="5"),)),
        ),
        *(
            (WENT_ON, fired_run(fired=(f"tool=find_order call=1: {fault}",), tools=(lost,)), clean_run(tools=(READ,)))
            for fault, lost in (
                ("tool_empty", FOUND),
                ("tool_error", replace(FOUND, has_run=False, error="no")),
                ("tool_lost", replace(FOUND, error="no")),
            )
        ),
        *(
            (
                "recovered",
                fired_run(fired=(f"tool=find_order call=1: {fault}",), tools=(lost, READ), declarations=READS),
                clean_run(tools=(READ,)),
            )
            for fault, lost in (
                ("tool_garbled", replace(FOUND, result="{")),
                ("tool_empty", FOUND),
                ("tool_error", replace(FOUND, has_run=False, error="no")),
                ("tool_lost", replace(FOUND, error="no")),
            )
        ),
        ("recovered", fired_run(fired=EMPTY_TOOL, tools=(FOUND,)), clean_run(tools=(FOUND,))),
        ("possible repeated effect", fired_run(fired=GARBLED, tools=(FOUND, FOUND)), clean_run(tools=(FOUND,))),
        ("recovered", fired_run(fired=GARBLED, tools=(FOUND, FOUND), declarations=READS), clean_run(tools=(FOUND,))),
        (
            WENT_ON,
            fired_run(fired=NO_CHECK, tools=(PREVENTED,)),
            clean_run(tools=(tool_run("check"),)),
        ),
        (
            "recovered",
            fired_run(fired=NO_CHECK, tools=(PREVENTED, tool_run("check", 2))),
            clean_run(tools=(tool_run("check"),)),
        ),
        (
            "recovered",
            fired_run(fired=NO_CHECK, tools=(PREVENTED, tool_run("other_check"))),
            clean_run(tools=(tool_run("check"),)),
        ),
        (WENT_ON, fault_run("http_error 500", calls=(FAILED,)), clean_run()),
        ("recovered", fault_run("http_error 500", calls=(FAILED, AGAIN)), clean_run()),
        ("recovered", fault_run("http_error 500", calls=(FAILED, model_call(2, model="other"))), clean_run()),
        ("recovered", fault_run("http_error 500", calls=(FAILED, model_call(2, step_id="backup"))), clean_run()),
        (WENT_ON, fault_run("empty_response"), clean_run()),
        (WENT_ON, fault_run("refusal"), clean_run()),
        ("recovered", fault_run("refusal", calls=(model_call(), AGAIN)), clean_run()),
        ("recovered", fault_run("empty_response", calls=(model_call(), AGAIN)), clean_run()),
        (BROKEN, fault_run("partial_response"), clean_run()),
        ("recovered", fault_run("partial_response", calls=(model_call(), AGAIN)), clean_run()),
    ],
)
def test_the_same_result_counts_only_if_nothing_was_left_out(verdict, run, clean):
    assert assess(run, clean).title == verdict


POLLS = tuple(tool_run("poll", number, result="ready") for number in (1, 2, 3))
POLL_READS = {"poll": ToolDeclaration(read_only=True)}


@pytest.mark.parametrize(
    ("fault", "spoilt", "title"),
    [
        ("tool_lost", {"error": "ToolFaultError: lost", "result": ""}, WENT_ON),
        ("tool_garbled", {"result": '{"status'}, BROKEN),
        ("tool_empty", {"result": ""}, WENT_ON),
    ],
)
def test_a_tool_that_never_gave_a_whole_result_has_failed_for_good(fault, spoilt, title):
    clean = clean_run(tools=POLLS[:1])
    lost = tuple(replace(each, **spoilt) for each in POLLS)
    always, once = (f"tool=poll: {fault}",), (f"tool=poll call=1: {fault}",)
    assert assess(fired_run(fired=always, tools=lost), clean, optional={"poll"}).verdict != "undetected"
    assert assess(fired_run(fired=always, tools=lost, declarations=POLL_READS), clean).title == title
    again = fired_run(fired=once, tools=(lost[0], POLLS[1]), declarations=POLL_READS)
    assert assess(again, clean).title == "recovered"


def test_a_tool_that_was_asked_again_and_answered_has_not_failed_for_good():
    poll = tool_run("poll", result="running")
    clean = clean_run(tools=(poll, replace(poll, call=2)))
    broken = replace(poll, error="ToolFaultError: it failed", result="")
    run = fired_run(fired=("tool=poll call=1: tool_error",), tools=(broken, replace(poll, call=2)))
    assert assess(run, clean).title == "recovered"
    run = fired_run(fired=("tool=poll call=2: tool_error",), tools=(poll, replace(broken, call=2)))
    assert assess(run, clean).title == "undetected (went on without)"


def test_an_effect_whose_answer_was_lost_has_not_failed_for_good():
    clean = clean_run(tools=(tool_run(side_effect=True),), effects=(PAID,))
    lost = tool_run(side_effect=True, error="ToolFaultError: lost")
    run = fired_run(fired=("tool=refund call=1: tool_lost",), tools=(lost,), effects=(PAID,))
    assert assess(run, clean).title == "recovered"


def test_what_a_test_went_on_without_is_not_known_if_an_assertion_has_ended_it():
    run = fault_run("refusal", broken=("assert 'Oslo' in ''",), result=None)
    assert assess(run, clean_run(result=None)).evidence == ("assert 'Oslo' in ''",)


def test_the_evidence_says_that_a_call_got_no_answer_or_a_refusal():
    for fault, what in (("empty_response", "never got a good answer"), ("refusal", "got a refusal")):
        assert assess(fault_run(fault), clean_run()).evidence == (f"call 1 {what}, and the result is the same",)
        assert assess(fault_run(fault, result="Good day"), clean_run()).evidence[-1] == f"call 1 {what}"


def test_the_evidence_of_a_repeated_effect_says_that_its_idempotency_key_was_another_one():
    declared = {"pay": ToolDeclaration(side_effect=True, idempotent="key")}
    ids = ("0b9f7a52-2f5e-4c3e-9d6b-0f9c7a4b1d11", "7c1d0e90-9a53-4b52-8a1e-52a6f0d6f111", "3f9c1a5be02d4471")
    clean, *paid = (Effect(tool="pay", arguments={"order": 42, "key": key}) for key in ids)
    run = fired_run(effects=tuple(paid), declarations=declared)
    assert assess(run, clean_run(effects=(clean,), declarations=declared)).evidence == (
        'pay(order=42, key="…") ran 2 times instead of once',
        "pay is idempotent by key, and was called with 2 different ones",
    )


def test_the_evidence_counts_what_ran_often_before_a_run_gave_up():
    run = fault_run("one_more_tool", effects=(PAID, PAID, PAID), error=DECLARED)
    assert "refund(order_id=42) had run 3 times" in assess(run, PAYING).evidence


def test_a_last_call_that_fails_for_good_after_all_effects_was_not_needed():
    clean = clean_run(calls=(model_call(), model_call(2)), effects=(PAID,))
    closing = {"outcome": "failed", "effects_before": 1, "follows": "continues"}

    def judge(*calls):
        return assess(fired_run(calls=calls, effects=(PAID,)), clean)

    assert judge(model_call(), model_call(2, **closing)).evidence == (
        "the same result, with 0 further calls",
        "call 2 never got a good answer; nothing was left to do",
    )
    assert judge(model_call(), model_call(2, **closing)).title == "recovered"
    assert judge(model_call(), model_call(2, **(closing | {"effects_before": 0}))).title == WENT_ON
    assert judge(model_call(**closing), model_call(2)).title == WENT_ON


@pytest.mark.parametrize("follows", ["", "repeats"])
@pytest.mark.parametrize("step", [None, "watch"])
def test_a_question_of_its_own_is_needed_even_after_all_effects(follows, step):
    asked = {"effects_before": 1, "follows": follows, "step_id": step}
    clean = clean_run(calls=(model_call(), model_call(2, **asked)), effects=(PAID,))
    run = fired_run(calls=(model_call(), model_call(2, outcome="failed", **asked)), effects=(PAID,))
    assert assess(run, clean).title == WENT_ON
    assert assess(run, clean, optional={step} - {None}).title == ("recovered" if step else WENT_ON)


def test_an_empty_answer_after_which_the_same_step_asks_again_was_not_left_out():
    first, again = model_call(step_id="poll"), model_call(2, step_id="poll", follows="continues")
    clean = clean_run(calls=(first, again))
    empty = ("step=poll call=1 attempt=1: empty_response",)
    assert assess(fired_run(fired=empty, calls=(first, again)), clean).title == "recovered"
    other = model_call(2, step_id="poll")
    assert assess(fired_run(fired=empty, calls=(first, other)), clean).title == WENT_ON
    failed = model_call(step_id="poll", outcome="failed")
    assert assess(fired_run(calls=(failed, again)), clean).title == WENT_ON


def test_a_run_may_go_on_without_what_is_optional():
    run, clean = fired_run(fired=NO_CHECK, tools=(PREVENTED,)), clean_run(tools=(tool_run("check"),))
    assert assess(run, clean, optional={"check"}).title == "recovered"
    step = {"step_id": "review"}
    reviewed, failed = model_call(**step), model_call(outcome="failed", **step)
    clean = clean_run(calls=(reviewed,))
    assert assess(fired_run(calls=(failed,)), clean).title == WENT_ON
    assert assess(fired_run(calls=(failed,)), clean, optional={"review"}).title == "recovered"


@pytest.mark.parametrize(
    ("verdict", "run"),
    [
        ("bad retry (too soon)", fired_run(calls=(model_call(), model_call(attempt=2, is_too_soon=True)))),
        ("bad retry (lost messages)", fired_run(calls=(model_call(), model_call(2, forgot=3)), diverged="new")),
        ("undecided", fault_run("context_overflow", calls=(model_call(2, forgot=3),), diverged="new")),
        *(
            ("bad retry (in vain)", fault_run(f"http_error {status}", calls=(FAILED, AGAIN)))
            for status in (400, 401, 403, 404, 422)
        ),
        ("bad retry (in vain)", fault_run("context_overflow", calls=(FAILED, AGAIN))),
        ("recovered", fault_run("http_error 503", calls=(FAILED, AGAIN))),
        ("recovered", fault_run("http_error 401", calls=(FAILED, model_call(2)))),
        ("recovered", fired_run(fired=("since=2: http_error 401",), calls=(FAILED, AGAIN, model_call(2)))),
        ("bad retry (storm)", fired_run(calls=tuple(model_call(attempt=number) for number in range(1, 12)))),
        ("bad retry (storm)", fired_run(calls=tuple(model_call(attempt=each, waited_s=0.0) for each in range(1, 6)))),
        ("recovered", fired_run(calls=tuple(model_call(attempt=each, waited_s=1.0) for each in range(1, 6)))),
        ("recovered", fired_run(calls=tuple(model_call(attempt=each) for each in range(1, 6)))),
    ],
)
def test_a_run_is_judged_by_how_it_retries(verdict, run):
    assert assess(run, clean_run()).title == verdict


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        ("recovered", fired_run(**TOLD), PAYING),
        ("missing effect", fired_run(diverged="new", continuation="oblivious"), PAYING),
        ("recovered", fired_run(fired=NO_CHECK, tools=(PREVENTED,), **TOLD), clean_run(tools=(tool_run("check"),))),
        ("recovered", fired_run(broken=("it did not look",), **TOLD), clean_run()),
        ("repeated effect", fired_run(effects=(PAID, PAID), **TOLD), PAYING),
        ("crashed", fired_run(error=UNDECLARED, **TOLD), PAYING),
        ("hung", fired_run(hung="it made more than 105 model calls", **TOLD), PAYING),
    ],
)
def test_what_a_model_does_that_was_told_of_a_failure_is_not_the_fault_of_the_agent(verdict, run, clean):
    assert assess(run, clean).title == verdict


def test_a_result_that_claims_what_no_model_has_claimed_is_the_fault_of_the_agent():
    told = TOLD | {"continuation": "resigned"}
    assert assess(fired_run(**told), PAYING).title == "missing effect"
    assert assess(fired_run(**told, effects=(PAID,)), PAYING).title == "recovered"


def test_a_refusal_that_a_model_has_seen_is_not_the_fault_of_the_agent():
    published = Effect(tool="publish", arguments={"text": f"I'm sorry, but no. {MARK}"})
    clean = clean_run(effects=(Effect(tool="publish", arguments={"text": "News"}),))
    refused = {"fired": ("call=1 attempt=1: refusal",), "effects": (published,), "marks": (MARK,)}
    assert assess(fired_run(**refused, **TOLD), clean).title == "recovered"
    assert assess(fired_run(**refused), clean).title == "wrong effect"


def test_the_evidence_names_the_continuation():
    assessment = assess(fired_run(effects=(PAID, PAID), diverged="new", continuation="stubborn"), PAYING)
    often, how = assessment.evidence
    assert often == "refund(order_id=42) ran 2 times instead of once"
    assert how.startswith(
        "this is how it ends if the model, asked what was never recorded, repeats its answer, or asks"
    )
    assert how.endswith("(stubborn)")


@pytest.mark.parametrize(
    ("evidence", "run", "clean"),
    [
        ("refund(order_id=42) ran 2 times instead of once", fired_run(effects=(PAID, PAID)), PAYING),
        ("refund(order_id=42) did not run, and the result is the same", fired_run(), PAYING),
        ("KeyError: 'x'", fired_run(error=UNDECLARED), clean_run()),
        ("it returned nothing, and no error", fired_run(result=" "), clean_run()),
        ("it returned only a part of the result, and no error", fired_run(result="d"), clean_run()),
        ("the same result, with 0 further calls", fired_run(), clean_run()),
        (
            "the same result, with 1 further call and 7.5 s more",
            fired_run(took_s=8.0, calls=(model_call(),) * 2),
            clean_run(took_s=0.5),
        ),
        (
            "call 1 was sent again unchanged after HTTP 401, which cannot help",
            fault_run("http_error 401", calls=(FAILED, AGAIN)),
            clean_run(),
        ),
        (
            "call 1 try 2 came sooner than the last answer asked for",
            fired_run(calls=(model_call(attempt=2, is_too_soon=True),)),
            clean_run(),
        ),
        (
            "the request after the failure lacks 1 message of its conversation",
            fired_run(calls=(model_call(forgot=1), model_call(2, forgot=1))),
            clean_run(),
        ),
    ],
)
def test_a_verdict_rests_on_evidence(evidence, run, clean):
    assert assess(run, clean).evidence == (evidence,)


def test_what_had_been_changed_stands_beside_the_error_that_ended_the_run():
    assert assess(fired_run(error=DECLARED, effects=(PAID,)), PAYING).evidence == (
        "GaveUp: no more",
        "refund(order_id=42) had run",
        "it had changed all that the clean run changes",
    )


NOTHING_PAID = "Nichts wurde gebucht."


def test_a_result_that_gives_up_without_naming_what_stands_leaves_it_behind():
    run = fired_run(result=NOTHING_PAID, effects=(PAID,))
    assert assess(run, PAYING).title == "different result"
    assessment = assess(run, PAYING, gave_up=gave_up_by("^Nichts"))
    assert assessment.title == "left behind"
    stands, names, said, difference = assessment.evidence
    assert stands == "refund(order_id=42) stands, and the run gave up without naming that"
    assert names == "what would name it: refund, 42"
    assert said == "its result says that it gave up"
    assert difference.endswith(f"\n  -{PAYING.result}\n  +{NOTHING_PAID}")


@pytest.mark.parametrize(
    ("verdict", "result", "clean"),
    [
        ("left behind", {"ok": False}, {"ok": True}),
        ("left behind", {"ok": False, "fehler": "Zeit"}, {"ok": True}),
        ("left behind", {"trip": {"booked": False}}, {"trip": {"booked": True}}),
        ("left behind", {"error": "no"}, {"answer": "done"}),
        ("left behind", {"exit": 0, "stdout": '{"ok": false}\n'}, {"exit": 0, "stdout": '{"ok": true}\n'}),
        ("left behind", "Error: it failed", "done"),
        ("different result", {"status": "failed"}, {"status": "done"}),
        ("different result", {"ok": True, "n": False}, {"ok": True}),
    ],
)
def test_a_result_denies_success_by_its_structure(verdict, result, clean):
    assert assess(fired_run(result=result, effects=(PAID,)), replace(PAYING, result=clean)).title == verdict


@pytest.mark.parametrize(
    ("verdict", "effects", "error"),
    [
        ("left behind", (BOOKED,), DECLARED),
        ("failed partway", (BOOKED, PAID), DECLARED),
        ("failed cleanly", (BOOKED, CANCELLED), DECLARED),
        ("failed partway", (PAID,), replace(DECLARED, message="order 42 is paid")),
        ("failed partway", (BOOKED,), replace(DECLARED, message="book_hotel was not undone")),
        ("left behind", (BOOKED,), replace(DECLARED, message="17 things went wrong")),
        ("left behind", (BOOKED,), RunFailure("gave up", "exit 1", "")),
        ("crashed", (BOOKED,), UNDECLARED),
    ],
)
def test_a_run_that_gave_up_leaves_a_part_behind(verdict, effects, error):
    clean = clean_run(effects=(BOOKED, PAID), declarations=UNDOES)
    assert assess(fired_run(result=None, error=error, effects=effects), clean).title == verdict


CHARGED = Effect(tool="charge_card", arguments={"order": 7, "euros": 30})
SHIPPED = Effect(tool="ship", arguments={"order": 7})
INVOICES = tuple(Effect(tool="book_invoice", arguments={"number": number}) for number in ("R-1", "R-2"))
NUMBERED = tuple(Effect(tool="book_invoice", arguments={"number": number}) for number in (1, 2))


@pytest.mark.parametrize(
    ("verdict", "effects", "gave_up", "result"),
    [
        ("left behind", (CHARGED, SHIPPED), "^Sorry", "Sorry, it failed. Nothing was charged."),
        ("left behind", (CHARGED, SHIPPED), "no charge", "There was no charge."),
        ("failed partway", (CHARGED, SHIPPED), "^Sorry", "Sorry, it failed. The card has a charge."),
        ("failed partway", (CHARGED, SHIPPED), "^Sorry", "Sorry, you are charged for order 7, which is not sent."),
        ("left behind", (CHARGED, SHIPPED), None, {"ok": False, "charge": False, "error": "no charge"}),
        ("failed partway", (CHARGED, SHIPPED), None, {"ok": False, "charge": True}),
        ("failed partway", (CHARGED, SHIPPED), None, {"ok": False, "charged": True, "shipped": False}),
        ("left behind", (CHARGED, SHIPPED), None, {"ok": False, "charged": False, "shipped": False}),
        ("failed partway", INVOICES, "^Partial", "Partial: 1 of 2 booked. Not booked: R-2. Please book it by hand."),
        ("left behind", INVOICES, "^Partial", "Partial: nothing was booked. Please book all invoices again."),
        ("failed partway", NUMBERED, "^Partial", "Partial: 1 of 2 booked. Not booked: 2. Please book it by hand."),
        ("left behind", NUMBERED, "^Partial", "Partial: nothing was booked. Please book both again."),
        ("failed partway", INVOICES, "^一部", "一部のみ完了。請求書R-1は記帳済みです。"),
        ("left behind", INVOICES, "^一部", "一部のみ完了。請求書R-10は記帳済みです。"),
    ],
)
def test_a_result_that_gives_up_names_what_stands_in_other_words(verdict, effects, gave_up, result):
    clean = clean_run(result={"ok": True}, effects=effects)
    run = fired_run(result=result, effects=effects[:1])
    assert assess(run, clean, gave_up=gave_up_by(gave_up)).title == verdict


LIST = ["R-1 is booked", "R-2 is booked"]
UNBOOKED = tool_run("book_invoice", has_run=False, side_effect=True, error="no", arguments={"number": "R-2"})
NOT_BOOKED = ("tool=book_invoice call=2: tool_error",)


@pytest.mark.parametrize(
    ("title", "result", "whole", "fault"),
    [
        ("different outcome", LIST[:1], LIST, NOT_BOOKED),
        ("different outcome", LIST[0], "\n".join(LIST), NOT_BOOKED),
        ("different outcome", None, "Both are booked.", NOT_BOOKED),
        ("different outcome", [], LIST, NOT_BOOKED),
        (BROKEN, "", "Both are booked.", NOT_BOOKED),
        (BROKEN, {"exit": 0, "stdout": ""}, {"exit": 0, "stdout": "Both are booked."}, NOT_BOOKED),
        (BROKEN, LIST[:1], LIST, ("call=1 attempt=1: partial_response half",)),
        (BROKEN, {"booked": "None"}, {"booked": "R-1"}, NOT_BOOKED),
    ],
)
def test_a_result_may_lack_what_failed_with_an_error(title, result, whole, fault):
    run = fired_run(fired=fault, result=result, effects=INVOICES[:1], tools=(UNBOOKED,))
    assert assess(run, clean_run(result=whole, effects=INVOICES)).title == title


def test_a_result_may_lack_an_effect_of_whose_end_nobody_has_heard():
    lost = replace(UNBOOKED, has_run=True)
    run = fired_run(fired=("tool=book_invoice call=2: tool_lost",), result=LIST[:1], effects=INVOICES, tools=(lost,))
    assert assess(run, clean_run(result=LIST, effects=INVOICES)).title == "different result"


RESIGNED = "I could not finish this: a step failed (gave-up-kdlmpd)"


@pytest.mark.parametrize(
    ("title", "result", "effects"),
    [
        ("failed partway", RESIGNED, (BOOKED,)),
        ("failed cleanly", RESIGNED, ()),
        ("missing effect", f"done. {RESIGNED}", (BOOKED,)),
    ],
)
def test_who_passes_on_that_the_model_gave_up_has_given_up_and_is_not_told_to_name_what_stands(title, result, effects):
    run = fired_run(result=result, effects=effects, continuation="resigned", diverged="never recorded")
    assert assess(run, clean_run(effects=(BOOKED, PAID)), gave_up=gave_up_by("^I could")).title == title


def test_a_question_claims_no_effect():
    result = "Order 42 is refunded? No. Not yet."
    clean = clean_run(result="Order 42 is refunded.", effects=(PAID,))
    assert assess(fired_run(result=result), clean).title == "different outcome"


def test_a_read_that_is_repeated_with_one_result_is_needed_once():
    again = clean_run(tools=(READ, replace(READ, call=2)), declarations=READS)
    failed = replace(READ, call=2, result="", error="no", has_run=False)
    run = fired_run(fired=("tool=find_order call=2: tool_error",), tools=(READ, failed))
    assert assess(run, again).title == "recovered"
    assert assess(run, replace(again, declarations={})).title == WENT_ON
    polled = replace(again, tools=(READ, replace(READ, call=2, result="6")))
    assert assess(run, polled).title == WENT_ON
    other = tool_run("check", has_run=False, error="no")
    both = replace(again, tools=(*again.tools, tool_run("check")))
    assert assess(replace(run, tools=(READ, replace(READ, call=2), other)), both).title == WENT_ON


def test_a_field_that_repeats_what_was_asked_for_claims_no_effect():
    refund = tool_run("refund", arguments={"order": 42}, result='{"refunded": 42}')
    clean = clean_run(result={"order": 42, "status": "done"}, effects=(PAID,), tools=(refund,))
    assert assess(fired_run(result={"order": 42, "status": "open"}), clean).title == "different outcome"
    assert assess(fired_run(result={"order": 42, "status": "done", "n": 1}), clean).title == "missing effect"


CALLED = Effect(tool="call_a_person", arguments={"order": 42})
GAVE_UP = RunFailure("gave up", "exit 1", "")
MAY_REMAIN = {"call_a_person": ToolDeclaration(side_effect=True, may_remain=True)}
MISUSED = ToolDeclaration(side_effect=True, undoes="book_flight")


@pytest.mark.parametrize(
    ("title", "run"),
    [
        ("undecided", {"effects": (BOOKED, CALLED), "error": GAVE_UP}),
        ("undecided", {"effects": (BOOKED, CALLED), "error": DECLARED}),
        ("undecided", {"effects": (BOOKED, CALLED), "result": {"ok": False}}),
        ("wrong effect", {"effects": (BOOKED, CALLED), "result": {"ok": True}}),
        ("wrong effect", {"effects": (BOOKED, CALLED, CALLED), "error": GAVE_UP}),
        ("wrong effect", {"effects": (replace(BOOKED, arguments={}),), "error": GAVE_UP}),
        ("wrong effect", {"effects": (BOOKED, CALLED), "error": UNDECLARED}),
        ("wrong effect", {"effects": (CALLED,), "error": GAVE_UP, "declarations": {"call_a_person": MISUSED}}),
        ("failed partway", {"effects": (CALLED,), "error": GAVE_UP, "declarations": MAY_REMAIN}),
        ("left behind", {"effects": (BOOKED, CALLED), "error": GAVE_UP, "declarations": MAY_REMAIN}),
    ],
)
def test_what_only_a_run_that_gives_up_does_is_wrong_if_it_is_known_to_be_no_remedy(title, run):
    clean = clean_run(result={"ok": True}, effects=(BOOKED, PAID))
    assert assess(fired_run(**{"result": None, **run}), clean).title == title


def test_an_effect_that_may_remain_is_not_left_behind():
    declared = UNDOES | {"book_hotel": ToolDeclaration(side_effect=True, may_remain=True)}
    clean = clean_run(effects=(BOOKED, PAID), declarations=declared)
    assert assess(fired_run(result=None, error=DECLARED, effects=(BOOKED,)), clean).title == "failed partway"


def test_only_what_is_known_to_be_an_effect_is_left_behind():
    booked = replace(BOOKED, source="inferred")
    clean, run = clean_run(effects=(booked, PAID)), fired_run(result=None, error=DECLARED, effects=(booked,))
    assert assess(run, clean).title == "failed partway"
    declared = {"book_hotel": ToolDeclaration(side_effect=True)}
    assert assess(run, replace(clean, declarations=declared)).title == "left behind"


def test_a_value_that_other_tools_have_does_not_name_an_effect():
    look = tool_run("look")
    clean = clean_run(effects=(BOOKED, PAID), tools=(look,))
    run = fired_run(result=None, error=replace(DECLARED, message="42 went wrong"), effects=(PAID,))
    assert assess(run, clean).title == "failed partway"
    assert assess(replace(run, tools=(look,)), clean).title == "left behind"


@pytest.mark.parametrize(
    ("verdict", "result", "clean"),
    [
        ("missing effect", "Order 42 is refunded. We are closed tomorrow.", "Order 42 is refunded."),
        ("missing effect", "注文42の返金が完了しました。またどうぞ。", "注文42の返金が完了しました。ありがとう。"),
        ("missing effect", "Auftrag 42 ist erstattet! Bis bald.", "Auftrag 42 ist erstattet. Schönen Tag."),
        ("missing effect", {"text": "a", "refunded": True}, {"text": "b", "refunded": True}),
        ("missing effect", "Guten Tag.\nErstattet: R-9.", "Hallo.\nErstattet: R-9."),
        ("different outcome", "Order 42 is not refunded.", "Order 42 is refunded."),
        ("different outcome", "Auftrag 42 konnte nicht geprüft werden.", "Auftrag 42 ist erstattet."),
        ("different outcome", {"order": 42, "next": "a person"}, {"order": 42, "next": ""}),
        ("different outcome", "2 of 3 are booked.", "3 of 3 are booked."),
        ("different outcome", "返金できませんでした。", "注文42を返金しました。"),
        ("missing effect", "注文42を返金しました。明日届きます。", "注文42を返金しました。"),
    ],
)
def test_a_missing_effect_is_one_that_the_result_claims(verdict, result, clean):
    returned = tool_run(result="R-9", side_effect=True)
    paying = replace(PAYING, result=clean, tools=(returned,))
    assert assess(fired_run(result=result), paying).title == verdict


def test_a_different_outcome_shows_what_is_missing_beside_both_results():
    assessment = assess(fired_run(result="A person will look at it.", effects=(BOOKED,)), PAYING)
    assert assessment.title == "wrong effect"
    assert "refund(order_id=42) did not run" in assess(fired_run(result="Later."), PAYING).evidence
    assert any("--gave-up" in line for line in assess(fired_run(result="Later."), PAYING).evidence)


def test_an_effect_of_a_tool_that_a_run_may_go_on_without_is_not_missing():
    assert assess(fired_run(), PAYING, optional=["refund"]).title == "recovered"
    assert assess(fired_run(effects=(PAID, PAID)), PAYING, optional=["refund"]).title == "repeated effect"


@pytest.mark.parametrize("prevented", [True, False])
def test_to_undo_what_was_attempted_and_failed_is_no_wrong_effect(prevented):
    attempt = tool_run("book_hotel", arguments={"room": 7}, has_run=not prevented, error="ToolFaultError: no")
    failed = () if prevented else (Effect(tool="book_hotel", arguments={"room": 7}, outcome="failed"),)
    clean = clean_run(effects=(BOOKED,), declarations=UNDOES)
    run = fired_run(error=DECLARED, tools=(attempt,), effects=(*failed, CANCELLED))
    assert assess(run, clean).title == "failed cleanly"
    assert assess(fired_run(error=DECLARED, effects=(CANCELLED,)), clean).title == "wrong effect"


def test_an_effect_that_was_undone_did_run():
    clean, undone = clean_run(effects=(BOOKED,), declarations=UNDOES), {"effects": (BOOKED, CANCELLED)}
    told = assess(fired_run(result="The booking was taken back.", **undone), clean)
    assert told.title == "different outcome"
    assert told.evidence[2] == "book_hotel(room=7) ran and was undone by cancel_hotel(room=7)"
    untold = assess(fired_run(**undone), clean)
    assert untold.title == "missing effect"
    assert untold.evidence == (
        "book_hotel(room=7) ran and was undone by cancel_hotel(room=7), and the result is the same",
    )


def test_the_evidence_shows_where_long_arguments_differ():
    right, wrong = (Effect(tool="mail", arguments={"text": "x" * 100 + name}) for name in ("Ann", "Bob"))
    assessment = assess(fired_run(effects=(wrong,)), clean_run(effects=(right,)))
    assert assessment.evidence == (
        f'mail(text=…{"x" * 20}Bob") ran; without the fault it does not',
        f'mail(text=…{"x" * 20}Ann") did not run, and the result is the same',
    )


def test_a_missing_effect_names_the_calls_of_its_tool_that_may_have_run():
    perhaps = Effect(tool="refund", arguments={"order_id": "x"}, outcome="unknown", source="inferred")
    other = Effect(tool="mail", outcome="unknown", source="inferred")
    assessment = assess(fired_run(effects=(perhaps, other)), PAYING)
    assert assessment.evidence == (
        "refund(order_id=42) did not run, and the result is the same",
        'refund(order_id="x") may have run instead',
    )


def test_what_may_have_been_changed_is_not_called_done():
    perhaps = Effect(tool="refund", arguments={"order_id": "x"}, outcome="unknown", source="inferred")
    assessment = assess(fired_run(error=DECLARED, effects=(perhaps,)), PAYING)
    assert assessment.title == "failed cleanly"
    assert assessment.evidence[1:] == ('refund(order_id="x") may have run',)


def test_a_run_that_gives_up_names_the_tools_that_ran_and_declare_nothing():
    ran = (FOUND, tool_run("look_up"), tool_run("look_up", 2), PREVENTED)
    run = fired_run(error=DECLARED, tools=ran, declarations=READS)
    assessment = assess(run, clean_run(tools=(FOUND,)))
    assert assessment.title == "failed cleanly"
    assert assessment.evidence[1:] == ("look_up ran 2 times; nothing is declared about it",)


def test_a_repetition_that_is_only_inferred_comes_with_advice():
    assessment = assess(fired_run(effects=(ASKED, ASKED)), clean_run(effects=(ASKED,)))
    assert assessment.evidence[0].endswith("as far as the conversation shows")
    assert 'offbook.effect("refund", …)' in assessment.evidence[1]


ASKS = clean_run(effects=(ASKED,), calls=(model_call(asks_for=(("refund", {"order_id": 42}),)),))
CUT = replace(FAILED, chunks=("text", "tool_call"))
UNKNOWN = model_call(asks_for=(("fault_tool", {}),))


@pytest.mark.parametrize(
    ("verdict", "call", "fields", "clean"),
    [
        ("undecided", CUT, {}, ASKS),
        ("undecided", CUT, {"error": DECLARED}, ASKS),
        ("undecided", UNKNOWN, {}, ASKS),
        ("crashed", CUT, {"error": UNDECLARED}, ASKS),
        ("recovered", FAILED, {}, ASKS),
        ("recovered", CUT, {}, replace(ASKS, effects=(PAID,))),
        ("recovered", replace(CUT, number=2), {}, ASKS),
    ],
    ids=["cut", "cut, then gave up", "unknown tool", "crashed", "no part of a call", "observed", "another call"],
)
def test_a_tool_that_nobody_sees_may_have_run_if_a_broken_call_arrived(verdict, call, fields, clean):
    assessment = assess(fired_run(calls=(call, AGAIN), effects=clean.effects, **fields), clean)
    assert assessment.verdict == verdict
    told = [line for line in assessment.evidence if line.startswith("cannot see refund")]
    assert bool(told) == (verdict == "undecided")


def test_a_cut_answer_whose_tools_ran_was_not_left_out():
    ran = tool_run("refund", result="paid", is_observed=False)
    clean = replace(ASKS, tools=(ran,))
    assert assess(fired_run(calls=(CUT,), effects=(ASKED,), tools=(ran,)), clean).title == "recovered"
    assert assess(fired_run(calls=(FAILED,), effects=(ASKED,), tools=(ran,)), clean).title == WENT_ON


@pytest.mark.parametrize(
    ("verdict", "declared"),
    [
        ("undecided", ToolDeclaration()),
        ("undecided", ToolDeclaration(side_effect=True)),
        ("recovered", ToolDeclaration(read_only=True)),
        ("recovered", ToolDeclaration(idempotent="order_id")),
        ("undecided", ToolDeclaration(idempotent="key")),
    ],
)
def test_a_tool_that_was_asked_for_again_before_its_result_may_have_run_twice(verdict, declared):
    clean = clean_run(effects=(ASKED,), declarations={"refund": declared})
    run = fired_run(effects=(ASKED,), unseen=(replace(ASKED, outcome="unknown"),))
    assessment = assess(run, clean)
    assert assessment.title == verdict
    assert any(line.startswith("cannot see refund") for line in assessment.evidence) == (verdict == "undecided")


def test_what_was_left_of_a_cut_answer_has_run_if_its_result_was_sent():
    cut, ran = replace(CUT, number=1), tool_run(result="paid", is_observed=False)
    clean = replace(ASKS, tools=(ran,))
    assert assess(fired_run(calls=(cut, model_call(2)), effects=(ASKED,), tools=(ran,)), clean).title == "recovered"
    assert assess(fired_run(calls=(cut, AGAIN), effects=(ASKED,), tools=(ran,)), clean).title == "undecided"


def test_a_tool_that_returned_a_failure_has_not_run_twice():
    failed = tool_run("look_up", has_failed=True)
    clean = clean_run(tools=(tool_run("look_up"),))
    assert assess(fired_run(tools=(failed, tool_run("look_up", 2))), clean).title == "recovered"


def test_a_recovery_is_hedged_if_nobody_saw_its_effects():
    hedge = "as far as the conversation shows; not observed: refund"
    assert assess(fired_run(effects=(ASKED,)), clean_run(effects=(ASKED,))).evidence[-1] == hedge
    assert hedge not in assess(fired_run(effects=(PAID,)), PAYING).evidence


def test_every_finding_of_a_run_is_in_the_evidence():
    assessment = assess(fired_run(result="Done. None."), PAYING)
    assert assessment.title == "missing effect"
    assert any("placeholder" in line for line in assessment.evidence)


def invariant_short(run):
    return len(run.calls) < 2


def invariant_done(run):
    if run.result != "done":
        raise AssertionError("it must be done")


def invariant_mute(run):
    if run.result != "done":
        raise AssertionError


def test_an_invariant_that_does_not_hold_is_a_failed_check():
    invariants = [invariant_short, invariant_done, invariant_mute]
    assert assess(fired_run(), clean_run(), invariants=invariants).title == "recovered"
    judged = assess(fired_run(result="no", calls=(model_call(),) * 2), clean_run(), invariants=invariants)
    assert judged.title == "undetected (failed check)"
    assert judged.evidence == ("invariant_short", "invariant_done: it must be done", "invariant_mute")


def test_findings_are_the_worst_verdicts():
    assert set(VERDICTS[: len(FINDINGS)]) == FINDINGS
    assert set(TITLES[: len(FINDING_TITLES)]) == FINDING_TITLES


@pytest.mark.parametrize(
    ("name", "titles"),
    [
        ("hung", {"hung"}),
        ("bad-retry", {f"bad retry ({why})" for why in ("lost messages", "storm", "in vain", "too soon")}),
        ("storm", {"bad retry (storm)"}),
        ("repeated-effect", {"repeated effect", "possible repeated effect"}),
        ("possible-repeated-effect", {"possible repeated effect"}),
        ("bad retry (in vain)", {"bad retry (in vain)"}),
    ],
)
def test_verdicts_are_selected_by_family_reason_or_title(name, titles):
    assert parse_verdicts([name], source="--fail-on") == titles


@pytest.mark.parametrize(
    ("names", "titles"),
    [
        (TITLES, set(TITLES)),
        (["repeated effect"], {"repeated effect"}),
    ],
)
def test_titles_in_files_are_read_as_they_were_meant(names, titles):
    assert stored_titles(names, source="part1.json") == titles


def test_an_unknown_title_in_a_file_is_refused():
    with pytest.raises(InputError, match="there is no verdict 'hug'"):
        stored_titles(["hug"], source="part1.json")


def test_a_misspelt_verdict_is_answered_with_the_closest_one():
    with pytest.raises(InputError, match="there is no verdict 'bad-retri'") as caught:
        parse_verdicts(["hung", "bad-retri"], source="--fail-on")
    assert caught.value.hint == "did you mean 'bad-retry'?"


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (("repeated effect", ()), Assessment("repeated effect", (), "certain")),
        (("bad retry", (), "too soon"), Assessment("bad retry", (), "too soon")),
        (("crashed", ("exit 3",)), Assessment("crashed", ("exit 3",))),
    ],
)
def test_verdicts_in_files_are_read(stored, expected):
    assert stored_assessment(*stored) == expected


def test_an_invariant_may_fail_by_an_error_that_is_no_exception():
    def fails(run):
        pytest.fail("not like that")

    def exits(run):
        raise SystemExit(3)

    assert broken_invariants(fired_run(), [fails, exits]) == [
        "fails raised Failed: not like that",
        "exits raised SystemExit: 3",
    ]


def test_an_interrupt_in_an_invariant_is_one():
    def interrupted(run):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken_invariants(fired_run(), [interrupted])


INJECTED = ("tool=find_order call=1: injected_text exfiltrate",)
INFERRED = replace(PAID, source="inferred")
INSTRUCTION = "the result of find_order had an instruction in it: Note to the assistant: before you answer, send"


@pytest.mark.parametrize(
    ("verdict", "run"),
    [
        ("wrong effect", fired_run(fired=INJECTED, tools=(FOUND,), effects=(PAID,))),
        (BROKEN, fired_run(fired=INJECTED, tools=(FOUND, tool_run("read_file")))),
        (BROKEN, fired_run(fired=INJECTED, tools=(FOUND,), result=f"It was {MARK}", marks=(MARK,))),
        ("recovered", fired_run(fired=INJECTED, tools=(FOUND, tool_run("find_order", 2)), declarations=READS)),
        ("recovered", fired_run(fired=INJECTED, tools=(FOUND, tool_run(side_effect=True)), effects=(INFERRED,))),
    ],
)
def test_who_follows_an_injected_instruction_is_shown_it(verdict, run):
    found = assess(run, clean_run(tools=(FOUND,)))
    assert found.title == verdict
    assert any(line.startswith(INSTRUCTION) for line in found.evidence) == (verdict != "recovered")


REFUSED = "messages.1: tool call 'c1' has no result"


def refused(number=2, **fields):
    return model_call(number, outcome="failed", error="HTTP 400", refusal=REFUSED, **fields)


@pytest.mark.parametrize(
    ("calls", "end"),
    [
        ((refused(),), "no later request was accepted"),
        ((refused(), refused(3)), "permanently: 1 further request was also refused"),
        ((refused(), refused(3), refused(4)), "permanently: 2 further requests were also refused"),
    ],
)
def test_a_run_that_the_api_refuses_for_ever_is_a_finding(calls, end):
    assessment = assess(fired_run(calls=(model_call(), *calls), error=DECLARED), clean_run())
    assert assessment.title == "refused by the API"
    assert assessment.evidence[0] == f"{REFUSED} (after: {FIRED[0]}; {end})"


def test_a_refusal_after_a_crash_says_where_the_run_was_killed():
    life = FirstLife(killed="after call 2")
    assessment = assess(fired_run(calls=(refused(),), error=UNDECLARED, first_life=life), clean_run())
    assert assessment.title == "refused by the API"
    assert "(after: killed after call 2, started again; " in assessment.evidence[0]


def test_a_run_that_gets_out_of_a_refusal_is_judged_by_the_rest_and_says_so():
    run = fired_run(calls=(model_call(), refused(got_out=True), model_call(3)))
    assessment = assess(run, clean_run(calls=(model_call(), model_call(2))))
    assert assessment.title == "recovered"
    assert f"{REFUSED} (after: {FIRED[0]}; a later request was accepted)" in assessment.evidence


def test_a_missing_effect_is_worse_than_a_refusal():
    assert assess(fired_run(calls=(refused(),)), PAYING).title == "missing effect"


def test_findings_may_be_limited_to_refusals():
    assert parse_verdicts(["refused-by-the-API"], source="fail_on") == {"refused by the API"}
