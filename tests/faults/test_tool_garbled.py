"""The fault of a tool whose result is nonsense."""

import json

import pytest

from offbook import At, FaultPlan, ToolCall, ToolGarbled, inject_tools
from offbook.tools import run_tool
from tests.faults.tool_kinds import Till


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
    assert (outcome.value, outcome.text, outcome.error) == ("<html>", "<html>", None)
