"""Comparing two recordings of the same run, and proposing which differences are noise."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, Literal

import msgspec
import orjson
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.messages import JsonObject
from offbook.recording.document import Document
from offbook.recording.entries import exchanges_of
from offbook.recording.exchange import Exchange
from offbook.recording.fingerprint import plain_request
from offbook.recording.keys import tool_key
from offbook.recording.miss import difference_between
from offbook.recording.normalise import NO_RULES, NormaliseRules
from offbook.recording.pairing import changed_pairs
from offbook.recording.tool_exchange import ToolExchange
from offbook.recording.wire_comparison import wire_difference

ChangeKind = Literal["removed", "added", "request", "answer", "wire"]
VOLATILE_SHAPES = {
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "time of day": r"\b\d{2}:\d{2}:\d{2}(?:\.\d+)?\b",
    "unix time": r"\b1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?\b",
    "hex id": r"\b[0-9a-f]{16,64}\b",
}


class Change(Struct, frozen=True):
    """A difference between two recordings: where it is, of what kind, and what differs.

    `place` is that of plain HTTP, like `GET /v1/models`. `old_key` is the key in the first recording, where a request
    that is kept under its fingerprint has changed, and with it its key.
    """

    key: str
    position: int
    kind: ChangeKind
    difference: str = ""
    place: str = ""
    old_key: str = ""


class Proposal(Struct, frozen=True):
    """Normalise rules that would make the requests of two runs equal, and the paths that no rule explains."""

    rules: NormaliseRules
    unexplained: tuple[str, ...]


def compare(old: Document, new: Document) -> list[Change]:
    """What differs, key by key and call by call; then where requests without a step have changed, then tool by tool."""
    changes: list[Change] = []
    changed = changed_pairs(old, new)
    elsewhere = {(placed.key, placed.position) for pair in changed for placed in pair}
    for key in sorted(old.entries.keys() | new.entries.keys()):
        pairs = zip_longest(old.exchanges(key), new.exchanges(key))
        for position, (before, after) in enumerate(pairs):
            if (key, position) not in elsewhere:
                changes.extend(_changes(key, position, before, after))
    for was, placed in changed:
        found = _changes(placed.key, placed.position, was.exchange, placed.exchange, is_changed=True)
        changes.extend(replace(change, old_key=was.key) for change in found)
    for tool in sorted(old.tools.keys() | new.tools.keys()):
        calls = zip_longest(exchanges_of(old.tools, tool), exchanges_of(new.tools, tool))
        for position, (earlier, later) in enumerate(calls):
            changes.extend(_tool_changes(tool_key(tool), position, earlier, later))
    return changes


def _tool_changes(key: str, position: int, before: ToolExchange | None, after: ToolExchange | None) -> Iterator[Change]:
    if before is None or after is None:
        yield Change(key, position, "added" if before is None else "removed")
        return
    if before.fingerprint != after.fingerprint:
        asked = ({"arguments": None if call.arguments is UNSET else call.arguments} for call in (before, after))
        yield Change(key, position, "request", difference_between(*asked))
    answers = [_tool_answer(call) for call in (before, after)]
    if answers[0] != answers[1]:
        yield Change(key, position, "answer", difference_between(*answers))


def _tool_answer(exchange: ToolExchange) -> JsonObject:
    failed = exchange.error is not None
    return {"error": msgspec.to_builtins(exchange.error)} if failed else {"result": exchange.answer}


def _changes(
    key: str, position: int, before: Exchange | None, after: Exchange | None, *, is_changed: bool = False
) -> Iterator[Change]:
    """What differs between two exchanges, of whose requests it may be known that they have changed."""
    place = next(exchange.http_place() for exchange in (after, before) if exchange is not None)
    if before is None or after is None:
        yield Change(key, position, "added" if before is None else "removed", place=place)
        return
    asked_before, asked_after = _asked(before) or before.http_fields(), _asked(after) or after.http_fields()
    if asked_before is not None and asked_after is not None and (is_changed or asked_before != asked_after):
        yield Change(key, position, "request", difference_between(asked_before, asked_after), place)
    if _answer(before) != _answer(after):
        yield Change(key, position, "answer", _answer_difference(before, after), place)
    elif difference := wire_difference(before.wire, after.wire):
        yield Change(key, position, "answer" if place else "wire", difference, place)


def _asked(exchange: Exchange) -> JsonObject | None:
    fields = exchange.request_fields()
    return None if fields is None else plain_request(fields)


def _answer(exchange: Exchange) -> tuple[Any, ...]:
    return exchange.content, exchange.tool_calls, exchange.reasoning, exchange.ending, exchange.fault


def _answer_difference(before: Exchange, after: Exchange) -> str:
    old, new = ({"messages": [_as_message(exchange)]} for exchange in (before, after))
    return difference_between(old, new)


def _as_message(exchange: Exchange) -> JsonObject:
    content, calls, reasoning, finish_reason, fault = _answer(exchange)
    message: JsonObject = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [{"name": call.name, "arguments": call.arguments} for call in calls]
    optional = {"reasoning": reasoning, "fault": fault and fault.type}
    further = {name: value for name, value in optional.items() if value}
    return message | further | ({} if finish_reason == "stop" else {"finish_reason": finish_reason})


def propose(old: Document, new: Document) -> Proposal:
    """Rules that take out what differs between two runs that should have asked the same."""
    ignore: dict[str, None] = {}
    mask: dict[str, None] = {}
    unexplained: dict[str, None] = {}
    for before, after in _request_pairs(old, new):
        for path, left, right in _leaves(before, after, ""):
            shape = _volatile_shape(left, right)
            if shape is None and _is_field(path):
                ignore[path] = None
            elif shape is None:
                unexplained[path] = None
            else:
                mask[shape] = None
    rules = NormaliseRules(ignore=tuple(sorted(ignore)), mask=tuple(mask)) if ignore or mask else NO_RULES
    return Proposal(rules, tuple(unexplained))


def _request_pairs(old: Document, new: Document) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Requests that should have been equal: of the same step and position, or without step in the same order."""
    shared = [key for key in old.entries if key in new.entries]
    for key in shared:
        yield from _asked_pairs(old.exchanges(key), new.exchanges(key))
    yield from _asked_pairs(_others(old, new), _others(new, old))


