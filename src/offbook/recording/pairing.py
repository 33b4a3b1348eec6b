"""Finding, in two recordings of the same run, the requests that have changed: each is nearest to the other."""

from __future__ import annotations

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.recording.document import Document
from offbook.recording.exchange import Exchange
from offbook.recording.fingerprint import plain_request
from offbook.recording.nearness import similarity

NEAR = 8.0
"""The similarity from which on a request may be a changed other one: with the same model, half of its messages."""

WINDOW = 25
"""How far from its place among the others a request is looked for."""


class Placed(Struct, frozen=True):
    """An exchange, with its key and its place in the key's list."""

    key: str
    position: int
    exchange: Exchange


def changed_pairs(old: Document, new: Document) -> list[tuple[Placed, Placed]]:
    """The exchanges that each recording has alone under the fingerprint of its request, paired by nearness."""
    before, after = _alone(old, new), _alone(new, old)
    scored = sorted(_scored(before, after), reverse=True)
    left, right, pairs = set[int](), set[int](), list[tuple[Placed, Placed]]()
    for _, _, index, other in scored:
        if index not in left and other not in right:
            left.add(index)
            right.add(other)
            pairs.append((before[index], after[other]))
    return sorted(pairs, key=lambda pair: (pair[1].key, pair[1].position))


def _alone(document: Document, other: Document) -> list[Placed]:
    """What the other has no such key of, in the order in which it was recorded."""
    placed = [
        Placed(key, position, exchange)
        for key in document.entries.keys() - other.entries.keys()
        for position, exchange in enumerate(document.exchanges(key))
        if key == exchange.fingerprint
    ]
    return sorted(placed, key=lambda item: (item.exchange.recorded_at or "", item.key, item.position))


def _scored(before: list[Placed], after: list[Placed]) -> list[tuple[float, int, int, int]]:
    """Those that are near: how near, how close in order, and the indexes of both."""
    asked_before, asked_after = ([_asked(item.exchange) for item in side] for side in (before, after))
    return [
        (score, -abs(index - other), index, other)
        for index, asked in enumerate(asked_before)
        for other in range(max(0, index - WINDOW), min(len(after), index + WINDOW + 1))
        if (score := _score(asked, asked_after[other])) >= NEAR
    ]


def _asked(exchange: Exchange) -> JsonObject:
    fields = exchange.request_fields()
    return exchange.http_fields() or {} if fields is None else plain_request(fields)


def _score(before: JsonObject, after: JsonObject) -> float:
    if "path" in before or "path" in after:
        is_same_place = all(before.get(name) == after.get(name) for name in ("method", "path"))
        return NEAR if is_same_place else 0.0
    return similarity(before, after) if before and after else 0.0
