"""Writes `docs/works-with.md` from what was seen: `make works-with`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from offbook.agents.preset import built_in_presets
from tests.wire.tools_of.table import lines as framework_lines

from .catalog import PROGRAMS, ROOT
from .trial import COLUMNS, RESULTS, WORKS

PAGE = ROOT / "docs/works-with.md"
START, END = "<!-- {}: written by make works-with -->", "<!-- end of {} -->"


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
        cells = [_cell(seen["cells"].get(title, "")) for title in COLUMNS]
        preset = presets[program.name]
        yield _row((preset.title, seen["version"], *cells, preset.needs or "nothing"))


def _cell(text: str) -> str:
    """Return a cell: a failure stands out."""
    is_fine = text == WORKS or not text or text[0].isdigit() or text in ("it retries", "it gives up")
    return text.replace("|", "\\|") if is_fine else f"**no**: `{text.replace('`', '').replace('|', ' ')}`"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, name: str, lines: Iterable[str]) -> str:
    """Return a page with other lines between the marks of a table."""
    start, end = START.format(name), END.format(name)
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return "\n".join([f"{before}{start}", "", *lines, "", f"{end}{after}"])


if __name__ == "__main__":
    page = with_table(PAGE.read_text(), "programs", program_lines())
    if sys.argv[1:]:
        page = with_table(page, "frameworks", framework_lines(Path(sys.argv[1])))
    PAGE.write_text(page)
