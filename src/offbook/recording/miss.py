"""Why a request found no answer: the nearest entry, and what differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import orjson

from offbook.errors import RecordingMismatchError
from offbook.messages import JsonObject, Request
from offbook.recording.cursor import Match
from offbook.recording.exchange import Exchange
from offbook.recording.fingerprint import canonical, plain_request
from offbook.recording.key_choice import short_key
from offbook.recording.keys import shown
from offbook.recording.nearness import messages_of, similarity
from offbook.recording.normalise import NormaliseRules
from offbook.recording.redaction import Redactor
from offbook.recording.stores.store import Shelf, Stored

SEARCHED = 2_000
SHOWN_LINES = 24
SHOWN_KEYS = 12
SHOWN_COLUMNS = 110
SHOWN_BEFORE = 40
RECORD_AGAIN = 'record it again with record="all", which replaces what is there, or undo the change'
RECORD_AFRESH = 'record it again with record="fresh", which replaces the recording, or undo the change'
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def mismatch_error(
    request: Request, match: Match[Exchange], shelf: Shelf, rules: NormaliseRules
) -> RecordingMismatchError:
    """The error for a call that a strict replay must refuse, with the diff that explains it."""
    asked = plain_request(Redactor().value(canonical(request)), rules)
    near = match.stored or _nearest(asked, islice(shelf, SEARCHED), rules)
    if near is not None and match.mismatch == "drifted":
        near = _nearest(asked, _stored_under(near.key, shelf), rules) or near
    recorded = None if near is None else _recorded(near, rules)
    is_used_up = match.mismatch == "exhausted"
    is_alike = near is None or (is_used_up and recorded in (None, asked))
    difference = "" if near is None or is_alike else _difference_to(near, recorded, asked)
    who = f"step {shown(request.step_id)}" if request.step_id else f"a request to {shown(request.model)}"
    told = _told(who, match, near, shelf, request.step_id)
    told += " The nearest of them differs:" if is_used_up and difference else ""
    key = None if near is None else near.key
    return RecordingMismatchError(
        f"{shelf.source}: {told}",
        kind=match.mismatch or "missing",
        key=key,
        difference=difference,
        hint=_hint(request.step_id, match, near, shelf),
    )


def _hint(step_id: str | None, match: Match[Exchange], near: Stored[Exchange] | None, shelf: Shelf) -> str:
    if match.mismatch == "drifted":
        return RECORD_AGAIN
    if match.mismatch != "missing" or step_id is not None:
        return ""
    if near is not None:
        step = f"give the call its step_id, {shown(near.key)}, or "
        return RECORD_AFRESH if near.key == near.fingerprint else step + RECORD_AFRESH
    has_steps = any(stored.key != stored.fingerprint for stored in islice(shelf, SEARCHED))
    return "give the call the step_id of an entry" if has_steps else ""


def _told(who: str, match: Match[Exchange], near: Stored[Exchange] | None, shelf: Shelf, step_id: str | None) -> str:
    if match.mismatch == "drifted" and near is not None:
        return f"{who}{_which_call(near, shelf)} was recorded with another request:"
    if match.mismatch == "exhausted":
        return f"{who}: {_used_up(match, shelf)}"
    told = f"{who} is not in the recording."
    if step_id is not None:
        keys = dict.fromkeys(stored.key for stored in islice(shelf, SEARCHED))
        close = difflib.get_close_matches(step_id, keys, n=1)
        told += f" Did you mean {shown(close[0])}?" if close else ""
    if near is None:
        return f"{told} {_keys_of(shelf)}"
    name = short_key(near.key) if near.key == near.fingerprint else near.key
    return f"{told} The nearest entry is {shown(name)}:"


def _difference_to(near: Stored[Exchange], recorded: JsonObject | None, asked: JsonObject) -> str:
    place = "" if recorded is not None else near.exchange.http_place()
    return f"  (the entry answers {place})"[:SHOWN_COLUMNS] if place else difference_between(recorded, asked)


def _keys_of(shelf: Shelf) -> str:
    keys = list(dict.fromkeys(stored.exchange.http_place() or stored.key for stored in islice(shelf, SEARCHED)))
    more = ", …" if len(keys) > SHOWN_KEYS else ""
    return f"It has: {', '.join(shown(key) for key in keys[:SHOWN_KEYS])}{more}" if keys else "The recording is empty."


def _used_up(match: Match[Exchange], shelf: Shelf) -> str:
    assert match.stored is not None
    near = match.stored
    if match.matched_by == "step_id":
        count = sum(other.key == near.key for other in shelf)
        return f"it has {_answers(count)}, and what fits was served already."
    count = sum(other.fingerprint == near.fingerprint for other in shelf)
    if near.fingerprint is None:
        return f"the recording has {_answers(count)} for any request, and every one was served already."
    return f"this request has {_answers(count)}, and every one was served already."


def _answers(count: int) -> str:
    return "one answer in a list" if count == 1 else f"{count} answers"


def _recorded(stored: Stored[Exchange], rules: NormaliseRules) -> JsonObject | None:
    fields = stored.exchange.request_fields()
    return None if fields is None else plain_request(fields, rules)


def _stored_under(key: str, shelf: Shelf) -> Iterator[Stored[Exchange]]:
    """The first entries under a key."""
    stored = shelf.only(key) or shelf.find(key=key, fingerprint=None, after=-1)
    for _ in range(SEARCHED):
        if stored is None:
            return
        yield stored
        stored = None if stored.repeats else shelf.find(key=key, fingerprint=None, after=stored.id)


def _which_call(near: Stored[Exchange], shelf: Shelf) -> str:
    """Which of its key's entries it is, where there are several."""
    ids = [stored.id for stored in _stored_under(near.key, shelf)]
    return f", call {ids.index(near.id) + 1}" if len(ids) > 1 and near.id in ids else ""


