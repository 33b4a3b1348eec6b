"""Tools that are answered from the recording of a run."""

import pytest

from offbook import ToolCall, run
from offbook.errors import RecordingMismatchError, ToolFaultError
from offbook.explore.divergence import Divergence
from offbook.faults import FaultPlan
from offbook.tools import run_tools, tool
from tests.explore.runs import plan_of, stages_of


def find_order(order_id: int) -> str:
    raise AssertionError("the real tool ran")


@tool(side_effect=True)
async def refund(order_id: int) -> str:
    raise AssertionError("the real tool ran")


CALLS = {
    "find_order": [
        {"arguments": {"order_id": 1}, "result": "lost"},
        {"arguments": {"order_id": 1}, "result": "found"},
        {"arguments": {"order_id": 2}, "result": "late"},
    ],
    "refund": [{"arguments": {"order_id": 1}, "error": {"type": "ValueError", "message": "no money"}}],
}
TWICE = [("find_order", 1), ("find_order", 1), ("refund", 1)]


def use(stage, calls):
    """What the tools tell a model."""
    tools = stage.tools(find_order, refund)

    async def work():
        return [(await run_tools(tools, [ToolCall(name, {"order_id": order})]))[0].text for name, order in calls]

    return run(work())


def stages(divergence=None):
    return stages_of({"_tools": CALLS}, *([divergence] if divergence else []))


def test_the_clean_run_is_a_strict_replay():
    clean, _ = stages()
    assert use(clean, TWICE) == ["lost", "found", "[ToolError] ValueError: no money"]
    with pytest.raises(RecordingMismatchError):
        use(clean, [("find_order", 1)])
    assert len(clean.diverged) == 1


def test_a_call_that_is_made_again_has_its_result_again():
    clean, theatre = stages()
    use(clean, TWICE)
    again = theatre.stage(FaultPlan())
    assert use(again, [("find_order", 1)] * 3) == ["lost", "found", "found"]
    assert [(each.tool, each.call, each.has_run) for each in again.tool_runs] == [
        ("find_order", 1, True),
        ("find_order", 2, True),
        ("find_order", 3, True),
    ]


def test_a_call_that_was_never_made_is_a_divergence():
    clean, theatre = stages()
    use(clean, TWICE)
    stage = theatre.stage(FaultPlan())
    with pytest.raises(RecordingMismatchError):
        use(stage, [("find_order", 9)])
    assert "find_order" in stage.diverged[0]


def test_a_call_that_only_the_recording_has_is_answered_again_and_again():
    clean, theatre = stages()
    use(clean, TWICE)
    stage = theatre.stage(FaultPlan())
    assert use(stage, [("find_order", 2)] * 2) == ["late", "late"]
    assert stage.diverged == []


def test_a_divergence_may_be_answered_with_a_text():
    clean, theatre = stages(Divergence("default", "what?"))
    use(clean, TWICE)
    stage = theatre.stage(FaultPlan())
    assert use(stage, [("find_order", 9), ("refund", 9)]) == ["what?", "what?"]
    assert len(stage.diverged) == 2


def test_faults_strike_around_the_recording():
    clean, theatre = stages()
    use(clean, TWICE)
    stage = theatre.stage(plan_of("tool=find_order call=1: tool_lost", "tool=refund call=1: tool_error"))
    tools = stage.tools(find_order, refund)
    with pytest.raises(ToolFaultError):
        tools["find_order"](order_id=1)
    with pytest.raises(ToolFaultError):
        run(tools["refund"](order_id=1))
    assert [(each.tool, each.has_run) for each in stage.tool_runs] == [("find_order", True), ("refund", False)]
    assert stage.tool_runs[1].side_effect
