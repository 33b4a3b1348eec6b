"""Finds tool calls that a model wrote as text."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from offbook.messages import ToolCall

LONGEST_TEXT = 1_000_000


class Rescue(Struct, frozen=True):
    """The calls found in a text, and the text without them; the whole text if there are no calls."""

    calls: tuple[ToolCall, ...]
    text: str


def rescue(text: str, tools: Collection[str]) -> Rescue:
    """Find the calls of `tools` that a model wrote as text.

    `tools` are names, or a Toolbox: then a value between tags stays a text where the schema of its tool wants one.

    Returns all calls in the text, or none: a call of another tool, an incomplete or invalid call, a call inside a
    sentence, calls in different formats, and texts of more than a million characters yield nothing. The model's
    thinking becomes the `reasoning` of the first call; calls in it are ignored. Never raises; takes linear time.
    """
    if not _may_hold_calls(text, tools):
        return Rescue((), text)
    from offbook.agent.rescue.scan import scan_calls  # noqa: PLC0415 - its patterns take long to compile

    return Rescue(*scan_calls(text, tools))


def _may_hold_calls(text: str, tools: Collection[str]) -> bool:
    """Whether a scan can find calls: a quick check without false negatives."""
    if "{" not in text and "<" not in text and "(" not in text:
        return False
    return len(text) <= LONGEST_TEXT and any(name in text for name in tools)


__all__ = ["Rescue", "rescue"]
