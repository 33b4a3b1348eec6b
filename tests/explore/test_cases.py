"""Which cases there are, and in which order."""

from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.cases import FaultCase, HeatmapCell, cases_of, minimise, pairs_of
from offbook.explore.options import select_variants
from offbook.explore.run import sites_of
from offbook.faults import parse_fault
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


def test_cases_are_numbered_and_know_their_cells():
    first, _, third, _ = cases_of(TWO, select_variants("connection_reset"))
    assert (first.id, first.cells) == ("0001", (HeatmapCell("1", "connection_reset"),))
    assert (third.id, third.cells) == ("0003", (HeatmapCell("1", "connection_reset, always"),))
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


def test_a_pair_has_a_second_fault_at_another_site():
    first = FaultCase("0001", (parse_fault("call=1 attempt=1: connection_reset"),), ())
    pairs = list(pairs_of(first, TWO, select_variants("timeout,tool_lost")))
    assert ["; ".join(map(str, lines)) for lines, _ in pairs] == [
        "call=1 attempt=1: connection_reset; call=2 attempt=1: timeout 60000",
        "call=1 attempt=1: connection_reset; tool=refund call=1: tool_lost",
    ]
    assert [row for _, row in pairs] == ["2", "refund 1"]


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
