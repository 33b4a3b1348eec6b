"""The fault of a tool that gives nothing."""

from offbook import At, FaultPlan, ToolCall, ToolEmpty, inject_tools
from offbook.tools import run_tool
from tests.faults.tool_kinds import Till


async def test_an_empty_result_is_none_though_the_tool_has_run():
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund").fail(ToolEmpty())]))
    outcome = await run_tool(tools["refund"], ToolCall("refund", {"order_id": 7}))
    assert (outcome.value, outcome.error) == (None, None)
    assert till.paid == [7]
