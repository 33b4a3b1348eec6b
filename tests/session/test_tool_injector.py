"""Tools that fail on purpose: what passes, where faults strike, and that what fired can be made to strike again."""

import asyncio
import json
from contextlib import suppress
from inspect import isawaitable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import MemorySink, MockProvider, ToolCall, run
from offbook.errors import RecordingMismatchError, ToolFaultError, ToolTimeoutError
from offbook.events import FaultFired
from offbook.faults import At, FaultPlan, PlannedFault, ToolError, inject_tools, parse_fault
from offbook.session.recording_tools import record_tools
from offbook.session.replayed_tools import replay_tools
from offbook.tools import run_tools
from tests.fakes import user
from tests.faults.samples import TOOL_SAMPLES
from tests.faults.tool_kinds import KINDS, Till

every_kind = pytest.mark.parametrize("kind", KINDS)


def plan_of(*lines):
    return FaultPlan(map(parse_fault, lines))


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


def refund(order_id: int) -> str:
    """Pay an order back."""
    return f"{order_id} is paid back"


async def texts(tools, *calls):
    """What the model is told of calls that are made in turn."""
    return [(await run_tools(tools, [call]))[0].text for call in calls]


SUM, REFUND = ToolCall("add", {"a": 1, "b": 2}), ToolCall("refund", {"order_id": 7})
FAILED = "[ToolError] ToolFaultError: the tool failed"


@every_kind
def test_what_the_plan_does_not_name_passes_untouched(kind):
    till = Till()
    tools = inject_tools([till.tool(kind)], plan_of("tool=other: tool_error", "everywhere: timeout"))
    assert run(texts(tools, REFUND), virtual_time=True) == ['{"status":"paid back","order":7}']
    assert till.paid == [7]
    assert tools.fired == []


@every_kind
def test_the_rest_of_a_tool_stays_as_it_was(kind):
    tool = Till().tool(kind, prerequisites=["search"], side_effect=True, repeatable=True)
    faulted = inject_tools([tool], FaultPlan())["refund"]
    assert faulted.spec is tool.spec
    assert faulted.prerequisites == ["search"]
    assert faulted.timeout_s == tool.timeout_s
    assert faulted.side_effect
    assert faulted.repeatable


async def test_calls_are_counted_tool_by_tool():
    tools = inject_tools([add, refund], plan_of("tool=refund call=2: tool_error"))
    results = await texts(tools, REFUND, SUM, SUM, REFUND, REFUND)
    assert results == ["7 is paid back", "3", "3", FAILED, "7 is paid back"]


async def test_calls_are_counted_together_however_often_a_tool_is_wrapped():
    tools = inject_tools((), plan_of("tool=add call=2: tool_error"))
    assert len(tools) == 0
    wrapped = [tools.wrap(inject_tools([add], FaultPlan())["add"]) for _ in range(3)]
    assert [(await texts({"add": each}, SUM))[0] for each in wrapped] == ["3", FAILED, "3"]


async def test_calls_at_once_are_counted_in_the_order_in_which_they_were_asked_for():
    tools = inject_tools([refund], plan_of("tool=refund call=2: tool_error"))
    outcomes = await run_tools(tools, [REFUND, REFUND, REFUND])
    assert [outcome.error is None for outcome in outcomes] == [True, False, True]


async def test_a_call_whose_arguments_are_refused_is_no_call():
    tools = inject_tools([refund], plan_of("tool=refund call=1: tool_error"))
    wrong, faulted = await texts(tools, ToolCall("refund", {"order_id": "x"}), REFUND)
    assert "ToolArgumentsError" in wrong
    assert faulted == FAILED


async def test_a_tool_gets_what_its_hints_say():
    def kind_of(order_id: float) -> str:
        """Tell."""
        return type(order_id).__name__

    assert await texts(inject_tools([kind_of], FaultPlan()), ToolCall("kind_of", {"order_id": 7})) == ["float"]


async def test_every_fault_that_fires_is_reported_to_the_sink_and_kept_as_a_line_of_a_plan():
    sink = MemorySink()
    tools = inject_tools([add, refund], plan_of("tool=refund: tool_lost", "tool=add call=2: tool_error"), sink=sink)
    await texts(tools, REFUND, SUM, SUM)
    assert sink.events == [
        FaultFired(None, "", "tool_lost", "", 1, 1, "refund"),
        FaultFired(None, "", "tool_error", "", 2, 1, "add"),
    ]
    assert [str(line) for line in tools.fired] == ["tool=refund call=1: tool_lost", "tool=add call=2: tool_error"]


async def test_the_lines_that_have_not_fired_are_reported():
    tools = inject_tools(
        [refund], plan_of("tool=refund: tool_lost", "tool=refund call=2: tool_error", "call=1: timeout")
    )
    await texts(tools, REFUND, REFUND)
    assert [str(line) for line in tools.unfired()] == ["tool=refund call=2: tool_error"]


async def test_another_plan_may_take_the_place_of_the_first_and_calls_go_on_being_counted():
    tools = inject_tools([refund], FaultPlan())
    assert await texts(tools, REFUND) == ["7 is paid back"]
    tools.follow(plan_of("tool=refund call=2: tool_error"))
    assert await texts(tools, REFUND) == [FAILED]


def test_a_synchronous_tool_fails_at_once_where_it_is_called():
    tool = inject_tools([refund], plan_of("tool=refund call=1: tool_error"))["refund"]
    with pytest.raises(ToolFaultError):
        tool.callable(order_id=7)
    assert tool.callable(order_id=7) == "7 is paid back"


