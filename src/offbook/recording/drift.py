"""Compares a live answer with the recorded one: kind, tools, fields, vectors, tokens."""

from __future__ import annotations

import math
import re
import struct
from base64 import b64decode
from collections.abc import Iterator, Sequence
from typing import Any, Literal, TypeAlias

import orjson
from msgspec import Struct

from offbook.messages import json_text
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.recording.format.wire_record import WireRecord, values_by_path
from offbook.text import shorten

DriftKind = Literal[
    "status",
    "answer",
    "tool",
    "argument",
    "finish_reason",
    "field",
    "vectors",
    "dimensions",
    "direction",
    "model",
    "prompt_tokens",
    "text",
    "tokens",
    "cost",
    "rounding",
]
"""The kind of a difference. `text`, `tokens` (of the answer), `cost`, and `rounding` of embeddings vary between answers
and are no drift. `vectors` is the number of embeddings, `direction` their similarity.
"""

_NO_DRIFT = ("text", "tokens", "cost", "rounding")
SAME_DIRECTION = 0.999
"""The least cosine similarity of equal embeddings, which APIs do not reproduce to the bit."""
_INDEX = re.compile(r"\[\d+\]")
_ABSENT = "(none)"
SHOWN_CHARS = 80


class Difference(Struct, frozen=True):
    """One difference: its kind, its place (`refund.amount`), and both values as text."""

    kind: DriftKind
    place: str
    recorded: str
    live: str

    @property
    def is_drift(self) -> bool:
        """Whether this is drift, rather than different wording."""
        return self.kind not in _NO_DRIFT


def differences_between(recorded: Exchange, live: Exchange) -> list[Difference]:
    """Return the differences of a live answer from the recorded one. Ids, times and reasoning do not count.

    Text and fields are compared only between answers of one kind with the same tool calls.
    """
    if recorded.http_fields() is not None:
        contents = [*_statuses(recorded.wire, live.wire), *_fields(recorded.wire, live.wire)]
        model = _unless_equal("model", "model", recorded.model, live.model)
        return [*contents, *_embeddings(recorded.wire, live.wire), *model, *_costs(recorded, live)]
    kinds = [
        *_unless_equal("answer", "answer", _kind(recorded), _kind(live)),
        *_tools(recorded, live),
        *_unless_equal("finish_reason", "finish reason", recorded.ending, live.ending),
    ]
    model = _unless_equal("model", "model", recorded.model, live.model)
    if not kinds:
        kinds = [
            *_fields(recorded.wire, live.wire),
            *_json_fields(recorded.content, live.content),
            *_unless_equal("text", "text", recorded.content, live.content),
        ]
    return [*kinds, *model, *_costs(recorded, live)]


def _unless_equal(kind: DriftKind, place: str, recorded: Any, live: Any) -> Iterator[Difference]:
    if recorded != live:
        yield Difference(kind, place, _shown(recorded), _shown(live))


def _shown(value: Any) -> str:
    return shorten(value if isinstance(value, str) else json_text(value), SHOWN_CHARS)


def _kind(exchange: Exchange) -> str:
    if exchange.tool_calls:
        return "tool call"
    return "text" if exchange.content.strip() else "empty"


def _tools(recorded: Exchange, live: Exchange) -> Iterator[Difference]:
    """Yield the differences between the tool calls. Each is compared with the next one of its name, because parallel
    calls have no order.
    """
    if not recorded.tool_calls or not live.tool_calls:
        return
    left = list(live.tool_calls)
    unpaired: list[RecordedToolCall] = []
    for call in recorded.tool_calls:
        same = next((each for each in left if each.name == call.name), None)
        if same is None:
            unpaired.append(call)
        else:
            left.remove(same)
            yield from _arguments(call, same)
    for index in range(max(len(unpaired), len(left))):
        names = [calls[index].name if index < len(calls) else _ABSENT for calls in (unpaired, left)]
        yield Difference("tool", "tool", *names)


def _arguments(recorded: RecordedToolCall, live: RecordedToolCall) -> Iterator[Difference]:
    before, after = recorded.arguments, live.arguments
    if not isinstance(before, dict) or not isinstance(after, dict):
        yield from _unless_equal("argument", f"{recorded.name} arguments", before, after)
        return
    for name in dict.fromkeys([*before, *after]):
        sides = [_shown(side[name]) if name in side else _ABSENT for side in (before, after)]
        if name not in before or name not in after or before[name] != after[name]:
            yield Difference("argument", f"{recorded.name}.{name}", *sides)


