"""Compares two recordings of the same run, and proposes rules for the differences that are noise."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.comparison import difference_between, differing_leaves, nearest_pairs, paired
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, exchanges_of, rules_from_meta
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import tool_key
from offbook.recording.format.wire_record import WireRecord, join_pieces, values_by_path
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.mismatch import recorded_request, similarity

NEAR_SIMILARITY = 8.0
"""The minimum similarity of a changed request: the same model, and half of the messages."""

PAIRING_WINDOW = 25
"""The maximum distance between the positions of a changed request."""


class PlacedExchange(Struct, frozen=True):
    """An exchange, with its key and its position in the list of that key."""

    key: str
    position: int
    exchange: Exchange


def changed_pairs(old: Document, new: Document) -> list[tuple[PlacedExchange, PlacedExchange]]:
    """Pair the fingerprint-keyed exchanges that only one of the recordings has, by similarity.

    The pairs are in the order of the old recording.
    """
    before, after = _unshared_placed(old, new), _unshared_placed(new, old)
    asked, asks = ([_comparable_request(item.exchange) or {} for item in side] for side in (before, after))
    pairs = nearest_pairs(
        (score, index, other)
        for index, request in enumerate(asked)
        for other in range(max(0, index - PAIRING_WINDOW), min(len(asks), index + PAIRING_WINDOW + 1))
        if (score := _pair_similarity(request, asks[other])) >= NEAR_SIMILARITY
    )
    return [(before[index], after[other]) for index, other in pairs.items()]


def _unshared_placed(document: Document, other: Document) -> list[PlacedExchange]:
    """Return the exchanges whose key the other document lacks, by timestamp."""
    placed = [
        PlacedExchange(key, position, exchange)
        for key in document.entries.keys() - other.entries.keys()
        for position, exchange in enumerate(document.exchanges(key))
        if key == exchange.fingerprint
    ]
    return sorted(placed, key=lambda item: (item.exchange.recorded_at or "", item.key, item.position))


def _pair_similarity(before: JsonObject, after: JsonObject) -> float:
    if "path" in before or "path" in after:
        is_same_place = all(before.get(name) == after.get(name) for name in ("method", "path"))
        return NEAR_SIMILARITY if is_same_place else 0.0
    return similarity(before, after) if before and after else 0.0


def _comparable_request(exchange: Exchange) -> JsonObject | None:
    return recorded_request(exchange) or exchange.http_fields()


_COMPARED_HEADERS = ("content-type", "retry-after", "retry-after-ms", "x-should-retry")
_VOLATILE_FIELDS = re.compile(
    r"(.*_)?id|.*Id|created|createTime|.*_at|.*_(duration|fingerprint|number|signature)|.*[sS]ignature"
    r"|obfuscation|encrypted_content"
)
"""Fields whose values are new in every response."""


def wire_difference(old: WireRecord | None, new: WireRecord | None) -> str:
    """Return the difference, cut to one screen. Times, ids and frame boundaries do not count."""
    before, after = _comparable_record(old), _comparable_record(new)
    return "" if before == after else difference_between(before, after)


def _comparable_record(record: WireRecord | None) -> JsonObject:
    if record is None:
        return {}
    headers = {name: record.headers[name] for name in _COMPARED_HEADERS if name in record.headers}
    fields = {"protocol": record.protocol, "status": record.status, "streamed": record.is_streamed, "headers": headers}
    content = record.content()
    return fields | (_comparable_body(content) or {"body": content.decode("utf-8", "backslashreplace")})


def _comparable_body(content: bytes) -> JsonObject:
    """Return the JSON values at each path of a response, without those that are new in every response.

    A field that a stream repeats has the joined text of its pieces, or its different values.
    """
    comparable: JsonObject = {}
    for path, values in values_by_path(content).items():
        name = re.split(r"[.\[]", path)[-1]
        if _VOLATILE_FIELDS.fullmatch(name):
            continue
        present = [value for value in values if value is not None]
        is_text = present and name != "type" and all(isinstance(value, str) for value in present)
        comparable[f"body.{path}"] = join_pieces(present) if is_text else list(dict.fromkeys(present))
    return comparable


ChangeKind = Literal["removed", "added", "request", "answer", "wire"]
VOLATILE_SHAPES = {
    "uuid": r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
    "timestamp": r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:Z|[+-]\d{2}:?\d{2})?",
    "date": r"\b\d{4}-\d{2}-\d{2}\b",
    "time of day": r"\b\d{2}:\d{2}:\d{2}(?:\.\d+)?\b",
    "unix time": r"\b1[5-9]\d{8}(?:\d{3})?(?:\.\d+)?\b",
    "hex id": r"\b[0-9a-f]{16,64}\b",
}


class RecordingChange(Struct, frozen=True):
    """A difference between two recordings: its key and position, its kind, and its description.

    `place` is the method and path of plain HTTP, like `GET /v1/models`. `old_key` is the key in the first recording if
    the key is a fingerprint, and has changed with the request.
    """

    key: str
    position: int
    kind: ChangeKind
    difference: str = ""
    place: str = ""
    old_key: str = ""


class RuleProposal(Struct, frozen=True):
    """Normalise rules that would make the requests of two runs equal, and the paths that no rule explains."""

    rules: NormaliseRules
    unexplained: tuple[str, ...]


def compare_documents(old: Document, new: Document) -> list[RecordingChange]:
    """Return the differences: first by key and position, then the changed requests without a step, then by tool.

    Each part is in the order of the recordings.
    """
    changes: list[RecordingChange] = []
    changed = changed_pairs(old, new)
    elsewhere = {(placed.key, placed.position) for pair in changed for placed in pair}
    for key, *_ in paired(old.entries, new.entries):
        pairs = zip_longest(old.exchanges(key), new.exchanges(key))
        for position, (before, after) in enumerate(pairs):
            if (key, position) not in elsewhere:
                changes.extend(_model_call_changes(key, position, before, after))
    for was, placed in changed:
        found = _model_call_changes(placed.key, placed.position, was.exchange, placed.exchange, is_changed=True)
        changes.extend(replace(change, old_key=was.key) for change in found)
    for tool, *_ in paired(old.tools, new.tools):
        calls = zip_longest(exchanges_of(old.tools, tool), exchanges_of(new.tools, tool))
        for position, (earlier, later) in enumerate(calls):
            changes.extend(_tool_call_changes(tool_key(tool), position, earlier, later))
    return changes


def _tool_call_changes(
    key: str, position: int, before: ToolExchange | None, after: ToolExchange | None
) -> Iterator[RecordingChange]:
    """Yield the differences between two tool calls; None is a missing call."""
    if before is None or after is None:
        yield RecordingChange(key, position, "added" if before is None else "removed")
        return
    if before.fingerprint != after.fingerprint:
        old, new = ({"arguments": None if call.arguments is UNSET else call.arguments} for call in (before, after))
        yield RecordingChange(key, position, "request", difference_between(old, new))
    old, new = (
        {"result": call.answer} if call.error is None else {"error": msgspec.to_builtins(call.error)}
        for call in (before, after)
    )
    if old != new:
        yield RecordingChange(key, position, "answer", difference_between(old, new))


def _model_call_changes(
    key: str, position: int, before: Exchange | None, after: Exchange | None, *, is_changed: bool = False
) -> Iterator[RecordingChange]:
    """Like `_tool_call_changes`, for model calls and plain HTTP. `is_changed`: their requests are known to differ."""
    place = next(exchange.http_place() for exchange in (after, before) if exchange is not None)
    if before is None or after is None:
        yield RecordingChange(key, position, "added" if before is None else "removed", place=place)
        return
    old_request, new_request = _comparable_request(before), _comparable_request(after)
    if old_request is not None and new_request is not None and (is_changed or old_request != new_request):
        yield RecordingChange(key, position, "request", difference_between(old_request, new_request), place)
    if comparable_answer(before) != comparable_answer(after):
        old, new = ({"messages": [_as_message(exchange)]} for exchange in (before, after))
        yield RecordingChange(key, position, "answer", difference_between(old, new), place)
    elif difference := wire_difference(before.wire, after.wire):
        yield RecordingChange(key, position, "answer" if place else "wire", difference, place)


def comparable_answer(exchange: Exchange) -> tuple[Any, ...]:
    """Return the compared part of an answer. Tool-call ids are new in every answer."""
    calls = [(call.name, call.arguments, call.reasoning) for call in exchange.tool_calls or ()]
    return exchange.content, calls, exchange.reasoning or "", exchange.ending, exchange.fault


def _as_message(exchange: Exchange) -> JsonObject:
    content, calls, reasoning, finish_reason, fault = comparable_answer(exchange)
    message: JsonObject = {"role": "assistant", "content": content}
    if calls:
        message["tool_calls"] = [
            {"name": name, "arguments": arguments} | ({"reasoning": thought} if thought else {})
            for name, arguments, thought in calls
        ]
    if reasoning:
        message["reasoning"] = reasoning
    if fault:
        message["fault"] = msgspec.to_builtins(fault)
    return message if finish_reason == "stop" else message | {"finish_reason": finish_reason}


def propose_rules(old: Document, new: Document) -> RuleProposal:
    """Propose rules that ignore the differences between two runs with equal intended requests.

    They ignore a field inside JSON, or mask the differing part of a text; never a whole text.
    """
    ignore: dict[str, None] = {}
    mask: dict[str, None] = {}
    unexplained: dict[str, None] = {}
    for before, after in _request_pairs(old, new):
        for path, left, right in differing_leaves(before, after):
            if parts := _part_masks(left, right):
                mask.update(dict.fromkeys(parts))
            elif (shape := _volatile_shape(left, right)) is not None:
                mask[shape] = None
            elif _INNER_FIELD.fullmatch(path):
                ignore[path] = None
            else:
                unexplained[path] = None
    rules = NormaliseRules(ignore=tuple(sorted(ignore)), mask=tuple(mask)) if ignore or mask else NO_RULES
    return RuleProposal(rules, tuple(unexplained))


def add_rules(rules: NormaliseRules, document: Document) -> None:
    """Add rules to those of a recording."""
    own = rules_from_meta(document.meta, source="")
    ignore, mask = (
        tuple(dict.fromkeys((*ours, *theirs))) for ours, theirs in ((own.ignore, rules.ignore), (own.mask, rules.mask))
    )
    document.meta["normalise"] = msgspec.to_builtins(replace(own, ignore=ignore, mask=mask))


_PARTS = re.compile(r"[\w.:+-]+|\s+|[^\w\s]")
_CONTEXT_CHARS = 30


def _part_masks(old: Any, new: Any) -> list[str]:
    """Return patterns of the parts that differ in two texts, each with the text before it; none if a word differs."""
    if not (isinstance(old, str) and isinstance(new, str)):
        return []
    parts, others = _PARTS.findall(old), _PARTS.findall(new)
    masks = dict[str, None]()
    for kind, start, end, from_, to in difflib.SequenceMatcher(None, parts, others, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        values = (*parts[start:end], *others[from_:to])
        before = "".join(parts[:start]).rpartition("\n")[2][-_CONTEXT_CHARS:]
        if (end - start, to - from_) != (1, 1) or not before.strip() or not all(map(_has_digit, values)):
            return []
        shape = next(each for each in _PART_SHAPES if all(re.fullmatch(each, value) for value in values))
        context = re.escape(before).replace("\\ ", " ")
        masks[f"(?<={context}){shape}"] = None
    masked = [_without_matches(masks, text) for text in (old, new)]
    return list(masks) if masked[0] == masked[1] else []


_PART_SHAPES = (r"\d+(?:\.\d+)?", r"[0-9a-f]+", r"[\w.:+-]+")


def _has_digit(text: str) -> bool:
    return re.search(r"\d", text) is not None


def _without_matches(patterns: Iterable[str], text: str) -> str:
    for pattern in patterns:
        text = re.sub(pattern, "", text)
    return text


_INNER_FIELD = re.compile(
    r"messages\[\*\]\.content[.\[].+|extra\..+|(?:body|arguments)\..*(?:[._](?:id|at|time|timestamp|nonce)|[a-z](?:Id|At))"
)
"""Paths to a field inside the JSON of a message, inside `extra`, or of other requests that is named like noise."""


def _request_pairs(old: Document, new: Document) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield requests that should be equal: of the same step or tool and position, or without a step in the same
    order."""
    lists = [(old.exchanges(key), new.exchanges(key)) for key in old.entries if key in new.entries]
    for before, after in [*lists, (_unshared(old, new), _unshared(new, old))]:
        for exchange, again in zip(before, after, strict=False):
            if exchange.http_place() == again.http_place():
                yield from zip(_asked(exchange), _asked(again), strict=False)
    for tool in [tool for tool in old.tools if tool in new.tools]:
        for call, later in zip(exchanges_of(old.tools, tool), exchanges_of(new.tools, tool), strict=False):
            if isinstance(call.arguments, dict) and isinstance(later.arguments, dict):
                yield {"arguments": call.arguments}, {"arguments": later.arguments}


def _asked(exchange: Exchange) -> list[JsonObject]:
    """Return the request of an exchange; of a socket, the messages that its client has sent."""
    fields = recorded_request(exchange) or exchange.http_fields() or {}
    if "sent" not in fields:
        return [fields]
    return [message for _, message in fields["sent"] if isinstance(message, dict)]


def _unshared(document: Document, other: Document) -> list[Exchange]:
    left = [exchange for key, exchange in document if key not in other.entries]
    return sorted(left, key=lambda exchange: exchange.recorded_at or "")


def _volatile_shape(old: Any, new: Any) -> str | None:
    """Return the first pattern whose masking makes two texts, or numbers, equal."""
    is_number = all(isinstance(each, int | float) and not isinstance(each, bool) for each in (old, new))
    if not is_number and not (isinstance(old, str) and isinstance(new, str)):
        return None
    shapes = ["unix time"] if is_number else VOLATILE_SHAPES
    return next(
        (
            VOLATILE_SHAPES[name]
            for name in shapes
            if _masked(VOLATILE_SHAPES[name], old) == _masked(VOLATILE_SHAPES[name], new)
        ),
        None,
    )


def _masked(pattern: str, value: str | float) -> str:
    return re.sub(pattern, "", str(value))
