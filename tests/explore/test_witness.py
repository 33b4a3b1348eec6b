"""What the witness sees of calls of models."""

import asyncio

import pytest

from offbook import ProviderGateway, RetryPolicy, run
from offbook.errors import AllProvidersFailedError, ProviderError, RateLimitError, RecordingMismatchError
from offbook.explore.witness import EndlessRunError
from tests.explore.runs import plan_of, stages_of
from tests.fakes import user

HI, HO = user("Hi"), user("Ho")
CHUNKS = [[0.0, "The "], [0.0, "end"]]
ENTRIES = {"s": [{"content": "one"}, {"content": "two"}], "poem": [{"content": "The end", "chunks": CHUNKS}]}
TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {}}}}
ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "refund", "arguments": {"order_id": 42}}]}


def struck(*lines, entries=ENTRIES, clean=None):
    """The stage of a run that meets the faults, after a clean run in which that was asked."""

    async def ask_both(stage):
        await stage.provider.complete(HI, "m", step_id="s")
        await stage.provider.complete(HO, "m", step_id="s")

    first, theatre = stages_of(entries)
    run((clean or ask_both)(first), virtual_time=True)
    return theatre.stage(plan_of(*lines))


def places(stage):
    return [(call.number, call.step_call, call.attempt, call.outcome) for call in stage.calls]


async def ask(stage, messages=HI, **options):
    return await stage.provider.complete(messages, "m", **{"step_id": "s", **options})


def test_a_call_is_written_down_with_what_it_asked_and_what_came_of_it():
    stage, _ = stages_of({"s": [ASKING]})
    run(ask(stage, tools=[TOOL]))
    (call,) = stage.calls
    assert (call.number, call.step_id, call.step_call, call.attempt, call.model) == (1, "s", 1, 1, "m")
    assert (call.has_tools, call.is_streamed, call.asks_for) == (True, False, (("refund", {"order_id": 42}),))
    assert (call.outcome, call.error) == ("answered", "")


def test_calls_are_counted_by_step_and_over_all():
    stage, _ = stages_of({"a": {"content": "1"}, "b": {"content": "2"}})

    async def work():
        for step_id in ("a", "b", "a"):
            await ask(stage, step_id=step_id)

    run(work())
    assert places(stage) == [(1, 1, 1, "answered"), (2, 1, 1, "answered"), (3, 2, 1, "answered")]


def test_a_request_that_repeats_a_failed_one_is_a_further_try_of_it():
    stage = struck("step=s call=1 attempt=1: http_error 500", "step=s call=1 attempt=2: connection_reset")

    async def work():
        for _ in range(2):
            with pytest.raises(ProviderError):
                await ask(stage)
        await ask(stage)
        await ask(stage, HO)

    run(work())
    assert places(stage) == [(1, 1, 1, "failed"), (1, 1, 2, "failed"), (1, 1, 3, "answered"), (2, 2, 1, "answered")]
    assert stage.calls[1].error == "ProviderConnectionError: explore: connection reset"
    assert len(stage.struck) == 2


def test_what_was_answered_and_is_asked_again_is_another_call():
    stage = struck()

    async def work():
        for _ in range(2):
            await ask(stage)

    run(work())
    assert places(stage) == [(1, 1, 1, "answered"), (2, 2, 1, "answered")]


def test_parallel_calls_that_fail_are_each_tried_again_as_themselves():
    stage = struck("call=1 attempt=1: timeout 1000", "call=2 attempt=1: timeout 1000")
    gateway = ProviderGateway(retry=RetryPolicy(backoff_s=1.0, jitter=0.0))
    gateway.register(stage.provider)

    async def work():
        await asyncio.gather(*(gateway.complete(HI, "m", step_id="s") for _ in range(2)))

    run(work(), virtual_time=True)
    assert sorted(places(stage)) == [
        (1, 1, 1, "failed"),
        (1, 1, 2, "answered"),
        (2, 2, 1, "failed"),
        (2, 2, 2, "answered"),
    ]


def test_a_fault_that_lasts_strikes_also_who_starts_over_behind_a_gateway():
    stage = struck("step=s call=1: http_error 500")

    async def work():
        for _ in range(2):
            with pytest.raises(AllProvidersFailedError):
                await stage.gateway.complete(HI, "m", step_id="s")

    run(work(), virtual_time=True)
    assert [call.attempt for call in stage.calls] == [1, 2, 3, 4, 5]  # and then the gateway asks no more


def test_a_fallback_to_another_model_is_another_call():
    async def clean(stage):
        await stage.provider.complete(HI, "m", step_id="s")
        await stage.provider.complete(HI, "backup", step_id="s")

    stage = struck(
        "step=s call=1: http_error 401", entries={"s": [{"content": "one"}, {"content": "two"}]}, clean=clean
    )
    gateway = ProviderGateway()
    gateway.register(stage.provider)
    gateway.register(stage.provider, as_model="backup", is_fallback=True)
    assert run(gateway.complete(HI, "m", step_id="s")).content == "two"
    assert places(stage) == [(1, 1, 1, "failed"), (2, 2, 1, "answered")]


