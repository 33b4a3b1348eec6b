"""How an answer of today differs from the recorded one to the same request: in kind, in tools, in fields, in tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal

import orjson
from msgspec import Struct

from offbook.messages import json_text
from offbook.recording.embeddings import cosine_similarity, embeddings_of
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
"""What differs. `text`, `tokens` (of the answer), `cost`, and `rounding` of embeddings vary from answer to answer: no
drift. `vectors` is how many embeddings there are, `direction` how alike they are."""

_NO_DRIFT = ("text", "tokens", "cost", "rounding")
SAME_DIRECTION = 0.999
"""The least cosine similarity of two embeddings that count as the same: APIs do not compute them to the bit."""
_INDEX = re.compile(r"\[\d+\]")
_ABSENT = "(none)"
SHOWN_CHARS = 80


class Difference(Struct, frozen=True):
    """One difference: its kind, where it is (`refund.amount`), and both values as text."""

    kind: DriftKind
    place: str
    recorded: str
    live: str

    @property
    def is_drift(self) -> bool:
        """Whether the answer has drifted by this, and is not merely worded in another way."""
        return self.kind not in _NO_DRIFT


def differences_between(recorded: Exchange, live: Exchange) -> list[Difference]:
    """Return how a live answer differs from the recorded one. Ids, times and reasoning do not count.

    Text and fields are compared only if both are of one kind, with the same tool calls: others have other fields.
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
    return [*kinds, *(() if kinds else _contents(recorded, live)), *model, *_costs(recorded, live)]


def _contents(recorded: Exchange, live: Exchange) -> Iterator[Difference]:
    yield from _fields(recorded.wire, live.wire)
    yield from _json_fields(recorded.content, live.content)
    yield from _unless_equal("text", "text", recorded.content, live.content)


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
    """Yield what differs between the tool calls. Each is compared with the next one of its name: parallel calls have no
    order."""
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
    """Yield how embeddings differ: in number, in dimensions, or in direction; of the latter, the least alike."""
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
    """Yield other counts of tokens, and another cost, if both answers have counts. A prompt has as many as before."""
    before, after = recorded.usage, live.usage
    if before is None or after is None or not before.total_tokens or not after.total_tokens:
        return
    yield from _unless_equal("prompt_tokens", "prompt tokens", before.prompt_tokens, after.prompt_tokens)
    yield from _unless_equal("tokens", "answer tokens", before.completion_tokens, after.completion_tokens)
    yield from _unless_equal("cost", "cost", f"${recorded.cost_usd:.6f}", f"${live.cost_usd:.6f}")
