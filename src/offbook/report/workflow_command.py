"""Commands that a step of a GitHub workflow gives by printing them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TextIO


def error_command(message: str, properties: Mapping[str, str]) -> str:
    """The command that shows an error. Properties that are empty are left out."""
    told = ",".join(f"{name}={_property(value)}" for name, value in properties.items() if value)
    return f"::error {told}::{_data(message)}"


def give(command: str, out: TextIO | None = None) -> None:
    """Print a command, by default on standard output, with `?` for what its encoding does not know."""
    out = out or sys.stdout
    encoding = out.encoding or "utf-8"
    out.write(command.encode(encoding, "replace").decode(encoding) + "\n")
    out.flush()


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
