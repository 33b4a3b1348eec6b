"""The fault of a tool that fails."""

import pytest

from offbook import At, FaultPlan, ToolError, inject_tools
from offbook.errors import ToolFaultError
from tests.faults.tool_kinds import Till


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
