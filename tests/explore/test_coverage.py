"""What an exploration has tried."""

from offbook.explore.case import Case, Cell
from offbook.explore.coverage import coverage_of
from offbook.explore.exploration import Exploration, Explored
from offbook.explore.verdict import Judged
from offbook.faults import parse_fault
from tests.explore.runs import clean_run, model_call, struck_run

LINE = (parse_fault("call=1: connection_reset"),)


def explored(row, column, verdict="recovered", **paths):
    run = struck_run(paths={name.replace("_", " "): count for name, count in paths.items()})
    return Explored(Case("0001", LINE, (Cell(row, column),)), run, Judged(verdict))


def test_it_is_told_which_calls_met_which_faults_and_which_paths_were_taken():
    clean = clean_run(calls=(model_call(1), model_call(2), model_call(3)))
    cases = (
        explored("1", "timeout", retry=2),
        explored("1", "connection_reset", retry=1, breaker_open=1),
        explored("2", "timeout", "not struck"),
        explored("1 try 2", "timeout"),
    )
    coverage = coverage_of(Exploration("it", clean, cases))
    assert coverage.met == {"1": ["timeout", "connection_reset"], "1 try 2": ["timeout"]}
    assert coverage.missed == ["2", "3"]
    assert coverage.paths == {"breaker open": 1, "retry": 3}
    assert coverage.never_ran == ["fallback"]
