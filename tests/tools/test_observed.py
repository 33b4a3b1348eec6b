"""Tools whose calls are events."""

import asyncio

import pytest

from offbook.clock import run
from offbook.events import MemorySink, ToolCalled
from offbook.messages import ToolCall
from offbook.tools import Toolbox, observe_tools, run_tool


def add(a: int, b: int) -> int:
    return a + b


async def wait(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "done"


def fail() -> None:
    raise ValueError("no")


def late(seconds: float):
    return wait(seconds)


@pytest.fixture
def sink():
    return MemorySink()


def call(tools, name, **arguments):
    return run(run_tool(tools[name], ToolCall(name, arguments)), virtual_time=True)


def test_each_call_is_an_event_with_its_number(sink):
    tools = observe_tools([add], sink)
    assert [call(tools, "add", a=1, b=each).value for each in (1, 2)] == [2, 3]
    assert [(event.tool, event.call, event.error) for event in sink.events] == [("add", 1, None), ("add", 2, None)]


@pytest.mark.parametrize("tool", [wait, late])
def test_a_tool_that_waits_is_measured_to_its_end(sink, tool):
    name = tool.__name__
    assert call(observe_tools([tool], sink), name, seconds=5.0).value == "done"
    assert sink.events == [ToolCalled(name, pytest.approx(5.0), None, 1)]


def test_a_tool_that_fails_still_fails_and_is_an_event(sink):
    assert isinstance(call(observe_tools([fail], sink), "fail").error, ValueError)
    assert [event.error for event in sink.events] == ["ValueError"]


def test_what_is_declared_of_a_tool_stays(sink):
    (plain,) = Toolbox([add]).values()
    (observed,) = observe_tools([plain], sink).values()
    assert (observed.spec, observed.declaration) == (plain.spec, plain.declaration)
