"""The models of explored runs: a strict replay first, and then one that forgives."""

import pytest

from offbook import ToolCall, run
from offbook.errors import ProviderError, RecordingMismatchError, ToolFaultError
from offbook.explore.options import Divergence
from offbook.faults import FaultPlan
from offbook.messages import Request
from offbook.recording.match.fingerprint import fingerprint
from offbook.tools import run_tools, tool
from offbook.tools.effects import Effect
from tests.explore.runs import clean_harness_of, plan_of
from tests.fakes import Echo, user

HI, HO = user("Hi"), user("Ho")


def entry(messages, content, *, model="m"):
    """An entry that answers that request alone."""
    return {"content": content, "request_hash": fingerprint(Request(tuple(messages), model))}


async def said(harness, messages, step_id="s", **options):
    return (await harness.provider.complete(messages, options.pop("model", "m"), step_id=step_id, **options)).content


def test_the_clean_run_is_a_strict_replay():
    harness, _ = clean_harness_of({"s": [entry(HI, "one")]})

    async def ask():
        assert await said(harness, HI) == "one"
        with pytest.raises(RecordingMismatchError):
            await said(harness, HI)

    run(ask())
    assert len(harness.diverged) == 1


def test_a_run_with_a_fault_gets_equal_requests_answered_in_order_and_then_the_last_again():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one"), entry(HI, "two")]})

    async def ask(harness, times):
        return [await said(harness, HI) for _ in range(times)]

    assert run(ask(clean, 2)) == ["one", "two"]
    assert run(ask(harnesses.create(FaultPlan()), 4)) == ["one", "two", "two", "two"]
    assert run(ask(harnesses.create(FaultPlan()), 1)) == ["one"]


@pytest.mark.parametrize("fault", ["connection_reset", "stream_truncate 0"])
def test_an_answer_that_was_lost_is_due_again(fault):
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one"), entry(HI, "two")]})

    async def ask(harness):
        answers = []
        while len(answers) < 2:
            try:
                answers.append(await said(harness, HI))
            except ProviderError:
                answers.append("")
        return [*answers, await said(harness, HI)]

    async def ask_clean():
        return [await said(clean, HI) for _ in range(2)]

    run(ask_clean())
    assert run(ask(harnesses.create(plan_of(f"step=s call=2 attempt=1: {fault}")))) == ["one", "", "two"]


def test_entries_that_say_nothing_of_their_requests_answer_what_they_answered_in_the_clean_run():
    clean, harnesses = clean_harness_of({"s": [{"content": "one"}, {"content": "two"}]})

    async def ask(harness):
        return [await said(harness, HI), await said(harness, HO)]

    assert run(ask(clean)) == ["one", "two"]
    assert run(ask(harnesses.create(FaultPlan()))) == ["one", "two"]

    async def start_over(harness):
        return [await said(harness, messages) for messages in (HI, HI, HO)]

    assert run(start_over(harnesses.create(FaultPlan()))) == ["one", "one", "two"]


def test_what_the_clean_run_never_asked_is_a_divergence():
    clean, harnesses = clean_harness_of({"s": [{"content": "one"}, {"content": "two"}]})
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        run(said(harness, HO))
    assert "is not in the recording" in harness.diverged[0]


def test_a_run_that_was_stopped_gets_no_more_answers_even_if_it_swallows_the_refusal():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]})
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())

    async def ask():
        for messages in (HO, HI):
            with pytest.raises(RecordingMismatchError):
                await said(harness, messages)

    run(ask())
    assert len(harness.diverged) == 1


def test_what_the_recording_has_beyond_the_clean_run_is_answered_as_often_as_it_is_asked():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one"), entry(HI, "from the other", model="other")]})
    run(said(clean, HI))
    harness = harnesses.create(plan_of("call=2 attempt=1: http_error 500"))

    async def fall_back():
        with pytest.raises(ProviderError):
            await said(harness, HI, step_id=None, model="other")
        return [await said(harness, HI, step_id=None, model="other") for _ in range(2)]

    run(said(harness, HI))
    assert run(fall_back()) == ["from the other", "from the other"]
    assert harness.diverged == []


def test_a_divergence_names_the_entry_whose_turn_it_was():
    recorded = [entry(messages, "x") | {"request": {"model": "m", "messages": messages}} for messages in (HI, HO)]
    clean, harnesses = clean_harness_of({"s": recorded})

    async def ask(harness, *prompts):
        for messages in prompts:
            await said(harness, messages)

    run(ask(clean, HI, HO))
    harness = harnesses.create(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        run(ask(harness, HI, user("Hoo")))
    assert "call 2 was recorded with another request" in harness.diverged[0]


def test_a_divergence_may_be_answered_with_a_text():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]}, Divergence("default", "what?"))
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())
    assert run(said(harness, HO)) == "what?"
    assert len(harness.diverged) == 1


