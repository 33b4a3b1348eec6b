"""The tables of what SDKs do about faults: `python -m tests.wire.conformance.table` renews them."""

from __future__ import annotations

from contextlib import closing

from offbook import serving
from offbook.wire.server.wire_server import WireServer
from tests.wire.conformance.answers import ANSWERS
from tests.wire.conformance.observe import ROWS, observe
from tests.wire.conformance.sdks import SDKS, Sdk
from tests.wire.documented_table import DocumentedTable

PAGE = "wire-faults.md"
RENEWAL = f"{PAGE} is out of date: python -m tests.wire.conformance.table renews it"
WHOLE = DocumentedTable(PAGE, "## Whole answers", groups=True)
TABLES = {False: WHOLE, True: DocumentedTable(PAGE, "## Streams", groups=True, like=WHOLE.heading)}


def observed(kind: type[Sdk], server: WireServer, *, is_streamed: bool) -> dict[str, str]:
    """What the SDK does, by the faults as the table names them."""
    with closing(kind()) as sdk:
        return {row.label: observe(sdk, row, server, is_streamed=is_streamed) for row in ROWS}


def renew() -> None:
    """Ask all SDKs, and write what they did into the page."""
    with serving(responses={"plain": ANSWERS["plain"]}, retry_after_ms=1) as server:
        for is_streamed, table in TABLES.items():
            table.write({sdk.title: observed(sdk, server, is_streamed=is_streamed) for sdk in SDKS})


if __name__ == "__main__":
    renew()
