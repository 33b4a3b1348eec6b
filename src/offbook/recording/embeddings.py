"""Recorded embeddings: the vectors, the model and the tokens in an answer of OpenAI, Gemini or Ollama."""

from __future__ import annotations

import math
import struct
from base64 import b64decode
from collections.abc import Sequence
from typing import Any, TypeAlias

import orjson
from msgspec import Struct

FLOAT32_BYTES = 4

Vector: TypeAlias = Sequence[float]


class Embeddings(Struct, frozen=True):
    """What an answer holds. `model` is empty, and `tokens` is 0, if it does not say them."""

    vectors: list[Vector]
    model: str = ""
    tokens: int = 0


def embeddings_of(content: bytes) -> Embeddings | None:
    """Return the embeddings in the body of an answer; None if there are none."""
    try:
        body = orjson.loads(content)
    except orjson.JSONDecodeError:
        return None
    found = _vectors(body) if isinstance(body, dict) else []
    vectors = [vector for vector in map(_vector, found) if vector is not None]
    if not vectors or len(vectors) < len(found):
        return None
    model, tokens = body.get("model"), _tokens(body)
    return Embeddings(vectors, model if isinstance(model, str) else "", tokens if isinstance(tokens, int) else 0)


def _vectors(body: dict[str, Any]) -> list[Any]:
    match body:
        case {"data": [*items]}:
            return [item.get("embedding") if isinstance(item, dict) else None for item in items]
        case {"embeddings": [*items]}:
            return [item.get("values") if isinstance(item, dict) else item for item in items]
        case {"embedding": {"values": values}}:
            return [values]
        case {"embedding": values}:
            return [values]
    return []


def _vector(value: Any) -> Vector | None:
    """Return a list of numbers, or those that base64 holds as float32; None if it is neither."""
    if isinstance(value, str):
        try:
            data = b64decode(value, validate=True)
            return struct.unpack(f"<{len(data) // FLOAT32_BYTES}f", data)
        except (ValueError, struct.error):
            return None
    is_vector = isinstance(value, list) and all(isinstance(each, int | float) for each in value)
    return value if is_vector else None


def _tokens(body: dict[str, Any]) -> Any:
    match body:
        case {"usage": {"prompt_tokens": tokens}}:
            return tokens
        case {"usageMetadata": {"promptTokenCount": tokens}}:
            return tokens
    return body.get("prompt_eval_count")


def cosine_similarity(one: Vector, other: Vector) -> float:
    """Return the cosine of the angle between two vectors of as many dimensions.

    It is 0 if one has no direction, or numbers that are too large for one.
    """
    try:
        lengths = math.sqrt(math.fsum(a * a for a in one)) * math.sqrt(math.fsum(b * b for b in other))
        cosine = math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0
    except (OverflowError, ValueError):
        return 0.0
    return cosine if math.isfinite(cosine) else 0.0