def _nearest(asked: JsonObject, entries: Iterable[Stored[Exchange]], rules: NormaliseRules) -> Stored[Exchange] | None:
    best, best_score = None, -1.0
    for stored in entries:
        recorded = _recorded(stored, rules)
        score = -1.0 if recorded is None else similarity(recorded, asked)
        if score > best_score:
            best, best_score = stored, score
    return best


def difference_between(recorded: JsonObject | None, asked: JsonObject) -> str:
    """What differs, field by field and message by message, cut to one screen."""
    if recorded is None:
        return "  (the entry does not say what was asked)"
    lines = [f"  {_UNPRINTABLE.sub('·', line)}"[:SHOWN_COLUMNS] for line in _difference(recorded, asked)]
    if len(lines) > SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], f"  … {len(lines) - SHOWN_LINES} more lines"]
    return "\n".join(lines) or "  (nothing differs that can be shown)"


def _difference(recorded: JsonObject, asked: JsonObject) -> Iterator[str]:
    for name in sorted((recorded.keys() | asked.keys()) - {"messages"}):
        if recorded.get(name) != asked.get(name):
            yield f"{name}:"
            yield from _changed(_lines(recorded.get(name)), _lines(asked.get(name)))
    old, new = messages_of(recorded), messages_of(asked)
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
    lines = [line for line in islice(changes, 2, None) if not line.startswith("@@")]
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if line.startswith("-") and after.startswith("+"):
            yield _from_change(line, after)
        elif line.startswith("+") and before.startswith("-"):
            yield _from_change(line, before)
        else:
            yield line


def _from_change(line: str, other: str) -> str:
    """A changed line, without most of a long beginning that has not changed."""
    pairs = enumerate(zip(line[1:], other[1:], strict=False))
    equal = next((place for place, (left, right) in pairs if left != right), 0)
    return f"{line[0]}…{line[1 + equal - SHOWN_BEFORE :]}" if equal > SHOWN_COLUMNS - SHOWN_BEFORE else line


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
    try:
        return orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS).decode().splitlines()
    except orjson.JSONEncodeError:  # what is nested too deep to be indented goes on one line
        return [msgspec.json.encode(value).decode()]
