"""Writes `docs/works-with.md` from what was seen: `make works-with`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from offbook.presets.preset import built_in_presets

from .catalog import PROGRAMS, ROOT
from .failures import FRAMEWORKS, SEEN, SITUATIONS
from .trial import COLUMNS, RESULTS, is_fine

PAGE = ROOT / "docs/works-with.md"
PROGRAM_ROWS, FAILURE_ROWS = "programs", "failures"
"""The names of the tables, in the marks around them."""


def program_lines() -> Iterator[str]:
    """Yield the lines of the table of programs."""
    presets = built_in_presets()
    titles = ("program", "version", *COLUMNS, "needs")
    yield _row(titles)
    yield "| --- " * len(titles) + "|"
    for program in PROGRAMS:
        file = RESULTS / f"{program.name}.json"
        if not file.exists():
            continue
        seen = json.loads(file.read_text())
        cells = [cell(seen["cells"].get(title, "")) for title in COLUMNS]
        preset = presets[program.name]
        yield _row((preset.title, seen["version"], *cells, preset.needs or "nothing"))


def failure_lines() -> Iterator[str]:
    """Yield the lines of the table of what frameworks do when something breaks."""
    titles = ("framework", "version", *(each.title for each in SITUATIONS), "tried")
    yield _row(titles)
    yield "| --- " * len(titles) + "|"
    for framework in FRAMEWORKS:
        file = SEEN / f"{framework.file_name}.json"
        if not file.exists():
            continue
        seen = json.loads(file.read_text())
        cells = [seen["cells"].get(each.title, f"no: {seen['cells']['works'][:80]}") for each in SITUATIONS]
        yield _row((framework.title, seen["version"], *cells, seen["day"]))


def cell(text: str) -> str:
    """Return a cell: a failure stands out."""
    return text.replace("|", "\\|") if is_fine(text) else f"**no**: `{text.replace('`', '').replace('|', ' ')}`"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, name: str, lines: Iterable[str]) -> str:
    """Return the page with other lines between the marks of a table."""
    start, end = f"<!-- {name}: written by make works-with -->", f"<!-- end of {name} -->"
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return "\n".join([f"{before}{start}", "", *lines, "", f"{end}{after}"])


if __name__ == "__main__":
    text = PAGE.read_text()
    for name, lines in ((PROGRAM_ROWS, program_lines()), (FAILURE_ROWS, failure_lines())):
        text = with_table(text, name, lines)
    PAGE.write_text(text)
