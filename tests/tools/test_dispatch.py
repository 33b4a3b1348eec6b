"""Running tool calls: every outcome is told, nothing leaks, and no miss is taken for a tool's error."""

import asyncio
import functools
import subprocess
import sys
import threading
from contextvars import ContextVar

import pytest
from pydantic import BaseModel

import offbook
from offbook.clock import run
from offbook.errors import (
    EventLoopError,
    RecordingMismatchError,
    ToolArgumentsError,
    ToolFaultError,
    ToolResolutionError,
    ToolTimeoutError,
)
from offbook.events import MemorySink, ToolCalled
from offbook.messages import ToolCall
from offbook.tools import Toolbox, ToolDef, ToolOutcome, ToolSpec, observe_tools, run_tool, run_tools
from offbook.tools.dispatch import DaemonThreads

MISS = RecordingMismatchError("nothing fits", kind="missing")
WHO = ContextVar("WHO", default="nobody")


class Order(BaseModel):
    order_id: int


def tool_with(function, *, name="work", timeout_s=None):
    return ToolDef(ToolSpec(name), callable=function, timeout_s=timeout_s)


def virtually(work):
    return offbook.run(work, virtual_time=True)


def outcome_of(function, args=None, *, timeout_s=None):
    return virtually(run_tool(tool_with(function, timeout_s=timeout_s), ToolCall("work", args or {})))


def raising(error):
    def work(**_):
        raise error

    return work


async def answer(**args):
    await asyncio.sleep(1)
    return args


class Answering:
    async def __call__(self, **args):
        return await answer(**args)

    async def method(self, **args):
        return await answer(**args)

    def sync(self, **args):
        return args


CALLABLES = {
    "function": lambda **args: args,
    "coroutine function": answer,
    "function that returns a coroutine": lambda a: answer(a=a),
    "object": Answering(),
    "method": Answering().method,
    "synchronous method": Answering().sync,
    "partial": functools.partial(answer),
    "static method": staticmethod(answer),
}


@pytest.mark.parametrize("timeout_s", [None, 2.0])
@pytest.mark.parametrize("function", CALLABLES.values(), ids=CALLABLES)
def test_whatever_can_be_called_is_called_and_waited_for(function, timeout_s):
    outcome = outcome_of(function, {"a": 1}, timeout_s=timeout_s)
    assert outcome.value == {"a": 1}
    assert outcome.error is None
    assert outcome.text == '{"a":1}'
    assert outcome.call == ToolCall("work", {"a": 1})


def test_a_function_that_returns_a_future_is_waited_for():
    assert outcome_of(lambda: asyncio.ensure_future(answer())).value == {}


@pytest.mark.parametrize("timeout_s", [None, 2.0])
@pytest.mark.parametrize("error", [ValueError("no"), TimeoutError("late")], ids=repr)
def test_what_a_tool_raises_is_reported(error, timeout_s):
    outcome = outcome_of(raising(error), timeout_s=timeout_s)
    assert outcome.error is error
    assert outcome.text == f"[ToolError] {type(error).__name__}: {error}"


def test_an_iterator_that_has_ended_is_reported_and_not_waited_for():
    assert outcome_of(iter([]).__next__).text == "[ToolError] StopIteration"
    assert (
        outcome_of(iter([]).__next__, timeout_s=60.0).text == "[ToolError] RuntimeError: coroutine raised StopIteration"
    )


def test_what_an_async_tool_raises_is_reported_and_its_own_timeout_is_not_taken_for_ours():
    async def late():
        async with asyncio.timeout(1):
            await asyncio.sleep(5)

    assert outcome_of(late, timeout_s=3.0).text == "[ToolError] TimeoutError"


def test_a_thing_that_is_not_there_is_reported_as_such():
    outcome = outcome_of(raising(ToolResolutionError("no such order; try another")))
    assert isinstance(outcome.error, ToolResolutionError)
    assert outcome.text == "[ToolResolutionError] no such order; try another"


def test_a_fault_fires_before_the_tool_is_called():
    called = []
    work = run_tool(tool_with(lambda: called.append(1)), ToolCall("work", error="the station is down"))
    outcome = virtually(work)
    assert isinstance(outcome.error, ToolFaultError)
    assert outcome.text == "[ToolError] ToolFaultError: the station is down"
    assert called == []


def test_arguments_that_do_not_fit_never_reach_the_tool():
    called = []
    tool = ToolDef(ToolSpec("find", parameters=Order), callable=lambda **args: called.append(args))
    outcome = virtually(run_tool(tool, ToolCall("find", {"order_id": []})))
    assert isinstance(outcome.error, ToolArgumentsError)
    assert outcome.text == (
        "[ToolError] ToolArgumentsError: wrong arguments for find:\norder_id: Input should be a valid integer (got [])"
    )
    assert called == []


