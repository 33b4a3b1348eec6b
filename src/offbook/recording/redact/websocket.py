"""Removes secrets from the messages of a WebSocket, also those that several messages spell in pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from offbook.recording.format.wire_record import WireRecord, WireText, websocket_text, wire_bytes

_SPELLED = frozenset(("delta", "text", "transcript", "arguments"))
"""The fields in which messages spell a text piece by piece."""


class SecretMask(Protocol):
    """Masks secrets in values, and notes where they were."""

    def value(self, value: Any, path: str, name: str = "") -> Any:
        """Return a JSON value without secrets."""
        ...

    def text(self, text: str, path: str) -> str:
        """Return a text without secrets."""
        ...

    def texts(self, texts: list[str], path: str) -> list[str]:
        """Return the texts without secrets, including secrets that are spread over several texts."""
        ...


def redact_websocket(record: WireRecord, mask: SecretMask) -> WireRecord:
    """Return the record of a WebSocket without secrets; the same object if it has none."""
    frames = record.frames or []
    values = [_decoded(wire_bytes(text)) for _, text in frames]
    cleaned = [mask.value(value, "wire.frames") for value in values]
    _mask_spelled(cleaned, mask)
    new_frames = [
        (at_ms, text if new == old else _encoded(new, text))
        for (at_ms, text), old, new in zip(frames, values, cleaned, strict=True)
    ]
    headers = {
        name: value for name, value in mask.value(record.headers, "wire.headers").items() if name in record.headers
    }
    redacted = replace(
        record,
        headers=headers,
        frames=None if record.frames is None else new_frames,
        body=record.body and _masked_body(record.body, mask),
        close=record.close and (record.close[0], mask.text(record.close[1], "wire.close")),
    )
    return record if redacted == record else redacted


def _decoded(data: bytes) -> Any:
    """Return a message as JSON, else as text. Bytes that are neither stay bytes, which are not searched."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        try:
            return data.decode()
        except UnicodeDecodeError:
            return data


def _encoded(value: Any, before: WireText) -> WireText:
    data = value.encode() if isinstance(value, str) else msgspec.json.encode(value)
    return websocket_text(data, is_text=isinstance(before, str))


def _masked_body(body: WireText, mask: SecretMask) -> WireText:
    old = _decoded(wire_bytes(body))
    new = mask.value(old, "wire.body")
    return body if new == old else _encoded(new, body)


def _mask_spelled(messages: list[Any], mask: SecretMask) -> None:
    """Mask in place what the texts of one field spell together, over all messages."""
    places: dict[str, list[tuple[dict[str, Any], str]]] = {}
    for message in messages:
        for path, fields, name in _spelled_fields(message):
            places.setdefault(path, []).append((fields, name))
    for found in places.values():
        texts = [fields[name] for fields, name in found]
        for (fields, name), text in zip(found, mask.texts(texts, "wire.frames"), strict=True):
            fields[name] = text


def _spelled_fields(message: Any) -> Iterator[tuple[str, dict[str, Any], str]]:
    """Yield the path, the object and the name of each text that goes on in other messages."""
    waiting: list[tuple[str, Any]] = [("", message)]
    while waiting:
        path, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(f"{path}.{name}", item) for name, item in value.items()]
            yield from ((f"{path}.{name}", value, name) for name in _SPELLED if isinstance(value.get(name), str))
        elif isinstance(value, list):
            waiting += [(f"{path}[{index}]", item) for index, item in enumerate(value)]
