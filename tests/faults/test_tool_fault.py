"""What holds for every fault of a tool, however the tool is written."""

import asyncio
from pathlib import Path

import msgspec
import pytest

from offbook import ToolCall, run
from offbook.clock import SYSTEM_CLOCK
from offbook.errors import MockError
from offbook.faults import TOOL_FAULT_TYPES, At, FaultPlan, StruckTool, inject_tools
from offbook.tools import run_tool
from tests.faults.samples import TOOL_SAMPLES
from tests.faults.tool_kinds import KINDS, Till

PAGE = Path(__file__).parents[2] / "docs" / "faults.md"
RUN_THE_TOOL = {"tool_empty", "tool_garbled", "tool_lost"}
REFUND = ToolCall("refund", {"order_id": 7})
every_fault = pytest.mark.parametrize("fault", TOOL_SAMPLES, ids=lambda fault: fault.type)
every_kind = pytest.mark.parametrize("kind", KINDS)


def outcome(fault, kind, till):
    """What a struck call comes to in virtual time, and after how many seconds."""

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
def test_a_fault_is_told_on_one_line_that_starts_with_its_type(fault):
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
    struck, _ = outcome(fault, kind, Till())
    assert (struck.value, type(struck.error), struck.text) == (plain.value, type(plain.error), plain.text)
    assert "paid back" not in struck.text


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
    struck, _ = outcome(fault, kind, Till(own))
    assert (struck.error is own) == (fault.type in RUN_THE_TOOL)


@every_kind
def test_an_error_of_the_test_is_raised_and_not_told(kind):
    with pytest.raises(MockError, match="no mock"):
        outcome(TOOL_SAMPLES[0], kind, Till(MockError("no mock", tool="refund")))


@every_fault
def test_a_fault_strikes_a_call_that_is_handed_to_it(fault):
    till = Till()

    async def work():
        return await fault.strike_tool(StruckTool("refund", {}, lambda: till.refund_later(7), SYSTEM_CLOCK))

    struck, _ = outcome(fault, "plain", Till())
    if struck.error is None:
        assert run(work(), virtual_time=True) == struck.value
    else:
        with pytest.raises(type(struck.error), match=str(struck.error)):
            run(work(), virtual_time=True)
    assert till.paid == ([7] if fault.type in RUN_THE_TOOL else [])


@every_fault
def test_the_documentation_tells_of_every_fault_with_all_its_fields(fault):
    told = next(line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{fault.type}` |"))
    assert all(f"`{name}`" in told.split("|")[2] for name in fault.__struct_encode_fields__)
