"""Calls by faults."""

from msgspec.structs import replace

from offbook.explore.cases import HeatmapCell
from offbook.report.exploration.heatmap import HeatmapDrawing, heatmap_of, row_labels
from tests.report.exploration import explorations


def verdicts(heatmap):
    return {row.name: [cell and cell.verdict for cell in row.cells] for row in heatmap.rows}


def test_rows_are_calls_and_columns_faults():
    heatmap = heatmap_of(explorations.naive())
    assert heatmap.columns == ("connection_reset", "connection_reset, always", "tool_lost")
    assert verdicts(heatmap) == {
        "1 agent": ["recovered", "crashed", None],
        "2 agent": ["not reached", "crashed", None],
        "find_order 1": [None, None, "undecided"],
        "refund 1": [None, None, "repeated effect"],
    }


def test_cases_of_several_faults_have_no_cell():
    assert verdicts(heatmap_of(explorations.with_pair())) == verdicts(heatmap_of(explorations.naive()))


def test_a_band_has_its_columns_and_the_rows_that_were_explored_there():
    band = heatmap_of(explorations.naive()).band([2])
    assert band.columns == ("tool_lost",)
    assert verdicts(band) == {"find_order 1": ["undecided"], "refund 1": ["repeated effect"]}


def test_equivalent_cells_show_the_same_case_and_a_call_the_clean_run_did_not_make_has_a_row():
    exploration = explorations.naive()
    first = exploration.results[0]
    case = replace(first.case, cells=(*first.case.cells, HeatmapCell("elsewhere", "connection_reset")))
    heatmap = heatmap_of(replace(exploration, results=(replace(first, case=case), *exploration.results[1:])))
    assert verdicts(heatmap)["elsewhere"] == ["recovered", None, None]


def test_an_exploration_of_nothing_has_rows_and_no_columns():
    heatmap = heatmap_of(replace(explorations.naive(), results=()))
    assert heatmap.columns == ()
    assert len(heatmap.rows) == 4


def drawn(exploration, width=80, **settings):
    return [line.plain.rstrip() for line in HeatmapDrawing(width, **settings).heatmap(heatmap_of(exploration))]


def test_columns_have_their_names_where_there_is_room():
    assert drawn(explorations.naive()) == [
        "                    connection_reset  connection_reset, always  tool_lost",
        "1 → find_order(42)                 ✓                         !",
        "2 → refund(42)                     ·                         !",
        "find_order(42)                                                          ?",
        "refund(42)                                                             2×",
    ]


def test_columns_have_numbers_where_there_is_none_and_bands_where_even_those_are_too_wide():
    assert drawn(explorations.naive(), width=40) == [
        "                    1  2  3",
        "1 → find_order(42)  ✓  !",
        "2 → refund(42)      ·  !",
        "find_order(42)            ?",
        "refund(42)               2×",
        "",
        "1 connection_reset",
        "2 connection_reset, always",
        "3 tool_lost",
    ]
    assert drawn(explorations.naive(), width=23) == [
        "                    1",
        "1 → find_order(42)  ✓",
        "2 → refund(42)      ·",
        "",
        "                    2",
        "1 → find_order(42)  !",
        "2 → refund(42)      !",
        "",
        "                    3",
        "find_order(42)      ?",
        "refund(42)         2×",
        "",
        "1 connection_reset",
        "2 connection_reset, always",
        "3 tool_lost",
    ]


def test_every_line_fits_into_eighty_columns():
    lines = drawn(explorations.large())
    assert max(map(len, lines)) <= 80
    assert any(line.startswith(" 1 connection_reset  ") for line in lines)


def test_of_very_many_calls_those_with_findings_are_drawn():
    lines = drawn(explorations.large(calls=200))
    assert [line for line in lines if line.startswith("200 → ")]
    assert not [line for line in lines if line.startswith("1 → ")]
    assert lines[-1] == "and 199 further calls without a finding, or too many to show"


def test_ascii_has_signs_of_its_own():
    lines = drawn(explorations.naive(), is_ascii=True)
    assert all(line.isascii() for line in lines)
    assert lines[1].startswith("1 > find_order(42) ")


def test_the_signs_that_are_there_are_explained():
    signs = HeatmapDrawing(80).legend(explorations.naive().results)
    assert signs.plain == "2× repeated effect  ! crashed  ? undecided  ✓ recovered  · not reached"


def test_names_can_command_nothing():
    text = "\n".join(drawn(explorations.hostile(), width=200))
    assert "\x1b" not in text
    assert "##[" not in text


def test_nothing_explored_is_drawn_as_the_calls_alone():
    lines = ["", "1 → find_order(42)", "2 → refund(42)", "find_order(42)", "refund(42)"]
    assert drawn(replace(explorations.naive(), results=())) == lines


def test_rows_are_called_by_what_their_calls_ask_for():
    exploration = explorations.naive()
    assert row_labels(exploration) == {
        "1 agent": "1 → find_order(42)",
        "2 agent": "2 → refund(42)",
        "find_order 1": "find_order(42)",
        "refund 1": "refund(42)",
    }
    first, second = exploration.clean.calls
    other = replace(second, step_id="closing", attempt=2, asks_for=())
    refund = exploration.clean.tools[1]
    clean = replace(exploration.clean, calls=(first, other), tools=(refund, replace(refund, call=2)))
    labels = row_labels(replace(exploration, clean=clean))
    assert labels["1 agent"] == "1 agent → find_order(42)"
    assert labels["2 closing try 2"] == "2 closing → answer, try 2"
    assert labels["refund 1"] == "refund(42), call 1"
    assert labels["refund 2"] == "refund(42), call 2"