def test_arguments_that_are_no_json_never_reach_the_tool():
    called = []
    work = run_tool(tool_with(lambda: called.append(1)), ToolCall.parse("work", "{oh"))
    assert virtually(work).error.problems == ("expected a JSON object, got {oh",)
    assert called == []


def test_a_declared_model_forwards_the_arguments_as_they_came():
    tool = ToolDef(ToolSpec("find", parameters=Order), callable=lambda **args: args)
    assert virtually(run_tool(tool, ToolCall("find", {"order_id": "42", "odd": 1}))).value == {
        "order_id": "42",
        "odd": 1,
    }


@pytest.mark.parametrize("timeout_s", [None, 2.0])
@pytest.mark.parametrize(
    "error",
    [MISS, EventLoopError("busy"), ExceptionGroup("both", [ValueError("no"), ExceptionGroup("inner", [MISS])])],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_of_the_test_itself_is_never_reported_to_the_model(error, timeout_s):
    with pytest.raises(type(error)) as caught:
        outcome_of(raising(error), timeout_s=timeout_s)
    assert caught.value is error


def test_a_group_of_other_errors_is_reported():
    assert outcome_of(raising(ExceptionGroup("both", [ValueError("no")]))).text.startswith("[ToolError] ExceptionGroup")


def test_a_cancelled_call_is_cancelled():
    async def work():
        task = asyncio.ensure_future(run_tool(tool_with(answer, timeout_s=9.0), ToolCall("work")))
        await asyncio.sleep(0.5)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    virtually(work())


def test_an_async_tool_that_is_late_is_cancelled_on_time():
    ended_s = []

    async def late():
        try:
            await asyncio.sleep(100)
        finally:
            ended_s.append(asyncio.get_running_loop().time())

    outcome = outcome_of(late, timeout_s=2.5)
    assert isinstance(outcome.error, ToolTimeoutError)
    assert isinstance(outcome.error, TimeoutError)
    assert outcome.error.tool == "work"
    assert outcome.error.timeout_s == 2.5
    assert ended_s == [2.5]
    assert outcome.text == "[ToolError] ToolTimeoutError: work took longer than 2.5 s"


def test_a_synchronous_tool_that_is_late_is_abandoned():
    go_on, ended = threading.Event(), threading.Event()

    def late():
        go_on.wait(60)
        ended.set()

    outcome = outcome_of(late, timeout_s=0.01)
    assert outcome.text == "[ToolError] ToolTimeoutError: work took longer than 0.01 s"
    assert not ended.is_set()
    go_on.set()
    assert ended.wait(60)


def test_a_synchronous_tool_runs_here_unless_it_may_be_late():
    here = threading.get_ident()
    assert outcome_of(threading.get_ident).value == here
    assert outcome_of(threading.get_ident, timeout_s=60.0).value != here


def test_a_thread_has_the_context_of_its_call():
    async def work():
        WHO.set("me")
        return await run_tool(tool_with(WHO.get, timeout_s=60.0), ToolCall("work"))

    assert virtually(work()).value == "me"


def test_a_synchronous_tool_is_called_without_giving_way_to_other_tasks():
    tool = tool_with(lambda: "done")
    with pytest.raises(StopIteration) as ended:
        run_tool(tool, ToolCall("work")).send(None)
    assert ended.value.value.value == "done"


def waiting(log, name, seconds):
    async def work():
        try:
            await asyncio.sleep(seconds)
            log.append(f"{name} done")
        except asyncio.CancelledError:
            await asyncio.sleep(1)
            log.append(f"{name} cancelled")
            raise
        return name

    return work


def test_calls_run_concurrently_and_their_outcomes_come_in_order():
    log = []
    toolbox = Toolbox({"slow": waiting(log, "slow", 3), "quick": waiting(log, "quick", 1), "sync": lambda: "sync"})

    async def work():
        outcomes = await run_tools(toolbox, [ToolCall("slow"), ToolCall("sync"), ToolCall("quick")])
        return [outcome.value for outcome in outcomes], asyncio.get_running_loop().time()

    assert virtually(work()) == (["slow", "sync", "quick"], 3.0)
    assert log == ["quick done", "slow done"]


def test_no_calls_have_no_outcomes():
    assert virtually(run_tools(Toolbox(), [])) == ()


def test_one_call_needs_no_task():
    async def work():
        before = asyncio.all_tasks()
        (outcome,) = await run_tools(Toolbox({"count": lambda: len(asyncio.all_tasks() - before)}), [ToolCall("count")])
        return outcome.value

    assert virtually(work()) == 0


@pytest.mark.parametrize("others", [[], [ToolCall("find", {"order_id": 1})]], ids=["alone", "beside another"])
def test_a_tool_that_is_not_there_is_reported_with_those_that_are(others):
    toolbox = Toolbox({"find": lambda order_id: order_id, "refund": lambda: 1})
    outcome = virtually(run_tools(toolbox, [ToolCall("fnd"), *others]))[0]
    assert isinstance(outcome.error, ToolResolutionError)
    assert outcome.text == "[ToolResolutionError] there is no tool 'fnd'; there are: find, refund"


def test_an_empty_toolbox_says_so():
    (outcome,) = virtually(run_tools(Toolbox(), [ToolCall("find")]))
    assert outcome.text == "[ToolResolutionError] there is no tool 'find'; there are no tools at all"


def test_one_tool_that_fails_disturbs_no_other():
    log = []
    toolbox = Toolbox({"bad": tool_with(raising(ValueError("no")), name="bad"), "good": waiting(log, "good", 1)})
    outcomes = virtually(run_tools(toolbox, [ToolCall("bad"), ToolCall("good")]))
    assert [outcome.text for outcome in outcomes] == ["[ToolError] ValueError: no", "good"]


def test_a_miss_ends_the_other_calls_and_is_raised_itself():
    log = []

    async def missing():
        await asyncio.sleep(1)
        raise MISS

    toolbox = Toolbox({"missing": missing, "slow": waiting(log, "slow", 100), "quick": waiting(log, "quick", 0.5)})

    async def work():
        with pytest.raises(RecordingMismatchError) as caught:
            await run_tools(toolbox, [ToolCall("slow"), ToolCall("missing"), ToolCall("quick")])
        assert caught.value is MISS
        assert len(asyncio.all_tasks()) == 1
        return asyncio.get_running_loop().time()

    assert virtually(work()) == 2.0
    assert log == ["quick done", "slow cancelled"]


def test_a_cancelled_caller_leaves_no_call_behind():
    log = []
    toolbox = Toolbox({"a": waiting(log, "a", 100), "b": waiting(log, "b", 100)})

    async def work():
        task = asyncio.ensure_future(run_tools(toolbox, [ToolCall("a"), ToolCall("b")]))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert len(asyncio.all_tasks()) == 1

    virtually(work())
    assert sorted(log) == ["a cancelled", "b cancelled"]


def test_work_is_done_in_another_thread():
    assert DaemonThreads().submit(threading.get_ident).result() != threading.get_ident()
    assert DaemonThreads().submit(divmod, 7, 2).result() == (3, 1)


def test_what_work_raises_is_raised_where_its_result_is_asked_for():
    with pytest.raises(SystemExit):
        DaemonThreads().submit(sys.exit, 3).result()


def test_more_work_runs_at_once_than_any_pool_would_have_threads():
    together = threading.Barrier(100)
    work = [DaemonThreads().submit(together.wait, 60) for _ in range(100)]
    assert sorted(each.result() for each in work) == list(range(100))


def test_a_program_ends_while_abandoned_work_goes_on():
    program = """
import threading
import offbook
from offbook.tools import ToolDef, ToolSpec, run_tool

stuck = ToolDef(ToolSpec("stuck"), callable=threading.Event().wait, timeout_s=0.01)
outcome = offbook.run(run_tool(stuck, offbook.ToolCall("stuck")))
print(outcome.text)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "[ToolError] ToolTimeoutError: stuck took longer than 0.01 s\n"
    assert done.stderr == ""


class NotFoundError(ToolResolutionError):
    pass


class MuteError(Exception):
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("something went wrong"), "[ToolError] ValueError: something went wrong"),
        (KeyError("city"), "[ToolError] KeyError: 'city'"),
        (ToolFaultError("the station is down", tool="t"), "[ToolError] ToolFaultError: the station is down"),
        (ToolResolutionError("no such order"), "[ToolResolutionError] no such order"),
        (NotFoundError("no such order"), "[ToolResolutionError] no such order"),
        (MuteError(), "[ToolError] MuteError: <MuteError that cannot be shown>"),
        (TimeoutError(), "[ToolError] TimeoutError"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_error_has_this_text(error, text):
    call = ToolCall("t")
    assert ToolOutcome.of_error(call, error) == ToolOutcome(call, None, error, text)


def test_a_value_is_kept_beside_its_text():
    call = ToolCall("t")
    assert ToolOutcome.of_value(call, {"a": 1}) == ToolOutcome(call, {"a": 1}, None, '{"a":1}')


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
    assert observed.spec == plain.spec
    assert observed.declaration == plain.declaration