def test_a_divergence_may_be_asked_live_where_there_is_somebody_to_ask():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]}, Divergence("live", live=Echo()))
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())
    assert "Ho" in run(said(harness, HO))
    assert len(harness.diverged) == 1


def test_users_follow_their_own_recording_whatever_they_are_told():
    recorded = {"user": [entry(HI, "one"), entry(HO, "two")]}
    clean, harnesses = clean_harness_of(recorded)

    async def ask(harness, *prompts):
        return [(await harness.users.complete(messages, "m", step_id="user")).content for messages in prompts]

    assert run(ask(clean, HI, HO)) == ["one", "two"]
    later = harnesses.create(FaultPlan())
    assert run(ask(later, HO, user("What?"), user("Why?"))) == ["one", "two", "two"]
    assert later.calls == ()
    assert later.diverged == []


def test_users_of_the_clean_run_are_replayed_strictly():
    clean, _ = clean_harness_of({"user": [entry(HI, "one")]})
    with pytest.raises(RecordingMismatchError):
        run(clean.users.complete(HO, "m", step_id="user"))


TOLD = [*HI, {"role": "assistant", "content": "one"}, *user("That failed.")]


def continued(harnesses, continuation, *prompts):
    """What a run with that continuation is answered."""
    harness = harnesses.create(FaultPlan(), continuation)

    async def ask():
        return [await said(harness, messages) for messages in prompts]

    return run(ask()), harness


def test_a_divergence_is_answered_by_the_continuation():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one"), entry(HO, "two")]}, Divergence())
    run(said(clean, HI))
    answers, harness = continued(harnesses, "stubborn", TOLD)
    assert answers == ["one"]
    assert harness.continuation == "stubborn"
    assert len(harness.diverged) == 1
    assert [call.outcome for call in harness.calls] == ["answered"]
    answers, harness = continued(harnesses, "resigned", TOLD, TOLD)
    assert "gave-up-" in answers[0]
    assert answers[0] == answers[1]
    assert harness.continuation == "resigned"


def test_a_run_that_needs_no_continuation_names_none():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]}, Divergence())
    run(said(clean, HI))
    answers, harness = continued(harnesses, "resigned", HI)
    assert answers == ["one"]
    assert harness.continuation == ""
    assert harness.diverged == []


def test_the_same_messages_to_another_model_are_no_divergence():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]})
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())
    assert run(said(harness, HI, model="fallback")) == "one"
    assert harness.diverged == []


@pytest.mark.parametrize("policy", ["explore", "stop"])
def test_an_answer_written_by_hand_comes_first_and_is_no_divergence(policy):
    entries = [entry(HI, "one"), {"when": "tool_error", "content": "I am sorry."}]
    clean, harnesses = clean_harness_of({"s": entries}, Divergence(policy))
    run(said(clean, HI))
    answers, harness = continued(harnesses, "stubborn", TOLD)
    assert answers == ["I am sorry."]
    assert harness.continuation == ""
    assert harness.diverged == []


def test_the_clean_run_ignores_answers_that_were_written_for_failures():
    clean, _ = clean_harness_of({"s": [{"when": "any", "content": "I am sorry."}]}, Divergence())
    with pytest.raises(RecordingMismatchError):
        run(said(clean, HI))


