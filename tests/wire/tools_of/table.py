"""Prints what works with which framework, as Markdown: `make works-with`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

from .catalog import FRAMEWORKS

COLUMNS = {
    "recorded": "test_each_call_is_recorded_once",
    "replayed": "test_a_replay_says_the_same_and_runs_no_tool",
    "broken": "test_each_fault_of_a_tool_fires",
    "explored": "test_an_exploration_fires_each_fault_at_each_tool_and_runs_none",
}
"""The test that says it, by the title of a column."""


def lines(results: Path) -> Iterator[str]:
    """Yield the lines of the table, by the results of the tests in the form of JUnit."""
    yield "| framework | package | version tested | " + " | ".join(COLUMNS) + " |"
    yield "| --- " * (3 + len(COLUMNS)) + "|"
    passed: dict[tuple[str, str], bool] = {}
    for case in ET.parse(results).iter("testcase"):
        test, _, parameters = case.attrib["name"].partition("[")
        place = (test, parameters.partition("]")[0].partition("@")[0].partition("-")[0])
        passed[place] = passed.get(place, True) and len(case) == 0
    for each in FRAMEWORKS:
        cells = ["yes" if passed.get((test, each.name)) else "no" for test in COLUMNS.values()]
        yield f"| {each.title} | {each.package} | {each.version} | {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in lines(Path(sys.argv[1])))