def test_a_try_before_the_wait_was_over_that_the_answer_asked_for_is_too_soon():
    stage = struck("step=s call=1: http_error 429 headers.retry-after=7")

    async def work():
        for wait_s in (6.0, 7.0, 0.0):
            with pytest.raises(RateLimitError):
                await ask(stage)
            await asyncio.sleep(wait_s)
        with pytest.raises(RateLimitError):
            await ask(stage)

    run(work(), virtual_time=True)
    assert [call.is_too_soon for call in stage.calls] == [False, True, False, True]


def test_a_wait_that_nobody_asked_for_may_be_short():
    stage = struck("step=s call=1 attempt=1: http_error 500")

    async def work():
        with pytest.raises(ProviderError):
            await ask(stage)
        await ask(stage)

    run(work())
    assert not stage.calls[1].is_too_soon


def test_a_request_that_was_never_recorded_has_diverged():
    stage = struck()
    with pytest.raises(RecordingMismatchError):
        run(ask(stage, user("What?")))
    (call,) = stage.calls
    assert (call.outcome, call.forgot) == ("diverged", 0)


def test_what_is_asked_behind_a_failure_with_less_of_the_conversation_has_forgotten_it():
    async def clean(stage):
        await stage.provider.complete(HI + HO, "m", step_id="s")

    stage = struck("step=s call=1 attempt=1: connection_reset", entries={"s": [{"content": "one"}]}, clean=clean)

    async def work():
        with pytest.raises(ConnectionError):
            await ask(stage, HI + HO)
        with pytest.raises(RecordingMismatchError):
            await ask(stage, HO)

    run(work())
    assert [(call.outcome, call.forgot) for call in stage.calls] == [("failed", 0), ("diverged", 1)]


async def read(stage):
    return [event async for event in await stage.provider.stream(HI, "m", step_id="poem")]


def test_a_stream_is_written_down_when_it_has_ended_with_its_pieces():
    stage, _ = stages_of(ENTRIES)
    run(read(stage))
    (call,) = stage.calls
    assert (call.is_streamed, call.chunks, call.outcome) == (True, ("text", "text"), "answered")


def test_pieces_of_tool_calls_and_of_reasoning_are_told_apart():
    stage, _ = stages_of({"poem": [ASKING | {"content": "Hm", "reasoning": "I think"}]})
    run(read(stage))
    assert stage.calls[0].chunks == ("reasoning", "text", "tool_call")


def test_a_stream_that_breaks_has_failed_as_far_as_it_came():
    stage = struck("step=poem call=1 attempt=1 chunk=1: stream_truncate", clean=read)

    async def work():
        with pytest.raises(ConnectionError):
            await read(stage)
        await read(stage)

    run(work())
    assert [(call.attempt, call.chunks, call.outcome) for call in stage.calls] == [
        (1, ("text",), "failed"),
        (2, ("text", "text"), "answered"),
    ]


def test_a_stream_that_the_agent_leaves_is_written_down_as_far_as_it_was_read():
    stage, _ = stages_of(ENTRIES)

    async def work():
        reply = await stage.provider.stream(HI, "m", step_id="poem")
        async for _ in reply:
            break
        await reply.aclose()

    run(work())
    (call,) = stage.calls
    assert (call.outcome, call.chunks) == ("answered", ("text",))


def test_a_stream_that_is_read_to_its_end_and_then_left_is_written_down_once():
    stage, _ = stages_of(ENTRIES)

    async def work():
        reply = await stage.provider.stream(HI, "m", step_id="poem")
        events = aiter(reply)
        for _ in range(3):
            await anext(events)
        await reply.aclose()

    run(work())
    assert len(stage.calls) == 1


def test_a_call_that_the_agent_waits_for_no_longer_has_failed():
    stage = struck("step=s call=1 attempt=1: timeout 60000")

    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await ask(stage)
        await ask(stage)

    run(work(), virtual_time=True)
    assert [(call.attempt, call.outcome) for call in stage.calls] == [(1, "failed"), (2, "answered")]


def test_a_run_that_makes_call_after_call_is_endless_and_no_agent_can_go_on():
    stage = struck()

    async def work():
        while True:
            try:
                await ask(stage)
            except Exception:
                raise AssertionError("it was caught") from None

    with pytest.raises(EndlessRunError, match="more than 110 calls"):
        run(work())
    assert len(stage.calls) == 110


def test_the_first_run_may_make_many_calls():
    stage, _ = stages_of({"s": {"content": "one"}})

    async def work():
        for _ in range(500):
            await ask(stage)

    run(work())
    assert len(stage.calls) == 500
