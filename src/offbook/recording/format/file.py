"""The recording file, version 2: parses bytes into a document, with every error located, and renders it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NoReturn, get_args

import msgspec
import orjson
from msgspec import UNSET, Raw, Struct
from msgspec.structs import fields as struct_fields

from offbook.decoding import decode
from offbook.errors import InputError, RecordingFormatError
from offbook.faults.catalog import explain_fault_error, fault_example
from offbook.faults.stream import StreamTruncate
from offbook.messages import JsonObject, Usage
from offbook.recording.format.document import FORMAT_VERSION, Document, Entry, exchanges_of
from offbook.recording.format.exchange import (
    Condition,
    Exchange,
    RecordedError,
    RecordedToolCall,
    StreamPiece,
    TimedPiece,
    ToolCallPiece,
    ToolEntry,
    ToolExchange,
)
from offbook.recording.format.keys import (
    KEY_HINT,
    is_mcp_key,
    mcp_key,
    quote_name,
    split_mcp_key,
    tool_key,
    unfit_reason,
    unfit_tool_reason,
)
from offbook.recording.format.wire_record import BinaryText, TimedFrame, WireRecord
from offbook.schema_errors import (
    check_keys,
    explain_json_error,
    explain_msgspec_error,
    json_value_at,
    shape_hint,
)
from offbook.text import suggestion

MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_TEXT_CHARS = 32 * 1024 * 1024
SPARE_NESTING_LEVELS = 200

_UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NO_TOOLS = Raw(b"{}")
_ENTRY: Any = Exchange | list[Exchange]
_TOOL_ENTRY: Any = ToolExchange | list[ToolExchange]
_FIELD_ORDER = [info.encode_name for info in struct_fields(Exchange)]
_PLAIN_FIELDS: JsonObject = {
    "content": "",
    "model": "",
    "provider": "",
    "cost_usd": 0.0,
    "latency_ms": 0.0,
    "reasoning": None,
    "recorded_at": None,
    "request_hash": None,
}
_ENTRY_HINT = 'an entry is like {"content": "Hello."} or {"fault": {"type": "timeout"}}, or a list of such'
_WIRE_HINT = (
    'it is like {"protocol": "openai_chat", "status": 200, "headers": {}, "body": "…"}, or has "frames": [[12.1, "…"]]'
)
_TOOLS_HINT = 'it is like {"get_weather": [{"arguments": {"city": "Oslo"}, "result": "rain"}]}'
_MCP_HINT = 'it is like {"github": {"tools/list": [{"arguments": {}, "result": {"tools": []}}]}}'
_TOOL_ENTRY_HINT = 'a call is like {"arguments": {"city": "Oslo"}, "result": "rain"}'


def parse_document(data: bytes, *, source: str) -> Document:
    """Parse a recording file.

    Raises:
        RecordingFormatError: with the file, the place in it and the reason.
    """
    if len(data) > MAX_FILE_BYTES:
        raise too_large(len(data), source)
    try:
        if not data.isascii():
            data.decode()
        outer = decode(data, dict[str, Raw])
        if not _is_as_rendered(data, outer):
            check_keys(data)
    except _UNREADABLE as error:
        raise _syntax_error(data, error, source) from None
    return _parse_outer(outer, source)


def _is_as_rendered(data: bytes, outer: dict[str, Raw]) -> bool:
    """Return whether each value follows the previous one as in our own files, so that no key appears twice.

    Only the keys are compared: counting lines takes longer than parsing the file.
    """
    at = len(b"{\n")
    for key, value in outer.items():
        start = f'  "{key}": '.encode()
        if not data.startswith(start, at):
            return False
        at += len(start) + len(memoryview(value)) + len(b",\n")
    return data[at - len(b",\n") :] == b"\n}\n"


def _parse_outer(outer: dict[str, Raw], source: str) -> Document:
    tools = parse_tools(outer.pop("_tools", _NO_TOOLS), source=source)
    tools |= _parse_mcp(outer.pop("_mcp", _NO_TOOLS), source)
    metadata = {key: _parse_metadata(key, value, source) for key, value in outer.items() if key.startswith("_")}
    try:
        entries = {key: _parse_entry(key, value, source) for key, value in outer.items() if not key.startswith("_")}
    except RecordingFormatError:
        from offbook.recording.format.foreign import foreign_error, foreign_kind  # noqa: PLC0415 - only errors need it

        if kind := foreign_kind(outer):
            raise foreign_error(kind, source=source) from None
        raise
    return _document_from_parts(metadata, entries, tools, source)


def document_from_dict(responses: Mapping[str, Any], *, source: str) -> Document:
    """Parse a dict of the shape of a recording file. Without `_version` it has the current version.

    Raises:
        RecordingFormatError: with the place in it and the reason.
    """
    if not isinstance(responses, Mapping):
        raise RecordingFormatError(f"expected a dict, got {type(responses).__name__}", source=source, hint=_ENTRY_HINT)
    try:
        data = orjson.dumps({"_version": FORMAT_VERSION} | dict(responses))
    except TypeError as error:
        reason = f"cannot be written as JSON: {error}"
        raise RecordingFormatError(reason, source=source, hint="pass plain JSON values") from None
    return _parse_outer(decode(data, dict[str, Raw]), source)


def parse_tools(data: bytes | Raw, *, source: str) -> dict[str, ToolEntry]:
    """Parse the `_tools` of a recording.

    Raises:
        RecordingFormatError: with the file, the place in it and the reason.
    """
    try:
        tools = decode(data, dict[str, Raw])
    except _UNREADABLE as error:
        reason, _ = explain_msgspec_error(error)
        raise RecordingFormatError(reason, source=source, place="_tools", hint=_TOOLS_HINT) from None
    return {name: _parse_tool_entry(name, entry, source) for name, entry in tools.items()}


def _parse_mcp(data: Raw, source: str) -> dict[str, ToolEntry]:
    """Parse the `_mcp` of a recording: entries by server and method, kept among those of tools."""
    try:
        servers = decode(data, dict[str, dict[str, Raw]])
    except _UNREADABLE as error:
        reason, path = explain_msgspec_error(error)
        raise RecordingFormatError(reason, source=source, place=f"_mcp{path}", hint=_MCP_HINT) from None
    named = {mcp_key(server, method): entry for server, methods in servers.items() for method, entry in methods.items()}
    return {name: _parse_tool_entry(name, entry, source) for name, entry in named.items()}


def parse_exchange(key: str, data: bytes, *, source: str) -> Exchange:
    """Parse one exchange of a key. Raises like `parse_document`."""
    if not data.isascii():
        _check_utf8(data, place=_place(key), source=source)
    entry = _parse_entry(key, data, source)
    return entry if isinstance(entry, Exchange) else _refuse_list(place=_place(key), source=source)


def parse_tool_exchange(name: str, data: bytes, *, source: str) -> ToolExchange:
    """Parse one exchange of a tool. Raises like `parse_tools`."""
    if not data.isascii():
        _check_utf8(data, place=tool_key(name), source=source)
    entry = _parse_tool_entry(name, data, source)
    return entry if isinstance(entry, ToolExchange) else _refuse_list(place=tool_key(name), source=source)


def _check_utf8(data: bytes, *, place: str, source: str) -> None:
    """Check UTF-8, which the parser postpones until a request is decoded."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        raise RecordingFormatError(f"not UTF-8: {error.reason}", source=source, place=place) from None


