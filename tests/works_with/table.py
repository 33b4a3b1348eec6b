"""Writes `docs/works-with.md` from what was seen: `make works-with`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from offbook.agents.preset import built_in_presets

from .catalog import PROGRAMS, ROOT
from .trial import COLUMNS, RESULTS, is_fine

PAGE = ROOT / "docs/works-with.md"
START, END = "<!-- programs: written by make works-with -->", "<!-- end of programs -->"


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


def cell(text: str) -> str:
    """Return a cell: a failure stands out."""
    return text.replace("|", "\\|") if is_fine(text) else f"**no**: `{text.replace('`', '').replace('|', ' ')}`"


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def with_table(page: str, lines: Iterable[str]) -> str:
    """Return the page with other lines between the marks of its table."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    return "\n".join([f"{before}{START}", "", *lines, "", f"{END}{after}"])


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(), program_lines()))
