"""What has struck: injectors that share it tell of each other's."""

import pytest

from offbook import MockProvider, ProviderError
from offbook.errors import RecordingMismatchError, ToolFaultError
from offbook.faults import FaultInjector, FaultPlan, Strikes, inject_tools, parse_fault
from offbook.recording.tool_replay import replay_tools
from tests.fakes import Echo, user

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


async def test_what_struck_models_and_tools_is_kept_in_one_order():
    strikes = Strikes()
    await strike_both(FaultInjector(Echo(), PLAN, strikes=strikes), inject_tools([refund], PLAN, strikes=strikes))
    assert [str(fired) for fired in strikes.fired] == [
        "call=1 attempt=1: timeout",
        "tool=refund call=1: tool_lost",
    ]
    assert [str(line) for line in strikes.missing(PLAN)] == ["tool=refund call=9: tool_lost"]


async def test_each_injector_misses_the_lines_of_its_own_kind_alone():
    provider, tools = FaultInjector(Echo(), PLAN), inject_tools([refund], PLAN)
    assert [str(line) for line in provider.unstruck()] == ["call=1: timeout"]
    await strike_both(provider, tools)
    assert provider.unstruck() == []
    assert [str(line) for line in tools.unstruck()] == ["tool=refund call=9: tool_lost"]


async def test_a_model_without_an_answer_is_told_which_fault_had_struck_a_tool():
    strikes = Strikes()
    tools = inject_tools([refund], PLAN, strikes=strikes)
    provider = FaultInjector(MockProvider(responses={}, strict=True), FaultPlan(), strikes=strikes)
    with pytest.raises(ToolFaultError):
        tools["refund"].callable(order_id=7)
    with pytest.raises(RecordingMismatchError, match=r"a fault struck before this \(tool=refund call=1: tool_lost\)"):
        await provider.complete(user("Hi"), "m", step_id="ask")


async def test_a_tool_without_an_answer_is_told_which_fault_had_struck_a_model():
    strikes = Strikes()
    provider = FaultInjector(Echo(), PLAN, strikes=strikes)
    with replay_tools([refund], {"_version": 2}) as replayed:
        tools = inject_tools(replayed, FaultPlan(), strikes=strikes)
        with pytest.raises(ProviderError):
            await provider.complete(user("Hi"), "m")
        with pytest.raises(RecordingMismatchError, match=r"a fault struck before this \(call=1 attempt=1: timeout\)"):
            tools["refund"].callable(order_id=7)
