"""What became of a tool call."""

from __future__ import annotations

from msgspec import Struct

from offbook.errors import ToolResolutionError
from offbook.messages import ToolCall
from offbook.tools.result_text import result_text, shown


class ToolOutcome(Struct, frozen=True):
    """What became of a tool call: the `value` that the tool returned, or the `error` that stopped it.

    `text` is what the model is told.
    """

    call: ToolCall
    value: object
    error: Exception | None
    text: str

    @classmethod
    def of_value(cls, call: ToolCall, value: object) -> ToolOutcome:
        return cls(call, value, None, result_text(value))

    @classmethod
    def of_error(cls, call: ToolCall, error: Exception) -> ToolOutcome:
        return cls(call, None, error, error_text(error))


def error_text(error: Exception) -> str:
    """What a model is told of an error: that nothing is wrong but there is no such thing, or what went wrong."""
    if isinstance(error, ToolResolutionError):
        return f"[ToolResolutionError] {shown(error)}"
    message = shown(error)
    return f"[ToolError] {type(error).__name__}: {message}" if message else f"[ToolError] {type(error).__name__}"
