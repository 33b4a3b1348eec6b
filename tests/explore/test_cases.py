"""Which cases there are, and in which order: faults at sites, pairs, and other orders of calls that overlap."""

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import explore_function, tool
from offbook.explore.cases import HeatmapCell, cases_of, chosen_case, minimise, order_cases
from offbook.explore.options import select_variants
from offbook.explore.run import ModelCall, Run, sites_of
from offbook.faults import At, parse_fault
from tests.explore.runs import clean_run, model_call, streamed, tool_run

TWO = sites_of(clean_run(calls=(model_call(1), model_call(2, has_tools=True)), tools=(tool_run(),)))


def lines_of(cases):
    return [str(case) for case in cases]


def test_each_fault_goes_round_all_sites_once_and_then_lasts():
    assert lines_of(cases_of(TWO, select_variants("connection_reset,tool_lost,http_error 401"))) == [
        "call=1 attempt=1: connection_reset",
        "call=2 attempt=1: connection_reset",
        "call=1: connection_reset",
        "call=2: connection_reset",
        "call=1 attempt=1: http_error 401",
        "call=2 attempt=1: http_error 401",
        "call=1: http_error 401",
        "call=2: http_error 401",
        "tool=refund call=1: tool_lost",
        "tool=refund: tool_lost",
    ]


def test_a_case_that_no_variant_makes_is_in_the_heatmap_too():
    clean = clean_run(calls=(model_call(1), model_call(2)), tools=(tool_run(),))
    lines = [parse_fault(line) for line in ("call=2 attempt=3: http_error 418", "tool=refund: tool_lost")]
    case = chosen_case(lines, clean)
    assert case.cells == (HeatmapCell("2", "http_error 418"), HeatmapCell("refund 1", "tool_lost"))
    assert chosen_case([parse_fault("call=9: timeout")], clean).cells == ()


SPREAD = ("503", "403", "503 headers.retry-after=3", "422")
MANY = sites_of(clean_run(calls=tuple(model_call(number) for number in range(1, 7)), tools=(tool_run(),)))


def test_some_statuses_take_turns_at_the_calls_unless_they_are_named():
    spread = {f"call={call}: http_error {SPREAD[(call - 1) % 4]}" for call in range(1, 7)}
    assert {each for each in lines_of(cases_of(MANY, select_variants("all"))) if each.endswith(SPREAD)} == {
        *spread,
        *(line.replace(":", " attempt=1:") for line in spread),
    }
    for names in ("http_error", "all,http_error"):
        named = lines_of(cases_of(MANY, select_variants(names)))
        assert {f"call={call}: http_error {status}" for call in range(1, 7) for status in SPREAD} <= set(named)


def test_an_answer_that_arrives_lasts_from_its_call_on():
    sites = sites_of(clean_run(calls=(model_call(1), model_call(2, step_id="a", step_call=1))))
    assert lines_of(cases_of(sites, select_variants("empty_response"))) == [
        "call=1 attempt=1: empty_response",
        "step=a call=1 attempt=1: empty_response",
        "since=1: empty_response",
        "step=a since=1: empty_response",
    ]


def test_a_fault_of_a_tool_that_lasts_is_one_case_for_all_its_calls():
    sites = sites_of(clean_run(calls=(), tools=(tool_run(), tool_run(call=2), tool_run("find"))))
    cases = cases_of(sites, select_variants("tool_error"))
    assert lines_of(cases)[3:] == ["tool=refund: tool_error", "tool=find: tool_error"]
    assert cases[3].cells == tuple(HeatmapCell(row, "tool_error, always") for row in ("refund 1", "refund 2"))


def test_some_faults_are_tried_only_as_faults_that_last():
    assert lines_of(cases_of(TWO, select_variants("one_more_tool"))) == ["since=2: one_more_tool"]


def test_faults_that_change_tool_calls_need_an_answer_that_asks_for_tools():
    calls = (model_call(1, has_tools=True, asks_for=(("refund", {}),)), model_call(2, has_tools=True))
    sites = sites_of(clean_run(calls=calls))
    assert lines_of(cases_of(sites, select_variants("wrong_types"))) == ["call=1 attempt=1: wrong_types"]


