"""The injector: what it lets through, where it strikes, and that what fired can be made to strike again."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import (
    MemorySink,
    MockProvider,
    Provider,
    ProviderConnectionError,
    ProviderError,
    ProviderGateway,
    Request,
    Response,
    RetryPolicy,
    StreamEnd,
    TextDelta,
    run,
)
from offbook.errors import RecordingMismatchError, ToolFaultError
from offbook.events import FaultFired
from offbook.faults import (
    At,
    ConnectionReset,
    FaultInjector,
    FaultLog,
    FaultPlan,
    HttpError,
    StreamTruncate,
    chaos,
    inject_tools,
    parse_fault,
)
from offbook.messages import WholeReply
from offbook.session.log import Log
from offbook.session.replayed_tools import replay_tools
from tests.fakes import Echo, Scripted, events_of, read_until_broken, user
from tests.faults.samples import SAMPLES

RETRY = RetryPolicy(max_retries=3)


def failing(*lines):
    return FaultPlan([at.fail(ConnectionReset()) for at in lines])


async def failures(provider, *calls):
    """Which of some calls, made in turn, fail."""
    return [await fails(provider, **call) for call in calls]


async def fails(provider, **options):
    try:
        await provider.complete(user("Hi"), "m", **options)
    except ProviderError:
        return True
    return False


async def test_what_the_plan_does_not_name_passes_untouched():
    provider = Scripted(Response("one"), [TextDelta("two"), Response("two")])
    injector = FaultInjector(provider, failing(At(step_id="other")))
    request = Request(tuple(user("Hi")), "m")
    assert (await (await injector.send(request)).collect()).content == "one"
    assert provider.requests[0] is request
    assert await events_of(await injector.stream(user("Hi"), "m")) == [TextDelta("two"), StreamEnd(Response("two"))]
    assert injector.name == "scripted"
    assert injector.fired == []


async def test_closing_closes_the_provider():
    provider = Scripted()
    async with FaultInjector(provider, FaultPlan()):
        assert provider.closings == 0
    assert provider.closings == 1


async def test_a_step_fails_and_others_do_not():
    injector = FaultInjector(Echo(), failing(At(step_id="answer")))
    calls = [{"step_id": "ask"}, {"step_id": "answer"}, {}, {"step_id": "answer"}]
    assert await failures(injector, *calls) == [False, True, False, True]


async def test_a_call_is_counted_within_its_step():
    injector = FaultInjector(Echo(), failing(At(step_id="answer", call=2)))
    calls = [{"step_id": "answer"}, {"step_id": "ask"}, {"step_id": "answer"}, {"step_id": "answer"}]
    assert await failures(injector, *calls) == [False, False, True, False]


async def test_without_a_step_all_calls_are_counted():
    injector = FaultInjector(Echo(), failing(At(call=2)))
    calls = [{"step_id": "answer"}, {"step_id": "ask"}, {}, {"step_id": "answer"}]
    assert await failures(injector, *calls) == [False, True, False, False]


async def test_the_first_two_attempts_fail_and_the_third_succeeds():
    injector = FaultInjector(Echo(), failing(At(step_id="a", attempt=1), At(step_id="a", attempt=2)))
    calls = [{"step_id": "a", "attempt": attempt} for attempt in (1, 2, 3)]
    assert await failures(injector, *calls, {"step_id": "a"}) == [True, True, False, True]


async def test_a_retry_is_no_call_of_its_own():
    injector = FaultInjector(Echo(), failing(At(step_id="a", call=2)))
    calls = [{"step_id": "a"}, {"step_id": "a", "attempt": 2}, {"step_id": "a"}, {"step_id": "a", "attempt": 2}]
    assert await failures(injector, *calls) == [False, False, True, True]


@pytest.mark.parametrize("chunk", [0, 1, 2])
async def test_a_stream_breaks_at_its_chunk(chunk):
    plan = FaultPlan([At(call=1, chunk=chunk).fail(StreamTruncate())])
    provider = Scripted([TextDelta("a"), TextDelta("b"), TextDelta("c"), Response("abc")])
    came, error = await read_until_broken(await FaultInjector(provider, plan).stream(user("Hi"), "m"))
    assert len(came) == chunk
    assert type(error) is ProviderConnectionError


async def test_every_fault_that_fires_is_reported_to_the_sink_and_kept_as_a_line_of_a_plan():
    sink = MemorySink()
    injector = FaultInjector(Echo(), FaultPlan([At(attempt=1).fail(HttpError(500))]), sink=sink)
    await failures(injector, {"step_id": "a"}, {"step_id": "a", "attempt": 2}, {}, {"step_id": "a"})
    assert sink.events == [
        FaultFired("a", "m", "http_error", "", 1, 1),
        FaultFired(None, "m", "http_error", "", 1, 1),
        FaultFired("a", "m", "http_error", "", 2, 1),
    ]
    assert [str(line) for line in injector.fired] == [
        "step=a call=1 attempt=1: http_error 500",
        "call=2 attempt=1: http_error 500",
        "step=a call=2 attempt=1: http_error 500",
    ]


def test_behind_a_gateway_calls_and_attempts_are_counted_by_it():
    async def work():
        plan = failing(At(step_id="a", call=1, attempt=1), At(step_id="a", call=2, attempt=2), At(step_id="a", call=3))
        injector = FaultInjector(Echo(), plan)
        gateway = ProviderGateway(retry=RETRY, breaker=None)
        gateway.register(injector)
        failed = await failures(gateway, *[{"step_id": "a"}] * 4)
        return failed, [(line.at.call, line.at.attempt) for line in injector.fired]

    failed, fired = run(work(), virtual_time=True)
    assert failed == [False, False, True, False]
    assert fired == [(1, 1), (3, 1), (3, 2), (3, 3), (3, 4)]


def test_behind_a_gateway_calls_at_once_keep_their_numbers_through_retries():
    async def work():
        injector = FaultInjector(Echo(), failing(*[At(step_id="a", call=2, attempt=n) for n in (1, 2)]))
        gateway = ProviderGateway(retry=RETRY)
        gateway.register(injector)
        await asyncio.gather(*(gateway.complete(user("Hi"), "m", step_id="a") for _ in range(3)))
        return [(line.at.call, line.at.attempt) for line in injector.fired]

    assert run(work(), virtual_time=True) == [(2, 1), (2, 2)]


calls_made = st.lists(
    st.fixed_dictionaries(
        {"step_id": st.sampled_from([None, "a", "b"]), "text": st.sampled_from(["Hi", "Ho"])},
        optional={"attempt": st.integers(1, 3)},
    ),
    max_size=12,
)


class Steady(Provider):
    """Answers all alike."""

    async def send(self, request):
        return WholeReply(Response("one two", model=request.model))


async def outcomes(provider, calls, *, at_once):
    async def outcome(number, call):
        request = Request(
            tuple(user(call["text"])),
            "m",
            stream=number % 2 == 0,
            step_id=call["step_id"],
            attempt=call.get("attempt", 1),
            workflow=f"w{number % 3}",
        )
        try:
            return await events_of(await provider.send(request))
        except ProviderError as error:
            return repr(error)

    made = [outcome(number, call) for number, call in enumerate(calls)]
    return await asyncio.gather(*made) if at_once else [await call for call in made]


@given(calls=calls_made, seed=st.integers(), at_once=st.booleans(), has_gateway=st.booleans())
def test_what_fired_fires_again_with_the_same_outcomes(calls, seed, at_once, has_gateway):
    async def work(plan):
        injector = provider = FaultInjector(Steady(), plan)
        if has_gateway:
            provider = ProviderGateway(retry=RETRY, breaker=None)
            provider.register(injector)
        return await outcomes(provider, calls, at_once=at_once), injector.fired

    first, fired = run(work(chaos(seed=seed, rate=0.5, faults=SAMPLES)), virtual_time=True)
    again, fired_again = run(work(FaultPlan(fired)), virtual_time=True)
    assert again == first
    assert fired_again == fired


async def test_a_recording_stays_clean_under_faults():
    mock = MockProvider(responses={"a": [{"content": "one"}, {"content": "two"}]}, strict=True)
    injector = FaultInjector(mock, failing(At(step_id="a", call=1)))
    assert await failures(injector, {"step_id": "a"}) == [True]
    assert (await injector.complete(user("Hi"), "m", step_id="a")).content == "one"


async def test_the_lines_that_have_not_fired_are_reported():
    plan = failing(At(step_id="answer", call=2), At(step_id="ask"), At(call=9))
    injector = FaultInjector(Echo(), plan)
    assert injector.unfired() == list(plan)
    await failures(injector, {"step_id": "answer"}, {"step_id": "answer"}, {"step_id": "ask"})
    assert [str(line) for line in injector.unfired()] == ["call=9: connection_reset"]


async def test_what_chaos_draws_is_no_line_that_fired():
    injector = FaultInjector(Echo(), chaos(seed=1, rate=1.0, faults=[ConnectionReset()]))
    assert await failures(injector, {}) == [True]
    assert injector.unfired() == []


async def test_a_replay_without_an_answer_says_what_fired_before():
    mock = MockProvider(responses={"ask": [{"content": "one"}]}, strict=True)
    injector = FaultInjector(mock, failing(At(call=1, attempt=1), At(call=2)))
    await failures(injector, {"step_id": "ask"}, {"step_id": "ask"})
    await injector.complete(user("Hi"), "m", step_id="ask")
    with pytest.raises(RecordingMismatchError) as caught:
        await injector.complete(user("Hi"), "m", step_id="ask")
    assert caught.value.fired == tuple(str(fired) for fired in injector.fired)
    assert "a fault fired before this (step=ask call=2 attempt=1: connection_reset and 1 more)" in str(caught.value)


async def test_a_replay_without_an_answer_is_nothing_but_that_where_nothing_fired():
    injector = FaultInjector(MockProvider(responses={}, strict=True), failing(At(call=9)))
    with pytest.raises(RecordingMismatchError) as caught:
        await injector.complete(user("Hi"), "m", step_id="ask")
    assert caught.value.fired == ()


PLAN = FaultPlan(
    map(parse_fault, ["call=1: timeout", "tool=refund call=1: tool_lost", "tool=refund call=9: tool_lost"])
)


def refund(order_id: int) -> str:
    """Pay an order back."""
    return f"{order_id} is paid back"


async def strike_both(provider, tools):
    with pytest.raises(ProviderError):
        await provider.complete(user("Hi"), "m")
    with pytest.raises(ToolFaultError):
        tools["refund"].callable(order_id=7)


async def test_what_fired_at_models_and_tools_is_kept_in_one_order():
    fault_log = FaultLog()
    await strike_both(
        FaultInjector(Echo(), PLAN, fault_log=fault_log), inject_tools([refund], PLAN, fault_log=fault_log)
    )
    assert [str(fired) for fired in fault_log.fired] == [
        "call=1 attempt=1: timeout",
        "tool=refund call=1: tool_lost",
    ]
    assert [str(line) for line in Log(faults=[fault_log], plan=PLAN).unfired()] == ["tool=refund call=9: tool_lost"]


async def test_each_injector_misses_the_lines_of_its_own_kind_alone():
    provider, tools = FaultInjector(Echo(), PLAN), inject_tools([refund], PLAN)
    assert [str(line) for line in provider.unfired()] == ["call=1: timeout"]
    await strike_both(provider, tools)
    assert provider.unfired() == []
    assert [str(line) for line in tools.unfired()] == ["tool=refund call=9: tool_lost"]


async def test_a_model_call_without_an_answer_says_which_fault_had_fired_at_a_tool():
    fault_log = FaultLog()
    tools = inject_tools([refund], PLAN, fault_log=fault_log)
    provider = FaultInjector(MockProvider(responses={}, strict=True), FaultPlan(), fault_log=fault_log)
    with pytest.raises(ToolFaultError):
        tools["refund"].callable(order_id=7)
    with pytest.raises(RecordingMismatchError) as caught:
        await provider.complete(user("Hi"), "m", step_id="ask")
    assert caught.value.fired == ("tool=refund call=1: tool_lost",)


async def test_a_tool_call_without_an_answer_says_which_fault_had_fired_at_a_model():
    fault_log = FaultLog()
    provider = FaultInjector(Echo(), PLAN, fault_log=fault_log)
    with replay_tools([refund], {"_version": 2}) as replayed:
        tools = inject_tools(replayed, FaultPlan(), fault_log=fault_log)
        with pytest.raises(ProviderError):
            await provider.complete(user("Hi"), "m")
        with pytest.raises(RecordingMismatchError) as caught:
            tools["refund"].callable(order_id=7)
    assert caught.value.fired == ("call=1 attempt=1: timeout",)
