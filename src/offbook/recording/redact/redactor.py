"""Removes secrets from recordings: from exchanges, tool exchanges, HTTP responses, keys and metadata.

A single walk (`_Walk`) masks secrets and notes their places: redaction uses the former, a check the latter.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from copy import copy
from typing import Any, cast
from urllib.parse import quote, quote_plus

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import asdict, replace

from offbook.faults import AnyFault
from offbook.recording.format.document import Document, E, Entries, add_exchange, exchanges_of
from offbook.recording.format.exchange import (
    Exchange,
    RecordedToolCall,
    StreamPiece,
    TimedPiece,
    ToolExchange,
    chunks_by_text,
    piece_text,
)
from offbook.recording.format.keys import is_fingerprint
from offbook.recording.format.wire_record import (
    PLAIN_HTTP,
    WEBSOCKET,
    WireRecord,
    WireText,
    frame_texts,
    is_still_json,
    join_pieces,
    joined_texts,
    searchable_bytes,
    spelled_pieces,
    spelled_texts,
    websocket_text,
    wire_bytes,
    with_frame_texts,
)
from offbook.recording.redact.secret_fields import (
    MIN_NAMED_CHARS,
    FieldPatterns,
    PersonalKind,
    credential_spans,
    in_json,
    is_secret_value,
    named_spans,
    outside_marks,
    personal_rules,
    quoted_names,
)
from offbook.recording.redact.secret_kinds import PLAIN_MARK, SecretSpan, searchable, secret_spans
from offbook.text import compile_pattern, replace_spans
from offbook.vendors import DUMMY_KEY, KEY_HEADERS

_SECRET_NAMES = (
    *KEY_HEADERS,
    *("proxy-authorization", "api_key", "apikey", "x-auth-token", "x-amz-security-token", "cookie", "set-cookie"),
    *("openai-organization", "access_token", "refresh_token", "id_token", "auth_token", "client_secret"),
    *("session_token", "bearer_token", "api_secret", "app_secret", "consumer_secret", "secret_key", "webhook_secret"),
    *("password", "passwd", "passphrase", "private_key", "secret_access_key", "aws_secret_access_key"),
)
SECRET_FIELDS = frozenset(name.replace("_", joint) for name in _SECRET_NAMES for joint in ("_", "-", ""))
"""The names of fields with secret values, in lower case: `access_token`, `access-token`, `accessToken`."""
MIN_CREDENTIAL_CHARS = 8
"""Shorter credentials are not searched for: they could be words."""


class SecretFinding(Struct, frozen=True):
    """Something that looks like a secret: its path in the exchange, and its kind."""

    path: str
    kind: str


class RedactionRules(Struct, frozen=True, forbid_unknown_fields=True):
    """Rules that a user adds to the built-in ones: the section `[redaction]` of a config."""

    patterns: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    personal: tuple[str, ...] = ()


class Redactor:
    """Replaces secrets by marks: values of known patterns, values of secret fields, and the user's own rules.

    Args:
        patterns: further regular expressions; each match becomes `<redacted>`.
        fields: further names of JSON fields whose str and number values become `<redacted>`. Case is ignored, and
            JSON inside a str is also searched.
        personal: kinds of personal data that become `<redacted>`: `email`, `phone`, `card`.

    A secret of a known pattern becomes `<redacted:kind:digest>`: equal secrets get the same mark.

    Raises:
        InputError: a pattern is invalid, or a kind of personal data is unknown.
    """

    def __init__(
        self,
        *,
        patterns: tuple[str, ...] = (),
        fields: tuple[str, ...] = (),
        personal: tuple[PersonalKind, ...] = (),
    ) -> None:
        self._rules = RedactionRules(patterns, fields, personal)
        self._patterns = [compile_pattern(pattern, source="redaction") for pattern in patterns]
        self._personal = personal_rules(personal)
        self._fields = SECRET_FIELDS | {name.lower() for name in fields}
        self._field_patterns = FieldPatterns(self._fields)
        self._quoted = quoted_names(self._fields) if all(name.isascii() for name in fields) else None
        self._credentials: tuple[str, ...] = ()

    def with_rules(self, rules: RedactionRules) -> Redactor:
        """Return a redactor with these rules as well. Raises like the constructor."""
        own = self._rules
        return Redactor(
            patterns=tuple(dict.fromkeys((*own.patterns, *rules.patterns))),
            fields=tuple(dict.fromkeys((*own.fields, *rules.fields))),
            personal=cast("tuple[PersonalKind, ...]", tuple(dict.fromkeys((*own.personal, *rules.personal)))),
        )

    @property
    def has_patterns(self) -> bool:
        """Whether a user has added rules for the values of any field."""
        return bool(self._patterns or self._personal)

    def knowing(self, credentials: Iterable[str]) -> Redactor:
        """Return a redactor that also replaces these secrets everywhere by `<redacted>`.

        Those with fewer than eight characters, and the placeholder for no key, are not replaced.
        """
        known = {each for each in credentials if len(each) >= MIN_CREDENTIAL_CHARS and each != DUMMY_KEY}
        if not known:
            return self
        wise = copy(self)
        forms = {form for each in known for form in (each, quote(each, safe=""), quote_plus(each), in_json(each))}
        wise._credentials = tuple(  # noqa: SLF001 - a copy of itself
            sorted(forms, key=lambda form: (-len(form), form))
        )
        return wise

    def redact(self, exchange: Exchange) -> Exchange:
        """Return the exchange without secrets, or the same object if it has none."""
        return _Walk(self).exchange(exchange) if self._is_suspicious(exchange) else exchange

    def redact_tool(self, exchange: ToolExchange) -> ToolExchange:
        """Return the tool exchange without secrets. It still answers calls with the original arguments."""
        return _Walk(self).tool_exchange(exchange) if self._is_suspicious_call(exchange) else exchange

    def redact_document(self, document: Document) -> int:
        """Remove the secrets of a whole recording, and return the number of changed exchanges and other parts."""
        return _Walk(self).document(document)

    def value(self, value: Any) -> Any:
        """Return a JSON value without secrets."""
        return _Walk(self).value(value, "")

    def encoded(self, data: bytes) -> bytes:
        """Return JSON without secrets. It stays JSON for all user patterns."""
        if not self.has_patterns:
            return self.text(data.decode()).encode()
        value = msgspec.json.decode(data)
        cleaned = self.value(value)
        return data if cleaned == value else msgspec.json.encode(cleaned)

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        return self.texts([text])[0]

    def spans(self, text: str, *, name: str = "") -> list[SecretSpan]:
        """Return the secrets in a text, in order. `name` is its JSON field's."""
        lowered = searchable(text)
        spans = secret_spans(text, lowered)
        if name and len(text) >= MIN_NAMED_CHARS:
            spans += named_spans(text, name)
        if self._may_hold_fields(lowered):
            spans += self._field_patterns.spans(text)
        for pattern in self._patterns:
            spans += [SecretSpan(start, end, "user pattern") for start, end in pattern.spans(text)]
        for kind, find in self._personal:
            spans += [SecretSpan(start, end, kind) for start, end in find(text)]
        for credential in self._credentials:
            spans += credential_spans(text, credential)
        return outside_marks(text, spans) if spans else spans

    def texts(self, texts: list[str]) -> list[str]:
        """Return the texts without secrets, including secrets spread over several texts."""
        return _Walk(self).texts(texts, "")

    def findings(self, exchange: Exchange) -> list[SecretFinding]:
        """Return the suspected secrets of the exchange."""
        walk = _Walk(self)
        if self._is_suspicious(exchange):
            walk.exchange(exchange)
        return walk.findings

    def tool_findings(self, exchange: ToolExchange) -> list[SecretFinding]:
        """Return the suspected secrets of the tool exchange."""
        walk = _Walk(self)
        if self._is_suspicious_call(exchange):
            walk.tool_exchange(exchange)
        return walk.findings

    def value_findings(self, value: Any, path: str) -> list[SecretFinding]:
        """Return the suspected secrets of a JSON value at that path."""
        walk = _Walk(self)
        walk.value(value, path)
        return walk.findings

    def is_secret_field(self, name: str) -> bool:
        """Return whether the values of fields with this name are secret."""
        return name.lower() in self._fields

    def _may_hold_fields(self, lowered: bytes) -> bool:
        """Return whether a `searchable` text could hold JSON with a secret field. False is always right."""
        return self._quoted is None or not self._quoted.isdisjoint(lowered.replace(b"'", b'"').split(b'"'))

    def _is_suspicious(self, exchange: Exchange) -> bool:
        harmless = replace(exchange, request_hash=None, usage=None)  # numbers, and long names that we have given them
        wire = exchange.wire
        if wire is not None and isinstance(wire.body, str):  # it is searched below
            harmless = replace(harmless, wire=replace(wire, body=None))
        data = msgspec.json.encode(harmless)
        if self._suspicious(data) or any(map(self._suspicious, _bytes_in(data))):
            return True
        return wire is not None and self._suspicious(searchable_bytes(wire))

    def _is_suspicious_call(self, exchange: ToolExchange) -> bool:
        if self._suspicious(msgspec.json.encode(exchange)):
            return True
        if exchange.wire is None:
            return False
        messages = b"\n".join(data for _, data in exchange.wire.timed_frames())
        return self._suspicious(b"\n".join([messages, *(text.encode() for text in joined_texts(messages))]))

    def _suspicious(self, data: bytes) -> bool:
        """Return whether JSON could hold a secret. Quick if not, which is always right."""
        if self._patterns:
            return True
        text = data.decode("utf-8", "replace")
        lowered = searchable(text)
        if self._may_hold_fields(lowered) or secret_spans(text, lowered):
            return True
        return bool(self._personal or self._credentials) and bool(self.spans(text))


