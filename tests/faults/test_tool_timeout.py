"""The fault of a tool that takes too long."""

import asyncio

import pytest

from offbook import At, FaultPlan, ToolCall, ToolTimeout, inject_tools, run
from offbook.errors import ToolTimeoutError
from offbook.tools import run_tool
from tests.faults.tool_kinds import KINDS, Till


def struck(kind, after_ms):
    async def work():
        tools = inject_tools([Till().tool(kind)], FaultPlan([At(tool="refund").fail(ToolTimeout(after_ms))]))
        outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
        return outcome.error, asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


@pytest.mark.parametrize("kind", KINDS)
def test_a_tool_timeout_is_raised_after_its_time_on_the_clock(kind):
    error, after_s = struck(kind, 5000.0)
    assert isinstance(error, ToolTimeoutError)
    assert (str(error), error.tool, error.timeout_s) == ("refund took longer than 5 s", "refund", 5.0)
    assert after_s == 5.0


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind.endswith("with a timeout")])
def test_nobody_waits_longer_than_the_tools_own_limit(kind):
    error, after_s = struck(kind, 60_000.0)
    assert str(error) == "refund took longer than 30 s"
    assert after_s == 30.0


def test_without_a_time_a_synchronous_tool_times_out_where_it_is_called():
    tools = inject_tools([Till().tool("plain")], FaultPlan([At(tool="refund").fail(ToolTimeout())]))
    with pytest.raises(ToolTimeoutError):
        tools["refund"].callable(order_id=7)
