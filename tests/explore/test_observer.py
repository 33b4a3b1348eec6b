"""Observers of model and tool calls, and of what a gateway does to recover."""

import asyncio
from contextlib import suppress

import pytest

from offbook import ProviderGateway, RetryPolicy, ToolCall, run
from offbook.errors import (
    AllProvidersFailedError,
    ProviderError,
    RateLimitError,
    RecordingMismatchError,
    ToolFaultError,
)
from offbook.explore.harness import observe_called, observe_run
from offbook.explore.observer import EndlessRunError, RunObserver, SentRequests, how_it_follows, lost_messages
from offbook.session.script import ModelScript
from offbook.tools import Toolbox, run_tools, tool
from offbook.wire.request import HttpRequest
from tests.explore.runs import clean_harness_of, plan_of
from tests.fakes import user

HI, HO = user("Hi"), user("Ho")
CHUNKS = [[0.0, "The "], [0.0, "end"]]
ENTRIES = {"s": [{"content": "one"}, {"content": "two"}], "poem": [{"content": "The end", "chunks": CHUNKS}]}
TOOL = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object", "properties": {}}}}
ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "refund", "arguments": {"order_id": 42}}]}


def harness_with(*lines, entries=ENTRIES, clean=None):
    """The harness of a run that meets the faults, after a clean run in which that was asked."""

    async def ask_both(harness):
        await harness.provider.complete(HI, "m", step_id="s")
        await harness.provider.complete(HO, "m", step_id="s")

    first, harnesses = clean_harness_of(entries)
    run((clean or ask_both)(first), virtual_time=True)
    return harnesses.create(plan_of(*lines))


def places(harness):
    return [(call.number, call.step_call, call.attempt, call.outcome) for call in harness.calls]


async def ask(harness, messages=HI, **options):
    return await harness.provider.complete(messages, "m", **{"step_id": "s", **options})


def test_a_call_is_written_down_with_what_it_asked_and_what_came_of_it():
    harness, _ = clean_harness_of({"s": [ASKING]})
    run(ask(harness, tools=[TOOL]))
    (call,) = harness.calls
    assert call.number == 1
    assert call.step_id == "s"
    assert call.step_call == 1
    assert call.attempt == 1
    assert call.model == "m"
    assert call.has_tools
    assert not call.is_streamed
    assert call.asks_for == (("refund", {"order_id": 42}),)
    assert call.outcome == "answered"
    assert call.error == ""


def test_calls_are_counted_by_step_and_over_all():
    harness, _ = clean_harness_of({"a": {"content": "1"}, "b": {"content": "2"}})

    async def work():
        for step_id in ("a", "b", "a"):
            await ask(harness, step_id=step_id)

    run(work())
    assert places(harness) == [(1, 1, 1, "answered"), (2, 1, 1, "answered"), (3, 2, 1, "answered")]


def test_a_request_that_repeats_a_failed_one_is_a_further_try_of_it():
    harness = harness_with("step=s call=1 attempt=1: http_error 500", "step=s call=1 attempt=2: connection_reset")

    async def work():
        for _ in range(2):
            with pytest.raises(ProviderError):
                await ask(harness)
        await ask(harness)
        await ask(harness, HO)

    run(work())
    assert places(harness) == [(1, 1, 1, "failed"), (1, 1, 2, "failed"), (1, 1, 3, "answered"), (2, 2, 1, "answered")]
    assert harness.calls[1].error == "ProviderConnectionError: explore: connection reset"
    assert len(harness.fired) == 2


def test_what_was_answered_and_is_asked_again_is_another_call():
    harness = harness_with()

    async def work():
        for _ in range(2):
            await ask(harness)

    run(work())
    assert places(harness) == [(1, 1, 1, "answered"), (2, 2, 1, "answered")]


def test_parallel_calls_that_fail_are_each_tried_again_as_themselves():
    harness = harness_with("call=1 attempt=1: timeout 1000", "call=2 attempt=1: timeout 1000")
    gateway = ProviderGateway(retry=RetryPolicy(backoff_s=1.0, jitter=0.0))
    gateway.register(harness.provider)

    async def work():
        await asyncio.gather(*(gateway.complete(HI, "m", step_id="s") for _ in range(2)))

    run(work(), virtual_time=True)
    assert sorted(places(harness)) == [
        (1, 1, 1, "failed"),
        (1, 1, 2, "answered"),
        (2, 2, 1, "failed"),
        (2, 2, 2, "answered"),
    ]


