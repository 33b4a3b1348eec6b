"""The tables of what frameworks do about faults: `python -m tests.wire.frameworks.table` renews them."""

from __future__ import annotations

import asyncio

from offbook import serving
from tests.wire.documented_table import DocumentedTable
from tests.wire.frameworks.catalog import AGENTS_SDK, LANGCHAIN, LITELLM, PYDANTIC_AI, Framework
from tests.wire.frameworks.observe import observe
from tests.wire.frameworks.scripts import SCRIPTS

PAGE = "wire-frameworks.md"
RENEWAL = f"{PAGE} is out of date: python -m tests.wire.frameworks.table renews it"
SHOWN = (PYDANTIC_AI, LANGCHAIN, AGENTS_SDK, LITELLM)


def table_of(framework: Framework) -> DocumentedTable:
    """The framework's place in the page."""
    return DocumentedTable(PAGE, f"## {framework.name}", groups=True, variants=("", ", streamed"))


async def observed(framework: Framework) -> dict[str, dict[str, str]]:
    """The cells of the framework's table as they should be."""
    with serving(responses=SCRIPTS["plain"], retry_after_ms=1) as server:
        return await observe(framework.clients(), server)


def renew() -> None:
    """Ask all frameworks, and write what they did into the page."""
    for framework in SHOWN:
        table_of(framework).write(asyncio.run(observed(framework)))


if __name__ == "__main__":
    renew()
