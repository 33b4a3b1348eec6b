"""What holds for every fault, wherever it is declared and however the call is made."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from offbook import MockProvider, ProviderError, Response, StreamEnd, TextDelta, Usage, run
from offbook.faults import FAULT_TYPES, At, FaultInjector, FaultPlan
from tests.fakes import Scripted, user
from tests.faults.samples import SAMPLES

PAGE = Path(__file__).parents[2] / "docs" / "faults" / "kinds.md"
CLEAN = {"content": "one two three", "model": "gpt-4o", "usage": {"prompt_tokens": 5, "completion_tokens": 3}}
SAME_REPLY = {"one_more_tool", "slow", "wrong_content_type", "ws_reorder", "ws_repeat"}
PASS_ON = SAME_REPLY | {"partial_response", "slow_drip", "stream_stall", "stream_truncate"}
LIE = {"garbled_content", "previous_answer", "wrong_fields", "wrong_names"}
ASK_ONCE = PASS_ON | LIE | {"doubled_tool_calls", "shared_tool_id", "wrong_types", "wrong_values"}
every_fault = pytest.mark.parametrize("fault", SAMPLES, ids=lambda fault: fault.type)
both_ways = pytest.mark.parametrize("ask", ["complete", "stream"])


def in_an_object(fault):
    return MockProvider(responses={"a": CLEAN | {"fault": msgspec.to_builtins(fault)}}, strict=True)


def in_a_list(fault):
    return MockProvider(responses={"a": [CLEAN | {"fault": msgspec.to_builtins(fault)}, CLEAN]}, strict=True)


def in_a_plan(fault):
    return everywhere(fault, MockProvider(responses={"a": CLEAN}, strict=True))


def everywhere(fault, provider):
    return FaultInjector(provider, FaultPlan([At().fail(fault)]))


def outcome(provider, ask):
    """What a call comes to, in virtual time: its events or response, the error as text and fields, and the seconds."""

    async def work():
        got, error = [], None
        try:
            answer = await getattr(provider, ask)(user("Hi"), "m", step_id="a")
            if ask == "complete":
                got.append(answer)
            else:
                async for event in answer:
                    got.append(event)  # noqa: PERF401 - a comprehension would lose them
        except ProviderError as caught:
            error = caught
        return got, error, asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


def test_there_is_a_sample_of_every_fault():
    assert [fault.type for fault in SAMPLES] == sorted(FAULT_TYPES)


@every_fault
@both_ways
def test_a_fault_does_the_same_wherever_it_is_declared(fault, ask):
    (got, error, after_s), *others = [outcome(made(fault), ask) for made in (in_an_object, in_a_list, in_a_plan)]
    for other_got, other_error, other_s in others:
        assert other_got == got
        assert type(other_error) is type(error)
        assert str(other_error) == str(error)
        assert other_s == after_s
        assert error is None or vars(other_error) == vars(error)


@every_fault
def test_a_streamed_call_comes_to_the_same_as_a_whole_one(fault):
    whole, error, after_s = outcome(in_a_plan(fault), "complete")
    events, stream_error, stream_s = outcome(in_a_plan(fault), "stream")
    assert type(stream_error) is type(error)
    assert str(stream_error) == str(error)
    assert stream_s == after_s
    assert [event.response for event in events if isinstance(event, StreamEnd)] == whole


@every_fault
@both_ways
def test_what_comes_back_names_the_provider(fault, ask):
    got, error, _ = outcome(in_a_plan(fault), ask)
    if error is None:
        response = got[-1] if ask == "complete" else got[-1].response
        assert response.provider == "mock"
        assert response.model
    else:
        assert error.provider == "mock"
        assert str(error).startswith("mock: ")
        assert str(error).count("mock") == 1


@every_fault
@both_ways
def test_the_provider_is_asked_once_if_its_reply_is_needed_and_never_if_not(fault, ask):
    response = Response("one two", usage=Usage.of(5, 2))
    clean = [TextDelta("one"), TextDelta(" two"), response] if ask == "stream" else response
    provider = Scripted(clean)
    outcome(everywhere(fault, provider), ask)
    assert len(provider.requests) == (fault.type in ASK_ONCE)
    if ask == "stream":
        assert bool(provider.closed_replies) == (fault.type in ASK_ONCE - SAME_REPLY)


@pytest.mark.parametrize("name", sorted(PASS_ON))
@pytest.mark.parametrize("reads", [0, 1])
def test_a_reply_that_is_left_unread_or_in_the_middle_closes_the_one_beneath_it(name, reads):
    fault = next(fault for fault in SAMPLES if fault.type == name)
    provider = Scripted([TextDelta("one"), TextDelta(" two"), TextDelta(" three"), Response("one two three")])

    async def work():
        reply = await everywhere(fault, provider).stream(user("Hi"), "m")
        events = aiter(reply)
        for _ in range(reads):
            assert await anext(events) == TextDelta("one")
        assert provider.closed_replies == 0
        await reply.aclose()

    run(work(), virtual_time=True)
    assert provider.closed_replies > 0


@pytest.mark.parametrize("name", sorted(ASK_ONCE))
@both_ways
def test_a_failure_of_the_provider_itself_comes_through(name, ask):
    fault = next(fault for fault in SAMPLES if fault.type == name)
    own = ProviderError("its own", provider="scripted")
    assert outcome(everywhere(fault, Scripted(own)), ask)[1] is own


@pytest.mark.parametrize("name", sorted(ASK_ONCE))
def test_a_stream_of_the_provider_that_breaks_off_stays_broken(name):
    fault = next(fault for fault in SAMPLES if fault.type == name)
    got, error, _ = outcome(everywhere(fault, Scripted([TextDelta("one")])), "complete")
    assert got == []
    assert isinstance(error, ProviderError)


@every_fault
def test_the_documentation_describes_every_fault_with_all_its_fields(fault):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{fault.type}` |"))
    assert all(f"`{name}`" in row.split("|")[2] for name in fault.__struct_encode_fields__)


@every_fault
def test_a_fault_is_reported_on_one_line_that_starts_with_its_type(fault):
    assert str(fault).split()[0] == fault.type
    assert len(str(fault).splitlines()) == 1
