"""Explains why a strict replay has no answer for a call: the nearest entry, and the difference."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import msgspec
import orjson

from offbook.comparison import SHOWN_COLUMNS, difference_between
from offbook.errors import RecordingMismatchError
from offbook.messages import JsonObject, Request
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import quote_name, short_key
from offbook.recording.match.cursor import ExchangeMatch
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, canonical_fields, plain_request
from offbook.recording.stores.store import ExchangeIndex, RecordingReader, StoredExchange
from offbook.text import did_you_mean, printable_line, shorten

COMPARED_CHARS = 2_000
SEARCHED_ENTRIES = 2_000
SHOWN_KEYS = 12
SHOWN_PLACES = 6
SHOWN_PLACE_CHARS = 200
RECORD_AGAIN = 'record it again with record="all", which replaces what is there, or undo the change'
RECORD_AFRESH = 'record it again with record="fresh", which replaces the recording, or undo the change'
_MASKED = "<redacted>"


def mismatch_error(
    request: Request, match: ExchangeMatch[Exchange], reader: RecordingReader, rules: NormaliseRules
) -> RecordingMismatchError:
    """Return the error for a model call that a strict replay refuses, with the difference to the nearest entry."""
    fields = plain_request(_redact(canonical_fields(request)), rules)
    near = match.stored or _nearest_exchange(fields, islice(reader, SEARCHED_ENTRIES), rules)
    if near is not None and match.mismatch == "drifted":
        near = _nearest_exchange(fields, _stored_under(near.key, reader), rules) or near
    recorded = None if near is None else recorded_request(near.exchange, rules)
    is_exhausted = match.mismatch == "exhausted"
    is_alike = near is None or (is_exhausted and recorded in (None, fields))
    difference = ""
    if near is not None and not is_alike:
        place = "" if recorded is not None else near.exchange.http_place()
        shown = f"  (the entry answers {place})"[:SHOWN_COLUMNS]
        difference = shown if place else difference_between(recorded, fields)
    caller = f"step {quote_name(request.step_id)}" if request.step_id else f"a request to {quote_name(request.model)}"
    message = _describe_mismatch(caller, match, near, reader, request.step_id)
    message += " The nearest of them differs:" if is_exhausted and difference else ""
    return RecordingMismatchError(
        f"{reader.source}: {message}",
        kind=match.mismatch or "missing",
        key=None if near is None else near.key,
        difference=difference,
        hint=_hint(request.step_id, match, near, reader),
    )


def _redact(fields: JsonObject) -> JsonObject:
    from offbook.recording.redact.rules import mask_json  # noqa: PLC0415 - only errors need its patterns

    redacted: JsonObject = mask_json(fields)
    return redacted


def http_mismatch_error(
    *, place: str, vendor: str, problem: str, match: ExchangeMatch[Exchange], reader: RecordingReader
) -> RecordingMismatchError:
    """Return the error for an HTTP call that is not a model call, and that a strict replay refuses.

    Args:
        place: the method and path, like `GET /v1/models`.
        vendor: the called API.
        problem: why a request to a model's address is not a model call.
    """
    place = shorten(printable_line(place), SHOWN_PLACE_CHARS)
    if match.mismatch == "exhausted":
        message = f"{place}: all its recorded answers were served already."
    elif problem:
        message = f"{place} is not a request that {vendor} accepts: {problem}"
    else:
        message = f"{place} is not in the recording. {_describe_places(place, reader)}"
    key = None if match.stored is None else match.stored.key
    return RecordingMismatchError(f"{reader.source}: {message}", kind=match.mismatch or "missing", key=key)


def tool_mismatch_error(
    tool: str, arguments: JsonObject, match: ExchangeMatch[ToolExchange], index: ExchangeIndex[ToolExchange]
) -> RecordingMismatchError:
    """Return the error for a tool call that a strict replay refuses, with the difference to the nearest call."""
    name = f"tool {quote_name(tool)}"
    if match.stored is None:
        tools = list(dict.fromkeys(stored.key for stored in islice(index, SEARCHED_ENTRIES)))
        message = f"{name} is not in the recording.{_suggestion(tool, tools)} "
        message += _describe_keys(tools) or "It has no tool calls."
        hint = _masked_names_hint(tools)
        return RecordingMismatchError(f"{index.source}: {message}", kind="missing", key=tool, hint=hint)
    redacted = _redact(arguments)
    recorded = _nearest_arguments(redacted, tool, index)
    is_exhausted = match.mismatch == "exhausted"
    difference = ""
    if not is_exhausted or recorded not in (None, redacted):
        near = None if recorded is None else {"arguments": recorded}
        difference = difference_between(near, {"arguments": redacted})
    message = f"{name} was not recorded with these arguments."
    if is_exhausted:
        message = f"{name}: {_describe_exhausted(sum(1 for _ in _calls_of(tool, index)))}"
    message += " The nearest call differs:" if difference else ""
    return RecordingMismatchError(
        f"{index.source}: {message}",
        kind=match.mismatch or "missing",
        key=tool,
        difference=difference,
        hint="" if is_exhausted else RECORD_AGAIN,
    )


def _describe_mismatch(
    caller: str,
    match: ExchangeMatch[Exchange],
    near: StoredExchange[Exchange] | None,
    reader: RecordingReader,
    step_id: str | None,
) -> str:
    if match.mismatch == "drifted" and near is not None:
        return f"{caller}{_which_call(near, reader)} was recorded with another request:"
    if match.mismatch == "exhausted" and match.stored is not None:
        return f"{caller}: {_describe_exhausted_match(match, match.stored, reader)}"
    entries = list(islice(reader, SEARCHED_ENTRIES))
    keys = {stored.key for stored in entries}
    suggestion = _suggestion(step_id, keys) if step_id is not None and step_id not in keys else ""
    message = f"{f'this request of {caller}' if step_id in keys else caller} is not in the recording.{suggestion}"
    if near is None:
        places = dict.fromkeys(stored.exchange.http_place() or stored.key for stored in entries)
        return f"{message} {_describe_keys(list(places)) or 'The recording is empty.'}"
    name = short_key(near.key) if near.key == near.fingerprint else near.key
    return f"{message} The nearest entry is {quote_name(name)}:"


def _suggestion(name: str, known: Iterable[str]) -> str:
    """Return ` Did you mean 'greet'?`, or "" without a similar name."""
    hint = did_you_mean(name, known)
    return f" {hint[0].upper()}{hint[1:]}" if hint else ""


def _describe_keys(keys: list[str]) -> str:
    more = ", …" if len(keys) > SHOWN_KEYS else ""
    return f"It has: {', '.join(quote_name(key) for key in keys[:SHOWN_KEYS])}{more}" if keys else ""


def _describe_places(place: str, reader: RecordingReader) -> str:
    """Return which HTTP calls the recording has, nearest first."""
    recorded = (shorten(stored.exchange.http_place(), SHOWN_PLACE_CHARS) for stored in islice(reader, SEARCHED_ENTRIES))
    places = list(dict.fromkeys(filter(None, recorded)))
    if place in places:
        return "It was recorded with another body."
    near = difflib.get_close_matches(place, places, n=SHOWN_PLACES, cutoff=0.0)
    return f"It has: {', '.join(near)}" if near else "It has model calls only."


def _describe_exhausted_match(
    match: ExchangeMatch[Exchange], last: StoredExchange[Exchange], reader: RecordingReader
) -> str:
    if match.matched_by == "step_id":
        return _describe_exhausted(sum(other.key == last.key for other in reader))
    count = _answer_count(sum(other.fingerprint == last.fingerprint for other in reader))
    if last.fingerprint is None:
        return f"the recording has {count} for any request, and every one was served already."
    return f"this request has {count}, and every one was served already."


def _describe_exhausted(count: int) -> str:
    return f"it has {_answer_count(count)}, and all that fit were served already."


def _answer_count(count: int) -> str:
    return "one answer in a list" if count == 1 else f"{count} answers"


def _hint(
    step_id: str | None, match: ExchangeMatch[Exchange], near: StoredExchange[Exchange] | None, reader: RecordingReader
) -> str:
    if match.mismatch == "drifted":
        return RECORD_AGAIN
    if match.mismatch != "missing":
        return ""
    if step_id is not None:
        return _masked_names_hint(stored.key for stored in islice(reader, SEARCHED_ENTRIES))
    if near is not None:
        step = f"give the call its step_id, {quote_name(near.key)}, or "
        return RECORD_AFRESH if near.key == near.fingerprint else step + RECORD_AFRESH
    has_steps = any(stored.key != stored.fingerprint for stored in islice(reader, SEARCHED_ENTRIES))
    return "give the call the step_id of an entry" if has_steps else ""


def _masked_names_hint(names: Iterable[str]) -> str:
    """Return the hint for names masked by a user's rules, which a recording does not contain."""
    is_masked = any(_MASKED in name for name in names)
    return f"a name with {_MASKED} was masked while recording: replay with the same [redaction]" if is_masked else ""


