"""Synthetic embeddings: a unit vector derived from each text, in the formats of OpenAI, Gemini and Ollama."""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Sequence
from hashlib import sha256, shake_256
from struct import pack, unpack
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.recording.match.fingerprint import canonical_bytes
from offbook.text import estimate_tokens
from offbook.wire.request import read_body

_HALF = 2**31
TOKENS_PER_MEDIUM = 258
"""The tokens of an image, a sound or a file of any size."""


def unit_vector(content: bytes, dimensions: int) -> list[float]:
    """Return a vector of length 1 for `content`: equal in every process, and different for other content.

    Its numbers fit float32, so they are equal in every encoding. A vector of fewer dimensions has the direction of the
    first dimensions of a longer one.
    """
    drawn = shake_256(sha256(content).digest()).digest(4 * dimensions)
    sides = [number - _HALF + 0.5 for number in unpack(f"<{dimensions}I", drawn)]
    length = math.sqrt(math.fsum(side * side for side in sides))
    return list(unpack(f"<{dimensions}f", pack(f"<{dimensions}f", *(side / length for side in sides))))


def float32_bytes(vector: list[float]) -> bytes:
    """Return the vector as little-endian float32 numbers."""
    return pack(f"<{len(vector)}f", *vector)


MAX_INPUTS = 2_048
MAX_DIMENSIONS = 10_000

NonEmptyText: TypeAlias = Annotated[str, Meta(min_length=1)]
Dimensions: TypeAlias = Annotated[int, Meta(ge=1, le=MAX_DIMENSIONS)]

NOT_TEXT = b"\xff"
"""A byte that occurs in no UTF-8 text, so that other content never equals a text."""


class Embeddable(Struct, frozen=True):
    """Content to embed, as bytes (a text as UTF-8), with its estimated number of tokens."""

    content: bytes
    tokens: int

    @classmethod
    def of_text(cls, text: str) -> Embeddable:
        return cls(utf8_bytes(text), max(1, estimate_tokens(len(text))))

    @classmethod
    def of_token_ids(cls, ids: Sequence[int]) -> Embeddable:
        return cls(NOT_TEXT + ",".join(map(str, ids)).encode(), len(ids))

    def vector(self, dimensions: int) -> list[float]:
        return unit_vector(self.content, dimensions)


def utf8_bytes(text: str) -> bytes:
    """Encode the text as UTF-8; a lone surrogate, which JSON allows, as if it were a character."""
    return text.encode("utf-8", "surrogatepass")


_OPENAI_DEFAULT_DIMENSIONS = 1536
_OPENAI_DIMENSIONS = {"text-embedding-3-large": 3072}

_TokenId = Annotated[int, Meta(ge=0)]
_OpenAIInput = NonEmptyText | _TokenId | Annotated[list[_TokenId], Meta(min_length=1)]


class _OpenAIBody(Struct):
    model: str
    input: NonEmptyText | Annotated[list[_OpenAIInput], Meta(min_length=1)]
    dimensions: Dimensions | None = None
    encoding_format: Literal["float", "base64"] | None = None


def openai_embeddings(body: JsonObject) -> JsonObject:
    """Answer `/v1/embeddings`."""
    parsed = read_body(body, _OpenAIBody)
    inputs = _openai_inputs(parsed.input)
    dimensions = parsed.dimensions or _OPENAI_DIMENSIONS.get(parsed.model, _OPENAI_DEFAULT_DIMENSIONS)
    is_packed = parsed.encoding_format == "base64"
    tokens = sum(each.tokens for each in inputs)
    return {
        "object": "list",
        "data": [_openai_datum(index, each.vector(dimensions), is_packed) for index, each in enumerate(inputs)],
        "model": parsed.model,
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
    }


def _openai_inputs(given: str | list[str | int | list[int]]) -> list[Embeddable]:
    """Read a text, texts, a text as token ids, or texts as token ids; they must not be mixed."""
    if isinstance(given, str):
        return [Embeddable.of_text(given)]
    texts = [item for item in given if isinstance(item, str)]
    ids = [item for item in given if isinstance(item, int)]
    lists = [item for item in given if isinstance(item, list)]
    if len(given) not in (len(texts), len(ids), len(lists)):
        raise RequestError("texts and token ids are mixed", source="request body", place="input")
    if len(texts or lists) > MAX_INPUTS:
        raise RequestError(f"more than {MAX_INPUTS:,} inputs", source="request body", place="input")
    if ids:
        return [Embeddable.of_token_ids(ids)]
    return [*map(Embeddable.of_text, texts), *map(Embeddable.of_token_ids, lists)]


def _openai_datum(index: int, vector: list[float], is_packed: bool) -> JsonObject:
    embedding = b64encode(float32_bytes(vector)).decode() if is_packed else vector
    return {"object": "embedding", "index": index, "embedding": embedding}


_GOOGLE_DEFAULT_DIMENSIONS = 3072
_GOOGLE_DIMENSIONS = {"text-embedding-004": 768, "embedding-001": 768}
_GOOGLE_MODEL = re.compile(r".*/(?P<model>[^/:]+):\w+")