def test_a_divergence_of_a_named_step_suggests_no_step():
    clean, harnesses = clean_harness_of({"s": [{"content": "one"}]})
    run(said(clean, HI))
    harness = harnesses.create(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        run(said(harness, HO))
    assert "this request of step 's' is not in the recording" in harness.diverged[0]
    assert "Did you mean" not in harness.diverged[0]


def test_where_nobody_can_be_asked_live_a_text_answers():
    clean, harnesses = clean_harness_of({"s": [entry(HI, "one")]}, Divergence("live", "what?"))
    run(said(clean, HI))
    assert run(said(harnesses.create(FaultPlan()), HO)) == "what?"


def find_order(order_id: int) -> str:
    raise AssertionError("the real tool ran")


@tool(side_effect=True)
async def refund(order_id: int) -> str:
    raise AssertionError("the real tool ran")


CALLS = {
    "find_order": [
        {"arguments": {"order_id": 1}, "result": "lost"},
        {"arguments": {"order_id": 1}, "result": "found"},
        {"arguments": {"order_id": 2}, "result": "late"},
    ],
    "refund": [{"arguments": {"order_id": 1}, "error": {"type": "ValueError", "message": "no money"}}],
}
TWICE = [("find_order", 1), ("find_order", 1), ("refund", 1)]


def use(harness, calls):
    """What the tools tell a model."""
    tools = harness.tools(find_order, refund)

    async def work():
        return [(await run_tools(tools, [ToolCall(name, {"order_id": order})]))[0].text for name, order in calls]

    return run(work())


def recorded_tools(divergence=None):
    return clean_harness_of({"_tools": CALLS}, *([divergence] if divergence else []))


def test_the_clean_run_replays_tools_strictly():
    clean, _ = recorded_tools()
    assert use(clean, TWICE) == ["lost", "found", "[ToolError] ValueError: no money"]
    with pytest.raises(RecordingMismatchError):
        use(clean, [("find_order", 1)])
    assert len(clean.diverged) == 1


def test_a_call_that_is_made_again_has_its_result_again():
    clean, harnesses = recorded_tools()
    use(clean, TWICE)
    again = harnesses.create(FaultPlan())
    assert use(again, [("find_order", 1)] * 3) == ["lost", "found", "found"]
    assert [(each.tool, each.call, each.has_run) for each in again.tool_runs] == [
        ("find_order", 1, True),
        ("find_order", 2, True),
        ("find_order", 3, True),
    ]


def test_a_call_that_was_never_made_is_a_divergence():
    clean, harnesses = recorded_tools()
    use(clean, TWICE)
    harness = harnesses.create(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        use(harness, [("find_order", 9)])
    assert "find_order" in harness.diverged[0]


def test_a_call_that_only_the_recording_has_is_answered_again_and_again():
    clean, harnesses = recorded_tools()
    use(clean, TWICE)
    harness = harnesses.create(FaultPlan())
    assert use(harness, [("find_order", 2)] * 2) == ["late", "late"]
    assert harness.diverged == []


def test_a_divergence_of_a_tool_may_be_answered_with_a_text():
    clean, harnesses = recorded_tools(Divergence("default", "what?"))
    use(clean, TWICE)
    harness = harnesses.create(FaultPlan())
    assert use(harness, [("find_order", 9), ("refund", 9)]) == ["what?", "what?"]
    assert len(harness.diverged) == 2


def test_a_tool_that_diverges_gets_the_recorded_result_of_the_nearest_call():
    clean, harnesses = recorded_tools(Divergence())
    use(clean, TWICE)
    harness = harnesses.create(FaultPlan(), "oblivious")
    assert use(harness, [("find_order", 9)]) == ["lost"]
    assert harness.continuation == "nearest result"
    assert len(harness.diverged) == 1


def test_a_tool_that_was_never_recorded_gets_a_plausible_result():
    def cancel(order_id: int) -> dict[str, str]:
        raise AssertionError("the real tool ran")

    clean, harnesses = recorded_tools(Divergence())
    use(clean, TWICE)
    tools = harnesses.create(FaultPlan()).tools(cancel, refund)
    assert tools["cancel"](order_id=1) == {"status": "ok"}
    assert run(tools["refund"](order_id=7)) == "ok"


def test_effects_are_the_calls_of_tools_with_side_effects_that_ran():
    clean, harnesses = recorded_tools(Divergence())
    use(clean, TWICE)
    assert clean.effects == (Effect(tool="refund", arguments={"order_id": 1}, outcome="failed"),)
    lost = harnesses.create(plan_of("tool=refund call=1: tool_error"))
    assert use(lost, TWICE)[2].startswith("[ToolError] ToolFaultError")
    assert lost.effects == ()
    assert lost.declarations["refund"].side_effect
    assert len(lost.marks) == 1


def test_faults_fire_around_the_recording():
    clean, harnesses = recorded_tools()
    use(clean, TWICE)
    harness = harnesses.create(plan_of("tool=find_order call=1: tool_lost", "tool=refund call=1: tool_error"))
    tools = harness.tools(find_order, refund)
    with pytest.raises(ToolFaultError):
        tools["find_order"](order_id=1)
    with pytest.raises(ToolFaultError):
        run(tools["refund"](order_id=1))
    assert [(each.tool, each.has_run) for each in harness.tool_runs] == [("find_order", True), ("refund", False)]
    assert harness.tool_runs[1].side_effect
