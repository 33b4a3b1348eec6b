"""Tool calls in the shapes that people have them in, read into one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from offbook.errors import InputError
from offbook.messages import ToolCall

_HINT = 'a call is a ToolCall, or like {"name": "search", "args": {"text": "tea"}}'
_NAMES = ("name", "tool")
_ARGUMENTS = ("args", "arguments", "input")


def read_calls(given: Iterable[object]) -> tuple[ToolCall, ...]:
    """The tool calls in `given`, in order.

    Each is a ToolCall, or a mapping or an object with the name as `name` or `tool` and the arguments as
    `args`, `arguments` or `input`, if need be inside `function`; arguments are a mapping or JSON text. A
    message stands for the tool calls that it makes.

    Raises:
        InputError: something there is no tool call; names its place.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a list of tool calls, got {given!r:.80}", source="calls", hint=_HINT)
    return tuple(call for index, each in enumerate(given) for call in _calls_in(each, f"[{index}]"))


def _calls_in(given: object, place: str) -> Iterator[ToolCall]:
    if isinstance(given, ToolCall):
        yield given
    elif _has(given, "tool_calls") or _has(given, "role"):
        for index, call in enumerate(_get(given, "tool_calls") or ()):
            yield from _calls_in(call, f"{place}.tool_calls[{index}]")
    else:
        yield _call(_get(given, "function") or given, place)


def _call(given: object, place: str) -> ToolCall:
    name = next((_get(given, key) for key in _NAMES if _has(given, key)), None)
    key = next((key for key in _ARGUMENTS if _has(given, key)), "")
    if not isinstance(name, str) or not name or not (key or isinstance(given, Mapping)):
        raise InputError(f"expected a tool call, got {given!r:.80}", source="calls", place=place, hint=_HINT)
    arguments = _get(given, key)
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    if arguments is not None and not isinstance(arguments, Mapping):
        reason = f"expected a dict or JSON text, got {arguments!r:.80}"
        raise InputError(reason, source="calls", place=f"{place}.{key}", hint=_HINT)
    return ToolCall(name, dict(arguments or {}))


def _has(given: object, key: str) -> bool:
    return key in given if isinstance(given, Mapping) else hasattr(given, key)


def _get(given: object, key: str) -> Any:
    return given.get(key) if isinstance(given, Mapping) else getattr(given, key, None)
