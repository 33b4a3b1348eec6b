"""The tables of what SDKs do about faults: `python -m tests.wire.conformance.table` renews them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from offbook import serving
from offbook.wire.server.wire_server import WireServer
from tests.wire.conformance.answers import ANSWERS
from tests.wire.conformance.observe import ROWS, observe
from tests.wire.conformance.sdks import SDKS, Sdk

PAGE = Path(__file__).parents[3] / "docs" / "wire-faults.md"
RENEWAL = f"{PAGE.name} is out of date: python -m tests.wire.conformance.table renews it"
HEADINGS = {False: "## Whole answers", True: "## Streams"}
FAULT = "fault"


def observed(kind: type[Sdk], server: WireServer, *, is_streamed: bool) -> dict[str, str]:
    """What the SDK does, by the faults as the table names them."""
    with closing(kind()) as sdk:
        return {row.label: observe(sdk, row, server, is_streamed=is_streamed) for row in ROWS}


def shown(*, is_streamed: bool) -> dict[str, dict[str, str]]:
    """The rows of a table of the page by their faults, each cell by the title of its SDK."""
    head, _, *rows = (_cells(line) for line in _section(is_streamed) if line.startswith("|"))
    return {row[0]: dict(zip(head[1:], row[1:], strict=True)) for row in rows}


def _section(is_streamed: bool) -> list[str]:
    text = PAGE.read_text().partition(HEADINGS[is_streamed])[2]
    return text.partition("\n## ")[0].splitlines()


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split(" | ")]


def _table(server: WireServer, *, is_streamed: bool) -> list[str]:
    columns = {sdk.title: observed(sdk, server, is_streamed=is_streamed) for sdk in SDKS}
    rows = [[row.label, *(column[row.label] for column in columns.values())] for row in ROWS]
    return [_line([FAULT, *columns]), _line("---" for _ in range(len(columns) + 1)), *map(_line, rows)]


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _renewed(text: str, heading: str, table: list[str]) -> str:
    """The page with the table under a heading replaced."""
    before, _, section = text.partition(heading)
    section, next_heading, after = section.partition("\n## ")
    prose = [line for line in section.splitlines() if not line.startswith("|")]
    place = next(i for i, line in enumerate(section.splitlines()) if line.startswith("|"))
    return (
        before
        + heading
        + "\n".join([*prose[:place], *table, *prose[place:]])
        + "\n" * bool(after)
        + next_heading
        + after
    )


def renew() -> None:
    """Ask all SDKs, and write what they did into the page."""
    with serving(responses={"plain": ANSWERS["plain"]}, retry_after_ms=1) as server:
        text = PAGE.read_text()
        for is_streamed, heading in HEADINGS.items():
            text = _renewed(text, heading, _table(server, is_streamed=is_streamed))
    PAGE.write_text(text)


if __name__ == "__main__":
    renew()
