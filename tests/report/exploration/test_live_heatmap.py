"""Heatmaps that fill."""

import io

from rich.console import Console

from offbook.explore.exploration import Exploration
from offbook.report.exploration.drawing import Drawing
from offbook.report.exploration.live_heatmap import LiveHeatmap
from tests.report.exploration import explorations


def console(**settings):
    return Console(file=io.StringIO(), **({"width": 80, "height": 25} | settings))


def live(on, exploration, cases=None):
    """A heatmap to which all of the exploration has been told."""
    heatmap = LiveHeatmap(on, Drawing(80))
    heatmap.begin(Exploration(exploration.subject, exploration.clean), cases or len(exploration.explored))
    for each in exploration.explored:
        heatmap.told(each)
    return heatmap


def rendered(heatmap):
    plain = console(color_system=None)
    plain.print(heatmap)
    return [line.rstrip() for line in plain.file.getvalue().splitlines()]


def test_elsewhere_than_on_a_terminal_there_is_a_line_for_each_tenth():
    on = console()
    exploration = explorations.large()
    live(on, exploration)
    lines = on.file.getvalue().splitlines()
    count = len(exploration.explored)
    assert 10 <= len(lines) <= 11
    assert lines[0] == f"{count // 10} of {count} cases: {count // 10} recovered"


def test_cases_beyond_those_that_were_expected_are_counted_too():
    on = console()
    live(on, explorations.naive(), cases=2)
    assert on.file.getvalue().splitlines()[:3] == [
        "1 of 2 cases: 1 recovered",
        "2 cases: 1 recovered, 1 not struck",
        "3 cases: 1 crashed, 1 recovered, 1 not struck",
    ]


def test_a_terminal_shows_the_heatmap_so_far_how_far_it_is_and_the_counts():
    on = console(force_terminal=True)
    heatmap = live(on, explorations.naive(), cases=12)
    lines = rendered(heatmap)
    heatmap.stop()
    assert lines[1] == "1 agent                      ✓                         !"
    assert lines[-2] == "━" * 15 + " " * 16 + "6 of 12 cases: 1 repeated side effect, 2 crashed,"
    assert lines[-1].strip() == "1 diverged, 1 recovered, 1 not struck"


def test_where_the_terminal_has_too_few_lines_the_counts_are_shown_alone():
    on = console(force_terminal=True, height=6)
    heatmap = live(on, explorations.naive())
    lines = rendered(heatmap)
    heatmap.stop()
    assert len(lines) == 3
    assert "━ 6 cases: 1 repeated side effect" in lines[1]


def test_nothing_explored_yet_can_be_shown():
    heatmap = LiveHeatmap(console(), Drawing(80))
    heatmap.begin(Exploration("x", explorations.CLEAN), 0)
    assert rendered(heatmap)[-1].strip() == "0 cases"
