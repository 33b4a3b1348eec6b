"""Why a request found no answer: the nearest entry, and what differs."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from itertools import islice

import orjson

from understudy.errors import RecordingMismatchError
from understudy.messages import JsonObject, Request
from understudy.recording.cursor import Match
from understudy.recording.fingerprint import canonical, canonical_bytes, normalised
from understudy.recording.keys import shown
from understudy.recording.normalise import NormaliseRules
from understudy.recording.redaction import Redactor
from understudy.recording.stores.store import Shelf, Stored

SEARCHED = 2_000
SHOWN_LINES = 24
SHOWN_COLUMNS = 110


def mismatch_error(request: Request, match: Match, shelf: Shelf, rules: NormaliseRules) -> RecordingMismatchError:
    """The error for a call that a strict replay must refuse, with the diff that explains it."""
    asked = _plain(Redactor().value(normalised(canonical(request), rules)))
    near = match.stored or _nearest(asked, shelf, rules)
    difference = "" if near is None else difference_between(_recorded(near, rules), asked)
    who = f"step {shown(request.step_id)}" if request.step_id else f"a request to {request.model!r} without step_id"
    told = _told(who, match, near, shelf, request.step_id)
    key = None if near is None else near.key
    return RecordingMismatchError(
        f"{shelf.source}: {told}", kind=match.mismatch or "missing", key=key, difference=difference
    )


def _told(who: str, match: Match, near: Stored | None, shelf: Shelf, step_id: str | None) -> str:
    if match.mismatch == "drifted":
        return f"{who} was recorded with another request. Record it again, or undo the change:"
    if match.mismatch == "exhausted":
        return f"{who}: every recorded answer to this request was served already ({_count(match, shelf)} in all)."
    told = f"{who} is not in the recording."
    if step_id is not None:
        keys = dict.fromkeys(stored.key for stored in islice(shelf, SEARCHED))
        close = difflib.get_close_matches(step_id, keys, n=1)
        told += f" Did you mean {close[0]!r}?" if close else ""
    if near is None:
        return f"{told} The recording is empty." if not len(shelf) else f"{told} No entry says what was asked."
    return f"{told} The nearest entry is {shown(near.key)}:"


def _count(match: Match, shelf: Shelf) -> int:
    assert match.stored is not None
    stored = match.stored
    return sum(other.key == stored.key for other in shelf) if match.matched_by == "step_id" else 1


def _recorded(stored: Stored, rules: NormaliseRules) -> JsonObject | None:
    fields = stored.exchange.request_fields()
    return None if fields is None or "messages" not in fields else _plain(normalised(fields, rules))


def _plain(fields: JsonObject) -> JsonObject:
    """The fields as JSON spells them, so that tuples and lists compare."""
    plain: JsonObject = orjson.loads(canonical_bytes(fields))
    return plain


def _nearest(asked: JsonObject, shelf: Shelf, rules: NormaliseRules) -> Stored | None:
    best, best_score = None, -1.0
    for stored in islice(shelf, SEARCHED):
        recorded = _recorded(stored, rules)
        score = -1.0 if recorded is None else _similarity(recorded, asked)
        if score > best_score:
            best, best_score = stored, score
    return best


def _similarity(recorded: JsonObject, asked: JsonObject) -> float:
    equal_fields: int = sum(recorded.get(name) == asked.get(name) for name in ("model", "tools", "temperature"))
    pairs = list(zip(recorded["messages"], asked["messages"], strict=False))
    equal: int = sum(old == new for old, new in pairs)
    unequal = next(((old, new) for old, new in pairs if old != new), None)
    longest: int = max(len(recorded["messages"]), len(asked["messages"]), 1)
    return 10.0 * (equal + _closeness(unequal)) / longest + equal_fields


def _closeness(messages: tuple[JsonObject, JsonObject] | None) -> float:
    if messages is None:
        return 0.0
    old, new = messages
    return float(difflib.SequenceMatcher(None, _text(old), _text(new)).quick_ratio())


def _text(message: JsonObject) -> str:
    content = message.get("content")
    return content[:2_000] if isinstance(content, str) else orjson.dumps(message).decode()[:2_000]


def difference_between(recorded: JsonObject | None, asked: JsonObject) -> str:
    """What differs, field by field and message by message, cut to one screen."""
    if recorded is None:
        return "  (the entry does not say what was asked)"
    lines = [f"  {line}"[:SHOWN_COLUMNS] for line in _difference(recorded, asked)]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"  … {len(lines) - SHOWN_LINES} more lines"]
    return "\n".join(lines) or "  (nothing differs)"


def _difference(recorded: JsonObject, asked: JsonObject) -> Iterator[str]:
    for name in sorted((recorded.keys() | asked.keys()) - {"messages"}):
        if recorded.get(name) != asked.get(name):
            yield f"{name}:"
            yield from _changed(_lines(recorded.get(name)), _lines(asked.get(name)))
    old, new = recorded["messages"], asked["messages"]
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        if before != after:
            yield f"messages[{index}] ({_role(after or before)}):"
            yield from _changed(_message_lines(before), _message_lines(after))


def _role(message: JsonObject | None) -> str:
    return str((message or {}).get("role", "no role"))


def _changed(old: list[str], new: list[str]) -> Iterator[str]:
    changes = difflib.unified_diff(old, new, lineterm="", n=1)
    return (line for line in islice(changes, 2, None) if not line.startswith("@@"))


def _message_lines(message: JsonObject | None) -> list[str]:
    if message is None:
        return []
    content = message.get("content")
    if isinstance(content, str) and set(message) <= {"role", "content"}:
        return [f"{message.get('role')}:", *content.splitlines()]
    return _lines(message)


def _lines(value: object) -> list[str]:
    if value is None:
        return []
    return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode().splitlines()
