"""Orders in which calls that overlap can end, as cases."""

import asyncio
import json

import pytest

from offbook import explore_function, tool
from offbook.explore.orders import order_cases
from offbook.explore.run import ModelCall, Run
from offbook.faults import At

STEPS = "abcdefg"


def run_of(count, **fields):
    calls = [ModelCall(number=number, step_id=step, step_call=1) for number, step in enumerate(STEPS[:count], 1)]
    return Run(calls=tuple(calls), **fields)


def cases_of(count, **fields):
    places = [At(step_id=step, call=1, attempt=1) for step in STEPS[:count]]
    return order_cases(run_of(count, **fields), [places], first_number=8)


def test_two_calls_can_end_in_one_other_order():
    (case,) = cases_of(2).cases
    assert (case.id, str(case)) == ("0008", "step=a call=1 attempt=1: held_until step=b call=1")
    assert [(cell.row, cell.column) for cell in case.cells] == [("1 a", "held_until, 2-1")]


def test_of_a_program_the_usual_order_is_tried_too():
    columns = [case.cells[0].column for case in cases_of(2, is_program=True).cases]
    assert columns == ["held_until, 1-2", "held_until, 2-1"]


@pytest.mark.parametrize(("count", "cases", "left"), [(1, 0, 0), (3, 5, 0), (4, 23, 0), (5, 5, 114), (7, 7, 5032)])
def test_few_orders_are_all_tried_and_of_many_those_of_neighbours_and_the_reverse(count, cases, left):
    orders = cases_of(count)
    assert (len(orders.cases), orders.left) == (cases, left)
    assert len({case.cells[0].column for case in orders.cases}) == cases


def recording(folder, steps):
    path = folder / "recording.json"
    path.write_text(json.dumps({"_version": 2, **{step: [{"content": step}] for step in steps}}))
    return path


async def ask(offbook, step):
    return (await offbook.gateway.complete([{"role": "user", "content": step}], "m", step_id=step)).content


def orders_of(agent, path, faults="held_until"):
    exploration = explore_function(agent, path, faults=faults, workers=1)
    return exploration, [(each.case.cells[0].column, each.verdict) for each in exploration.results]


def test_every_order_happens_as_its_column_says(tmp_path):
    async def agent(offbook):
        ended = []

        async def note(step):
            ended.append(await ask(offbook, step))

        await asyncio.gather(*(note(step) for step in "abcd"))
        return "".join(ended)

    exploration, _ = orders_of(agent, recording(tmp_path, "abcd"))
    assert len(exploration.results) == 23
    for each in exploration.results:
        column = each.case.cells[0].column.removeprefix("held_until, ")
        assert each.run.result == "".join("abcd"[int(place) - 1] for place in column.split("-"))
        assert each.verdict == "different result"


def test_calls_that_follow_each_other_have_no_other_order(tmp_path):
    async def agent(offbook):
        return [await ask(offbook, step) for step in "abc"]

    assert orders_of(agent, recording(tmp_path, "abc"))[1] == []


def test_two_chains_overlap_step_by_step(tmp_path):
    async def chain(offbook, steps):
        return [await ask(offbook, step) for step in steps]

    async def agent(offbook):
        return await asyncio.gather(chain(offbook, "ab"), chain(offbook, "cd"))

    exploration, verdicts = orders_of(agent, recording(tmp_path, "abcd"))
    assert verdicts == [("held_until, 2-1", "recovered")] * 3
    lines = [str(each.case) for each in exploration.results]
    assert lines[0] == "step=a call=1 attempt=1: held_until step=c call=1"


def test_the_orders_that_are_left_out_are_counted(tmp_path):
    async def agent(offbook):
        return await asyncio.gather(*(ask(offbook, step) for step in "abcde"))

    exploration, verdicts = orders_of(agent, recording(tmp_path, "abcde"))
    assert exploration.left_orders == 114
    assert {verdict for _, verdict in verdicts} == {"recovered"}


def test_an_agent_that_takes_the_first_answer_has_not_gone_on_without_the_other(tmp_path):
    async def agent(offbook):
        tasks = [asyncio.ensure_future(ask(offbook, step)) for step in "ab"]
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        return "answered"

    assert {verdict for _, verdict in orders_of(agent, recording(tmp_path, "ab"))[1]} <= {"recovered"}


@tool(side_effect=True)
async def refund(order: int) -> str:
    """Pay an order back."""
    return "paid"


def test_a_run_that_is_cancelled_may_end_so(tmp_path):
    async def agent(offbook):
        await ask(offbook, "a")
        return await offbook.tools(refund)["refund"].callable(order=42)

    _, verdicts = orders_of(agent, recording(tmp_path, "a"), faults="cancelled")
    assert verdicts == [("cancelled", "failed cleanly")] * 2 + [("cancelled after", "failed partway")]


def test_a_run_that_retries_what_was_cancelled_repeats_it(tmp_path):
    async def agent(offbook):
        await ask(offbook, "a")
        pay = offbook.tools(refund)["refund"].callable
        try:
            return await pay(order=42)
        except asyncio.CancelledError:
            return await pay(order=42)

    _, verdicts = orders_of(agent, recording(tmp_path, "a"), faults="orders")
    assert ("cancelled after", "repeated side effect") in verdicts