def test_a_persistent_fault_also_fires_when_an_agent_starts_over_behind_a_gateway():
    harness = harness_with("step=s call=1: http_error 500")

    async def work():
        for _ in range(2):
            with pytest.raises(AllProvidersFailedError):
                await harness.gateway.complete(HI, "m", step_id="s")

    run(work(), virtual_time=True)
    assert [call.attempt for call in harness.calls] == [1, 2, 3, 4, 5]  # and then the gateway asks no more


def test_a_fallback_to_another_model_is_another_call():
    async def clean(harness):
        await harness.provider.complete(HI, "m", step_id="s")
        await harness.provider.complete(HI, "backup", step_id="s")

    harness = harness_with(
        "step=s call=1: http_error 401", entries={"s": [{"content": "one"}, {"content": "two"}]}, clean=clean
    )
    gateway = ProviderGateway()
    gateway.register(harness.provider)
    gateway.register(harness.provider, as_model="backup", is_fallback=True)
    assert run(gateway.complete(HI, "m", step_id="s")).content == "two"
    assert places(harness) == [(1, 1, 1, "failed"), (2, 2, 1, "answered")]


def test_a_try_before_the_wait_was_over_that_the_answer_asked_for_is_too_soon():
    harness = harness_with("step=s call=1: http_error 429 headers.retry-after=7")

    async def work():
        for wait_s in (6.0, 7.0, 0.0):
            with pytest.raises(RateLimitError):
                await ask(harness)
            await asyncio.sleep(wait_s)
        with pytest.raises(RateLimitError):
            await ask(harness)

    run(work(), virtual_time=True)
    assert [call.is_too_soon for call in harness.calls] == [False, True, False, True]


def test_a_wait_that_nobody_asked_for_may_be_short():
    harness = harness_with("step=s call=1 attempt=1: http_error 500")

    async def work():
        with pytest.raises(ProviderError):
            await ask(harness)
        await ask(harness)

    run(work())
    assert not harness.calls[1].is_too_soon


def test_a_request_that_was_never_recorded_has_diverged():
    harness = harness_with()
    with pytest.raises(RecordingMismatchError):
        run(ask(harness, user("What?")))
    (call,) = harness.calls
    assert call.outcome == "diverged"
    assert call.forgot == 0


def test_what_is_asked_behind_a_failure_with_less_of_the_conversation_has_forgotten_it():
    async def clean(harness):
        await harness.provider.complete(HI + HO, "m", step_id="s")

    harness = harness_with(
        "step=s call=1 attempt=1: connection_reset", entries={"s": [{"content": "one"}]}, clean=clean
    )

    async def work():
        with pytest.raises(ConnectionError):
            await ask(harness, HI + HO)
        with pytest.raises(RecordingMismatchError):
            await ask(harness, HO)

    run(work())
    assert [(call.outcome, call.forgot) for call in harness.calls] == [("failed", 0), ("diverged", 1)]


async def read(harness):
    return [event async for event in await harness.provider.stream(HI, "m", step_id="poem")]


def test_a_stream_is_written_down_when_it_has_ended_with_its_pieces():
    harness, _ = clean_harness_of(ENTRIES)
    run(read(harness))
    (call,) = harness.calls
    assert call.is_streamed
    assert call.chunks == ("text", "text")
    assert call.outcome == "answered"


def test_pieces_of_tool_calls_and_of_reasoning_are_distinguished():
    harness, _ = clean_harness_of({"poem": [ASKING | {"content": "Hm", "reasoning": "I think"}]})
    run(read(harness))
    assert harness.calls[0].chunks == ("reasoning", "text", "tool_call")


def test_a_stream_that_breaks_has_failed_as_far_as_it_came():
    harness = harness_with("step=poem call=1 attempt=1 chunk=1: stream_truncate", clean=read)

    async def work():
        with pytest.raises(ConnectionError):
            await read(harness)
        await read(harness)

    run(work())
    assert [(call.attempt, call.chunks, call.outcome) for call in harness.calls] == [
        (1, ("text",), "failed"),
        (2, ("text", "text"), "answered"),
    ]