def _others(document: Document, other: Document) -> list[Exchange]:
    left = [exchange for key, exchange in document if key not in other.entries]
    return sorted(left, key=lambda exchange: exchange.recorded_at or "")


def _asked_pairs(old: list[Exchange], new: list[Exchange]) -> Iterator[tuple[JsonObject, JsonObject]]:
    for before, after in zip(old, new, strict=False):
        asked_before, asked_after = _asked(before), _asked(after)
        if asked_before is not None and asked_after is not None:
            yield asked_before, asked_after


def _leaves(old: Any, new: Any, path: str) -> Iterator[tuple[str, Any, Any]]:
    """The places at which two values differ, with indexes of lists left open."""
    if old == new:
        return
    inner = _json_pair(old, new)
    if inner is not None:
        yield from _leaves(*inner, path)
    elif isinstance(old, dict) and isinstance(new, dict):
        for name in sorted(old.keys() | new.keys()):
            yield from _leaves(old.get(name), new.get(name), f"{path}.{name}" if path else str(name))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for left, right in zip(old, new, strict=True):
            yield from _leaves(left, right, f"{path}[*]")
    else:
        yield path, old, new


def _json_pair(old: Any, new: Any) -> tuple[Any, Any] | None:
    if not (isinstance(old, str) and isinstance(new, str) and old[:1] in "{[" and new[:1] in "{["):
        return None
    try:
        return orjson.loads(old), orjson.loads(new)
    except orjson.JSONDecodeError:
        return None


def _volatile_shape(old: Any, new: Any) -> str | None:
    """The first shape whose masking makes two texts equal."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return None
    for shape in VOLATILE_SHAPES.values():
        if re.sub(shape, "", old) == re.sub(shape, "", new):
            return shape
    return None


def _is_field(path: str) -> bool:
    """Whether the path names a field inside a message's JSON or inside `extra`, not a whole message."""
    return bool(re.fullmatch(r"messages\[\*\]\.content[.\[].+|extra\..+", path))