def _refuse_list(*, place: str, source: str) -> NoReturn:
    raise RecordingFormatError("expected one exchange, got a list", source=source, place=place)


def _document_from_parts(
    metadata: JsonObject, entries: dict[str, Entry], tools: dict[str, ToolEntry], source: str
) -> Document:
    version, meta = metadata.pop("_version", 1), metadata.pop("_meta", {})
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        reason = f"expected a version number, got {version!r}"
        raise RecordingFormatError(reason, source=source, place="_version", hint=f"write {FORMAT_VERSION}")
    if version > FORMAT_VERSION:
        reason = f"version {version} is newer than this offbook reads ({FORMAT_VERSION})"
        raise RecordingFormatError(reason, source=source, place="_version", hint="upgrade offbook, or record again")
    if not isinstance(meta, dict):
        reason = f"expected an object, got {type(meta).__name__}"
        raise RecordingFormatError(reason, source=source, place="_meta", hint="remove the key")
    return Document(meta=meta, entries=entries, rest=metadata, version=version, tools=tools)


def _parse_metadata(key: str, value: Raw, source: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except _UNREADABLE as error:
        reason, _ = explain_msgspec_error(error)
        raise RecordingFormatError(reason, source=source, place=_place(key), hint="remove the key") from None


def _parse_entry(key: str, data: bytes | Raw, source: str) -> Entry:
    if reason := unfit_reason(key):
        raise RecordingFormatError(f"the key {reason}", source=source, place=_place(key), hint=KEY_HINT)
    try:
        entry: Entry = decode(data, _ENTRY)
    except _UNREADABLE as error:
        raise _shape_error(key, data, error, source) from None
    if len(memoryview(data)) > MAX_TEXT_CHARS:
        for exchange in entry if isinstance(entry, list) else [entry]:
            if len(exchange.content) > MAX_TEXT_CHARS:
                raise RecordingFormatError(
                    f"content of {len(exchange.content)} characters; the maximum is {MAX_TEXT_CHARS}",
                    source=source,
                    place=_place(key),
                    hint="split it over several entries",
                )
    if b'"raise"' in memoryview(data).tobytes():
        _check_raised(key, entry, source)
    if not entry:
        raise _empty_list_error(_place(key), source)
    return entry


def _check_raised(key: str, entry: Entry, source: str) -> None:
    """Check that the exceptions exist which faults of an entry name."""
    for number, exchange in enumerate(entry if isinstance(entry, list) else [entry]):
        if isinstance(exchange.fault, StreamTruncate):
            try:
                exchange.fault.check()
            except InputError as error:
                position = f"[{number}]" if isinstance(entry, list) else ""
                place = f"{_place(key)}{position}.fault.{error.place}"
                hint = f"{error.hint}; {fault_example(StreamTruncate, error.place)}"
                raise RecordingFormatError(error.reason, source=source, place=place, hint=hint) from None


def _parse_tool_entry(name: str, data: bytes | Raw, source: str) -> ToolEntry:
    place = tool_key(name)
    if reason := unfit_tool_reason(name):
        raise RecordingFormatError(f"the name {reason}", source=source, place=place, hint=KEY_HINT)
    try:
        entry: ToolEntry = decode(data, _TOOL_ENTRY)
    except _UNREADABLE as error:
        raise _tool_shape_error(place, error, source) from None
    if not _leaves_spare_nesting(entry, bytes(data)):
        raise RecordingFormatError("nested too deep", source=source, place=place, hint="record it as text")
    if not entry:
        raise _empty_list_error(place, source)
    return entry


def _place(key: str) -> str:
    return f"key {quote_name(key)}"


def _empty_list_error(place: str, source: str) -> RecordingFormatError:
    return RecordingFormatError("the list is empty", source=source, place=place, hint="remove the key")


def _leaves_spare_nesting(entry: ToolEntry, data: bytes) -> bool:
    """Return whether the entry can also be encoded by a caller with a deeper stack."""
    if data.count(b"[") + data.count(b"{") < SPARE_NESTING_LEVELS:
        return True
    deeper: object = entry
    for _ in range(SPARE_NESTING_LEVELS):
        deeper = [deeper]
    try:
        msgspec.json.encode(deeper)
    except RecursionError:
        return False
    return True


def too_large(size: int, source: str) -> RecordingFormatError:
    """Return the error for a file over the size limit."""
    return RecordingFormatError(
        f"{size} bytes; the maximum of a JSON recording is {MAX_FILE_BYTES}",
        source=source,
        hint="use a store like sqlite:///recording.db for large recordings",
    )


def _syntax_error(data: bytes, error: Exception, source: str) -> RecordingFormatError:
    from offbook.recording.format.foreign import FILE_HINT, foreign_error, foreign_text_kind  # noqa: PLC0415

    if kind := foreign_text_kind(data):
        return foreign_error(kind, source=source)
    reason, place = explain_json_error(data, error)
    hint = "fix the JSON there, restore the file from version control, or record again"
    if isinstance(error, msgspec.ValidationError):
        hint = FILE_HINT
    return RecordingFormatError(reason, source=source, place=place, hint=hint)


def _shape_error(key: str, data: bytes | Raw, error: Exception, source: str) -> RecordingFormatError:
    reason, path = explain_msgspec_error(error)
    hint = _ENTRY_HINT
    if found := re.match(r"(.*\.fault)\b(.*)", path):
        reason, hint = explain_fault_error(reason, found[2], json_value_at(bytes(data), found[1]))
    elif "unknown field" in reason:
        hint = shape_hint(reason, path, _shape_at(path))
    elif ".wire" in path:
        hint = _WIRE_HINT
    elif path.endswith(".when"):
        given = json_value_at(bytes(data), path)
        hint = suggestion(given if isinstance(given, str) else "", get_args(Condition), kind="conditions")
    return RecordingFormatError(reason, source=source, place=_place(key) + path, hint=hint)


def _shape_at(path: str) -> type[Struct]:
    """Return the type of the object at `path` of an entry."""
    if ".wire" in path:
        return WireRecord if path.endswith(".wire") else BinaryText
    if path.endswith(".tool_call"):
        return ToolCallPiece
    if ".tool_calls[" in path:
        return RecordedToolCall
    return StreamPiece if ".chunks[" in path else Exchange


def _tool_shape_error(place: str, error: Exception, source: str) -> RecordingFormatError:
    reason, path = explain_msgspec_error(error)
    hint = _TOOL_ENTRY_HINT
    if "unknown field" in reason:
        hint = shape_hint(reason, path, _tool_shape_at(path))
    elif ".wire" in path:
        hint = _WIRE_HINT
    return RecordingFormatError(reason, source=source, place=place + path, hint=hint)


def _tool_shape_at(path: str) -> type[Struct]:
    if ".wire" in path:
        return _shape_at(path)
    return RecordedError if path.endswith(".error") else ToolExchange


def render_document(document: Document) -> bytes:
    """Render a recording file for review: keys in their order, and each chunk on a line."""
    try:
        return _render(document, _indented)
    except orjson.JSONEncodeError:  # nested too deep to be indented: put it on one line
        return _render(document, lambda value: orjson.Fragment(msgspec.json.encode(value)))


def _render(document: Document, lay_out: Callable[[Any], Any]) -> bytes:
    top: JsonObject = {"_version": document.version, "_meta": document.meta}
    for key in document.entries:
        fields = [_fields(exchange, lay_out) for exchange in document.exchanges(key)]
        top[key] = fields if isinstance(document.entries[key], list) else fields[0]
    tools: JsonObject = {}
    mcp: dict[str, JsonObject] = {}
    for name in document.tools:
        calls = [_tool_fields(call, lay_out) for call in exchanges_of(document.tools, name)]
        entry = calls if isinstance(document.tools[name], list) else calls[0]
        if is_mcp_key(name):
            server, method = split_mcp_key(name)
            mcp.setdefault(server, {})[method] = entry
        else:
            tools[name] = entry
    further = document.rest | ({"_tools": tools} if tools else {}) | ({"_mcp": mcp} if mcp else {})
    return orjson.dumps(top | further, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _fields(exchange: Exchange, lay_out: Callable[[Any], Any]) -> JsonObject:
    """Return the fields of an entry: all plain ones if it has a model, else those that differ from their default."""
    fields: JsonObject = {
        name: getattr(exchange, name)
        for name, default in _PLAIN_FIELDS.items()
        if exchange.model or getattr(exchange, name) != default
    }
    if exchange.model or exchange.finish_reason is not UNSET:
        fields["finish_reason"] = exchange.ending
    if exchange.model or exchange.usage is not None:
        usage = exchange.usage or Usage()
        counts = {name: getattr(usage, name) for name in ("prompt_tokens", "completion_tokens", "total_tokens")}
        further = {name: getattr(usage, name) for name in ("cached_tokens", "reasoning_tokens") if getattr(usage, name)}
        fields["usage"] = orjson.Fragment(orjson.dumps(counts | further))
    optional: JsonObject = {
        "when": exchange.when,
        "tool_calls": exchange.tool_calls and lay_out(exchange.tool_calls),
        "chunks": exchange.chunks and _one_a_line(exchange.chunks),
        "fault": exchange.fault and lay_out(exchange.fault),
        "request": lay_out(exchange.request) if bytes(exchange.request) else None,
        "wire": exchange.wire and _wire(exchange.wire),
    }
    fields |= {name: value for name, value in optional.items() if value is not None}
    return {name: fields[name] for name in _FIELD_ORDER if name in fields}


def _tool_fields(exchange: ToolExchange, lay_out: Callable[[Any], Any]) -> Any:
    if exchange.wire is None:
        return lay_out(exchange)
    fields: JsonObject = {name: lay_out(value) for name, value in _set_fields(exchange) if name != "wire"}
    return fields | {"wire": _wire(exchange.wire)}


def _set_fields(exchange: ToolExchange) -> Iterator[tuple[str, Any]]:
    """Yield the fields that differ from their default."""
    for info in struct_fields(ToolExchange):
        value = getattr(exchange, info.name)
        if value is not UNSET and value != info.default:
            yield info.name, value


def _indented(value: Any) -> Any:
    return msgspec.json.decode(value) if isinstance(value, Raw) else msgspec.to_builtins(value)


def _wire(record: WireRecord) -> JsonObject:
    fields: JsonObject = {"protocol": record.protocol, "status": record.status, "headers": record.headers}
    if record.body is not None:
        fields["body"] = msgspec.to_builtins(record.body)
    if record.close is not None:
        fields["close"] = record.close
    return fields if record.frames is None else fields | {"frames": _one_a_line(record.frames)}


def _one_a_line(timed: list[TimedPiece] | list[TimedFrame]) -> list[orjson.Fragment]:
    return [orjson.Fragment(msgspec.json.encode(piece)) for piece in timed]
