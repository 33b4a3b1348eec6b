"""The recording file, version 2: bytes to a document, with every complaint placed, and back."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import orjson
from msgspec import Raw
from msgspec.structs import fields as struct_fields

from understudy.errors import InputError, RecordingFormatError
from understudy.faults import FAULT_TYPES
from understudy.messages import JsonObject, Usage
from understudy.recording.document import VERSION, Document, Entry
from understudy.recording.exchange import Exchange, TimedPiece
from understudy.recording.keys import check_key, shown

MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_TEXT_CHARS = 32 * 1024 * 1024

_outer = msgspec.json.Decoder(dict[str, Raw])
_entry = msgspec.json.Decoder(Exchange | list[Exchange])
_FIELD_ORDER = [info.encode_name for info in struct_fields(Exchange)]
_EXCHANGE_FIELDS = sorted(_FIELD_ORDER)
_PLAIN_FIELDS: JsonObject = {
    "content": "",
    "model": "",
    "provider": "",
    "cost_usd": 0.0,
    "latency_ms": 0.0,
    "finish_reason": "stop",
    "reasoning": None,
    "recorded_at": None,
    "request_hash": None,
}
_FAULT_FIELDS = {name: [info.encode_name for info in struct_fields(fault)] for name, fault in FAULT_TYPES.items()}


def parse(data: bytes, *, source: str) -> Document:
    """The document in a recording file.

    Raises:
        RecordingFormatError: with the file, the place in it and the reason.
    """
    if len(data) > MAX_FILE_BYTES:
        raise too_large(len(data), source)
    try:
        outer = _outer.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _unreadable(data, error, source) from None
    metadata = {key: _json(key, value, source) for key, value in outer.items() if key.startswith("_")}
    entries = {key: _parse_entry(key, value, source) for key, value in outer.items() if not key.startswith("_")}
    return _document(metadata, entries, source)


def convert(responses: Mapping[str, Any], *, source: str) -> Document:
    """The document in a dict of the same shape as a recording file; without `_version` it is the current one.

    Raises:
        RecordingFormatError: with the place in it and the reason.
    """
    try:
        data = orjson.dumps({"_version": VERSION} | dict(responses))
    except TypeError as error:
        raise RecordingFormatError(f"cannot be written as JSON: {error}", source=source) from None
    return parse(data, source=source)


def parse_exchange(key: str, data: bytes, *, source: str) -> Exchange:
    """One exchange, as `parse` reads it."""
    entry = _parse_entry(key, data, source)
    if isinstance(entry, list):
        raise RecordingFormatError("expected one exchange, got a list", source=source, place=f"key {shown(key)}")
    return entry


def _document(metadata: JsonObject, entries: dict[str, Entry], source: str) -> Document:
    version = metadata.pop("_version", 1)
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordingFormatError(f"expected a version number, got {version!r}", source=source, place="_version")
    if version > VERSION:
        raise RecordingFormatError(
            f"version {version} is newer than this understudy reads ({VERSION})",
            source=source,
            place="_version",
            hint="upgrade understudy, or record again",
        )
    meta = metadata.pop("_meta", {})
    if not isinstance(meta, dict):
        raise RecordingFormatError(f"expected an object, got {type(meta).__name__}", source=source, place="_meta")
    return Document(meta=meta, entries=entries, rest=metadata, version=version)


def _json(key: str, value: Raw, source: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise RecordingFormatError(str(error), source=source, place=key) from None


def _parse_entry(key: str, data: bytes | Raw, source: str) -> Entry:
    check_key(key, source=source)
    try:
        entry: Entry = _entry.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _misshapen(key, data, error, source) from None
    if len(memoryview(data)) > MAX_TEXT_CHARS:
        _check_sizes(key, entry, source)
    if entry == []:
        raise RecordingFormatError("the list is empty", source=source, place=f"key {shown(key)}", hint="remove the key")
    return entry


def _check_sizes(key: str, entry: Entry, source: str) -> None:
    for exchange in entry if isinstance(entry, list) else [entry]:
        if len(exchange.content) > MAX_TEXT_CHARS:
            raise RecordingFormatError(
                f"content of {len(exchange.content)} characters; the most is {MAX_TEXT_CHARS}",
                source=source,
                place=f"key {shown(key)}",
            )


def too_large(size: int, source: str) -> InputError:
    """The error for a file over the limit."""
    return RecordingFormatError(
        f"{size} bytes; the most a JSON recording may have is {MAX_FILE_BYTES}",
        source=source,
        hint="keep large recordings in a store like sqlite:///recording.db",
    )


def _unreadable(data: bytes, error: Exception, source: str) -> RecordingFormatError:
    reason, place = str(error), ""
    if "truncated" in reason:
        reason, place = "the JSON ends in the middle", _line_and_column(data)
        if not data.strip():
            reason, place = "the file is empty", ""
    elif found := re.search(r" \(byte (\d+)\)", reason):
        reason, place = reason.replace(found[0], ""), _line_and_column(data[: int(found[1])])
    return RecordingFormatError(
        reason, source=source, place=place, hint="restore the file from version control, or record again"
    )


def _line_and_column(before: bytes) -> str:
    newline = b"\n"
    return f"line {before.count(newline) + 1}, column {len(before) - before.rfind(newline)}"


def _misshapen(key: str, data: bytes | Raw, error: Exception, source: str) -> RecordingFormatError:
    reason, _, path = str(error).partition(" - at `$")
    place = f"key {shown(key)}{path.rstrip('`')}"
    hint = ""
    if unknown := re.search(r"unknown field `(.*)`", reason):
        hint = _suggestion(unknown[1], _known_fields(data, path))
    elif path.endswith(".fault.type`") or (path.endswith(".fault`") and "`type`" in reason):
        reason = reason.replace("Invalid value", "unknown fault type")
        hint = f"fault types: {', '.join(sorted(FAULT_TYPES))}"
    return RecordingFormatError(reason, source=source, place=place, hint=hint)


def _known_fields(data: bytes | Raw, path: str) -> list[str]:
    if ".fault" not in path:
        return _EXCHANGE_FIELDS
    found = re.search(rb'"fault"\s*:\s*\{[^}]*"type"\s*:\s*"(\w+)"', bytes(data))
    return _FAULT_FIELDS.get(found[1].decode(), []) if found else []


def _suggestion(name: str, known: list[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    listed = f"fields: {', '.join(known)}" if known else "it has no fields beside type"
    return f"did you mean {close[0]!r}? {listed}" if close else listed


def render(document: Document) -> bytes:
    """The document as a recording file: keys sorted, one chunk a line, ready to be read and reviewed."""
    try:
        return _render(document, _indented)
    except orjson.JSONEncodeError:  # what is nested too deep to be indented goes on one line
        return _render(document, lambda value: orjson.Fragment(msgspec.json.encode(value)))


def _render(document: Document, lay_out: Callable[[Any], Any]) -> bytes:
    top: JsonObject = {"_version": VERSION, "_meta": document.meta}
    for key in sorted(document.entries):
        fields = [_fields(exchange, lay_out) for exchange in document.exchanges(key)]
        top[key] = fields if isinstance(document.entries[key], list) else fields[0]
    return orjson.dumps(top | document.rest, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _fields(exchange: Exchange, lay_out: Callable[[Any], Any]) -> JsonObject:
    """The fields of an entry: of one that tells its model all the plain ones, of others those that say something."""
    fields: JsonObject = {
        name: getattr(exchange, name)
        for name, default in _PLAIN_FIELDS.items()
        if exchange.model or getattr(exchange, name) != default
    }
    if exchange.model or exchange.usage is not None:
        fields["usage"] = _usage(exchange.usage or Usage())
    optional: JsonObject = {
        "tool_calls": exchange.tool_calls and lay_out(exchange.tool_calls),
        "chunks": exchange.chunks and _chunks(exchange.chunks),
        "fault": exchange.fault and lay_out(exchange.fault),
        "request": lay_out(exchange.request) if bytes(exchange.request) else None,
        "wire": lay_out(exchange.wire) if bytes(exchange.wire) else None,
    }
    told = fields | {name: value for name, value in optional.items() if value}
    return {name: told[name] for name in _FIELD_ORDER if name in told}


def _indented(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, Raw) else msgspec.to_builtins(value)


def _usage(usage: Usage) -> orjson.Fragment:
    counts = {name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
    further = {name: getattr(usage, name) for name in ("cached_tokens", "reasoning_tokens") if getattr(usage, name)}
    return orjson.Fragment(orjson.dumps(counts | further))


def _chunks(chunks: list[TimedPiece]) -> list[orjson.Fragment]:
    return [orjson.Fragment(msgspec.json.encode(chunk)) for chunk in chunks]
