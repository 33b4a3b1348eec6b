"""Keeping secrets out of what came over the wire."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any, Protocol

from msgspec.structs import replace

from offbook.recording.secret_shapes import PLAIN_MARK, Span
from offbook.recording.wire_pieces import json_documents, spelt_texts
from offbook.recording.wire_record import PLAIN_HTTP, WireRecord, wire_text


class Cleaner(Protocol):
    """What knows secrets."""

    def value(self, value: Any) -> Any:
        """A JSON value without secrets."""
        ...

    def texts(self, texts: list[str]) -> list[str]:
        """The texts without secrets, also without those that are spread over several of them."""
        ...

    def spans(self, text: str) -> list[Span]:
        """The secrets in a text, in order."""
        ...


def cleaned_wire(record: WireRecord, cleaner: Cleaner) -> WireRecord | None:
    """The record without secrets; the same object if it holds none.

    A secret that the events spell out in pieces cannot be taken out of their bytes. The record is then
    None; one of plain HTTP, which nothing else could answer for, has a mark for its body.
    """
    headers, texts = cleaner.value(record.headers), _texts(record)
    new_texts = cleaner.texts(texts)
    if headers == record.headers and new_texts == texts:
        cleaned = record
    else:
        cleaned = replace(_with_texts(record, new_texts), headers=headers)
    if _is_sound(record, cleaned) and not any(cleaner.spans(text) for text in spelt_texts(cleaned.content())):
        return cleaned
    return replace(cleaned, body=PLAIN_MARK, frames=None) if record.protocol == PLAIN_HTTP else None


def _is_sound(record: WireRecord, cleaned: WireRecord) -> bool:
    """Whether what was JSON is still."""
    if cleaned is record:
        return True
    return len(json_documents(record.content())) == len(json_documents(cleaned.content()))


def _texts(record: WireRecord) -> list[str]:
    """The frames as text, each with the whole of the characters that end in it; what is none stays recoverable."""
    decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
    texts = [decoder.decode(data) for _, data in record.timed_frames()]
    return [*texts[:-1], texts[-1] + decoder.decode(b"", final=True)] if texts else []


def _with_texts(record: WireRecord, texts: list[str]) -> WireRecord:
    spelt = [wire_text(text.encode("utf-8", "surrogateescape")) for text in texts]
    if record.frames is None:
        return replace(record, body=spelt[0] if spelt else None)
    return replace(record, frames=[(at_ms, text) for (at_ms, _), text in zip(record.frames, spelt, strict=True)])


def wire_parts(record: WireRecord) -> Iterator[tuple[str, Any]]:
    """All of a record that can hold secrets, with the path to it."""
    yield "wire.headers", record.headers
    path = "wire.frames" if record.is_streamed else "wire.body"
    content = record.content()
    yield path, content.decode("utf-8", "surrogateescape")
    for text in spelt_texts(content):
        yield path, text


def searchable(record: WireRecord) -> bytes:
    """The record's texts without the seams between them, for a quick look."""
    content = record.content()
    return b"\n".join([content, *(text.encode() for text in spelt_texts(content))])
