"""The models of explored runs: a strict replay first, and then one that forgives."""

import pytest

from offbook import run
from offbook.errors import ProviderError, RecordingMismatchError
from offbook.explore.divergence import Divergence
from offbook.faults import FaultPlan
from offbook.messages import Request
from offbook.recording.fingerprint import fingerprint
from tests.explore.runs import plan_of, stages_of
from tests.fakes import Echo, user

HI, HO = user("Hi"), user("Ho")


def entry(messages, content, *, model="m"):
    """An entry that answers that request alone."""
    return {"content": content, "request_hash": fingerprint(Request(tuple(messages), model))}


async def said(stage, messages, step_id="s", **options):
    return (await stage.provider.complete(messages, options.pop("model", "m"), step_id=step_id, **options)).content


def test_the_clean_run_is_a_strict_replay():
    stage, _ = stages_of({"s": [entry(HI, "one")]})

    async def ask():
        assert await said(stage, HI) == "one"
        with pytest.raises(RecordingMismatchError):
            await said(stage, HI)

    run(ask())
    assert len(stage.diverged) == 1


def test_a_run_with_a_fault_gets_equal_requests_answered_in_order_and_then_the_last_again():
    clean, theatre = stages_of({"s": [entry(HI, "one"), entry(HI, "two")]})

    async def ask(stage, times):
        return [await said(stage, HI) for _ in range(times)]

    assert run(ask(clean, 2)) == ["one", "two"]
    assert run(ask(theatre.stage(FaultPlan()), 4)) == ["one", "two", "two", "two"]
    assert run(ask(theatre.stage(FaultPlan()), 1)) == ["one"]


@pytest.mark.parametrize("fault", ["connection_reset", "stream_truncate 0"])
def test_an_answer_that_was_lost_is_due_again(fault):
    clean, theatre = stages_of({"s": [entry(HI, "one"), entry(HI, "two")]})

    async def ask(stage):
        answers = []
        while len(answers) < 2:
            try:
                answers.append(await said(stage, HI))
            except ProviderError:
                answers.append("")
        return [*answers, await said(stage, HI)]

    async def ask_clean():
        return [await said(clean, HI) for _ in range(2)]

    run(ask_clean())
    assert run(ask(theatre.stage(plan_of(f"step=s call=2 attempt=1: {fault}")))) == ["one", "", "two"]


def test_entries_that_say_nothing_of_their_requests_answer_what_they_answered_in_the_clean_run():
    clean, theatre = stages_of({"s": [{"content": "one"}, {"content": "two"}]})

    async def ask(stage):
        return [await said(stage, HI), await said(stage, HO)]

    assert run(ask(clean)) == ["one", "two"]
    assert run(ask(theatre.stage(FaultPlan()))) == ["one", "two"]

    async def start_over(stage):
        return [await said(stage, messages) for messages in (HI, HI, HO)]

    assert run(start_over(theatre.stage(FaultPlan()))) == ["one", "one", "two"]


def test_what_the_clean_run_never_asked_is_a_divergence():
    clean, theatre = stages_of({"s": [{"content": "one"}, {"content": "two"}]})
    run(said(clean, HI))
    stage = theatre.stage(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        run(said(stage, HO))
    assert "is not in the recording" in stage.diverged[0]


def test_a_run_that_was_stopped_gets_no_more_answers_even_if_it_swallows_the_refusal():
    clean, theatre = stages_of({"s": [entry(HI, "one")]})
    run(said(clean, HI))
    stage = theatre.stage(FaultPlan())

    async def ask():
        for messages in (HO, HI):
            with pytest.raises(RecordingMismatchError):
                await said(stage, messages)

    run(ask())
    assert len(stage.diverged) == 1


def test_what_the_recording_has_beyond_the_clean_run_is_answered_as_often_as_it_is_asked():
    clean, theatre = stages_of({"s": [entry(HI, "one"), entry(HI, "from the other", model="other")]})
    run(said(clean, HI))
    stage = theatre.stage(plan_of("call=2 attempt=1: http_error 500"))

    async def fall_back():
        with pytest.raises(ProviderError):
            await said(stage, HI, step_id=None, model="other")
        return [await said(stage, HI, step_id=None, model="other") for _ in range(2)]

    run(said(stage, HI))
    assert run(fall_back()) == ["from the other", "from the other"]
    assert stage.diverged == []


def test_a_divergence_names_the_entry_whose_turn_it_was():
    recorded = [entry(messages, "x") | {"request": {"model": "m", "messages": messages}} for messages in (HI, HO)]
    clean, theatre = stages_of({"s": recorded})

    async def ask(stage, *asked):
        for messages in asked:
            await said(stage, messages)

    run(ask(clean, HI, HO))
    stage = theatre.stage(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        run(ask(stage, HI, user("Hoo")))
    assert "call 2 was recorded with another request" in stage.diverged[0]


def test_a_divergence_may_be_answered_with_a_text():
    clean, theatre = stages_of({"s": [entry(HI, "one")]}, Divergence("default", "what?"))
    run(said(clean, HI))
    stage = theatre.stage(FaultPlan())
    assert run(said(stage, HO)) == "what?"
    assert len(stage.diverged) == 1


def test_a_divergence_may_be_asked_live_where_there_is_somebody_to_ask():
    clean, theatre = stages_of({"s": [entry(HI, "one")]}, Divergence("live", live=Echo()))
    run(said(clean, HI))
    stage = theatre.stage(FaultPlan())
    assert "Ho" in run(said(stage, HO))
    assert len(stage.diverged) == 1


def test_a_stage_has_a_way_for_those_who_are_not_explored():
    clean, _ = stages_of({"s": [entry(HI, "one")]})
    assert run(clean.aside.complete(HI, "m", step_id="s")).content == "one"
    assert clean.calls == ()


def test_where_nobody_can_be_asked_live_a_text_answers():
    clean, theatre = stages_of({"s": [entry(HI, "one")]}, Divergence("live", "what?"))
    run(said(clean, HI))
    assert run(said(theatre.stage(FaultPlan()), HO)) == "what?"
