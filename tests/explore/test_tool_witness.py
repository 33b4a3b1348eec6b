"""What the witness sees of calls of tools."""

import asyncio

import pytest

from offbook import ToolCall, run
from offbook.errors import ToolFaultError
from offbook.tools import run_tools, tool
from tests.explore.runs import plan_of, stages_of

ENTRIES = {"s": {"content": "x"}}


def add(left: int, right: int) -> int:
    return left + right


async def add_slowly(left: int, right: int) -> int:
    await asyncio.sleep(1)
    return left + right


@tool(side_effect=True, timeout_s=30.0)
def add_in_time(left: int, right: int) -> int:
    return left + right


def fail() -> None:
    raise ValueError("no")


async def fail_slowly() -> None:
    raise ValueError("no")


def staged(*lines):
    _, theatre = stages_of(ENTRIES)
    return theatre.stage(plan_of(*lines))


def used(stage, given, **arguments):
    """The one call of a tool that a model asks for."""
    tools = stage.tools(given)
    (outcome,) = run(run_tools(tools, [ToolCall(next(iter(tools)), arguments)]), virtual_time=True)
    (seen,) = stage.tool_runs
    return outcome, seen


@pytest.mark.parametrize("given", [add, add_slowly, add_in_time], ids=lambda given: getattr(given, "name", None))
def test_a_call_is_seen_with_its_arguments_and_its_result(given):
    outcome, seen = used(staged(), given, left=1, right=2)
    assert outcome.value == 3
    assert (seen.call, seen.arguments, seen.result, seen.error, seen.has_run) == (
        1,
        {"left": 1, "right": 2},
        "3",
        None,
        True,
    )
    assert seen.side_effect == (given is add_in_time)


@pytest.mark.parametrize("given", [fail, fail_slowly])
def test_a_tool_that_fails_has_run(given):
    _, seen = used(staged(), given)
    assert (seen.error, seen.has_run, seen.result) == ("ValueError: no", True, "")


@pytest.mark.parametrize("given", [add, add_slowly, add_in_time], ids=lambda given: getattr(given, "name", None))
@pytest.mark.parametrize(
    ("fault", "has_run"),
    [("tool_error", False), ("tool_timeout 5000", False), ("tool_lost", True), ("tool_garbled", True)],
)
def test_a_fault_may_keep_a_tool_from_running_or_hide_that_it_has(given, fault, has_run):
    name = getattr(given, "name", None) or given.__name__
    outcome, seen = used(staged(f"tool={name} call=1: {fault}"), given, left=1, right=2)
    assert seen.has_run == has_run
    assert (seen.error is not None) == (outcome.error is not None) == (fault != "tool_garbled")
    assert "resu" in seen.result or fault != "tool_garbled"


def test_the_calls_of_each_tool_are_counted_in_the_order_they_were_made():
    stage = staged()
    tools = stage.tools(add, add_slowly)
    calls = [ToolCall(name, {"left": 1, "right": 2}) for name in ("add_slowly", "add", "add_slowly")]
    run(run_tools(tools, calls), virtual_time=True)
    assert [(each.tool, each.call) for each in stage.tool_runs] == [("add_slowly", 1), ("add", 1), ("add_slowly", 2)]


def test_a_tool_that_calls_another_one_has_run_itself():
    stage = staged("tool=add call=1: tool_error")
    tools = stage.tools(add)

    def double(number: int) -> int:
        return tools["add"](left=number, right=number)

    with pytest.raises(ToolFaultError):
        stage.tools(double)["double"](number=2)
    assert [(each.tool, each.has_run) for each in stage.tool_runs] == [("double", True), ("add", False)]


def test_what_struck_is_told_with_the_faults_of_models():
    stage = staged("tool=add call=1: tool_empty")
    stage.tools(add)["add"](left=1, right=2)
    assert stage.struck == ("tool=add call=1: tool_empty",)
    assert staged().struck == ()
