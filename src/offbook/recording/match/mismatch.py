"""Explains why a model or tool call has no recorded answer: the nearest entry, and what differs."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import islice

import msgspec
import orjson

from offbook.errors import RecordingMismatchError
from offbook.messages import JsonObject, Request
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.keys import quote_name, short_key
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.match.fingerprint import canonical_fields, plain_request
from offbook.recording.match.normalise import NormaliseRules
from offbook.recording.redact.redactor import Redactor
from offbook.recording.stores.store import ExchangeIndex, RecordingReader, StoredExchange

COMPARED_CHARS = 2_000


def similarity(recorded: JsonObject, asked: JsonObject) -> float:
    """From 0 for requests that share nothing to 13 for equal ones: 10 for their messages, and 1 each for the model, the
    tools and the temperature."""
    equal_fields: int = sum(recorded.get(name) == asked.get(name) for name in ("model", "tools", "temperature"))
    old_messages, new_messages = messages_of(recorded), messages_of(asked)
    pairs = list(zip(old_messages, new_messages, strict=False))
    equal: int = sum(old == new for old, new in pairs)
    unequal = next(((old, new) for old, new in pairs if old != new), None)
    longest: int = max(len(old_messages), len(new_messages), 1)
    return 10.0 * (equal + _message_similarity(unequal)) / longest + equal_fields


def messages_of(fields: JsonObject) -> list[JsonObject]:
    """The messages of a request, of which rules may have left none."""
    messages: list[JsonObject] = fields.get("messages", [])
    return messages


def _message_similarity(messages: tuple[JsonObject, JsonObject] | None) -> float:
    if messages is None:
        return 0.0
    old, new = (_message_text(message) for message in messages)
    letters = difflib.SequenceMatcher(None, old, new).quick_ratio()
    words = difflib.SequenceMatcher(None, old.split(), new.split()).quick_ratio()
    return (letters + words) / 2


def _message_text(message: JsonObject) -> str:
    content = message.get("content")
    return content[:COMPARED_CHARS] if isinstance(content, str) else orjson.dumps(message).decode()[:COMPARED_CHARS]


SEARCHED_ENTRIES = 2_000
SHOWN_LINES = 24
SHOWN_KEYS = 12
SHOWN_COLUMNS = 110
SHOWN_BEFORE = 40
RECORD_AGAIN = 'record it again with record="all", which replaces what is there, or undo the change'
RECORD_AFRESH = 'record it again with record="fresh", which replaces the recording, or undo the change'
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def mismatch_error(
    request: Request, match: ExchangeMatch[Exchange], shelf: RecordingReader, rules: NormaliseRules
) -> RecordingMismatchError:
    """The error for a call that a strict replay must refuse, with the diff that explains it."""
    asked = plain_request(Redactor().value(canonical_fields(request)), rules)
    near = match.stored or _nearest_exchange(asked, islice(shelf, SEARCHED_ENTRIES), rules)
    if near is not None and match.mismatch == "drifted":
        near = _nearest_exchange(asked, _stored_under(near.key, shelf), rules) or near
    recorded = None if near is None else _recorded_request(near, rules)
    is_used_up = match.mismatch == "exhausted"
    is_alike = near is None or (is_used_up and recorded in (None, asked))
    difference = "" if near is None or is_alike else _difference_to(near, recorded, asked)
    who = f"step {quote_name(request.step_id)}" if request.step_id else f"a request to {quote_name(request.model)}"
    told = _describe_mismatch(who, match, near, shelf, request.step_id)
    told += " The nearest of them differs:" if is_used_up and difference else ""
    key = None if near is None else near.key
    return RecordingMismatchError(
        f"{shelf.source}: {told}",
        kind=match.mismatch or "missing",
        key=key,
        difference=difference,
        hint=_hint(request.step_id, match, near, shelf),
    )


def _hint(
    step_id: str | None, match: ExchangeMatch[Exchange], near: StoredExchange[Exchange] | None, shelf: RecordingReader
) -> str:
    if match.mismatch == "drifted":
        return RECORD_AGAIN
    if match.mismatch != "missing" or step_id is not None:
        return ""
    if near is not None:
        step = f"give the call its step_id, {quote_name(near.key)}, or "
        return RECORD_AFRESH if near.key == near.fingerprint else step + RECORD_AFRESH
    has_steps = any(stored.key != stored.fingerprint for stored in islice(shelf, SEARCHED_ENTRIES))
    return "give the call the step_id of an entry" if has_steps else ""


def _describe_mismatch(
    who: str,
    match: ExchangeMatch[Exchange],
    near: StoredExchange[Exchange] | None,
    shelf: RecordingReader,
    step_id: str | None,
) -> str:
    if match.mismatch == "drifted" and near is not None:
        return f"{who}{_which_call(near, shelf)} was recorded with another request:"
    if match.mismatch == "exhausted":
        return f"{who}: {_describe_exhausted(match, shelf)}"
    told = f"{who} is not in the recording."
    if step_id is not None:
        keys = dict.fromkeys(stored.key for stored in islice(shelf, SEARCHED_ENTRIES))
        close = difflib.get_close_matches(step_id, keys, n=1)
        told += f" Did you mean {quote_name(close[0])}?" if close else ""
    if near is None:
        return f"{told} {_keys_of(shelf)}"
    name = short_key(near.key) if near.key == near.fingerprint else near.key
    return f"{told} The nearest entry is {quote_name(name)}:"


def _difference_to(near: StoredExchange[Exchange], recorded: JsonObject | None, asked: JsonObject) -> str:
    place = "" if recorded is not None else near.exchange.http_place()
    return f"  (the entry answers {place})"[:SHOWN_COLUMNS] if place else difference_between(recorded, asked)


def _keys_of(shelf: RecordingReader) -> str:
    keys = list(dict.fromkeys(stored.exchange.http_place() or stored.key for stored in islice(shelf, SEARCHED_ENTRIES)))
    more = ", …" if len(keys) > SHOWN_KEYS else ""
    return (
        f"It has: {', '.join(quote_name(key) for key in keys[:SHOWN_KEYS])}{more}"
        if keys
        else "The recording is empty."
    )


def _describe_exhausted(match: ExchangeMatch[Exchange], shelf: RecordingReader) -> str:
    assert match.stored is not None
    near = match.stored
    if match.matched_by == "step_id":
        count = sum(other.key == near.key for other in shelf)
        return f"it has {_answer_count(count)}, and what fits was served already."
    count = sum(other.fingerprint == near.fingerprint for other in shelf)
    if near.fingerprint is None:
        return f"the recording has {_answer_count(count)} for any request, and every one was served already."
    return f"this request has {_answer_count(count)}, and every one was served already."


def _answer_count(count: int) -> str:
    return "one answer in a list" if count == 1 else f"{count} answers"


def _recorded_request(stored: StoredExchange[Exchange], rules: NormaliseRules) -> JsonObject | None:
    fields = stored.exchange.request_fields()
    return None if fields is None else plain_request(fields, rules)


def _stored_under(key: str, shelf: RecordingReader) -> Iterator[StoredExchange[Exchange]]:
    """The first entries under a key."""
    stored = shelf.only(key) or shelf.find(key=key, fingerprint=None, after=-1)
    for _ in range(SEARCHED_ENTRIES):
        if stored is None:
            return
        yield stored
        stored = None if stored.repeats else shelf.find(key=key, fingerprint=None, after=stored.id)


def _which_call(near: StoredExchange[Exchange], shelf: RecordingReader) -> str:
    """Which of its key's entries it is, where there are several."""
    ids = [stored.id for stored in _stored_under(near.key, shelf)]
    return f", call {ids.index(near.id) + 1}" if len(ids) > 1 and near.id in ids else ""