def _statuses(recorded: WireRecord | None, live: WireRecord | None) -> Iterator[Difference]:
    if recorded is not None and live is not None:
        yield from _unless_equal("status", "status", recorded.status, live.status)


def _fields(recorded: WireRecord | None, live: WireRecord | None) -> Iterator[Difference]:
    if recorded is not None and live is not None:
        yield from _other_fields(recorded.content(), live.content(), prefix="")


def _embeddings(recorded: WireRecord | None, live: WireRecord | None) -> Iterator[Difference]:
    """Yield the differences between embeddings: in number, in dimensions, or in the least similar direction."""
    before, after = (None if side is None else embeddings_of(side.content()) for side in (recorded, live))
    if before is None or after is None:
        return
    counts = [len(before.vectors), len(after.vectors)]
    dimensions = [sorted({len(vector) for vector in side.vectors}) for side in (before, after)]
    yield from _unless_equal("vectors", "embeddings", *counts)
    yield from _unless_equal("dimensions", "dimensions", *(", ".join(map(str, each)) for each in dimensions))
    pairs = list(zip(before.vectors, after.vectors, strict=False))
    if before.vectors == after.vectors or any(len(one) != len(other) for one, other in pairs):
        return
    alike = [cosine_similarity(one, other) for one, other in pairs]
    kind: DriftKind = "rounding" if min(alike) >= SAME_DIRECTION else "direction"
    below = sum(each < SAME_DIRECTION for each in alike)
    counted = f" ({below} of {len(alike)} below {SAME_DIRECTION})" if below else ""
    yield Difference(kind, "cosine similarity", "1.0000", f"{min(alike):.4f}{counted}")


def _json_fields(recorded: str, live: str) -> Iterator[Difference]:
    """Yield the fields that only one of two texts has, if both are JSON objects: a model that follows a schema."""
    sides = [text.encode() for text in (recorded, live) if _is_object(text)]
    if len(sides) == 2:
        yield from _other_fields(*sides, prefix="text: ")


def _is_object(text: str) -> bool:
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _other_fields(recorded: bytes, live: bytes, *, prefix: str) -> Iterator[Difference]:
    before, after = _paths(recorded), _paths(live)
    for path in dict.fromkeys([*before, *after]):
        if (path in before) != (path in after):
            yield Difference(
                "field", prefix + path, *("there" if path in side else _ABSENT for side in (before, after))
            )


def _paths(content: bytes) -> list[str]:
    return list(dict.fromkeys(_INDEX.sub("[*]", path) for path in values_by_path(content)))


def _costs(recorded: Exchange, live: Exchange) -> Iterator[Difference]:
    """Yield different token counts and cost, if both answers have counts. The prompt's tokens are equal."""
    before, after = recorded.usage, live.usage
    if before is None or after is None or not before.total_tokens or not after.total_tokens:
        return
    yield from _unless_equal("prompt_tokens", "prompt tokens", before.prompt_tokens, after.prompt_tokens)
    yield from _unless_equal("tokens", "answer tokens", before.completion_tokens, after.completion_tokens)
    yield from _unless_equal("cost", "cost", f"${recorded.cost_usd:.6f}", f"${live.cost_usd:.6f}")


FLOAT32_BYTES = 4

Vector: TypeAlias = Sequence[float]


class Embeddings(Struct, frozen=True):
    """The embeddings of an answer. `model` is "" and `tokens` 0 if the answer lacks them."""

    vectors: list[Vector]
    model: str = ""
    tokens: int = 0


def embeddings_of(content: bytes) -> Embeddings | None:
    """Return the embeddings in the body of an answer, or None."""
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
    """Return a list of numbers, also from base64 float32, or None for anything else."""
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
    """Return the cosine of the angle between two vectors of equal dimensions.

    It is 0 for a vector without a direction, or with numbers that are too large.
    """
    try:
        lengths = math.sqrt(math.fsum(a * a for a in one)) * math.sqrt(math.fsum(b * b for b in other))
        cosine = math.fsum(a * b for a, b in zip(one, other, strict=True)) / lengths if lengths else 0.0
    except (OverflowError, ValueError):
        return 0.0
    return cosine if math.isfinite(cosine) else 0.0
