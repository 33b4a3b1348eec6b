"""Writes the functions of tools into a config. What the config has, with its comments and its layout, stays."""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Mapping
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


def write_functions(project: ProjectFile | None, functions: Mapping[str, str]) -> Path:
    """Add the functions of tools to a config, and return its path. Without one, `offbook.toml` is created here.

    Raises:
        InputError: the file cannot be written, or has tools in a form that cannot be added to; it stays as it was.
    """
    file = Path(CONFIG_FILE) if project is None else Path(project.source)
    is_shared = file.name == PROJECT_FILE
    prefix, path = ("tool.offbook.", ("tool", "offbook", TOOLS)) if is_shared else ("", (TOOLS,))
    try:
        before = file.read_bytes().decode("utf-8-sig") if project is not None else ""
        text = before.replace("\r\n", "\n")
        expected = tomllib.loads(text)
        for tool, function in functions.items():
            table = expected
            for name in (*path, tool):
                table = table.setdefault(name, {})
            table["function"] = function
            text = _with_function(text, tool_table(tool, prefix=prefix), (*path, tool), function_line(function))
        if _loaded(text) != expected:
            hint = "paste what offbook tools prints without --write"
            raise InputError("its tools are not tables of their own", source=str(file), hint=hint)
        mode = stat.S_IMODE(file.stat().st_mode) if project is not None else None
        data = text.replace("\n", "\r\n") if "\r\n" in before else text
        replace_file(file, data.encode(), mode=mode)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", source=str(file)) from None
    return file


def _with_function(text: str, header: str, path: tuple[str, ...], line: str) -> str:
    """Return the text with the line in the table at this path, which is added if the text has none."""
    nested: dict[str, Any] = {}
    for name in reversed(path):
        nested = {name: nested}
    lines = text.splitlines(keepends=True)
    for number, each in enumerate(lines):
        if each.lstrip().startswith("[") and _loaded(each) == nested:
            end = "" if each.endswith("\n") else "\n"
            return "".join([*lines[: number + 1], f"{end}{line}\n", *lines[number + 1 :]])
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{header}\n{line}\n"


def _loaded(text: str) -> dict[str, Any] | None:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return None


def _quoted(text: str) -> str:
    return msgspec.json.encode(text).decode()