def _nearest_exchange(
    asked: JsonObject, entries: Iterable[StoredExchange[Exchange]], rules: NormaliseRules
) -> StoredExchange[Exchange] | None:
    best, best_score = None, -1.0
    for stored in entries:
        recorded = _recorded_request(stored, rules)
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
            yield from _changed_lines(_lines(recorded.get(name)), _lines(asked.get(name)))
    old, new = messages_of(recorded), messages_of(asked)
    for index in range(max(len(old), len(new))):
        before = old[index] if index < len(old) else None
        after = new[index] if index < len(new) else None
        if before != after:
            yield f"messages[{index}] ({_role(after or before)}):"
            yield from _changed_lines(_message_lines(before), _message_lines(after))


def _role(message: JsonObject | None) -> str:
    return str((message or {}).get("role", "no role"))


def _changed_lines(old: list[str], new: list[str]) -> Iterator[str]:
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


def tool_mismatch_error(
    tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange], row: ExchangeIndex[ToolExchange]
) -> RecordingMismatchError:
    """The error for a call that a strict replay must refuse, with the diff that explains it."""
    if match.stored is None:
        return RecordingMismatchError(f"{row.source}: {_describe_unknown_tool(tool, row)}", kind="missing", key=tool)
    asked: JsonObject = Redactor().value(arguments)
    recorded = _nearest_arguments(asked, tool, row)
    is_used_up = match.mismatch == "exhausted"
    is_alike = is_used_up and recorded in (None, asked)
    difference = (
        ""
        if is_alike
        else difference_between(None if recorded is None else {"arguments": recorded}, {"arguments": asked})
    )
    told = _describe_exhausted_tool(tool, row) if is_used_up else _describe_drifted_tool(tool)
    told += " The nearest call differs:" if difference else ""
    return RecordingMismatchError(
        f"{row.source}: {told}", kind=match.mismatch or "missing", key=tool, difference=difference
    )


