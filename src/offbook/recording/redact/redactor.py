"""Removes secrets from exchanges, tool exchanges and recorded HTTP responses."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from offbook.faults import AnyFault
from offbook.messages import JsonObject
from offbook.patterns import compile_pattern
from offbook.recording.format.exchange import Exchange, RecordedToolCall, StreamPiece, TimedPiece
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.format.wire_record import PLAIN_HTTP, WireRecord, joined_texts, json_documents, wire_text
from offbook.recording.redact.secret_patterns import (
    PLAIN_MARK,
    SecretSpan,
    field_patterns,
    field_spans,
    is_mark,
    may_hold_fields,
    may_hold_secrets,
    outside_marks,
    put_marks,
    quoted_names,
    secret_spans,
)
from offbook.vendors import KEY_HEADERS

SECRET_FIELDS = frozenset(
    (
        *KEY_HEADERS,
        *("proxy-authorization", "api_key", "apikey"),
        *("cookie", "set-cookie", "openai-organization", "access_token", "refresh_token", "client_secret", "password"),
    )
)


class SecretFinding(Struct, frozen=True):
    """Something that looks like a secret: its path in the exchange, and its kind."""

    path: str
    kind: str


class Redactor:
    """Replaces secrets by marks: values that match well-known patterns, values of secret fields, and what a user adds.

    Args:
        patterns: further regular expressions; each match becomes `<redacted>`.
        fields: further names of JSON fields whose str and number values become `<redacted>`. Case is ignored, and
            JSON inside a str is searched, too.

    A secret that matches a well-known pattern becomes `<redacted:kind:digest>`: equal secrets get the same mark.
    """

    def __init__(self, *, patterns: tuple[str, ...] = (), fields: tuple[str, ...] = ()) -> None:
        self._patterns = [compile_pattern(pattern, source="redaction") for pattern in patterns]
        self._fields = SECRET_FIELDS | {name.lower() for name in fields}
        self._field_patterns = field_patterns(self._fields)
        self._quoted = quoted_names(self._fields)
        self._looks_closer = bool(patterns) or not all(name.isascii() for name in fields)

    def redact(self, exchange: Exchange) -> Exchange:
        """Return the exchange without secrets; the same object if it has none."""
        if not self._is_suspicious(exchange):
            return exchange
        response = replace(
            exchange,
            content=self.text(exchange.content),
            reasoning=exchange.reasoning and self.text(exchange.reasoning),
            tool_calls=exchange.tool_calls and [self._call(call) for call in exchange.tool_calls],
            chunks=exchange.chunks and self._chunks(exchange.chunks),
        )
        cleaned = replace(
            response,
            fault=exchange.fault and self._fault(exchange.fault),
            request=self._raw(exchange.request),
            wire=exchange.wire and self._wire(exchange.wire, is_response_clean=response == exchange),
        )
        return exchange if cleaned == exchange else cleaned

    def redact_tool(self, exchange: ToolExchange) -> ToolExchange:
        """Return the tool exchange without secrets. It still answers calls with the original arguments."""
        if not self._suspicious(msgspec.json.encode(exchange)):
            return exchange
        arguments = self.value(exchange.arguments)
        error = exchange.error
        cleaned = replace(
            exchange,
            arguments=arguments,
            arguments_hash=exchange.arguments_hash if arguments == exchange.arguments else exchange.fingerprint,
            result=self.value(exchange.result),
            error=error and replace(error, message=self.text(error.message)),
        )
        return exchange if cleaned == exchange else cleaned

    def value(self, value: Any, field: str = "") -> Any:
        """Return a JSON value without secrets. `field` is the lower-case name of the field that has it."""
        if isinstance(value, dict):
            return {name: self.value(item, str(name).lower()) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.value(item, field) for item in value]
        if field in self._fields and _is_secret_value(value):
            return PLAIN_MARK
        return self.text(value) if isinstance(value, str) else value

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.texts([text])[0]

    def spans(self, text: str) -> list[SecretSpan]:
        """Return the secrets in a text, in order."""
        spans = list(secret_spans(text))
        for pattern in self._field_patterns:
            spans += field_spans(text, pattern)
        for added in self._patterns:
            spans += (SecretSpan(*span, "user pattern") for span in added.spans(text))
        return outside_marks(text, spans) if spans else spans

    def texts(self, texts: list[str]) -> list[str]:
        """Return the texts without secrets, including secrets that are spread over several texts."""
        while spans := self.spans("".join(texts)):
            texts = put_marks(texts, spans)
        return texts

    def findings(self, exchange: Exchange) -> list[SecretFinding]:
        """Return what looks like a secret in the exchange."""
        if not self._is_suspicious(exchange):
            return []
        found = (finding for path, value in _searched_parts(exchange) for finding in self._search(value, path, ""))
        return list(dict.fromkeys(found))

    def tool_findings(self, exchange: ToolExchange) -> list[SecretFinding]:
        """Return what looks like a secret in the tool exchange."""
        if not self._suspicious(msgspec.json.encode(exchange)):
            return []
        parts: JsonObject = {"arguments": exchange.arguments, "result": exchange.result}
        parts |= {"error.message": exchange.error.message} if exchange.error is not None else {}
        return [finding for path, value in parts.items() for finding in self._search(value, path, "")]

    def _search(self, value: Any, path: str, field: str) -> Iterator[SecretFinding]:
        if isinstance(value, dict):
            for name, item in value.items():
                yield from self._search(item, f"{path}.{name}", str(name).lower())
        elif isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from self._search(item, f"{path}[{index}]", field)
        elif field in self._fields and _is_secret_value(value):
            yield SecretFinding(path, f"field {field}")
        elif isinstance(value, str):
            yield from (SecretFinding(path, span.kind) for span in self.spans(value)[:1])

    def _is_suspicious(self, exchange: Exchange) -> bool:
        if self._suspicious(msgspec.json.encode(exchange)):
            return True
        return exchange.wire is not None and self._suspicious(_searchable_bytes(exchange.wire))

    def _suspicious(self, data: bytes) -> bool:
        """Return whether a closer look could find a secret. Quick if the answer is no."""
        return self._looks_closer or may_hold_secrets(data) or may_hold_fields(data, self._quoted)

    def _call(self, call: RecordedToolCall) -> RecordedToolCall:
        return replace(
            call, arguments=self.value(call.arguments), reasoning=call.reasoning and self.text(call.reasoning)
        )

    def _fault(self, fault: AnyFault) -> AnyFault:
        cleaned = {name: self.value(item) for name, item in asdict(fault).items()}
        try:
            return replace(fault, **cleaned)
        except ValueError:  # a str that must be JSON, and is not with a mark in it
            texts = {name: orjson.dumps(item).decode() for name, item in cleaned.items() if isinstance(item, str)}
            return replace(fault, **cleaned | texts)

    def _raw(self, raw: Raw) -> Raw:
        if not bytes(raw):
            return raw
        value = msgspec.json.decode(raw)
        cleaned = self.value(value)
        return raw if cleaned == value else Raw(orjson.dumps(cleaned))

    def _wire(self, record: WireRecord, *, is_response_clean: bool) -> WireRecord | None:
        """Return the record without secrets; the same object if it has none, and None if they cannot be removed.

        A secret that events spell in pieces cannot be removed from their bytes. And if the decoded response had
        secrets, the bytes may have them in a form that no search finds. An exchange of plain HTTP has nothing but its
        record, so that its body becomes a mark instead.
        """
        is_http = record.protocol == PLAIN_HTTP
        if not is_response_clean and not is_http:
            return None
        headers, texts = self.value(record.headers), _frame_texts(record)
        new_texts = self.texts(texts)
        cleaned = record
        if headers != record.headers or new_texts != texts:
            cleaned = replace(_with_frame_texts(record, new_texts), headers=headers)
        if _is_still_json(record, cleaned) and not any(self.spans(text) for text in joined_texts(cleaned.content())):
            return cleaned
        return replace(cleaned, body=PLAIN_MARK, frames=None) if is_http else None

    def _chunks(self, chunks: list[TimedPiece]) -> list[TimedPiece]:
        """Return the chunks without secrets. Chunks of one kind are searched as one text."""
        cleaned = list(chunks)
        for places in _by_kind(chunks):
            texts = self.texts([_text_of(chunks[place][1]) for place in places])
            for place, text in zip(places, texts, strict=True):
                at_ms, piece = chunks[place]
                cleaned[place] = (at_ms, _with_text(piece, text))
        return cleaned


@cache
def _default_redactor() -> Redactor:
    return Redactor()


def mask_text(text: str) -> str:
    """Return a text without secrets, by the built-in rules alone. Quick if it has none."""
    return _default_redactor().text(text)


def mask_json(value: Any) -> Any:
    """Return a JSON value without secrets, by the built-in rules alone. Quick if it has none."""
    return _default_redactor().value(value)


def _searched_parts(exchange: Exchange) -> Iterator[tuple[str, Any]]:
    """Yield every part of an exchange that can have secrets, with its path."""
    yield "content", exchange.content
    yield "reasoning", exchange.reasoning
    for index, call in enumerate(exchange.tool_calls or ()):
        yield f"tool_calls[{index}].arguments", call.arguments
        yield f"tool_calls[{index}].reasoning", call.reasoning
    for places in _by_kind(exchange.chunks or []):
        yield "chunks", "".join(_text_of((exchange.chunks or [])[place][1]) for place in places)
    for name, value in asdict(exchange.fault).items() if exchange.fault is not None else ():
        yield f"fault.{name}", value
    yield "request", msgspec.json.decode(exchange.request) if bytes(exchange.request) else None
    if exchange.wire is not None:
        yield from _searched_wire_parts(exchange.wire)


def _is_secret_value(value: Any) -> bool:
    """Return whether the value of a secret field is a secret: a number, or a str that is not empty and not a mark."""
    if isinstance(value, str):
        return bool(value) and not is_mark(value)
    return isinstance(value, int | float) and not isinstance(value, bool)


def _by_kind(chunks: list[TimedPiece]) -> list[list[int]]:
    """Return the positions of the chunks of each text: the content, the reasoning, the arguments of each call."""
    kinds: dict[tuple[str, int], list[int]] = {}
    for place, (_, piece) in enumerate(chunks):
        kinds.setdefault(_kind_of(piece), []).append(place)
    return list(kinds.values())


def _text_of(piece: str | StreamPiece) -> str:
    if isinstance(piece, str):
        return piece
    return piece.tool_call.arguments if piece.tool_call is not None else piece.reasoning or ""


def _kind_of(piece: str | StreamPiece) -> tuple[str, int]:
    if isinstance(piece, str):
        return "text", 0
    return ("call", piece.tool_call.index) if piece.tool_call is not None else ("reasoning", 0)


def _with_text(piece: str | StreamPiece, text: str) -> str | StreamPiece:
    if isinstance(piece, str):
        return text
    return (
        StreamPiece(reasoning=text)
        if piece.tool_call is None
        else StreamPiece(tool_call=replace(piece.tool_call, arguments=text))
    )


def _is_still_json(record: WireRecord, cleaned: WireRecord) -> bool:
    """Return whether everything that was JSON still is."""
    if cleaned is record:
        return True
    return len(json_documents(record.content())) == len(json_documents(cleaned.content()))


def _frame_texts(record: WireRecord) -> list[str]:
    """Return the frames as texts, each with the characters that end in it. Invalid bytes can be recovered."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    texts = [decoder.decode(data) for _, data in record.timed_frames()]
    return [*texts[:-1], texts[-1] + decoder.decode(b"", final=True)] if texts else []


def _with_frame_texts(record: WireRecord, texts: list[str]) -> WireRecord:
    encoded = [wire_text(text.encode("utf-8", "surrogateescape")) for text in texts]
    if record.frames is None:
        return replace(record, body=encoded[0] if encoded else None)
    return replace(record, frames=[(at_ms, text) for (at_ms, _), text in zip(record.frames, encoded, strict=True)])


def _searched_wire_parts(record: WireRecord) -> Iterator[tuple[str, Any]]:
    """Yield every part of a record that can have secrets, with its path."""
    yield "wire.headers", record.headers
    path = "wire.frames" if record.is_streamed else "wire.body"
    content = record.content()
    yield path, content.decode("utf-8", "surrogateescape")
    for text in joined_texts(content):
        yield path, text


def _searchable_bytes(record: WireRecord) -> bytes:
    """Return the bytes of a record, and the texts that they spell in pieces, for a quick search."""
    content = record.content()
    return b"\n".join([content, *(text.encode() for text in joined_texts(content))])
