"""The built-in tool that fetches pages of certain hosts."""

from __future__ import annotations

from collections.abc import Sequence

from offbook.tools import ToolDef, tool_of


def http_get(name: str, *, allow: Sequence[str], timeout_s: float) -> ToolDef:
    """A tool `name` that fetches from the hosts in `allow`, within `timeout_s` in all."""
    from offbook.workflow.builtin_tools.page_fetcher import (  # noqa: PLC0415 - it loads httpx2, which is slow
        PageFetcher,
    )

    description = f"Fetch a page by HTTP GET. Hosts that you may ask: {', '.join(allow)}."
    pages = PageFetcher(allow, tool=name)
    return tool_of(pages.fetch, name=name, description=description, timeout_s=timeout_s)
