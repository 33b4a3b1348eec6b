"""Prints styled messages, and the JSON document of a command that ended without a result."""

from __future__ import annotations

import os
import sys

import orjson
import typer

from offbook.text import printable

ERROR_FIELDS = ("reason", "source", "place", "hint", "kind", "key", "difference", "fired")


def print_message(label: str, text: str, *, style: str = "bold", is_err: bool = False) -> None:
    """Print a styled label and a text after it. Control characters in them are escaped.

    `style` is a colour, `bold`, or both. Without a terminal, and with NO_COLOR, nothing is styled.
    """
    words = style.split()
    colour = next((word for word in words if word != "bold"), None)
    styled = typer.style(printable(label), bold="bold" in words, fg=colour) if _is_styled(is_err) else printable(label)
    typer.echo(f"{styled}{printable(text)}", err=is_err)


def _is_styled(is_err: bool) -> bool:
    stream = sys.stderr if is_err else sys.stdout
    return stream.isatty() and not os.environ.get("NO_COLOR")


def error_document(error: Exception, *, exit_code: int) -> bytes:
    """Return an error as one JSON document: its type, its message, the exit code, and its attributes."""
    attributes = {name: value for name in ERROR_FIELDS if (value := getattr(error, name, None))}
    return ending_document(type(error).__name__, str(error), exit_code=exit_code, **attributes)


def ending_document(type: str, message: str, *, exit_code: int, **more: object) -> bytes:
    """Return the JSON document of a command that ended without a result."""
    error = {"type": type, "message": message, "exit_code": exit_code, **more}
    return orjson.dumps({"status": "error", "error": error})
