"""The mock that is missing, written in Python."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from itertools import islice

from offbook.errors import UnmockedToolError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.example import Example, text

MAX_REPEATED_ARGS = 4


def unmocked_error(tool: str, args: JsonObject, *, returns: JsonObject, mocked: Iterable[str]) -> UnmockedToolError:
    """The error for a call of a tool that has no mock.

    `returns` is the JSON schema of what the tool returns, empty if that is not known.
    """
    close = difflib.get_close_matches(tool, list(mocked), n=1)
    hint = f"Is it what the mock {close[0]!r} is for?" if close else ""
    return UnmockedToolError(tool=tool, arguments=args, suggestion=_entry(tool, args, returns), hint=hint)


def _entry(tool: str, args: JsonObject, returns: JsonObject) -> str:
    fields = Example(returns, args).fields() if returns else _usual_fields(args)
    if not fields:
        return f"{text(tool)}: lambda args: {Example(returns, args).source()},"
    lines = (f"    {text(name)}: {source}," for name, source in fields.items())
    return "\n".join([f"{text(tool)}: lambda args: {{", *lines, "},"])


def _usual_fields(args: JsonObject) -> dict[str, str]:
    repeated = {name: f"args[{text(name)}]" for name in islice(args, MAX_REPEATED_ARGS)}
    return {"success": "True", **repeated}
