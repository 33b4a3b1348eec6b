"""Adds lines about tools to a config, and keeps its contents, comments and layout."""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from offbook.errors import InputError
from offbook.files import replace_file
from offbook.settings import CONFIG_FILE, PROJECT_FILE, TOOLS, ProjectFile

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def tool_table(tool: str, *, prefix: str = "") -> str:
    """Return the header of the table of a tool: `[tools.refund]`."""
    return f"[{prefix}{TOOLS}.{tool if _BARE_KEY.fullmatch(tool) else _quoted(tool)}]"


def function_line(function: str) -> str:
    """Return the line of a table that names the function of its tool."""
    return f"function = {_quoted(function)}"


def add_tool_lines(project: ProjectFile | None, lines: Mapping[str, Sequence[str]]) -> Path:
    """Add lines to the tool tables of a config, and return its path. Without a config, `offbook.toml` is created here.

    Raises:
        InputError: the file cannot be written, or its tools have a form that cannot be extended; it is unchanged.
    """
    file = Path(CONFIG_FILE) if project is None else Path(project.source)
    is_shared = file.name == PROJECT_FILE
    prefix, path = ("tool.offbook.", ("tool", "offbook", TOOLS)) if is_shared else ("", (TOOLS,))
    try:
        before = "" if project is None else file.read_bytes().decode("utf-8-sig")
        text = before.replace("\r\n", "\n")
        expected = tomllib.loads(text)
        for tool, added in lines.items():
            table = expected
            for name in (*path, tool):
                table = table.setdefault(name, {})
            table |= tomllib.loads("\n".join(added))
            text = _with_lines(text, tool_table(tool, prefix=prefix), (*path, tool), added)
        if _loaded(text) != expected:
            hint = "paste what offbook tools prints without --write"
            raise InputError("its tools are not tables of their own", source=str(file), hint=hint)
        mode = None if project is None else stat.S_IMODE(file.stat().st_mode)
        replace_file(file, (text.replace("\n", "\r\n") if "\r\n" in before else text).encode(), mode=mode)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(file)) from None
    return file


def _with_lines(text: str, header: str, path: tuple[str, ...], added: Sequence[str]) -> str:
    """Return the text with lines in the table at this path, which is added if missing."""
    nested: dict[str, Any] = {}
    for name in reversed(path):
        nested = {name: nested}
    body = "".join(f"{line}\n" for line in added)
    lines = text.splitlines(keepends=True)
    for number, each in enumerate(lines):
        if each.lstrip().startswith("[") and _loaded(each) == nested:
            end = "" if each.endswith("\n") else "\n"
            return "".join([*lines[: number + 1], end, body, *lines[number + 1 :]])
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{header}\n{body}"


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
