"""The JSON shapes in which models write calls."""

from __future__ import annotations

from collections.abc import Collection

from offbook.agent.rescue.found import UnreadableError
from offbook.agent.rescue.json_value import parse
from offbook.messages import JsonObject, ToolCall

_NAMES = ("tool", "name", "tool_name", "function", "function_name", "action")
_ARGUMENTS = ("args", "arguments", "parameters", "params", "input", "tool_input", "tool_args", "action_input")
_THOUGHTS = ("thought", "thoughts", "reasoning")
_BESIDE = {"id", "call_id", "tool_call_id", "index", "type", *_THOUGHTS}
_TYPES = {None, "function", "function_call", "tool", "tool_call", "tool_use"}
_WRAPPERS = ("function", "function_call", "tool_call")


def calls_in(value: object, tools: Collection[str], *, is_closed: bool = True) -> tuple[ToolCall, ...]:
    """The calls that a JSON value is, of whatever tools; none if any part of it is no call.

    An object whose only key is one of `tools` counts only if it `is_closed`: more keys would make it something else.
    """
    items = _items(value)
    calls = [_named_call(item) or (_keyed_call(item, tools) if is_closed else None) for item in items]
    found = tuple(call for call in calls if call is not None)
    return found if len(found) == len(items) else ()


def _items(value: object) -> list[object]:
    """The list that a value is or holds, or the value alone."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        is_message = value.keys() <= {"tool_calls", "role", "content"} and not value.get("content")
        return value["tool_calls"] if is_message else [None]
    return value if isinstance(value, list) else [value]


def _named_call(value: object) -> ToolCall | None:
    """The call of an object that tells the tool under one key and its arguments under another."""
    if not isinstance(value, dict) or value.get("type") not in _TYPES:
        return None
    for wrapper in _WRAPPERS:
        if isinstance(value.get(wrapper), dict):
            return _named_call(value[wrapper]) if value.keys() <= {wrapper, *_BESIDE} else None
    names = [key for key in _NAMES if key in value]
    given = [key for key in _ARGUMENTS if key in value]
    if len(names) != 1 or len(given) != 1 or not value.keys() <= {*names, *given, *_BESIDE}:
        return None
    name, args = value[names[0]], _arguments(value[given[0]])
    if not isinstance(name, str) or args is None:
        return None
    return ToolCall(name, args, reasoning=_thought(value))


def _keyed_call(value: object, tools: Collection[str]) -> ToolCall | None:
    """The call of an object whose only key is the tool's name."""
    if not isinstance(value, dict) or len(value) != 1:
        return None
    [(name, args)] = value.items()
    is_call = name in tools and isinstance(args, dict) and not _is_definition(args)
    return ToolCall(name, args) if is_call else None


def _arguments(value: object) -> JsonObject | None:
    """The arguments: an object, JSON text of one, or nothing at all for none."""
    if isinstance(value, str) and value:
        try:
            value = parse(value)
        except UnreadableError:
            return None
    elif value in (None, ""):
        return {}
    return value if isinstance(value, dict) and not _is_definition(value) else None


def _is_definition(value: JsonObject) -> bool:
    """Whether it says which arguments a tool takes, not what they are."""
    is_schema = value.get("type") == "object" and isinstance(value.get("properties"), dict)
    return is_schema or {"description", "parameters"} <= value.keys()


def _thought(value: JsonObject) -> str | None:
    return next((value[key] for key in _THOUGHTS if isinstance(value.get(key), str) and value[key]), None)
