"""The table of protocols and what can be done with them: `python -m tests.wire.protocols.table` renews it."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from tests.wire.documented_table import DocumentedTable
from tests.wire.protocols.clients import PROTOCOLS
from tests.wire.protocols.observe import COLUMNS, Observed

TABLE = DocumentedTable("wire/protocols.md", "## What works with which protocol", corner="protocol", groups=True)
RENEWAL = "docs/wire/protocols.md is out of date: python -m tests.wire.protocols.table renews it"


def renew() -> None:
    """Observe every protocol, and write what it can do into the page."""
    with TemporaryDirectory() as folder:
        columns: dict[str, dict[str, str]] = {name: {} for name in COLUMNS}
        for number, title in enumerate(PROTOCOLS):
            (Path(folder) / str(number)).mkdir()
            observed = Observed(title, Path(folder) / str(number))
            for name, column in columns.items():
                column[title] = COLUMNS[name](observed)
    TABLE.write(columns)


if __name__ == "__main__":
    renew()
