"""Matches a WebSocket client's messages with the recorded exchanges of a session.

A session is recorded as a chain of exchanges: what the client sent together, and the server's messages until the client
sent more. The handshake is the first; each other one names the exchange `after` which it came. A replay follows that
chain: the client's messages lead from one exchange to the next.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256
from typing import Any, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import wall_time
from offbook.errors import RecordingMismatchError
from offbook.messages import JsonObject
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import WEBSOCKET, WEBSOCKET_METHOD, websocket_text
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, apply_rules, canonical_bytes
from offbook.recording.stores.store import RecordingReader
from offbook.text import printable_line, shorten

MAX_NAMED_IDS = 256
MAX_SHOWN_CHARS = 80
_TOOL_OUTPUT = "function_call_output"

SentMessage: TypeAlias = Any
"""A client's message as JSON: a text message's JSON, its text if it is not JSON, or `{"base64": …}`."""


def sent_message(data: bytes, *, is_text: bool) -> SentMessage:
    """Return a message in its recorded form."""
    if not is_text:
        return {"base64": b64encode(data).decode()}
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError:
        value = None
    is_plain = isinstance(value, dict) and value.keys() != {"base64"}
    return value if is_plain or isinstance(value, list) else websocket_text(data, is_text=True)


class Audio(Struct, frozen=True):
    """Neighbouring messages that append audio, joined, because clients may cut audio anywhere."""

    around: bytes
    data: bytes


class ClientIds(Struct, frozen=True):
    """A client's own ids, each with its recorded counterpart."""

    names: dict[str, str]

    def plus(self, actual: SentMessage, recorded: SentMessage) -> ClientIds:
        """Return these ids and those of a message that corresponds to a recorded one."""
        pairs = zip(_own_ids(actual), _own_ids(recorded), strict=False)
        added = {new: old for new, old in pairs if new and old and self.names.get(new) != old}
        if not added:
            return self
        names = self.names | added
        return ClientIds(dict(list(names.items())[-MAX_NAMED_IDS:]))

    def renamed(self) -> dict[bytes, bytes]:
        """Return the recorded ids that now differ, as in JSON."""
        return {orjson.dumps(old): orjson.dumps(new) for new, old in self.names.items() if new != old}


def _own_ids(message: SentMessage) -> list[str]:
    """Return the ids in a message that its client chose: of the event, and of the item that it creates."""
    if not isinstance(message, dict):
        return []
    item = message.get("item")
    ids = [message.get("event_id"), item.get("id") if isinstance(item, dict) else None]
    return [each if isinstance(each, str) else "" for each in ids]


def plain_message(message: SentMessage, ids: ClientIds, rules: NormaliseRules = NO_RULES) -> SentMessage:
    """Return a message without its event id, and with the recorded ids instead of the client's own."""
    if not isinstance(message, dict):
        return message
    plain = {name: value for name, value in message.items() if name != "event_id"}
    if any(new != old for new, old in ids.names.items()):
        plain = _replaced(plain, ids.names)
    return plain if rules is NO_RULES else apply_rules(plain, rules)