def _stored_under(key: str, reader: RecordingReader) -> Iterator[StoredExchange[Exchange]]:
    """Yield the first entries of a key."""
    stored = reader.repeating(key) or reader.find(key=key, fingerprint=None, after=-1)
    for _ in range(SEARCHED_ENTRIES):
        if stored is None:
            return
        yield stored
        stored = None if stored.repeats else reader.find(key=key, fingerprint=None, after=stored.id)


def _which_call(near: StoredExchange[Exchange], reader: RecordingReader) -> str:
    """Return which of several entries of its key `near` is."""
    ids = [stored.id for stored in _stored_under(near.key, reader)]
    return f", call {ids.index(near.id) + 1}" if len(ids) > 1 and near.id in ids else ""


def _nearest_exchange(
    request: JsonObject, entries: Iterable[StoredExchange[Exchange]], rules: NormaliseRules
) -> StoredExchange[Exchange] | None:
    best, best_score = None, -1.0
    for stored in entries:
        recorded = recorded_request(stored.exchange, rules)
        score = -1.0 if recorded is None else similarity(recorded, request)
        if score > best_score:
            best, best_score = stored, score
    return best


def _calls_of(tool: str, index: ExchangeIndex[ToolExchange]) -> Iterator[ToolExchange]:
    after = -1
    while (stored := index.find(key=tool, fingerprint=None, after=after)) is not None:
        yield stored.exchange
        after = stored.id


