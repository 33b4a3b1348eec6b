"""The verdict on a run that met a fault."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.verdict import FINDINGS, VERDICTS, assess, is_empty_result, is_truncated
from tests.explore.runs import DECLARED, UNDECLARED, clean_run, fired_run, model_call, tool_run

PAID = (tool_run(side_effect=True),)
UNPAID = (tool_run(side_effect=True, has_run=False, error="ToolFaultError: no"),)
FOUND = tool_run("find_order")
GARBLED = ("tool=find_order call=1: tool_garbled",)
EMPTY = ("tool=find_order call=1: tool_empty",)


@pytest.mark.parametrize(
    ("verdict", "run", "clean"),
    [
        ("recovered", fired_run(), clean_run()),
        ("not reached", clean_run(result="other"), clean_run()),
        ("degraded", fired_run(result="Sorry, not today."), clean_run()),
        ("failed cleanly", fired_run(result=None, error=DECLARED), clean_run()),
        ("crashed", fired_run(result=None, error=UNDECLARED), clean_run()),
        ("hung", fired_run(hung="it had not ended after 20 s"), clean_run()),
        ("diverged", fired_run(result=None, diverged="never recorded"), clean_run()),
        ("diverged", fired_run(diverged="never recorded", broken=("it said sorry",)), clean_run()),
        ("diverged", fired_run(diverged="never recorded", error=UNDECLARED), clean_run()),
        ("wrong", fired_run(broken=("it said sorry",)), clean_run()),
        ("repeated side effect", fired_run(tools=PAID + PAID), clean_run(tools=PAID)),
        ("repeated side effect", fired_run(tools=PAID + PAID, hung="for ever"), clean_run(tools=PAID)),
        ("repeated side effect", fired_run(tools=PAID + PAID, diverged="new"), clean_run(tools=PAID)),
        ("repeated side effect", fired_run(tools=PAID), clean_run()),
        ("wrong", fired_run(tools=UNPAID), clean_run(tools=PAID)),
        ("wrong", fired_run(), clean_run(tools=PAID)),
        ("degraded", fired_run(result="not refunded"), clean_run(tools=PAID)),
        ("failed cleanly", fired_run(error=DECLARED), clean_run(tools=PAID)),
        ("failed cleanly", fired_run(error=DECLARED, tools=PAID), clean_run(tools=PAID)),
        (
            "wrong",
            fired_run(error=DECLARED, tools=PAID),
            clean_run(tools=(*PAID, tool_run("send", side_effect=True))),
        ),
        ("degraded", fired_run(tools=(FOUND,)), clean_run()),
        ("recovered", fired_run(tools=(FOUND, FOUND)), clean_run(tools=(FOUND,))),
        ("undetected", fired_run(result=""), clean_run()),
        ("undetected", fired_run(result=None), clean_run()),
        ("undetected", fired_run(result="do"), clean_run()),
        (
            "undetected",
            fired_run(result={"exit": 0, "stdout": "\n"}),
            clean_run(result={"exit": 0, "stdout": "done\n"}),
        ),
        ("recovered", fired_run(result=None), clean_run(result=None)),
        (
            "undetected",
            fired_run(fired=GARBLED, tools=(tool_run(result="{"),)),
            clean_run(tools=(tool_run(result="5"),)),
        ),
        ("undetected", fired_run(fired=EMPTY, tools=(tool_run(),)), clean_run(tools=(tool_run(result="5"),))),
        ("recovered", fired_run(fired=EMPTY, tools=(tool_run(),)), clean_run(tools=(tool_run(),))),
        ("recovered", fired_run(fired=GARBLED, tools=(FOUND, FOUND)), clean_run(tools=(FOUND,))),
        ("degraded", fired_run(fired=EMPTY, result=None), clean_run()),
        ("wrong", fired_run(calls=(model_call(), model_call(attempt=2, is_too_soon=True))), clean_run()),
        ("wrong", fired_run(calls=(model_call(), model_call(2, forgot=3)), diverged="new"), clean_run()),
        (
            "diverged",
            fired_run(fired=("call=1 attempt=1: context_overflow",), calls=(model_call(2, forgot=3),), diverged="new"),
            clean_run(),
        ),
    ],
)
def test_the_verdict_on_a_run_beside_the_clean_one(verdict, run, clean):
    assert assess(run, clean).verdict == verdict


@pytest.mark.parametrize(
    ("evidence", "run", "clean"),
    [
        ("refund ran 2 times, without the fault 1 time", fired_run(tools=PAID + PAID), clean_run(tools=PAID)),
        ("the result is the same, but refund did not run", fired_run(), clean_run(tools=PAID)),
        ("KeyError: 'x'", fired_run(error=UNDECLARED), clean_run()),
        ("it returned nothing, and no error", fired_run(result=" "), clean_run()),
        ("it returned only a part of the result, and no error", fired_run(result="d"), clean_run()),
        ("the same result, with 0 further calls", fired_run(), clean_run()),
        ("the same result, with 1 further call and 7.5 s more", fired_run(took_s=8.0, calls=(model_call(),) * 2),
         clean_run(took_s=0.5)),
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
)  # fmt: skip
def test_a_verdict_rests_on_evidence(evidence, run, clean):
    assert assess(run, clean).evidence == (evidence,)


def test_what_is_half_done_is_told_with_the_error():
    both = (*PAID, tool_run("send", side_effect=True))
    judged = assess(fired_run(error=DECLARED, tools=PAID), clean_run(tools=both))
    assert judged.evidence == ("half done: refund ran, send did not", "GaveUp: no more")


def invariant_short(run):
    return len(run.calls) < 2


def invariant_told(run):
    if run.result != "done":
        raise AssertionError("it must be done")


def invariant_mute(run):
    if run.result != "done":
        raise AssertionError


def test_an_invariant_that_does_not_hold_makes_a_run_wrong():
    invariants = [invariant_short, invariant_told, invariant_mute]
    assert assess(fired_run(), clean_run(), invariants=invariants).verdict == "recovered"
    judged = assess(fired_run(result="no", calls=(model_call(),) * 2), clean_run(), invariants=invariants)
    assert judged.verdict == "wrong"
    assert judged.evidence == ("invariant_short", "invariant_told: it must be done", "invariant_mute")


def test_findings_are_the_worst_verdicts():
    assert set(VERDICTS[: len(FINDINGS)]) == FINDINGS


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("", "done"),
        (None, "done"),
        ([], ["done"]),
        ("The order is", "The order is lost."),
        ("The order is\nBye", "The order is lost.\nBye"),
        ({"exit": 0, "stdout": "The\n"}, {"exit": 0, "stdout": "The order\n"}),
        (["a", "be"], ["a", "bee"]),
    ],
)
def test_what_lacks_an_end_is_cut(result, whole):
    assert is_truncated(result, whole)


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("done", "done"),
        ("", ""),
        ("anything", None),
        ("Sorry.", "done"),
        ("The order\nwas found", "The order is lost.\nBye"),
        ("The order is lost.\nBye\nBye", "The order is lost.\nBye"),
        ({"exit": 1, "stdout": "The"}, {"exit": 0, "stdout": "The order"}),
        ({"stdout": "The"}, {"exit": 0, "stdout": "The order"}),
        (["a"], ["a", "b"]),
        (1, 12),
    ],
)
def test_what_says_something_else_is_not_cut(result, whole):
    assert not is_truncated(result, whole)


@given(st.text(), st.text())
def test_every_beginning_is_cut_from_its_whole(beginning, rest):
    whole = beginning + rest
    assert is_truncated(beginning, whole) == (beginning.strip() != whole.strip() and not is_empty_result(whole))