def _describe_drifted_tool(tool: str) -> str:
    return f"tool {quote_name(tool)} was not recorded with these arguments. Record it again, or undo the change."


def _describe_exhausted_tool(tool: str, row: ExchangeIndex[ToolExchange]) -> str:
    count = sum(1 for _ in _calls_of(tool, row))
    answers = "one answer in a list" if count == 1 else f"{count} answers"
    return f"tool {quote_name(tool)}: it has {answers}, and what fits was served already."


def _describe_unknown_tool(tool: str, row: ExchangeIndex[ToolExchange]) -> str:
    told = f"tool {quote_name(tool)} is not in the recording."
    names = list(dict.fromkeys(stored.key for stored in islice(row, SEARCHED_ENTRIES)))
    if not names:
        return f"{told} It has no calls of tools."
    close = difflib.get_close_matches(tool, names, n=1)
    meant = f" Did you mean {quote_name(close[0])}?" if close else ""
    more = ", …" if len(names) > SHOWN_KEYS else ""
    return f"{told}{meant} It has: {', '.join(quote_name(name) for name in names[:SHOWN_KEYS])}{more}"


def _calls_of(tool: str, row: ExchangeIndex[ToolExchange]) -> Iterator[ToolExchange]:
    after = -1
    while (stored := row.find(key=tool, fingerprint=None, after=after)) is not None:
        yield stored.exchange
        after = stored.id


def _nearest_arguments(asked: JsonObject, tool: str, row: ExchangeIndex[ToolExchange]) -> JsonObject | None:
    """The recorded arguments that are most like those asked with."""
    recorded = [
        call.arguments for call in islice(_calls_of(tool, row), SEARCHED_ENTRIES) if isinstance(call.arguments, dict)
    ]
    return max(recorded, key=lambda arguments: _argument_similarity(arguments, asked), default=None)


def _argument_similarity(recorded: JsonObject, asked: JsonObject) -> tuple[int, float]:
    equal = sum(name in recorded and recorded[name] == value for name, value in asked.items())
    return equal, difflib.SequenceMatcher(None, _arguments_text(recorded), _arguments_text(asked)).quick_ratio()


def _arguments_text(arguments: JsonObject) -> str:
    return msgspec.json.encode(arguments, order="sorted").decode()[:COMPARED_CHARS]
