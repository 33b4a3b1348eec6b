"""The tables of what the SDKs for Node do about faults: `python -m tests.wire.node.table` renews them."""

from __future__ import annotations

from offbook import serving
from tests.wire.conformance.answers import ANSWERS
from tests.wire.documented_table import DocumentedTable
from tests.wire.node.driver import Driver
from tests.wire.node.observe import Columns, observe

PAGE = "wire-node.md"
RENEWAL = f"{PAGE} is out of date: python -m tests.wire.node.table renews it"
WHOLE = DocumentedTable(PAGE, "## Whole answers", groups=True)
TABLES = {False: WHOLE, True: DocumentedTable(PAGE, "## Streams", groups=True, like=WHOLE.heading)}


def observed(driver: Driver) -> dict[bool, Columns]:
    """The cells of the tables as they should be."""
    with serving(responses={"plain": ANSWERS["plain"]}, retry_after_ms=1) as server:
        return observe(driver, server)


def renew() -> None:
    """Ask all SDKs, and write what they did into the page."""
    with Driver() as driver:
        for is_streamed, columns in observed(driver).items():
            TABLES[is_streamed].write(columns)


if __name__ == "__main__":
    renew()
