"""Prints styled messages, and the JSON document of a command that ended without a result."""

from __future__ import annotations

import orjson
from rich.console import Console
from rich.text import Text

from offbook.text import printable


def print_message(label: str, text: str, *, style: str = "bold", is_err: bool = False) -> None:
    """Print a styled label and the text behind it, without anything in them that a terminal could obey.

    Elsewhere than on a terminal, and with NO_COLOR, there are no colours.
    """
    told = Text.assemble((printable(label), style), printable(text))
    Console(stderr=is_err, soft_wrap=True, highlight=False).print(told)


ERROR_FIELDS = ("reason", "source", "place", "hint", "kind", "key", "difference", "fired")


def error_document(error: Exception, *, exit_code: int) -> bytes:
    """The error as one JSON document: its type, its message, the exit code, and what else it carries."""
    more = {name: value for name in ERROR_FIELDS if (value := getattr(error, name, None))}
    return ending_document(type(error).__name__, str(error), exit_code=exit_code, **more)


def ending_document(type: str, message: str, *, exit_code: int, **more: object) -> bytes:
    """The document of a command that ended without a result."""
    told = {"type": type, "message": message, "exit_code": exit_code, **more}
    return orjson.dumps({"status": "error", "error": told})