def test_a_stream_that_the_agent_leaves_is_written_down_as_far_as_it_was_read():
    harness, _ = clean_harness_of(ENTRIES)

    async def work():
        reply = await harness.provider.stream(HI, "m", step_id="poem")
        async for _ in reply:
            break
        await reply.aclose()

    run(work())
    (call,) = harness.calls
    assert call.outcome == "answered"
    assert call.chunks == ("text",)


def test_a_stream_that_is_read_to_its_end_and_then_left_is_written_down_once():
    harness, _ = clean_harness_of(ENTRIES)

    async def work():
        reply = await harness.provider.stream(HI, "m", step_id="poem")
        events = aiter(reply)
        for _ in range(3):
            await anext(events)
        await reply.aclose()

    run(work())
    assert len(harness.calls) == 1


def test_a_call_that_the_agent_waits_for_no_longer_has_failed():
    harness = harness_with("step=s call=1 attempt=1: timeout 60000")

    async def work():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await ask(harness)
        await ask(harness)

    run(work(), virtual_time=True)
    assert [(call.attempt, call.outcome) for call in harness.calls] == [(1, "failed"), (2, "answered")]


def test_a_run_that_makes_call_after_call_is_endless_and_no_agent_can_go_on():
    harness = harness_with()

    async def work():
        while True:
            try:
                await ask(harness)
            except Exception:
                raise AssertionError("it was caught") from None

    with pytest.raises(EndlessRunError, match="more than 110 model calls"):
        run(work())
    assert len(harness.calls) == 110


def test_the_first_run_may_make_many_calls():
    harness, _ = clean_harness_of({"s": {"content": "one"}})

    async def work():
        for _ in range(500):
            await ask(harness)

    run(work())
    assert len(harness.calls) == 500


ENTRIES_tool_witness = {"s": {"content": "x"}}


def add(left: int, right: int) -> int:
    return left + right


async def add_slowly(left: int, right: int) -> int:
    await asyncio.sleep(1)
    return left + right


@tool(side_effect=True, timeout_s=30.0)
def add_in_time(left: int, right: int) -> int:
    return left + right


def fail() -> None:
    raise ValueError("no")


async def fail_slowly() -> None:
    raise ValueError("no")


def tools_with(*lines):
    _, harnesses = clean_harness_of(ENTRIES_tool_witness)
    return harnesses.create(plan_of(*lines))


def used(harness, function, **arguments):
    """The one call of a tool that a model asks for."""
    tools = harness.tools(function)
    (outcome,) = run(run_tools(tools, [ToolCall(next(iter(tools)), arguments)]), virtual_time=True)
    (seen,) = harness.tool_runs
    return outcome, seen


@pytest.mark.parametrize(
    "function", [add, add_slowly, add_in_time], ids=lambda function: getattr(function, "name", None)
)
def test_a_call_is_seen_with_its_arguments_and_its_result(function):
    outcome, seen = used(tools_with(), function, left=1, right=2)
    assert outcome.value == 3
    assert seen.call == 1
    assert seen.arguments == {"left": 1, "right": 2}
    assert seen.result == "3"
    assert seen.error is None
    assert seen.has_run
    assert seen.side_effect == (function is add_in_time)


@pytest.mark.parametrize("function", [fail, fail_slowly])
def test_a_tool_that_fails_has_run(function):
    _, seen = used(tools_with(), function)
    assert seen.error == "ValueError: no"
    assert seen.has_run
    assert seen.result == ""


@pytest.mark.parametrize(
    "function", [add, add_slowly, add_in_time], ids=lambda function: getattr(function, "name", None)
)
@pytest.mark.parametrize(
    ("fault", "has_run"),
    [("tool_error", False), ("tool_timeout 5000", False), ("tool_lost", True), ("tool_garbled", True)],
)
def test_a_fault_may_keep_a_tool_from_running_or_hide_that_it_has(function, fault, has_run):
    name = getattr(function, "name", None) or function.__name__
    outcome, seen = used(tools_with(f"tool={name} call=1: {fault}"), function, left=1, right=2)
    assert seen.has_run == has_run
    assert (seen.error is not None) == (outcome.error is not None) == (fault != "tool_garbled")
    assert "resu" in seen.result or fault != "tool_garbled"


def test_the_calls_of_each_tool_are_counted_in_the_order_they_were_made():
    harness = tools_with()
    tools = harness.tools(add, add_slowly)
    calls = [ToolCall(name, {"left": 1, "right": 2}) for name in ("add_slowly", "add", "add_slowly")]
    run(run_tools(tools, calls), virtual_time=True)
    assert [(each.tool, each.call) for each in harness.tool_runs] == [("add_slowly", 1), ("add", 1), ("add_slowly", 2)]


