"""The fault of a tool whose result is lost."""

import pytest

from offbook import At, FaultPlan, ToolLost, inject_tools
from offbook.errors import ToolFaultError
from tests.faults.tool_kinds import Till


def test_who_just_tries_again_after_a_lost_result_acts_twice():
    till = Till()
    tools = inject_tools([till.tool("plain")], FaultPlan([At(tool="refund", call=1).fail(ToolLost())]))
    with pytest.raises(ToolFaultError, match="the result was lost") as caught:
        tools["refund"].callable(order_id=7)
    assert caught.value.tool == "refund"
    assert till.paid == [7]
    assert tools["refund"].callable(order_id=7)["status"] == "paid back"
    assert till.paid == [7, 7]


def test_a_lost_result_is_told_in_the_words_that_are_declared():
    tools = inject_tools([Till().tool("plain")], FaultPlan([At(tool="refund").fail(ToolLost("connection reset"))]))
    with pytest.raises(ToolFaultError, match=r"^connection reset$"):
        tools["refund"].callable(order_id=7)
