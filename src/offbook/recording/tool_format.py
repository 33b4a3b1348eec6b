"""The `_tools` of a recording file: bytes to tool exchanges, with every complaint placed, and back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from msgspec import Raw

from offbook.errors import RecordingFormatError
from offbook.faults.complaint import reason_and_path, shape_hint
from offbook.messages import JsonObject
from offbook.recording.keys import KEY_HINT, tool_key, unfit_tool_reason
from offbook.recording.tool_exchange import RecordedError, ToolEntry, ToolExchange

ROOM_LEVELS = 200
_tools = msgspec.json.Decoder(dict[str, Raw])
_entry = msgspec.json.Decoder(ToolExchange | list[ToolExchange])
_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_TOOLS_HINT = 'it is like {"get_weather": [{"arguments": {"city": "Oslo"}, "result": "rain"}]}'
_ENTRY_HINT = 'a call is like {"arguments": {"city": "Oslo"}, "result": "rain"}'


def parse_tools(data: bytes | Raw, *, source: str) -> dict[str, ToolEntry]:
    """The tool exchanges in the `_tools` of a recording.

    Raises:
        RecordingFormatError: with the file, the place in it and the reason.
    """
    try:
        tools = _tools.decode(data)
    except _UNREADABLE as error:
        reason, _ = reason_and_path(error)
        raise RecordingFormatError(reason, source=source, place="_tools", hint=_TOOLS_HINT) from None
    return {name: _parse_entry(name, entry, source) for name, entry in tools.items()}


def parse_tool_exchange(name: str, data: bytes, *, source: str) -> ToolExchange:
    """One exchange of the tool `name`, as `parse_tools` reads it."""
    entry = _parse_entry(name, data, source)
    if isinstance(entry, list):
        raise RecordingFormatError("expected one exchange, got a list", source=source, place=tool_key(name))
    return entry


def _parse_entry(name: str, data: bytes | Raw, source: str) -> ToolEntry:
    place = tool_key(name)
    if reason := unfit_tool_reason(name):
        raise RecordingFormatError(f"the name {reason}", source=source, place=place, hint=KEY_HINT)
    try:
        entry: ToolEntry = _entry.decode(data)
    except _UNREADABLE as error:
        raise _misshapen(place, error, source) from None
    if not _leaves_room(entry, bytes(data)):
        raise RecordingFormatError("nested too deep", source=source, place=place, hint="record it as text")
    if entry == []:
        raise RecordingFormatError("the list is empty", source=source, place=place, hint="remove the key")
    return entry


def _leaves_room(entry: ToolEntry, data: bytes) -> bool:
    """Whether what was read can be written, too, and by who has called deeper than the reader."""
    if data.count(b"[") + data.count(b"{") < ROOM_LEVELS:
        return True
    deeper: object = entry
    for _ in range(ROOM_LEVELS):
        deeper = [deeper]
    try:
        msgspec.json.encode(deeper)
    except RecursionError:
        return False
    return True


def _misshapen(place: str, error: Exception, source: str) -> RecordingFormatError:
    reason, path = reason_and_path(error)
    hint = _ENTRY_HINT
    if "unknown field" in reason:
        hint = shape_hint(reason, path, RecordedError if path.endswith(".error") else ToolExchange)
    return RecordingFormatError(reason, source=source, place=place + path, hint=hint)


def tools_fields(tools: dict[str, ToolEntry], lay_out: Callable[[Any], Any]) -> JsonObject:
    """The tool exchanges as files spell them, names sorted."""
    return {name: lay_out(tools[name]) for name in sorted(tools)}
