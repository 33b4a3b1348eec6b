"""Gemini: embeddings."""

from __future__ import annotations

import re
from typing import Annotated, Any

from msgspec import Meta, Struct

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.recording.fingerprint import canonical_bytes
from offbook.wire.side.body import read_body
from offbook.wire.side.embeddable import MAX_INPUTS, NOT_TEXT, Dimensions, Embeddable, as_bytes
from offbook.wire.side.token_counts import TOKENS_PER_MEDIUM, estimated_tokens

_DEFAULT_DIMENSIONS = 3072
_DIMENSIONS = {"text-embedding-004": 768, "embedding-001": 768}
_MODEL = re.compile(r".*/(?P<model>[^/:]+):\w+")


class _Config(Struct, rename="camel"):
    output_dimensionality: Dimensions | None = None


class _Body(Struct, rename="camel"):
    content: dict[str, Any]
    output_dimensionality: Dimensions | None = None
    embed_content_config: dict[str, Any] | None = None


class _Content(Struct):
    parts: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class _Part(Struct):
    text: str | None = None


class _Batch(Struct):
    requests: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MAX_INPUTS)]


class _Embedded(Struct, frozen=True):
    values: list[float]
    tokens: int


def google_embedding(path: str, body: JsonObject) -> JsonObject:
    """The answer of `models/{model}:embedContent`."""
    embedded = _embedded(path, body)
    return {"embedding": {"values": embedded.values}, "usageMetadata": {"promptTokenCount": embedded.tokens}}


def google_embeddings(path: str, body: JsonObject) -> JsonObject:
    """The answer of `models/{model}:batchEmbedContents`."""
    asked = read_body(body, _Batch).requests
    embedded = [_embedded(path, each, place=f"requests[{index}]") for index, each in enumerate(asked)]
    return {
        "embeddings": [{"values": each.values} for each in embedded],
        "usageMetadata": {"promptTokenCount": sum(each.tokens for each in embedded)},
    }


def _embedded(path: str, body: JsonObject, *, place: str = "") -> _Embedded:
    asked = read_body(body, _Body, place=place)
    config = read_body(asked.embed_content_config or {}, _Config, place=f"{place}.embedContentConfig")
    dimensions = asked.output_dimensionality or config.output_dimensionality or _default_dimensions(path)
    content = _embeddable(asked.content, f"{place}.content".lstrip("."))
    return _Embedded(content.vector(dimensions), content.tokens)


def _default_dimensions(path: str) -> int:
    named = _MODEL.fullmatch(path)
    return _DIMENSIONS.get(named["model"] if named else "", _DEFAULT_DIMENSIONS)


def _embeddable(content: JsonObject, place: str) -> Embeddable:
    """All parts of a content as one; texts are joined."""
    parts = read_body(content, _Content, place=place).parts
    each = [_part(part, f"{place}.parts[{index}]") for index, part in enumerate(parts)]
    joined = b"".join(part.content for part in each)
    if not joined:
        raise RequestError("there is no text in it", source="request body", place=place)
    return Embeddable(joined, sum(part.tokens for part in each))


def _part(part: JsonObject, place: str) -> Embeddable:
    text = read_body(part, _Part, place=place).text
    if text is None:
        return Embeddable(NOT_TEXT + canonical_bytes(part), TOKENS_PER_MEDIUM)
    return Embeddable(as_bytes(text), estimated_tokens(text))