@given(
    calls=st.lists(st.sampled_from([SUM, REFUND]), max_size=8),
    lines=st.lists(
        st.builds(
            lambda tool, call, fault: At(tool=tool, call=call).fail(fault),
            st.sampled_from(["add", "refund"]),
            st.none() | st.integers(1, 4),
            st.sampled_from(TOOL_SAMPLES),
        ),
        max_size=4,
    ),
    at_once=st.booleans(),
)
def test_what_fired_fires_again_with_the_same_outcomes(calls, lines, at_once):
    async def work(plan):
        tools = inject_tools([add, refund], plan)
        if at_once:
            return [outcome.text for outcome in await run_tools(tools, calls)], tools.fired
        return await texts(tools, *calls), tools.fired

    first, fired = run(work(FaultPlan(lines)), virtual_time=True)
    again, fired_again = run(work(FaultPlan(fired)), virtual_time=True)
    assert again == first
    assert fired_again == fired


@every_kind
def test_a_recording_stays_clean_under_faults(kind, tmp_path):
    async def work():
        with record_tools([Till().tool(kind)], tmp_path / "run.json") as recorded:
            plan = plan_of("tool=refund call=1: tool_error", "tool=refund call=2: tool_lost")
            return await texts(inject_tools(recorded, plan), REFUND, REFUND)

    results = run(work(), virtual_time=True)
    assert all("ToolFaultError" in text for text in results)
    entries = json.loads((tmp_path / "run.json").read_text())["_tools"]["refund"]
    assert [exchange["result"] for exchange in entries] == [{"status": "paid back", "order": 7}]


@every_kind
def test_a_replay_without_an_answer_says_what_fired_before(kind):
    recording = {"_version": 2, "_tools": {"refund": [{"arguments": {"order_id": 7}, "result": "paid"}]}}

    async def work():
        with replay_tools([Till().tool(kind)], recording) as replayed:
            tools = inject_tools(replayed, plan_of("tool=refund call=1: tool_lost"))
            return await texts(tools, REFUND, REFUND, REFUND)

    with pytest.raises(RecordingMismatchError) as caught:
        run(work(), virtual_time=True)
    assert caught.value.fired == ("tool=refund call=1: tool_lost",)


async def test_a_lost_result_leaves_the_answers_that_its_tool_got_used():
    models = MockProvider(responses={"_version": 2, "note": [{"content": "one"}]}, strict=True)

    async def refund(order_id: int) -> str:
        return (await models.complete(user("note"), "m", step_id="note")).content

    await texts(inject_tools([refund], plan_of("tool=refund call=1: tool_lost")), REFUND)
    assert models.unused() == []


async def test_a_replay_without_an_answer_is_nothing_but_that_where_nothing_fired():
    with replay_tools([refund], {"_version": 2}) as replayed, pytest.raises(RecordingMismatchError) as caught:
        await texts(inject_tools(replayed, FaultPlan()), REFUND)
    assert caught.value.fired == ()


def test_a_call_with_a_fault_can_be_cancelled_while_it_waits():
    async def work():
        tools = inject_tools([refund], plan_of("tool=refund: tool_timeout 60000"))
        call = asyncio.create_task(run_tools(tools, [REFUND]))
        await asyncio.sleep(1)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 1.0


def test_what_fired_is_a_line_of_a_plan():
    tools = inject_tools([refund], plan_of("tool=refund: tool_error"))
    with pytest.raises(ToolFaultError):
        tools["refund"].callable(order_id=7)
    assert tools.fired == [PlannedFault(At(tool="refund", call=1), ToolError())]


@every_kind
@pytest.mark.parametrize(  # what a tool would return that is not run is unknown
    "fault", [fault for fault in TOOL_SAMPLES if not fault.withholds_effect], ids=lambda fault: fault.type
)
def test_who_calls_a_synchronous_tool_gets_a_result_or_an_error_and_nothing_to_wait_for(kind, fault):
    async def work():
        tool = inject_tools([Till().tool(kind)], plan_of(f"tool=refund call=1: {fault}"))["refund"]
        for _ in range(2):
            try:
                value = tool.callable(order_id=7)
            except (ToolFaultError, ToolTimeoutError):
                assert not kind.startswith("async")
                continue
            assert isawaitable(value) == (not kind.startswith("plain") or kind.endswith("wait for"))
            if isawaitable(value):
                with suppress(ToolFaultError, ToolTimeoutError):
                    await value

    run(work(), virtual_time=True)


def test_a_synchronous_tool_that_times_out_blocks_its_caller_for_so_long():
    async def work():
        tool = inject_tools([refund], plan_of("tool=refund: tool_timeout 60000"))["refund"]
        with pytest.raises(ToolTimeoutError):
            tool.callable(order_id=7)
        return asyncio.get_running_loop().time()

    assert run(work(), virtual_time=True) == 60.0


def test_a_tool_that_calls_another_is_its_caller_also_if_somebody_waits_for_it():
    faulty = inject_tools([refund], plan_of("tool=refund: tool_timeout 60000"))["refund"]

    def ask() -> str:
        """Ask another tool."""
        try:
            return faulty.callable(order_id=7)
        except ToolTimeoutError:
            return "too late"

    async def work():
        return await texts(inject_tools([ask], FaultPlan()), ToolCall("ask", {}))

    assert run(work(), virtual_time=True) == ["too late"]
