"""What holds for every fault of a tool, however the tool is written."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest

from offbook import ToolCall, run
from offbook.clock import SYSTEM_CLOCK
from offbook.errors import MockError, ToolFaultError, ToolTimeoutError
from offbook.faults import (
    TOOL_FAULT_TYPES,
    At,
    FaultedToolCall,
    FaultPlan,
    ToolEmpty,
    ToolError,
    ToolGarbled,
    ToolLost,
    ToolTimeout,
    inject_tools,
)
from offbook.tools import run_tool
from tests.faults.samples import TOOL_SAMPLES
from tests.faults.tool_kinds import KINDS, Till

PAGE = Path(__file__).parents[2] / "docs" / "faults" / "kinds.md"
NOTHING_TO_TELL = {"duplicate_item", "tool_other", "tool_stale", "truncated_list"}
KEEP_THE_RESULT = {"injected_text", "oversized_result", "stdout_noise", "value_changed"} | NOTHING_TO_TELL
RUN_THE_TOOL = {"field_missing", "tool_empty", "tool_garbled", "tool_lost"} | KEEP_THE_RESULT
REFUND = ToolCall("refund", {"order_id": 7})
every_fault = pytest.mark.parametrize("fault", TOOL_SAMPLES, ids=lambda fault: fault.type)
every_kind = pytest.mark.parametrize("kind", KINDS)


def outcome(fault, kind, till):
    """What a call with a fault comes to in virtual time, and after how many seconds."""

    async def work():
        tools = inject_tools([till.tool(kind)], FaultPlan([At(tool="refund").fail(fault)]))
        return await run_tool(tools["refund"], REFUND), asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


def test_there_is_a_sample_of_every_fault_of_tools():
    assert [fault.type for fault in TOOL_SAMPLES] == sorted(TOOL_FAULT_TYPES)


@every_fault
def test_a_fault_is_declared_by_its_type_and_written_the_same_way(fault):
    written = msgspec.to_builtins(fault)
    assert written["type"] == fault.type
    assert msgspec.convert(written, TOOL_FAULT_TYPES[fault.type]) == fault
    with pytest.raises(msgspec.ValidationError, match="unknown field `zzz`"):
        msgspec.convert(written | {"zzz": 1}, TOOL_FAULT_TYPES[fault.type])


@every_fault
def test_a_fault_is_reported_on_one_line_that_starts_with_its_type(fault):
    assert str(fault).split()[0] == fault.type
    assert len(str(fault).splitlines()) == 1


@every_fault
def test_a_fault_cannot_be_changed(fault):
    with pytest.raises(AttributeError):
        fault.error = "another"


@every_fault
@every_kind
def test_a_fault_does_the_same_to_every_kind_of_tool(fault, kind):
    plain, _ = outcome(fault, "plain", Till())
    faulted, _ = outcome(fault, kind, Till())
    assert faulted.value == plain.value
    assert type(faulted.error) is type(plain.error)
    assert faulted.text == plain.text
    assert ("paid back" in faulted.text) == (fault.type in KEEP_THE_RESULT)


@every_fault
@every_kind
def test_the_tool_runs_once_or_not_at_all(fault, kind):
    till = Till()
    outcome(fault, kind, till)
    assert till.paid == ([7] if fault.type in RUN_THE_TOOL else [])


@every_fault
@every_kind
def test_what_the_tool_itself_raises_comes_through_where_it_runs(fault, kind):
    own = ValueError("no such order")
    faulted, _ = outcome(fault, kind, Till(own))
    assert (faulted.error is own) == (fault.type in RUN_THE_TOOL)


@every_kind
def test_an_error_of_the_test_is_raised_and_not_reported(kind):
    with pytest.raises(MockError, match="no mock"):
        outcome(TOOL_SAMPLES[0], kind, Till(MockError("no mock", tool="refund")))


@every_fault
def test_a_fault_fires_at_a_call_that_is_handed_to_it(fault):
    till = Till()

    async def work():
        return await fault.apply_to_tool(FaultedToolCall("refund", {}, lambda: till.refund_later(7), SYSTEM_CLOCK))

    faulted, _ = outcome(fault, "plain", Till())
    if faulted.error is None:
        assert run(work(), virtual_time=True) == faulted.value
    else:
        with pytest.raises(type(faulted.error), match=str(faulted.error)):
            run(work(), virtual_time=True)
    assert till.paid == ([7] if fault.type in RUN_THE_TOOL else [])


@every_fault
def test_the_documentation_describes_every_fault_with_all_its_fields(fault):
    row = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{fault.type}` |"))
    assert all(f"`{name}`" in row.split("|")[2] for name in fault.__struct_encode_fields__)


async def test_an_empty_result_is_none_though_the_tool_has_run():
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund").fail(ToolEmpty())]))
    outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
    assert outcome.value is None
    assert outcome.error is None
    assert till.paid == [7]


@pytest.mark.parametrize(
    ("fault", "message"),
    [(ToolError(), "the tool failed"), (ToolError("payment service is down"), "payment service is down")],
)
def test_a_tool_error_is_raised_with_its_message_before_the_tool_runs(fault, message):
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund").fail(fault)]))
    with pytest.raises(ToolFaultError, match=f"^{message}$") as caught:
        tools["refund"].callable(order_id=7)
    assert caught.value.tool == "refund"
    assert till.paid == []


async def test_a_garbled_result_is_by_default_json_that_breaks_off():
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund").fail(ToolGarbled())]))
    outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
    assert outcome.text.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(outcome.text)
    assert till.paid == [7]


async def test_a_garbled_result_may_be_any_text():
    tools = inject_tools([Till().tool("plain")], FaultPlan([At(tool="refund").fail(ToolGarbled("<html>"))]))
    outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
    assert outcome.value == "<html>"
    assert outcome.text == "<html>"
    assert outcome.error is None


def test_who_just_tries_again_after_a_lost_result_acts_twice():
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund", call=1).fail(ToolLost())]))
    with pytest.raises(ToolFaultError, match="the result was lost") as caught:
        tools["refund"].callable(order_id=7)
    assert caught.value.tool == "refund"
    assert till.paid == [7]
    assert tools["refund"].callable(order_id=7)["status"] == "paid back"
    assert till.paid == [7, 7]


def test_a_lost_result_is_reported_in_the_words_that_are_declared():
    tools = inject_tools([Till().tool("plain")], FaultPlan([At(tool="refund").fail(ToolLost("connection reset"))]))
    with pytest.raises(ToolFaultError, match=r"^connection reset$"):
        tools["refund"].callable(order_id=7)


def outcome_of(kind, after_ms):
    async def work():
        tools = inject_tools([Till().tool(kind)], FaultPlan([At(tool="refund").fail(ToolTimeout(after_ms))]))
        outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
        return outcome.error, asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_timeout_is_raised_after_its_time_on_the_clock(kind):
    error, after_s = outcome_of(kind, 5000.0)
    assert isinstance(error, ToolTimeoutError)
    assert str(error) == "refund took longer than 5 s"
    assert error.tool == "refund"
    assert error.timeout_s == 5.0
    assert after_s == 5.0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("with a timeout")])
def test_nobody_waits_longer_than_the_tools_own_limit(kind):
    error, after_s = outcome_of(kind, 60_000.0)
    assert str(error) == "refund took longer than 30 s"
    assert after_s == 30.0


def test_without_a_time_a_synchronous_tool_times_out_where_it_is_called():
    tools = inject_tools([Till().tool("plain")], FaultPlan([At(tool="refund").fail(ToolTimeout())]))
    with pytest.raises(ToolTimeoutError):
        tools["refund"].callable(order_id=7)
