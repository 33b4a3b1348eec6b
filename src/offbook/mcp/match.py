"""Which requests are the same: what identifies a request, and what is ignored because it differs from run to run."""

from __future__ import annotations

from typing import Any

import msgspec

from offbook.mcp.message import Message
from offbook.messages import JsonObject
from offbook.recording.format.tool_exchange import hash_arguments

VOLATILE_PARAMS = ("_meta", "requestState", "task")
"""Parameters that are not compared: ids, progress tokens and versions are in `_meta`, and state belongs to a run."""

_CALL_PARAMS = frozenset(("name", "arguments", *VOLATILE_PARAMS))
_SMALLEST_JSON = 2


def recorded_arguments(message: Message) -> JsonObject:
    """Return what a recording keeps of a request: the arguments of a tool call, or the parameters of another one."""
    if message.tool:
        arguments = message.params.get("arguments")
        return arguments if isinstance(arguments, dict) else {}
    return {name: value for name, value in message.params.items() if name not in VOLATILE_PARAMS}


def further_params(message: Message) -> JsonObject:
    """Return the parameters of a tool call that matter beside its arguments, such as the `inputResponses` of a user."""
    if not message.tool:
        return {}
    return {name: value for name, value in message.params.items() if name not in _CALL_PARAMS}


def arguments_hash(message: Message) -> str:
    """Return the hash by which a recording finds the answer to a request."""
    further = further_params(message)
    arguments = recorded_arguments(message)
    return hash_arguments({"arguments": arguments} | further if further else arguments)


def lenient_hash(arguments: JsonObject, cursors: CursorNames) -> str:
    """Return a hash that is equal for arguments that mean the same: JSON inside text is compared as JSON, and cursors
    by the order in which they appeared."""
    return hash_arguments(_normalised(arguments, cursors))


class CursorNames:
    """The names of the cursors of a run: `cursor 1` is the first that appeared."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def see(self, cursor: object) -> None:
        """Note a cursor that a server returned."""
        if isinstance(cursor, str):
            self._names.setdefault(cursor, f"cursor {len(self._names) + 1}")

    def name(self, cursor: str) -> str:
        """Return the name of a cursor; one that never appeared is its own name."""
        return self._names.get(cursor, cursor)


def _normalised(arguments: JsonObject, cursors: CursorNames) -> Any:
    named = arguments
    if isinstance(cursor := arguments.get("cursor"), str):
        named = arguments | {"cursor": cursors.name(cursor)}
    return json_in_texts(named)


def json_in_texts(value: Any) -> Any:
    """Return a value with each text that is a JSON object or list replaced by that."""
    if isinstance(value, dict):
        return {name: json_in_texts(item) for name, item in value.items()}
    if isinstance(value, list):
        return [json_in_texts(item) for item in value]
    if isinstance(value, str) and len(value) >= _SMALLEST_JSON and value.lstrip()[:1] in ("{", "["):
        try:
            return json_in_texts(msgspec.json.decode(value))
        except (msgspec.DecodeError, RecursionError):
            return value
    return value