class _Walk:
    """One walk over a recording or a part of it, which masks secrets and notes each of them once."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._found: dict[SecretFinding, None] = {}

    @property
    def findings(self) -> list[SecretFinding]:
        return list(self._found)

    def document(self, document: Document) -> int:
        """Mask a recording in place, and return the number of changed exchanges and other parts."""
        changed = document.rewrite(self._redactor.redact, self._redactor.redact_tool)
        for name in ("meta", "rest"):
            old = getattr(document, name)
            setattr(document, name, self.value(old, ""))
            changed += getattr(document, name) != old
        document.entries, renamed = self._renamed(document.entries)
        document.tools, renamed_tools = self._renamed(document.tools)
        return changed + renamed + renamed_tools

    def _renamed(self, entries: Entries[E]) -> tuple[Entries[E], int]:
        """Return entries without secrets in their keys, and the number of changed keys. Equal keys are joined."""
        keys = {key: key if is_fingerprint(key) else self.text(key, "") for key in entries}
        if all(key == new for key, new in keys.items()):
            return entries, 0
        renamed: Entries[E] = {}
        for key, new in keys.items():
            for exchange in exchanges_of(entries, key):
                add_exchange(renamed, new, exchange, listed=isinstance(entries[key], list))
        return renamed, sum(key != new for key, new in keys.items())

    def exchange(self, exchange: Exchange) -> Exchange:
        """Return the exchange without secrets, or the same object if it has none."""
        response = replace(
            exchange,
            content=self.text(exchange.content, "content"),
            model=self.text(exchange.model, "model"),
            provider=self.text(exchange.provider, "provider"),
            finish_reason=self.value(exchange.finish_reason, "finish_reason"),
            reasoning=exchange.reasoning and self.text(exchange.reasoning, "reasoning"),
            tool_calls=exchange.tool_calls and [self._call(*numbered) for numbered in enumerate(exchange.tool_calls)],
            chunks=exchange.chunks and self._chunks(exchange.chunks),
        )
        if exchange.wire is not None and exchange.wire.protocol != WEBSOCKET:
            response = self._without_pieces(response, exchange.wire)
        cleaned = replace(
            response,
            fault=exchange.fault and self._fault(exchange.fault),
            request=self._raw(exchange.request, "request"),
            wire=exchange.wire and self._wire(exchange.wire, is_response_clean=response == exchange),
        )
        return exchange if cleaned == exchange else cleaned

    def _without_pieces(self, response: Exchange, record: WireRecord) -> Exchange:
        """Return a response without the pieces of a secret that alternate with pieces of another text.

        The decoded text has both in order of arrival, so no search of it finds the secret.
        """
        for pieces in spelled_pieces(record.content()):
            for span in self._redactor.spans(join_pieces(pieces)):
                parts = _parts_of(pieces, span)
                chunks = "".join(piece_text(piece) for _, piece in response.chunks or ())
                response = replace(
                    response,
                    content=PLAIN_MARK if _holds(response.content, parts) else response.content,
                    reasoning=PLAIN_MARK if _holds(response.reasoning or "", parts) else response.reasoning,
                    chunks=None if _holds(chunks, parts) else response.chunks,
                )
        return response

    def tool_exchange(self, exchange: ToolExchange) -> ToolExchange:
        """Return the tool exchange without secrets, or the same object if it has none."""
        arguments = self.value(exchange.arguments, "arguments")
        error = exchange.error
        cleaned = replace(
            exchange,
            arguments=arguments,
            arguments_hash=exchange.arguments_hash if arguments == exchange.arguments else exchange.fingerprint,
            result=self.value(exchange.result, "result"),
            result_type=self.value(exchange.result_type, "result_type"),
            error=error
            and replace(
                error, type=self.text(error.type, "error.type"), message=self.text(error.message, "error.message")
            ),
            wire=exchange.wire and self._messages(exchange.wire),
        )
        return exchange if cleaned == exchange else cleaned

    def _messages(self, record: WireRecord) -> WireRecord:
        """Return the record of JSON messages, as in MCP, without secrets, or the same object if it has none."""
        texts = frame_texts(record)
        values = [_decoded(text.encode("utf-8", "surrogateescape")) for text in texts]
        cleaned = [self.value(value, "wire") for value in values]
        self._mask_spelled(cleaned, "wire")
        new = [
            text if value == masked else _message_text(masked) + ("\n" if text.endswith("\n") else "")
            for text, value, masked in zip(texts, values, cleaned, strict=True)
        ]
        return record if new == texts else with_frame_texts(record, new)

    def value(self, value: Any, path: str, name: str = "") -> Any:
        """Return a JSON value without secrets, also in field names. `name` is its own field's."""
        if isinstance(value, dict):
            return self._packed(value, path) if value.keys() == {"base64"} else self._fields(value, path)
        if isinstance(value, list | tuple):
            return [self.value(item, f"{path}[{index}]", name) for index, item in enumerate(value)]
        if name and self._redactor.is_secret_field(name) and is_secret_value(value):
            self._note(path, f"field {name.lower()}")
            return PLAIN_MARK
        return self.texts([value], path, name=name)[0] if isinstance(value, str) else value

    def _fields(self, fields: dict[str, Any], path: str) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        for name, item in fields.items():
            new = masked = self.text(str(name), f"{path} (field name)".lstrip())
            number = 1
            while new in cleaned:  # the names had different secrets
                number += 1
                new = f"{masked} {number}"
            cleaned[new] = self.value(item, f"{path}.{new}" if path else new, str(name))
        return cleaned

    def _packed(self, packed: dict[str, Any], path: str) -> dict[str, Any]:
        """Return bytes, as a recording has them in base64, without secrets."""
        if (text := _unpacked(packed["base64"])) is None:
            return self._fields(packed, path)
        cleaned = self.text(text, path)
        return packed if cleaned == text else {"base64": b64encode(cleaned.encode("utf-8", "surrogateescape")).decode()}

    def text(self, text: str, path: str) -> str:
        """Return a text without secrets."""
        return self.texts([text], path)[0]

    def texts(self, texts: list[str], path: str, *, name: str = "") -> list[str]:
        """Return the texts without secrets, including secrets spread over several texts."""
        while spans := self._redactor.spans("".join(texts), name=name):
            self._note(path, spans[0].kind)
            texts = replace_spans(texts, [(span.start, span.end, span.mark) for span in spans])
        return texts

    def _note(self, path: str, kind: str) -> None:
        if all(path != found.path for found in self._found):
            self._found[SecretFinding(path, kind)] = None

    def _call(self, index: int, call: RecordedToolCall) -> RecordedToolCall:
        path = f"tool_calls[{index}]"
        return replace(
            call,
            id=call.id and self.text(call.id, f"{path}.id"),
            name=self.text(call.name, f"{path}.name"),
            arguments=self.value(call.arguments, f"{path}.arguments"),
            reasoning=call.reasoning and self.text(call.reasoning, f"{path}.reasoning"),
        )

    def _fault(self, fault: AnyFault) -> AnyFault:
        cleaned = {name: self.value(item, f"fault.{name}") for name, item in asdict(fault).items()}
        try:
            return replace(fault, **cleaned)
        except ValueError:  # a str that must be JSON, and is not with a mark in it
            texts = {name: orjson.dumps(item).decode() for name, item in cleaned.items() if isinstance(item, str)}
            return replace(fault, **cleaned | texts)

    def _raw(self, raw: Raw, path: str) -> Raw:
        if not bytes(raw):
            return raw
        value = msgspec.json.decode(raw)
        cleaned = self.value(value, path)
        return raw if cleaned == value else Raw(orjson.dumps(cleaned))

    def _wire(self, record: WireRecord, *, is_response_clean: bool) -> WireRecord | None:
        """Return the record without secrets: the same object if it has none, None if they cannot be removed.

        A secret that events spell in pieces cannot be removed from their bytes. If the decoded response had secrets,
        the bytes may hold them in a form that no search finds. A plain HTTP exchange has only its record, so its body
        becomes a mark instead.
        """
        if record.protocol == WEBSOCKET:
            return self._websocket(record)
        is_http = record.protocol == PLAIN_HTTP
        path = "wire.frames" if record.is_streamed else "wire.body"
        headers, texts = self._headers(record.headers), frame_texts(record)
        new_texts = self.texts(texts, path)
        cleaned = record
        if headers != record.headers or new_texts != texts:
            cleaned = replace(with_frame_texts(record, new_texts), headers=headers)
        spelled = [spans for text in joined_texts(cleaned.content()) if (spans := self._redactor.spans(text))]
        if spelled:
            self._note(path, spelled[0][0].kind)
        if not is_response_clean and not is_http:
            return None
        if is_still_json(record, cleaned) and not spelled:
            return cleaned
        return replace(cleaned, body=PLAIN_MARK, frames=None) if is_http else None

    def _websocket(self, record: WireRecord) -> WireRecord:
        """Return the record of a WebSocket without secrets, also those that several messages spell in pieces."""
        frames = record.frames or []
        values = [_decoded(wire_bytes(text)) for _, text in frames]
        cleaned = [self.value(value, "wire.frames") for value in values]
        self._mask_spelled(cleaned, "wire.frames")
        body, old_body = record.body, None if record.body is None else _decoded(wire_bytes(record.body))
        new_body = self.value(old_body, "wire.body")
        return replace(
            record,
            headers=self._headers(record.headers),
            frames=record.frames
            and [
                (at_ms, text if new == old else _encoded(new, text))
                for (at_ms, text), old, new in zip(frames, values, cleaned, strict=True)
            ],
            body=body if body is None or new_body == old_body else _encoded(new_body, body),
            close=record.close and (record.close[0], self.text(record.close[1], "wire.close")),
        )

    def _mask_spelled(self, messages: list[Any], path: str) -> None:
        """Mask in place the secrets that messages' texts spell together."""
        for places in spelled_texts(messages):
            texts = [container[name] for container, name in places]
            if len(texts) > 1 and (cleaned := self.texts(texts, path)) != texts:
                for (container, name), text in zip(places, cleaned, strict=True):
                    container[name] = text

    def _headers(self, headers: dict[str, str]) -> dict[str, str]:
        """Return headers without secrets. One with a secret in its name is left out, as a mark is not a name."""
        return {name: value for name, value in self.value(headers, "wire.headers").items() if name in headers}

    def _chunks(self, chunks: list[TimedPiece]) -> list[TimedPiece]:
        """Return the chunks without secrets. Chunks of one kind are searched as one text."""
        cleaned = list(chunks)
        for places in chunks_by_text(chunks):
            texts = self.texts([piece_text(chunks[place][1]) for place in places], "chunks")
            for place, text in zip(places, texts, strict=True):
                at_ms, piece = chunks[place]
                cleaned[place] = (at_ms, self._piece(piece, text))
        return cleaned

    def _piece(self, piece: str | StreamPiece, text: str) -> str | StreamPiece:
        """Return a piece with another text, and without secrets in its id and name."""
        if isinstance(piece, str):
            return text
        call = piece.tool_call
        if call is None:
            return StreamPiece(reasoning=text)
        call_id, name = (each and self.text(each, "chunks") for each in (call.id, call.name))
        return StreamPiece(tool_call=replace(call, id=call_id, name=name, arguments=text))


