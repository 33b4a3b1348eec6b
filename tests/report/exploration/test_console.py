"""Explorations on the console."""

import io

from msgspec.structs import replace
from rich.console import Console

from offbook.explore.explorer import Exploration
from offbook.explore.schedule import Pace
from offbook.report.exploration import exploration_reporter_of, report_exploration
from offbook.report.exploration.console import LiveHeatmap
from offbook.report.exploration.heatmap import HeatmapDrawing
from tests.report.exploration import explorations


def shown(exploration, before=None, **settings):
    out = settings.pop("file", io.StringIO())
    console = Console(file=out, **({"width": 200} | settings))
    reporter = exploration_reporter_of("console", reproduce=explorations.reproduce, before=before, console=console)
    report_exploration(exploration, reporter)
    return out.getvalue() if isinstance(out, io.StringIO) else out.buffer.getvalue().decode(out.encoding)


def test_the_heatmap_is_followed_by_the_totals_and_the_findings():
    lines = [line.rstrip() for line in shown(explorations.naive()).splitlines()]
    assert lines[lines.index("2× repeated effect  ! crashed  ? undecided  ✓ recovered  · not reached") + 2 :] == [
        "6 cases, 3 findings: 1 repeated effect, 2 crashed, 1 undecided, 1 recovered, 1 not reached",
        "",
        "2× repeated effect: refund ran 2 times, usually once",
        "  │ tool=refund call=1: tool_lost",
        "  │ offbook explore refund.py --only 0006",
        "",
        "! crashed: RuntimeError: gave up",
        "  │ 2 cases, the first: step=agent call=1: connection_reset",
        "  │ offbook explore refund.py --only 0003",
        "",
        "if the agent is meant to give up with such an error, declare it: -o declared=RuntimeError",
        "",
        "never seen to run: fallback, breaker open",
    ]


def test_a_different_result_is_shown_beside_the_clean_one_each_difference_once():
    exploration = explorations.sound()
    evidence = [("a different result", f"the result:\n  -order 42\n  +order {number // 2}") for number in range(10)]
    results = [
        explorations.judged(each.case, each.run, "different result", *said)
        for each, said in zip([*exploration.results, *exploration.results], evidence, strict=False)
    ]
    output = shown(replace(exploration, results=tuple(results)))
    first = explorations.cases()[0]
    assert (
        f"different result: {first}\n  │ a different result\n  │ the result:\n  │   -order 42\n  │   +order 0\n"
        in output
    )
    assert output.count("+order") == 3
    assert "… 2 more different results\n" in output


def test_what_a_budget_left_out_and_calls_that_met_no_fault_are_reported():
    exploration = explorations.naive(left=3)
    output = shown(replace(exploration, results=exploration.results[:1]))
    assert (
        "partial: 1 of 4 cases, 0 findings: 1 recovered; the budget left out 3 cases\n"
        "left out: 3 of 9 single faults\nby fault: 3 of timeout\n"
        "not tried at all, because the budget is too small: timeout\nfor the rest: a larger --budget, "
    ) in output
    assert "met no fault: 2 agent, find_order 1, refund 1\n" in output


def test_where_everything_was_met_and_seen_nothing_is_said_of_it():
    exploration = explorations.sound()
    seen = {"retry": 1, "fallback": 1, "breaker open": 1}
    explored = tuple(replace(each, run=replace(each.run, paths=seen)) for each in exploration.results)
    assert shown(replace(exploration, results=explored)).endswith("\n6 cases, 0 findings: 6 recovered\n")


def test_what_differs_from_before_is_reported_the_worse_first():
    output = shown(explorations.naive(), before=explorations.sound())
    assert "compared with before: 3 worse, 2 other changes, 1 the same\n" in output
    assert "  recovered → repeated effect  tool=refund call=1: tool_lost\n  recovered → not reached" in output
    same = shown(explorations.sound(), before=explorations.sound())
    assert "compared with before: 0 worse, 0 other changes, 6 the same\n" in same


def test_a_case_that_only_one_of_them_has_is_reported_as_such():
    before = explorations.with_pair()
    assert "repeated effect → not tried" in shown(explorations.naive(), before=before)
    assert "no such case → repeated effect" in shown(before, before=explorations.naive())


def test_an_exploration_that_was_cut_off_says_so():
    out = io.StringIO()
    reporter = exploration_reporter_of(
        "console", reproduce=explorations.reproduce, console=Console(file=out, width=200)
    )
    reporter.finish(explorations.naive(), is_complete=False)
    assert "\nended early: this report is partial\n" in out.getvalue()


