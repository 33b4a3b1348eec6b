"""What is wrong with arguments, in lines that a model can act on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from offbook.errors import ToolArgumentsError
from offbook.messages import JsonObject

MAX_PROBLEMS = 8
MAX_VALUE_CHARACTERS = 80
MAX_PROBLEM_CHARACTERS = 300


def missing(path: str) -> str:
    return f"{path}: missing"


def unexpected(path: str) -> str:
    return f"{path}: unexpected, there is no such argument"


def unfit(path: str, reason: str, given: object) -> str:
    """An argument that is there and wrong. A path that is empty means all arguments together."""
    return f"{path}: {reason} (got {shortened(repr(given), MAX_VALUE_CHARACTERS)})" if path else reason


def path_to(parts: Iterable[str | int]) -> str:
    """Where in the arguments, like `items[0].price`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def given_parts(location: Sequence[str | int], args: JsonObject) -> list[str | int]:
    """The parts of `location` that name something given, and so none of the branches of a type that were tried."""
    parts: list[str | int] = []
    value: Any = args
    for part in location:
        names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if part in names:
            value = value[part]
            parts.append(part)
    return parts


def shortened(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def arguments_error(problems: Iterable[str], *, tool: str) -> ToolArgumentsError:
    """The error that tells the problems, each once and in one line, and not endlessly many or long ones."""
    lines = [shortened(" ".join(each.splitlines()), MAX_PROBLEM_CHARACTERS) for each in dict.fromkeys(problems)]
    told = lines[:MAX_PROBLEMS]
    if len(lines) > len(told):
        told.append(f"and {len(lines) - len(told)} more")
    return ToolArgumentsError(told, tool=tool)
