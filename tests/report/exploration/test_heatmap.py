"""Calls by faults."""

from msgspec.structs import replace

from offbook.explore.case import Cell
from offbook.report.exploration.heatmap import heatmap_of
from tests.report.exploration import explorations


def verdicts(heatmap):
    return {row.name: [cell and cell.verdict for cell in row.cells] for row in heatmap.rows}


def test_rows_are_calls_and_columns_faults():
    heatmap = heatmap_of(explorations.naive())
    assert heatmap.columns == ("connection_reset", "connection_reset, always", "tool_lost")
    assert verdicts(heatmap) == {
        "1 agent": ["recovered", "crashed", None],
        "2 agent": ["not struck", "crashed", None],
        "find_order 1": [None, None, "diverged"],
        "refund 1": [None, None, "repeated side effect"],
    }


def test_cases_of_several_faults_stand_beside_it():
    heatmap = heatmap_of(explorations.with_pair())
    assert [each.case.id for each in heatmap.beside] == ["0007"]
    assert verdicts(heatmap) == verdicts(heatmap_of(explorations.naive()))


def test_a_band_has_its_columns_and_the_rows_that_were_explored_there():
    band = heatmap_of(explorations.naive()).band([2])
    assert band.columns == ("tool_lost",)
    assert verdicts(band) == {"find_order 1": ["diverged"], "refund 1": ["repeated side effect"]}


def test_equivalent_cells_show_the_same_case_and_a_call_the_clean_run_did_not_make_has_a_row():
    exploration = explorations.naive()
    first = exploration.explored[0]
    case = replace(first.case, cells=(*first.case.cells, Cell("elsewhere", "connection_reset")))
    heatmap = heatmap_of(replace(exploration, explored=(replace(first, case=case), *exploration.explored[1:])))
    assert verdicts(heatmap)["elsewhere"] == ["recovered", None, None]


def test_an_exploration_of_nothing_has_rows_and_no_columns():
    heatmap = heatmap_of(replace(explorations.naive(), explored=()))
    assert heatmap.columns == ()
    assert len(heatmap.rows) == 4