def test_a_tool_that_calls_another_one_has_run_itself():
    harness = tools_with("tool=add call=1: tool_error")
    tools = harness.tools(add)

    def double(number: int) -> int:
        return tools["add"](left=number, right=number)

    with pytest.raises(ToolFaultError):
        harness.tools(double)["double"](number=2)
    assert [(each.tool, each.has_run) for each in harness.tool_runs] == [("double", True), ("add", False)]


def test_what_fired_is_reported_with_the_faults_of_models():
    harness = tools_with("tool=add call=1: tool_empty")
    harness.tools(add)["add"](left=1, right=2)
    assert harness.fired == ("tool=add call=1: tool_empty",)
    assert tools_with().fired == ()


SYSTEM, HI_forgetting, HO_forgetting = {"role": "system", "content": "Be kind."}, *user("Hi"), *user("Ho")


def test_messages_that_are_missing_are_counted_where_nothing_else_is_said():
    assert lost_messages([SYSTEM, HI_forgetting, HO_forgetting], [HO_forgetting]) == 2
    assert lost_messages([SYSTEM, HI_forgetting, HO_forgetting], [SYSTEM, HO_forgetting]) == 1


def test_nothing_is_forgotten_by_who_asks_the_same_or_something_new():
    assert lost_messages([SYSTEM, HI_forgetting], [SYSTEM, HI_forgetting]) == 0
    assert lost_messages([SYSTEM, HI_forgetting], [SYSTEM, HI_forgetting, HO_forgetting]) == 0
    assert lost_messages([SYSTEM, HI_forgetting, HI_forgetting], [SYSTEM, HO_forgetting]) == 0


WAIT, DONE = ({"role": "assistant", "content": said} for said in ("WAIT", "DONE"))


@pytest.mark.parametrize(
    ("before", "now", "follows"),
    [
        (None, [*HI, WAIT], ""),
        (HI, HI, "repeats"),
        (HI, HO, ""),
        (HI, [*HI, WAIT, *HO], "continues"),
        ([*HI, WAIT, *HO], [*HI, WAIT, *HO, WAIT, *HO], "continues"),
        ([*HI, WAIT, *HO], [WAIT, *HO, DONE, *HO], "continues"),
        (HI, [*HI, {"role": "tool", "tool_call_id": "a", "content": "paid"}], "continues"),
        ([*HI, WAIT, *HO], [*HI, WAIT, *HI], ""),
    ],
)
def test_a_request_continues_a_conversation_if_a_model_or_a_tool_has_spoken_since(before, now, follows):
    assert how_it_follows(before, now) == follows


def test_every_attempt_of_a_call_follows_the_call_of_its_step_before_it():
    harness = harness_with("step=s call=2 attempt=1: connection_reset")

    async def work():
        await ask(harness)
        with pytest.raises(ConnectionError):
            await ask(harness)
        await ask(harness)

    run(work())
    assert [(call.number, call.follows) for call in harness.calls] == [(1, ""), (2, "repeats"), (2, "repeats")]


def test_side_effects_are_counted_as_they_happen():
    @tool(side_effect=True)
    def pay(amount: int) -> str:
        return "paid" if amount > 0 else str(1 // amount)

    @tool
    def look() -> str:
        return "nothing"

    observer, counts = RunObserver(ModelScript()), []
    observed = {
        each.name: observe_called(observe_run(each, observer), observer) for each in Toolbox([pay, look]).values()
    }
    observed["look"].callable()
    for amount in (7, 0, 7):
        counts.append(observer.count_effects())
        with suppress(ZeroDivisionError):
            observed["pay"].callable(amount=amount)
    assert counts == [0, 1, 2]
    assert observer.count_effects() == len(observer.effects) == 3


def test_the_request_that_has_no_answer_is_not_sent_again_whichever_came_last():
    sent = SentRequests()
    for number, name in enumerate(("first", "missed", "last"), 1):
        sent.add(HttpRequest("POST", f"/{name}", "", {}, b"{}"), number)
    sent.end(2)
    sent.add(HttpRequest("POST", "/later", "", {}, b"{}"), 4)
    assert [path for path, _ in sent.requests] == ["/first", "/last"]