def test_each_of_several_parallel_tool_calls_is_struck_on_its_own():
    asked = (("find", {"city": "Oslo"}), ("find", {"city": "Bonn"}))
    sites = sites_of(clean_run(calls=(model_call(1, has_tools=True, asks_for=asked),)))
    cases = cases_of(sites, select_variants("unknown_tool,wrong_types"))
    assert lines_of(cases) == [
        "call=1 attempt=1: unknown_tool",
        "call=1 attempt=1: unknown_tool 1",
        "call=1 attempt=1: unknown_tool 2",
        "call=1 attempt=1: wrong_types",
        "call=1 attempt=1: wrong_types 1",
        "call=1 attempt=1: wrong_types 2",
    ]
    assert cases[2].cells == (HeatmapCell("1", "unknown_tool 2"),)


def test_cases_are_numbered_and_know_their_cells():
    first, _, third, _ = cases_of(TWO, select_variants("connection_reset"))
    assert first.id == "0001"
    assert first.cells == (HeatmapCell("1", "connection_reset"),)
    assert third.id == "0003"
    assert third.cells == (HeatmapCell("1", "connection_reset, always"),)
    assert str(first.plan) == str(first)


def test_a_later_try_of_a_call_does_not_fail_for_ever():
    sites = sites_of(clean_run(calls=(model_call(1, outcome="failed"), model_call(1, attempt=2))))
    assert lines_of(cases_of(sites, select_variants("connection_reset"))) == [
        "call=1 attempt=1: connection_reset",
        "call=1 attempt=2: connection_reset",
        "call=1: connection_reset",
    ]


def test_faults_of_tools_that_models_ask_for_need_a_call_that_has_tools():
    assert lines_of(cases_of(TWO, select_variants("unknown_tool"))) == ["call=2 attempt=1: unknown_tool"]


def test_faults_of_streams_fire_at_each_position_in_a_stream():
    sites = sites_of(clean_run(calls=(streamed("text", "text"), model_call(2))))
    cases = cases_of(sites, select_variants("stream_stall"))
    assert lines_of(cases) == [f"call=1 attempt=1 chunk={place}: stream_stall" for place in (0, 1, 2)]
    assert [cell.column for case in cases for cell in case.cells] == [
        "stream_stall, start",
        "stream_stall, text",
        "stream_stall, end",
    ]


def test_cases_that_would_do_the_same_are_one():
    sites = sites_of(clean_run(calls=(model_call(1), model_call(1))))
    case, _ = cases_of(sites, select_variants("http_error 401"))
    assert case.cells == (HeatmapCell("1", "http_error 401"), HeatmapCell("1", "http_error 401"))


LINES = [parse_fault(f"call={number}: connection_reset") for number in range(1, 7)]


@given(st.sets(st.sampled_from(range(6)), min_size=1))
def test_only_the_lines_that_are_needed_are_left(needed):
    wanted = [LINES[place] for place in sorted(needed)]
    assert list(minimise(LINES, lambda lines: set(map(str, wanted)) <= set(map(str, lines)))) == wanted


def test_a_single_line_is_not_tried_without():
    tried = []
    assert minimise(LINES[:1], lambda lines: bool(tried.append(lines))) == (LINES[0],)
    assert tried == []


def test_one_line_is_left_of_a_plan_that_always_fails():
    assert len(minimise(LINES, lambda _: True)) == 1


STEPS = "abcdefg"


def run_of(count, **fields):
    calls = [ModelCall(number=number, step_id=step, step_call=1) for number, step in enumerate(STEPS[:count], 1)]
    return Run(calls=tuple(calls), **fields)


def orders_of(count, **fields):
    places = [At(step_id=step, call=1, attempt=1) for step in STEPS[:count]]
    return order_cases(run_of(count, **fields), [places], first_number=8)


def test_two_calls_can_end_in_one_other_order():
    (case,) = orders_of(2).cases
    assert case.id == "0008"
    assert str(case) == "step=a call=1 attempt=1: held_until step=b call=1"
    assert [(cell.row, cell.column) for cell in case.cells] == [("1 a", "held_until, 2-1")]


def test_of_a_program_the_usual_order_is_tried_too():
    columns = [case.cells[0].column for case in orders_of(2, is_program=True).cases]
    assert columns == ["held_until, 1-2", "held_until, 2-1"]