def test_there_are_no_colours_but_on_a_terminal():
    assert "\x1b" not in shown(explorations.naive())
    assert "\x1b[1;31m!" in shown(explorations.naive(), force_terminal=True, color_system="standard")


def test_nothing_said_can_command_a_terminal():
    output = shown(explorations.hostile())
    assert "\x1b" not in output
    assert "\x00" not in output
    assert not [line for line in output.splitlines() if line.startswith(("::", "##["))]


def test_a_console_that_knows_ascii_alone_is_given_that():
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    output = shown(explorations.naive(), file=raw)
    assert "+ recovered" in output
    assert "! crashed: RuntimeError: gave up\n  | 2 cases" in output


def test_many_findings_changes_and_lines_are_cut():
    exploration = explorations.large()
    bad = tuple(
        explorations.judged(each.case, each.run, "undetected", f"reason {place}\n" + "more\n" * 50)
        for place, each in enumerate(exploration.results)
    )
    output = shown(replace(exploration, results=bad), before=exploration)
    assert f"\n… {len(bad) - 20:,} more findings\n" in output
    assert f"\n  … {len(bad) - 20:,} more changes\n" in output
    assert "  │ … 31 more lines\n" in output


def console(**settings):
    return Console(file=io.StringIO(), **({"width": 80, "height": 25} | settings))


def live(on, exploration, cases=None, pace=None):
    """A heatmap to which all of the exploration has been told."""
    heatmap = LiveHeatmap(on, HeatmapDrawing(80), pace or Pace())
    heatmap.begin(Exploration(exploration.subject, exploration.clean), cases or len(exploration.results))
    for each in exploration.results:
        heatmap.on_case(each)
    return heatmap


def rendered(heatmap):
    plain = console(color_system=None)
    plain.print(heatmap)
    return [line.rstrip() for line in plain.file.getvalue().splitlines()]


def test_elsewhere_than_on_a_terminal_there_is_a_line_for_each_tenth_and_the_first_ones_come_early():
    on = console()
    exploration = explorations.large()
    live(on, exploration)
    lines = on.file.getvalue().splitlines()
    count = len(exploration.results)
    tenth = count // 10
    assert 80 < tenth < 160
    ended = [int(line.split()[0].replace(",", "")) for line in lines]
    assert ended == [10, 20, 40, 80, 160, *range(160 + tenth, count + 1, tenth)]
    assert lines[0] == f"10 of {count:,} cases: 10 recovered"


def test_few_cases_have_a_line_for_each_tenth():
    on = console()
    exploration = explorations.large(calls=2)
    live(on, exploration)
    assert 10 <= len(on.file.getvalue().splitlines()) <= 20


def test_cases_beyond_those_that_were_expected_are_counted_too():
    on = console()
    live(on, explorations.naive(), cases=2)
    assert on.file.getvalue().splitlines()[:3] == [
        "1 of 2 cases: 1 recovered",
        "2 cases: 1 recovered, 1 not reached",
        "3 cases: 1 crashed, 1 recovered, 1 not reached",
    ]


def test_a_terminal_shows_the_heatmap_so_far_how_far_it_is_and_the_counts():
    on = console(force_terminal=True)
    pace = Pace()
    pace.clean_s = 10.0
    pace.expect(explorations.cases(), workers=2)
    heatmap = live(on, explorations.naive(), cases=12, pace=pace)
    lines = rendered(heatmap)
    heatmap.stop()
    assert lines[1] == "1 → find_order(42)                 ✓                         !"
    assert lines[-3] == "━" * 15 + " " * 16 + "6 of 12 cases, 3 findings, about 30 s left: 1"
    assert lines[-2].strip() == "repeated effect, 2 crashed, 1 undecided, 1"
    assert lines[-1].strip() == "recovered, 1 not reached"


def test_where_the_terminal_has_too_few_lines_the_counts_are_shown_alone():
    on = console(force_terminal=True, height=6)
    heatmap = live(on, explorations.naive())
    lines = rendered(heatmap)
    heatmap.stop()
    assert len(lines) == 3
    assert "━ 6 cases, 3 findings: 1 repeated" in lines[1]


def test_nothing_explored_yet_can_be_shown():
    heatmap = LiveHeatmap(console(), HeatmapDrawing(80), Pace())
    heatmap.begin(Exploration("x", explorations.CLEAN), 0)
    assert rendered(heatmap)[-1].strip() == "0 cases, 0 findings"