def _parts_of(pieces: list[str], span: SecretSpan) -> list[str]:
    """Return the parts of the pieces that spell a secret."""
    parts, offset = [], 0
    for piece in pieces:
        parts.append(piece[max(span.start - offset, 0) : max(span.end - offset, 0)])
        offset += len(piece)
    return list(filter(None, parts))


def _holds(text: str, parts: list[str]) -> bool:
    """Return whether a text has several parts in order, with anything between them."""
    place = 0
    for part in parts:
        if (place := text.find(part, place)) < 0:
            return False
        place += len(part)
    return len(parts) > 1


_packed = re.compile(rb'"base64":"([A-Za-z0-9+/]{8,}={0,2})"')


def _bytes_in(data: bytes) -> Iterator[bytes]:
    """Yield the base64 contents of JSON."""
    return (b64decode(found[1]) for found in _packed.finditer(data) if len(found[1]) % 4 == 0)


def _unpacked(encoded: object) -> str | None:
    """Return base64 content as reversible text, or None if it is not base64."""
    try:
        return (
            b64decode(encoded, validate=True).decode("utf-8", "surrogateescape") if isinstance(encoded, str) else None
        )
    except ValueError:
        return None


def _decoded(data: bytes) -> Any:
    """Return a message as JSON, else as reversible text."""
    text = data.decode("utf-8", "surrogateescape")
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return text.removesuffix("\n")
    return text.removesuffix("\n") if isinstance(value, str) else value


def _message_text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _encoded(value: Any, before: WireText) -> WireText:
    end = b"\n" if wire_bytes(before).endswith(b"\n") else b""
    data = _message_text(value).encode("utf-8", "surrogateescape") + end
    return websocket_text(data, is_text=isinstance(before, str))
