"""What a workflow file says of its tools: a Python function, or a built-in with its options."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from offbook.workflow.builtin_tools.allowed_hosts import HOST_PATTERN
from offbook.workflow.builtin_tools.command_line import COMMAND_PATTERN
from offbook.workflow.config_definition import Definition, Listed, Name, Seconds

FUNCTION_PATTERN = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*:[A-Za-z_][A-Za-z0-9_]*$"

Host = Annotated[str, Field(pattern=HOST_PATTERN)]
Command = Annotated[str, Field(pattern=COMMAND_PATTERN)]


class FunctionTool(Definition):
    """A tool that is a Python function, as `module:function`."""

    function: Annotated[str, Field(pattern=FUNCTION_PATTERN)]


class HttpGetTool(Definition):
    """Fetches pages of the hosts in `allow`, and of no others."""

    builtin: Literal["http_get"]
    allow: Annotated[Listed[Host], Field(min_length=1)]
    timeout_s: Seconds = 30.0


class ReadFileTool(Definition):
    """Reads files under the folder `root`, which is relative to the workflow file, and no others."""

    builtin: Literal["read_file"]
    root: Name


class ShellTool(Definition):
    """Runs the commands in `allow`, and no others, without a shell between."""

    builtin: Literal["shell"]
    allow: Annotated[Listed[Command], Field(min_length=1)]
    timeout_s: Seconds = 30.0


BUILTINS = {"http_get": HttpGetTool, "read_file": ReadFileTool, "shell": ShellTool}


def _spelled_out(declared: object) -> object:
    return {"function": declared} if isinstance(declared, str) else declared


def _kind(declared: object) -> str | None:
    """Which of the kinds a declared tool is; a mapping that names no built-in counts as a function."""
    if isinstance(declared, FunctionTool) or (isinstance(declared, dict) and "builtin" not in declared):
        return "function"
    named = declared.get("builtin") if isinstance(declared, dict) else getattr(declared, "builtin", None)
    return named if isinstance(named, str) else None


ToolDefinition = Annotated[
    Annotated[FunctionTool, Tag("function")]
    | Annotated[HttpGetTool, Tag("http_get")]
    | Annotated[ReadFileTool, Tag("read_file")]
    | Annotated[ShellTool, Tag("shell")],
    Discriminator(_kind),
    BeforeValidator(_spelled_out, json_schema_input_type=str | dict[str, object]),
]