def _nearest_arguments(arguments: JsonObject, tool: str, index: ExchangeIndex[ToolExchange]) -> JsonObject | None:
    """Return the recorded arguments most similar to `arguments`."""
    calls = islice(_calls_of(tool, index), SEARCHED_ENTRIES)
    recorded = [call.arguments for call in calls if isinstance(call.arguments, dict)]
    text = _arguments_text(arguments)

    def alikeness(candidate: JsonObject) -> tuple[int, float]:
        ratio = difflib.SequenceMatcher(None, _arguments_text(candidate), text).quick_ratio()
        return _equal_arguments(candidate, arguments), ratio

    return max(recorded, key=alikeness, default=None)


def _arguments_text(arguments: JsonObject) -> str:
    return msgspec.json.encode(arguments, order="sorted").decode()[:COMPARED_CHARS]


def nearest_success(
    index: ExchangeIndex[ToolExchange], tool: str, arguments: JsonObject
) -> StoredExchange[ToolExchange] | None:
    """Return the recorded call of the tool that succeeded with the most arguments in common, if any did."""
    good = [each for each in index if each.key == tool and each.exchange.error is None]
    return max(good, key=lambda each: _equal_arguments(each.exchange.arguments, arguments), default=None)


def _equal_arguments(recorded: Any, arguments: JsonObject) -> int:
    known = recorded if isinstance(recorded, dict) else {}
    return sum(name in known and known[name] == value for name, value in arguments.items())


def recorded_request(exchange: Exchange, rules: NormaliseRules = NO_RULES) -> JsonObject | None:
    """Return the request of an exchange in the form of `plain_request`, or None if it has none."""
    fields = exchange.request_fields()
    return None if fields is None else plain_request(fields, rules)


def similarity(recorded: JsonObject, request: JsonObject) -> float:
    """Return the similarity of two requests, from 0 to 13: 10 for the messages, and 1 each for the model, the tools and
    the temperature.
    """
    equal_fields: int = sum(recorded.get(name) == request.get(name) for name in ("model", "tools", "temperature"))
    old_messages, new_messages = (fields.get("messages", []) for fields in (recorded, request))
    pairs = list(zip(old_messages, new_messages, strict=False))
    alike: float = sum(old == new for old, new in pairs)
    if unequal := next((pair for pair in pairs if pair[0] != pair[1]), None):
        contents = [(message, message.get("content")) for message in unequal]
        texts = [each if isinstance(each, str) else orjson.dumps(message).decode() for message, each in contents]
        old, new = (text[:COMPARED_CHARS] for text in texts)
        letters = difflib.SequenceMatcher(None, old, new).quick_ratio()
        words = difflib.SequenceMatcher(None, old.split(), new.split()).quick_ratio()
        alike += (letters + words) / 2
    return 10.0 * alike / max(len(old_messages), len(new_messages), 1) + equal_fields