@pytest.mark.parametrize(("count", "cases", "left"), [(1, 0, 0), (3, 5, 0), (4, 23, 0), (5, 5, 114), (7, 7, 5032)])
def test_few_orders_are_all_tried_and_of_many_those_of_neighbours_and_the_reverse(count, cases, left):
    orders = orders_of(count)
    assert len(orders.cases) == cases
    assert orders.left == left
    assert len({case.cells[0].column for case in orders.cases}) == cases


def recording(folder, steps):
    path = folder / "recording.json"
    path.write_text(json.dumps({"_version": 2, **{step: [{"content": step}] for step in steps}}))
    return path


async def ask(offbook, step):
    return (await offbook.gateway.complete([{"role": "user", "content": step}], "m", step_id=step)).content


def explored_orders(agent, path, faults="held_until"):
    exploration = explore_function(agent, path, faults=faults, workers=1)
    return exploration, [(each.case.cells[0].column, each.verdict) for each in exploration.results]


def test_every_order_happens_as_its_column_says(tmp_path):
    async def agent(offbook):
        ended = []

        async def note(step):
            ended.append(await ask(offbook, step))

        await asyncio.gather(*(note(step) for step in "abcd"))
        return "".join(ended)

    exploration, _ = explored_orders(agent, recording(tmp_path, "abcd"))
    assert len(exploration.results) == 23
    for each in exploration.results:
        column = each.case.cells[0].column.removeprefix("held_until, ")
        assert each.run.result == "".join("abcd"[int(place) - 1] for place in column.split("-"))
        assert each.verdict == "different result"


def test_calls_that_follow_each_other_have_no_other_order(tmp_path):
    async def agent(offbook):
        return [await ask(offbook, step) for step in "abc"]

    assert explored_orders(agent, recording(tmp_path, "abc"))[1] == []


def test_two_chains_overlap_step_by_step(tmp_path):
    async def chain(offbook, steps):
        return [await ask(offbook, step) for step in steps]

    async def agent(offbook):
        return await asyncio.gather(chain(offbook, "ab"), chain(offbook, "cd"))

    exploration, verdicts = explored_orders(agent, recording(tmp_path, "abcd"))
    assert verdicts == [("held_until, 2-1", "recovered")] * 3
    lines = [str(each.case) for each in exploration.results]
    assert lines[0] == "step=a call=1 attempt=1: held_until step=c call=1"


def test_the_orders_that_are_left_out_are_counted(tmp_path):
    async def agent(offbook):
        return await asyncio.gather(*(ask(offbook, step) for step in "abcde"))

    exploration, verdicts = explored_orders(agent, recording(tmp_path, "abcde"))
    assert exploration.left_orders == 114
    assert {verdict for _, verdict in verdicts} == {"recovered"}


def test_an_agent_that_takes_the_first_answer_has_not_gone_on_without_the_other(tmp_path):
    async def agent(offbook):
        tasks = [asyncio.ensure_future(ask(offbook, step)) for step in "ab"]
        _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for each in pending:
            each.cancel()
        return "answered"

    assert {verdict for _, verdict in explored_orders(agent, recording(tmp_path, "ab"))[1]} <= {"recovered"}


@tool(side_effect=True)
async def refund(order: int) -> str:
    """Pay an order back."""
    return "paid"


def test_a_run_that_is_cancelled_may_end_so(tmp_path):
    async def agent(offbook):
        await ask(offbook, "a")
        return await offbook.tools(refund)["refund"].callable(order=42)

    _, verdicts = explored_orders(agent, recording(tmp_path, "a"), faults="cancelled")
    assert verdicts == [("cancelled", "failed cleanly")] * 2 + [("cancelled after", "failed partway")]


def test_a_run_that_retries_what_was_cancelled_repeats_it(tmp_path):
    async def agent(offbook):
        await ask(offbook, "a")
        pay = offbook.tools(refund)["refund"].callable
        try:
            return await pay(order=42)
        except asyncio.CancelledError:
            return await pay(order=42)

    _, verdicts = explored_orders(agent, recording(tmp_path, "a"), faults="orders")
    assert ("cancelled after", "repeated effect") in verdicts