class _GoogleConfig(Struct, rename="camel"):
    output_dimensionality: Dimensions | None = None


class _GoogleBody(Struct, rename="camel"):
    content: dict[str, Any]
    output_dimensionality: Dimensions | None = None
    embed_content_config: dict[str, Any] | None = None


class _GoogleContent(Struct):
    parts: Annotated[list[dict[str, Any]], Meta(min_length=1)]


class _GooglePart(Struct):
    text: str | None = None


class _GoogleBatch(Struct):
    requests: Annotated[list[dict[str, Any]], Meta(min_length=1, max_length=MAX_INPUTS)]


class _GoogleEmbedding(Struct, frozen=True):
    values: list[float]
    tokens: int


def google_embedding(path: str, body: JsonObject) -> JsonObject:
    """Answer `models/{model}:embedContent`."""
    embedded = _google_vector(path, body)
    return {"embedding": {"values": embedded.values}, "usageMetadata": {"promptTokenCount": embedded.tokens}}


def google_embeddings(path: str, body: JsonObject) -> JsonObject:
    """Answer `models/{model}:batchEmbedContents`."""
    parsed = read_body(body, _GoogleBatch).requests
    embedded = [_google_vector(path, each, place=f"requests[{index}]") for index, each in enumerate(parsed)]
    return {
        "embeddings": [{"values": each.values} for each in embedded],
        "usageMetadata": {"promptTokenCount": sum(each.tokens for each in embedded)},
    }


def _google_vector(path: str, body: JsonObject, *, place: str = "") -> _GoogleEmbedding:
    parsed = read_body(body, _GoogleBody, place=place)
    config = read_body(parsed.embed_content_config or {}, _GoogleConfig, place=f"{place}.embedContentConfig")
    dimensions = parsed.output_dimensionality or config.output_dimensionality or _google_default_dimensions(path)
    content = _google_embeddable(parsed.content, f"{place}.content".lstrip("."))
    return _GoogleEmbedding(content.vector(dimensions), content.tokens)


def _google_default_dimensions(path: str) -> int:
    named = _GOOGLE_MODEL.fullmatch(path)
    return _GOOGLE_DIMENSIONS.get(named["model"] if named else "", _GOOGLE_DEFAULT_DIMENSIONS)


def _google_embeddable(content: JsonObject, place: str) -> Embeddable:
    """Join all parts of a content."""
    parts = read_body(content, _GoogleContent, place=place).parts
    each = [_google_part(part, f"{place}.parts[{index}]") for index, part in enumerate(parts)]
    joined = b"".join(part.content for part in each)
    if not joined:
        raise RequestError("the content is empty", source="request body", place=place)
    return Embeddable(joined, sum(part.tokens for part in each))


def _google_part(part: JsonObject, place: str) -> Embeddable:
    text = read_body(part, _GooglePart, place=place).text
    if text is None:
        return Embeddable(NOT_TEXT + canonical_bytes(part), TOKENS_PER_MEDIUM)
    return Embeddable.of_text(text)


OLLAMA_DIMENSIONS = 768


class _OllamaBody(Struct):
    model: str
    input: NonEmptyText | Annotated[list[NonEmptyText], Meta(min_length=1, max_length=MAX_INPUTS)]
    dimensions: Dimensions | None = None


class _OllamaPrompt(Struct):
    prompt: NonEmptyText


def ollama_embeddings(body: JsonObject) -> JsonObject:
    """Answer `/api/embed`. Durations are in nanoseconds."""
    parsed = read_body(body, _OllamaBody)
    texts = [parsed.input] if isinstance(parsed.input, str) else parsed.input
    inputs = [Embeddable.of_text(text) for text in texts]
    dimensions = parsed.dimensions or OLLAMA_DIMENSIONS
    return {
        "model": parsed.model,
        "embeddings": [each.vector(dimensions) for each in inputs],
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": sum(each.tokens for each in inputs),
    }


def ollama_embedding(body: JsonObject) -> JsonObject:
    """Answer `/api/embeddings`, the older endpoint for a single text."""
    prompt = read_body(body, _OllamaPrompt).prompt
    return {"embedding": Embeddable.of_text(prompt).vector(OLLAMA_DIMENSIONS)}


def embeddings_answer(vendor: str, path: str, body: JsonObject) -> JsonObject:
    """Answer the vendor's endpoint for embeddings at `path`.

    A text has an equal vector at every endpoint with the same number of dimensions.

    Raises:
        RequestError: the body is not a request for embeddings, or the vendor has no such endpoint at this path.
    """
    match vendor, path.rpartition("/")[2].rpartition(":")[2]:
        case "openai", "embeddings":
            return openai_embeddings(body)
        case "google", "embedContent":
            return google_embedding(path, body)
        case "google", "batchEmbedContents":
            return google_embeddings(path, body)
        case "ollama", "embed":
            return ollama_embeddings(body)
        case "ollama", "embeddings":
            return ollama_embedding(body)
    raise RequestError(f"{vendor} has no endpoint for embeddings here", source="path", place=path)