def _replaced(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _replaced(item, names) for name, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def audio_of(message: SentMessage) -> Audio | None:
    """Return the audio that a message appends, or None for another message."""
    if not isinstance(message, dict):
        return None
    if message.get("type") == "input_audio_buffer.append":
        return _audio({"data": message.get("audio")})
    if message.keys() - {"realtimeInput", "realtime_input"}:
        return None
    match next(iter(message.values()), None):
        case {"audio": dict(audio)}:
            return _audio(audio)
        case {"mediaChunks": [dict(audio)]} | {"media_chunks": [dict(audio)]}:
            return _audio(audio)
        case _:
            return None


def _audio(fields: JsonObject) -> Audio | None:
    try:
        data = b64decode(fields["data"])
    except (KeyError, TypeError, ValueError):
        return None
    return Audio(canonical_bytes({name: value for name, value in fields.items() if name != "data"}), data)


Item: TypeAlias = Audio | SentMessage


def items_of(messages: Iterable[SentMessage], rules: NormaliseRules = NO_RULES) -> list[Item]:
    """Return the content of messages, with neighbouring audio joined."""
    items: list[Item] = []
    for message in messages:
        audio, last = audio_of(message), items[-1] if items else None
        if audio is None:
            items.append(plain_message(message, NO_IDS, rules))
        elif isinstance(last, Audio) and last.around == audio.around:
            items[-1] = replace(last, data=last.data + audio.data)
        else:
            items.append(audio)
    return items


NO_IDS = ClientIds({})


class SocketTurn(Struct, frozen=True):
    """A recorded exchange of a session by fingerprint: the client's messages, and the exchange before."""

    fingerprint: str
    after: str
    exchange: Exchange
    sent: list[SentMessage]
    items: list[Item]


def turn_fields(*, path: str, after: str, sent: Sequence[tuple[float, SentMessage]]) -> JsonObject:
    """Return the request of an exchange, as recordings have it. `sent` has the times in ms since the first message."""
    return {"method": WEBSOCKET_METHOD, "path": path, "after": after, "sent": [list(each) for each in sent]}


def turn_fingerprint(fields: JsonObject, ids: dict[str, str], rules: NormaliseRules = NO_RULES) -> str:
    """Return the fingerprint of an exchange, which covers all earlier messages of the client.

    `ids` has the client's ids so far, renamed in order of appearance; those of this exchange are added.
    """
    messages = [message for _, message in fields["sent"]]
    for own in (_own_ids(message)[1] for message in messages if isinstance(message, dict)):
        if own:
            ids.setdefault(own, f"item {len(ids) + 1}")
    items = [
        {"around": item.around.decode(), "sha256": sha256(item.data).hexdigest()} if isinstance(item, Audio) else item
        for item in items_of((plain_message(message, ClientIds(ids)) for message in messages), rules)
    ]
    content = {"method": WEBSOCKET_METHOD, "path": fields["path"], "after": fields["after"], "sent": items}
    return sha256(canonical_bytes(content)).hexdigest()


class TurnIndex:
    """The exchanges of the WebSocket sessions in a recording, by the exchange that they follow."""

    def __init__(self, reader: RecordingReader, rules: NormaliseRules = NO_RULES) -> None:
        self.rules = rules
        self._following: dict[str, dict[str, SocketTurn]] = {}
        for stored in reader:
            wire, fingerprint = stored.exchange.wire, stored.exchange.fingerprint
            if wire is not None and wire.protocol == WEBSOCKET and fingerprint is not None:
                self._add(stored.exchange, fingerprint)

    def _add(self, exchange: Exchange, fingerprint: str) -> None:
        fields = exchange.http_fields() or {}
        match fields:
            case {"after": str(after), "sent": [_, *_]}:
                sent = [each[1] if isinstance(each, list) and len(each) == 2 else each for each in fields["sent"]]
                turn = SocketTurn(fingerprint, after, exchange, sent, items_of(sent, self.rules))
                self._following.setdefault(after, {}).setdefault(fingerprint, turn)
            case _:
                return

    def following(self, fingerprint: str) -> list[SocketTurn]:
        """Return the exchanges that were recorded after one, in the order of the recording."""
        return list(self._following.get(fingerprint, {}).values())

    def expected(self, after: str, sent: Sequence[SentMessage]) -> SentMessage | None:
        """Return the expected message instead of the last of these, or None if nothing follows."""
        turns = [turn for turn in self.following(after) if len(turn.sent) >= len(sent)] or self.following(after)
        alike = [turn for turn in turns if items_of(turn.sent[: len(sent) - 1]) == items_of(sent[:-1])] or turns
        return alike[0].sent[min(len(sent), len(alike[0].sent)) - 1] if alike else None


_MessageComparison: TypeAlias = Callable[["_TurnCandidate", SentMessage, SentMessage, ClientIds], bool]
"""Returns whether a message, with these ids of its client, is the recorded one of a candidate, which comes first."""


class _TurnCandidate:
    """An exchange that may be under way: what of it the client has still to send, and which ids it has chosen.

    `renamed` are names in the recorded session with those of this one, `but_for` is what differs and does not count.
    """

    def __init__(self, turn: SocketTurn, ids: ClientIds, renamed: dict[str, str]) -> None:
        self.turn, self.ids, self.renamed = turn, ids, renamed
        self.but_for: dict[str, None] = {}
        self.missing = list(turn.items)

    def take(self, message: SentMessage, is_same: _MessageComparison) -> SentMessage | None:
        """Take the next message. Return its rest if its audio continues, or None for an unexpected message."""
        audio = audio_of(message)
        if audio is not None:
            return self._take_audio(message, audio)
        for place, expected in enumerate(self.missing):
            ids = self.ids.plus(message, expected)
            if not isinstance(expected, Audio) and is_same(self, expected, message, ids):
                del self.missing[place]
                self.ids = ids.plus(message, self._raw_of(expected)) if "event_id" in message else ids
                return _ALL_OF_IT
            if not _is_tool_output(expected) or not _is_tool_output(message):
                return None
        return None

    def _raw_of(self, expected: SentMessage) -> SentMessage:
        """Return the recorded message with its event id."""
        return next((each for each in self.turn.sent if plain_message(each, NO_IDS) == expected), expected)

    def _take_audio(self, message: SentMessage, audio: Audio) -> SentMessage | None:
        expected = self.missing[0]
        if not isinstance(expected, Audio) or expected.around != audio.around:
            return None
        common = min(len(expected.data), len(audio.data))
        if expected.data[:common] != audio.data[:common]:
            return None
        if common == len(expected.data):
            del self.missing[0]
        else:
            self.missing[0] = replace(expected, data=expected.data[common:])
        return _ALL_OF_IT if common == len(audio.data) else _with_audio(message, audio.data[common:])


_ALL_OF_IT: SentMessage = object()


def _is_same(
    _: _TurnCandidate, expected: SentMessage, message: SentMessage, ids: ClientIds, *, rules: NormaliseRules
) -> bool:
    plain = plain_message(message, ids, rules)
    if plain == expected:
        return True
    from offbook.recording.redact.rules import mask_json  # noqa: PLC0415 - only other messages need its patterns

    return "<redacted" in orjson.dumps(expected).decode() and bool(mask_json(plain) == expected)


def _is_alike(
    candidate: _TurnCandidate,
    expected: SentMessage,
    message: SentMessage,
    ids: ClientIds,
    *,
    rules: NormaliseRules,
    began: datetime,
) -> bool:
    """Return whether a message differs from the recorded one in nothing that counts, and note what differs."""
    from offbook.recording.match.cursor import is_named_in, plain_text  # noqa: PLC0415 - only other messages need them
    from offbook.recording.match.folders import other_homes  # noqa: PLC0415
    from offbook.recording.match.harmless import Comparison  # noqa: PLC0415
    from offbook.recording.match.moments import RunTimes  # noqa: PLC0415

    exchange, plain = candidate.turn.exchange, plain_message(message, ids, rules)
    times = RunTimes.of(exchange.recorded_at, began, wall_time())
    compared = Comparison(times, plain_text(rules), renamed=candidate.renamed)
    if not (isinstance(plain, dict) and isinstance(expected, dict) and compared.is_harmless(expected, plain)):
        return False
    if is_named_in(exchange, compared.difference):
        return False
    homes = other_homes(canonical_bytes(expected), canonical_bytes(plain)) if rules.home_paths else {}
    candidate.renamed = compared.renamed | homes
    candidate.but_for.update(dict.fromkeys(compared.difference.kinds))
    return True


def _is_tool_output(message: SentMessage) -> bool:
    match message:
        case {"item": {"type": kind}}:
            return bool(kind == _TOOL_OUTPUT)
        case _:
            return False


def _with_audio(message: JsonObject, data: bytes) -> JsonObject:
    """Return a message that appends audio, with other audio."""
    text = b64encode(data).decode()
    if "audio" in message:
        return message | {"audio": text}
    name, content = next(iter(message.items()))
    if "audio" in content:
        return {name: {"audio": content["audio"] | {"data": text}}}
    field, [chunk] = next(iter(content.items()))
    return {name: {field: [chunk | {"data": text}]}}


class SessionMatcher:
    """Follows what one client sends along the recorded exchanges of a session.

    `but_for` counts the exchanges that match despite a harmless difference.
    """

    def __init__(self, index: TurnIndex, position: str, but_for: Counter[tuple[str, ...]] | None = None) -> None:
        self._index, self._position, self._began = index, position, wall_time()
        self._ids, self._renamed = NO_IDS, dict[str, str]()
        self._but_for = Counter[tuple[str, ...]]() if but_for is None else but_for
        self._unmatched: list[SentMessage] = []
        self._candidates = self._open()

    @property
    def position(self) -> str:
        """The fingerprint of the last exchange."""
        return self._position

    @property
    def unmatched(self) -> list[SentMessage]:
        """The messages of the client since the last exchange."""
        return self._unmatched

    @property
    def renamed(self) -> dict[bytes, bytes]:
        """The recorded ids that the client replaced, as in JSON."""
        return self._ids.renamed()

    @property
    def folders(self) -> dict[str, str]:
        """The names of folders in the recording, with those that the client has in their place."""
        return {old: new for old, new in self._renamed.items() if old.startswith("/")}

    def feed(
        self, message: SentMessage, *, prefers: Callable[[SocketTurn], bool] = lambda _: True
    ) -> list[SocketTurn] | None:
        """Return the exchanges that a message completes, or None if no recorded exchange continues with it.

        If several would be complete, the first is returned for which `prefers` returns True.
        """
        completed: list[SocketTurn] = []
        self._unmatched.append(message)
        left: SentMessage = message
        while left is not _ALL_OF_IT:
            taking = self._taking(left)
            if not taking:
                return completed if self._is_surplus(left) else None
            self._candidates = [each for each, _ in taking]
            whole = [(each, rest) for each, rest in taking if not each.missing]
            if not whole:
                return completed
            chosen, left = next((pair for pair in whole if prefers(pair[0].turn)), whole[0])
            completed.append(chosen.turn)
            self._position, self._ids, self._renamed = chosen.turn.fingerprint, chosen.ids, chosen.renamed
            if chosen.but_for:
                self._but_for[tuple(chosen.but_for)] += 1
            self._unmatched, self._candidates = [], self._open()
        return completed

    def _taking(self, message: SentMessage) -> list[tuple[_TurnCandidate, SentMessage]]:
        """Return the candidates that accept a message, each with the rest of it.

        As for other requests, harmless differences are allowed where nothing else matches.
        """
        rules = self._index.rules
        alike: _MessageComparison = partial(_is_alike, rules=rules, began=self._began)
        equal: _MessageComparison = partial(_is_same, rules=rules)
        for compare in (equal,) if rules.exact else (equal, alike):
            found = [(each, each.take(message, compare)) for each in self._candidates]
            if taking := [(each, rest) for each, rest in found if rest is not None]:
                return taking
        return []

    def allow_again(self, turn: SocketTurn) -> None:
        """Accept the last exchange once more: its answer failed, and the client may repeat it."""
        self._candidates.append(_TurnCandidate(turn, self._ids, self._renamed))

    def _open(self) -> list[_TurnCandidate]:
        return [_TurnCandidate(turn, self._ids, self._renamed) for turn in self._index.following(self._position)]

    def _is_surplus(self, message: SentMessage) -> bool:
        """Return whether a message is audio after the recorded session, whose amount is random."""
        return audio_of(message) is not None and not self._index.following(self._position)


def describe_message(message: SentMessage) -> str:
    """Describe a message: its type, or its only field."""
    match message:
        case {"type": str(kind)}:
            return shorten(printable_line(kind), MAX_SHOWN_CHARS)
        case dict() if message:
            return shorten(printable_line(str(next(iter(message)))), MAX_SHOWN_CHARS)
        case _:
            return shorten(printable_line(str(message)), MAX_SHOWN_CHARS)


def websocket_mismatch_error(fields: JsonObject, index: TurnIndex, reader: RecordingReader) -> RecordingMismatchError:
    """Return the error for a message that a strict replay refuses, with the difference from the expected one.

    As in matching, neither the client's ids nor ignored parts are differences.
    """
    from offbook.comparison import difference_between  # noqa: PLC0415 - most runs have no mismatch
    from offbook.recording.redact.rules import mask_json  # noqa: PLC0415 - only other messages need its patterns

    place = shorten(printable_line(f"{WEBSOCKET_METHOD} {fields['path']}"), 200)
    messages = [message for _, message in fields["sent"]]
    message, expected = mask_json(messages[-1]), index.expected(fields["after"], messages)
    sent = f"{place}: the message {describe_message(message)!r} is not in the recording at this place of the session."
    if expected is None:
        return RecordingMismatchError(
            f"{reader.source}: {sent} The recorded session ends before it.", kind="missing", key=fields["after"]
        )
    expected, ids = mask_json(expected), NO_IDS.plus(message, expected)
    is_comparable = isinstance(expected, dict) and isinstance(message, dict)
    plain = [
        plain_message(each, ids, index.rules) if is_comparable else {"content": each} for each in (expected, message)
    ]
    return RecordingMismatchError(
        f"{reader.source}: {sent} The nearest is {describe_message(expected)!r}:",
        kind="drifted",
        key=fields["after"],
        difference=difference_between(_comparable(plain[0]), _comparable(plain[1])),
    )


def _comparable(message: JsonObject) -> JsonObject:
    """Return a message with comparable fields. Model calls' fields named `messages` have another form."""
    return {f"{name} ": value for name, value in message.items()} if "messages" in message else message
