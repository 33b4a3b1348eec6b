"""Faults of order: when answers are given, and when a run is cancelled."""

import asyncio
from functools import partial

import pytest

from offbook import InputError, MockProvider, run, tool
from offbook.explore.run import overlaps_of
from offbook.faults import At, FaultInjector, FaultLog, FaultPlan, HeldUntil, inject_tools, parse_fault
from offbook.faults.order import CallOrder
from offbook.wire.options import parse_fault_plan
from tests.fakes import user

MODEL = partial(MockProvider, responses={step: {"content": "one"} for step in "abc"}, strict=True)
LINES = [
    "call=2: held_until call=3",
    "step=a call=1 attempt=1: held_until step=b call=2",
    "tool=search call=1: held_until tool=search call=2",
    "call=1: held_until tool=search call=1",
    "everywhere: held_until",
    "tool=refund call=1: delivered_twice",
    "call=2: cancelled",
    "tool=refund call=1: cancelled after",
]


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_its_own_text(line):
    assert str(parse_fault(line)) == line
    assert list(FaultPlan([parse_fault(line)])) == [parse_fault(line)]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("call=1: delivered_twice", "delivered_twice is a tool fault"),
        ("tool=refund step=a: held_until call=1", "a tool call does not have this"),
        ("call=1: held_until call=-1", "expected"),
        ("call=1: cancelled later", "later"),
    ],
)
def test_a_line_that_cannot_fire_is_refused(line, reason):
    with pytest.raises(InputError, match=reason):
        parse_fault(line)


def test_a_program_cannot_be_cancelled():
    with pytest.raises(InputError, match="only what runs in this process can be cancelled"):
        parse_fault_plan(["call=1: cancelled"])


class Calls:
    """Two models and a tool at once, with the faults of a plan. `ended` lists them in the order of their ends."""

    def __init__(self, *lines):
        plan = FaultPlan([parse_fault(line) for line in lines])
        self.order, self.log, self.ended = CallOrder(), FaultLog(), []
        self.provider = FaultInjector(MODEL(), plan, fault_log=self.log, order=self.order)
        self.tools = inject_tools([search], plan, fault_log=self.log, order=self.order)

    async def ask(self, step, *, then=()):
        await self.provider.complete(user("Hi"), "m", step_id=step)
        self.ended.append(step)
        for each in then:
            await self.ask(each)

    async def stream(self, step):
        async for _ in await self.provider.stream(user("Hi"), "m", step_id=step):
            pass
        self.ended.append(step)

    async def search(self, word):
        await self.tools["search"].callable(word=word)
        self.ended.append(word)

    @property
    def fired(self):
        return [str(line) for line in self.log.fired]


@tool
async def search(word: str) -> str:
    """Search."""
    await asyncio.sleep(len(word))
    return word


def at_once(calls, *work):
    """Do all of it at once, and return the order of the ends and how long it took."""

    async def together():
        await asyncio.gather(*(each() for each in work))
        return calls.ended, asyncio.get_running_loop().time()

    return run(together(), virtual_time=True)


def test_an_answer_is_held_until_another_call_has_ended():
    calls = Calls("step=a call=1: held_until step=c call=1")
    ended, took_s = at_once(calls, *(partial(calls.ask, step) for step in "abc"))
    assert ended == ["b", "c", "a"]
    assert took_s < 0.1
    assert calls.fired == ["step=a call=1 attempt=1: held_until step=c call=1"]


def test_an_answer_is_held_until_a_stream_or_a_tool_has_ended():
    calls = Calls("step=a call=1: held_until step=b call=1", "step=b call=1: held_until tool=search call=1")
    work = [partial(calls.ask, "a"), partial(calls.stream, "b"), partial(calls.search, "xxx")]
    assert at_once(calls, *work)[0] == ["xxx", "b", "a"]
    assert len(calls.fired) == 2


def test_a_result_of_a_tool_is_held_after_the_tool_has_run():
    calls = Calls("tool=search call=1: held_until tool=search call=2")
    assert at_once(calls, partial(calls.search, "x"), partial(calls.search, "xxx"))[0] == ["xxx", "x"]


@pytest.mark.parametrize(
    "lines",
    [
        ["step=a call=1: held_until step=b call=1"],
        ["step=a call=1: held_until step=a call=1"],
        ["step=a call=1: held_until step=never call=7"],
    ],
)
def test_a_hold_that_nothing_can_end_is_given_up_at_once_and_has_not_fired(lines):
    calls = Calls(*lines)
    ended, took_s = at_once(calls, partial(calls.ask, "a", then=["b"]))
    assert ended == ["a", "b"]
    assert calls.fired == []
    assert took_s < 0.1


def test_of_holds_that_wait_for_each_other_one_is_given_up():
    calls = Calls("step=a call=1: held_until step=b call=1", "step=b call=1: held_until step=a call=1")
    ended, took_s = at_once(calls, partial(calls.ask, "a"), partial(calls.ask, "b"))
    assert ended == ["a", "b"]
    assert took_s < 0.1
    assert calls.fired == ["step=b call=1 attempt=1: held_until step=a call=1"]


def test_calls_that_are_held_until_the_run_is_idle_show_which_overlap():
    calls = Calls("everywhere: held_until", "tool=search: held_until")
    at_once(calls, partial(calls.ask, "a", then=["c"]), partial(calls.ask, "b"))
    a, b, c = (At(step_id=step, call=1, attempt=1) for step in "abc")
    assert overlaps_of(calls.order) == ((a, b), (b, c))
    assert calls.ended == ["a", "b", "c"]


def test_a_call_inside_a_tool_does_not_overlap_with_the_tool():
    plan = FaultPlan([At().fail(HeldUntil()), At(tool="outer").fail(HeldUntil())])
    order = CallOrder()
    provider = FaultInjector(MODEL(), plan, order=order)

    @tool
    async def outer() -> str:
        """Ask a model."""
        return (await provider.complete(user("Hi"), "m", step_id="a")).content

    tools = inject_tools([outer], plan, order=order)
    assert run(tools["outer"].callable(), virtual_time=True) == "one"
    assert overlaps_of(order) == ()


def test_a_cancelled_call_cancels_the_task_that_waits_for_it():
    calls = Calls("step=b call=1: cancelled")
    with pytest.raises(asyncio.CancelledError):
        run(calls.ask("a", then=["b", "c"]), virtual_time=True)
    assert calls.ended == ["a"]


def test_a_call_that_is_shielded_goes_on():
    calls = Calls("step=a call=1: cancelled")

    async def shielded():
        task = asyncio.ensure_future(calls.ask("a"))
        with pytest.raises(asyncio.CancelledError):
            await asyncio.shield(task)
        return calls.ended

    assert run(shielded(), virtual_time=True) == []


def test_in_this_process_nothing_is_delivered_twice():
    calls = Calls("tool=search: delivered_twice")
    at_once(calls, partial(calls.search, "x"))
    assert calls.fired == []
    assert [str(line) for line in calls.tools.unfired()] == ["tool=search: delivered_twice"]
