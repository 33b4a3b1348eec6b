"""GitHub workflow commands, and the step summary that several writers append to."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TextIO

from offbook.errors import InputError


def error_command(message: str, properties: Mapping[str, str]) -> str:
    """The command that shows an error. Properties that are empty are left out."""
    told = ",".join(f"{name}={_escape_property(value)}" for name, value in properties.items() if value)
    return f"::error {told}::{_escape_data(message)}"


def print_command(command: str, out: TextIO | None = None) -> None:
    """Print a command, by default on standard output, with `?` for what its encoding does not know."""
    out = out or sys.stdout
    encoding = out.encoding or "utf-8"
    out.write(command.encode(encoding, "replace").decode(encoding) + "\n")
    out.flush()


def _escape_data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _escape_property(text: str) -> str:
    return _escape_data(text).replace(":", "%3A").replace(",", "%2C")


MAX_BYTES = 1_000_000  # GitHub drops a summary of more than 1024 KiB


class StepSummary:
    """Adds to the file that GitHub names in GITHUB_STEP_SUMMARY, as far as there is room; without a path, nowhere."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._bytes = path.stat().st_size if path is not None and path.exists() else 0

    def add(self, text: str, *, spare: int = 0) -> None:
        """Add the text, if `spare` bytes stay free behind it.

        Raises:
            InputError: the file cannot be written.
        """
        data = text.encode("utf-8", "replace")
        if self._path is None or self._bytes + len(data) + spare > MAX_BYTES:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("ab") as file:
                file.write(data)
        except OSError as error:
            raise InputError(str(error.strerror), source=str(self._path)) from error
        self._bytes += len(data)
