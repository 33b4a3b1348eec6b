"""A recording as a reader wants it: its calls in time, as a waterfall, and as a conversation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.messages import JsonObject, result_text
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.keys import is_mcp_key, short_key
from offbook.text import call_text, common_start, pluralize, shorten
from offbook.view.summary import end_ms, has_failed, place_of

TITLE_CHARS = 120
MAX_TEXT_CHARS = 20_000
"""The maximum length of a text in the conversation view. The view of a single call has all of it."""

NEAR_CALLS = 8
"""The number of earlier model calls searched for the one that a request continues."""

IDLE_MS, DRAWN_IDLE_MS = 5_000.0, 1_000.0

CallKind = Literal["model", "tool", "mcp", "http"]


class CallRow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call in the timeline. `number` counts from 1; times are in ms, `start_ms` since the first call began.

    `drawn_ms` is the position of its bar, with idle times shortened. `first_ms` is the time of the first of the
    `pieces` of a streamed answer. `attempt` counts equal requests from 1; a further one follows a failure.
    """

    number: int
    kind: CallKind
    title: str
    name: str = ""
    model: str = ""
    attempt: int = 1
    failure: str = ""
    start_ms: float = 0.0
    drawn_ms: float = 0.0
    latency_ms: float = 0.0
    first_ms: float | None = None
    pieces: int = 0
    tokens: int = 0
    cost_usd: float = 0.0


class Said(Struct, frozen=True, omit_defaults=True):
    """A message of a conversation: its author, its text, and its tool calls."""

    role: str
    text: str = ""
    calls: tuple[str, ...] = ()


class ConversationCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call in the conversation: the new messages of its request, and its answer."""

    row: CallRow
    said: tuple[Said, ...] = ()
    answer: Said | None = None
    reasoning: str = ""


class RecordedCalls:
    """The calls of a recording in the order in which they began. Those without a time come first, in a row."""

    def __init__(self, document: Document) -> None:
        placed = self._placed = sorted(_placed(document), key=lambda call: call.start_ms)
        origin_ms = placed[0].start_ms if placed else 0.0
        attempts, drawn = _attempts([call.exchange for call in placed]), _drawn_ms(placed)
        self._has_tools = any(isinstance(call.exchange, ToolExchange) for call in placed)
        self.rows = [
            replace(
                _row(call, number=place + 1, attempt=attempts[place]),
                start_ms=round(call.start_ms - origin_ms, 3),
                drawn_ms=round(drawn[place], 3),
            )
            for place, call in enumerate(placed)
        ]
        self.span_ms = max((row.drawn_ms + row.latency_ms for row in self.rows), default=0.0)

    def __len__(self) -> int:
        return len(self.rows)

    def search(self, words: Sequence[str]) -> list[CallRow]:
        """Return the calls that have all these words, which are in lower case, in their request, answer or error."""
        if not words:
            return self.rows
        return [row for row, text in zip(self.rows, self._texts, strict=True) if all(word in text for word in words)]

    @cached_property
    def _texts(self) -> list[str]:
        """The searched texts, by call."""
        return [
            f"{call.key} {msgspec.json.encode(call.exchange).decode()} {row.failure} {row.title}".lower()
            for call, row in zip(self._placed, self.rows, strict=True)
        ]

    def exchange(self, place: int) -> Exchange | ToolExchange:
        """Return the exchange of the call at a place, from 0."""
        return self._placed[place].exchange

    def conversation(self, start: int, count: int) -> list[ConversationCall]:
        """Return some of the calls as a conversation."""
        return [self._spoken(place) for place in range(max(0, start), min(len(self.rows), start + count))]

    def detail(self, place: int) -> JsonObject:
        """Return a call in full: its request, the times of its pieces, and its wire record."""
        exchange, row = self.exchange(place), self.rows[place]
        fields = msgspec.json.decode(msgspec.json.encode(exchange))
        return {"row": row, "key": self._placed[place].key, "exchange": fields}

    def _spoken(self, place: int) -> ConversationCall:
        exchange, row = self.exchange(place), self.rows[place]
        if isinstance(exchange, ToolExchange):
            result = (
                "" if exchange.error is not None else _listed_names(exchange.answer) or result_text(exchange.answer)
            )
            return ConversationCall(row=row, answer=Said("tool", shorten(result, MAX_TEXT_CHARS)))
        calls = tuple(call_text(call.name, _arguments(call.arguments), 400) for call in exchange.tool_calls or ())
        answer = Said("assistant", shorten(exchange.content, MAX_TEXT_CHARS), calls)
        return ConversationCall(
            row=row,
            said=tuple(self._new_messages(place, exchange)),
            answer=answer if exchange.content or calls else None,
            reasoning=shorten(exchange.reasoning or "", MAX_TEXT_CHARS),
        )

    def _new_messages(self, place: int, exchange: Exchange) -> Iterator[Said]:
        """Yield the messages that no call shortly before had sent, without answers, which stand at their calls."""
        if self.rows[place].attempt > 1:
            return
        messages = _messages(exchange)
        known = max((common_start(messages, _messages(each)) for each in self._earlier(place)), default=0)
        for message in messages[known:]:
            role = str(message.get("role", ""))
            if (role == "assistant" and known) or (role == "tool" and self._has_tools):
                continue
            yield Said(role, shorten(_message_text(message), MAX_TEXT_CHARS))

    def _earlier(self, place: int) -> Iterator[Exchange]:
        found = 0
        for at in range(place - 1, -1, -1):
            exchange = self.exchange(at)
            if isinstance(exchange, Exchange) and found < NEAR_CALLS:
                found += 1
                yield exchange


class _PlacedCall(Struct, frozen=True):
    key: str
    exchange: Exchange | ToolExchange
    start_ms: float


def _placed(document: Document) -> Iterator[_PlacedCall]:
    """Yield all exchanges with their start times. Those without one are placed one after another, from 0."""
    after_ms = 0.0
    for key, exchange in [*document, *each_exchange(document.tools)]:
        ended_ms = end_ms(exchange.recorded_at) if exchange.recorded_at else None
        yield _PlacedCall(key, exchange, after_ms if ended_ms is None else ended_ms - exchange.latency_ms)
        after_ms += 0.0 if ended_ms is not None else exchange.latency_ms


def _drawn_ms(placed: Sequence[_PlacedCall]) -> list[float]:
    """Return where the bars of calls begin: an idle time longer than `IDLE_MS` is drawn as `DRAWN_IDLE_MS`."""
    drawn, left_out_ms = [], placed[0].start_ms if placed else 0.0
    busy_until_ms = left_out_ms
    for call in placed:
        idle_ms = call.start_ms - busy_until_ms
        left_out_ms += idle_ms - DRAWN_IDLE_MS if idle_ms > IDLE_MS else 0.0
        busy_until_ms = max(busy_until_ms, call.start_ms + call.exchange.latency_ms)
        drawn.append(call.start_ms - left_out_ms)
    return drawn


def _attempts(exchanges: Sequence[Exchange | ToolExchange]) -> list[int]:
    """Return which attempt of its request each exchange is: one more than the last, if that failed."""
    last: dict[str, tuple[int, bool]] = {}
    numbers = []
    for exchange in exchanges:
        if isinstance(exchange, ToolExchange) or exchange.fingerprint is None:
            numbers.append(1)
            continue
        attempt, is_failed = last.get(exchange.fingerprint, (0, True))
        numbers.append(attempt + 1 if is_failed else 1)
        last[exchange.fingerprint] = numbers[-1], has_failed(exchange)
    return numbers


def _row(call: _PlacedCall, *, number: int, attempt: int) -> CallRow:
    exchange = call.exchange
    if isinstance(exchange, ToolExchange):
        failure = "" if exchange.error is None else f"{exchange.error.type}: {exchange.error.message}"
        arguments = {} if exchange.arguments is UNSET else exchange.arguments
        return CallRow(
            number=number,
            kind="mcp" if is_mcp_key(call.key) else "tool",
            title=call_text(call.key, _arguments(arguments), TITLE_CHARS),
            failure=shorten(failure, TITLE_CHARS),
            latency_ms=exchange.latency_ms,
        )
    place = place_of(exchange)
    times = [at_ms for at_ms, _ in exchange.chunks or (exchange.wire.frames if exchange.wire else None) or ()]
    return CallRow(
        number=number,
        kind="http" if place else "model",
        title=shorten(place or title_of(exchange), TITLE_CHARS),
        name="" if call.key == exchange.fingerprint else short_key(call.key),
        model=exchange.model,
        attempt=attempt,
        failure=_failure(exchange),
        latency_ms=exchange.latency_ms,
        first_ms=times[0] if times else None,
        pieces=len(times),
        tokens=exchange.usage.total_tokens if exchange.usage is not None else 0,
        cost_usd=exchange.cost_usd,
    )


def title_of(exchange: Exchange) -> str:
    """Return the answer's tool calls, `→ refund(42)`, or its text."""
    calls = [call_text(call.name, _arguments(call.arguments)) for call in exchange.tool_calls or ()]
    return f"→ {', '.join(calls)}" if calls else " ".join(exchange.content[: 4 * TITLE_CHARS].split())


def _failure(exchange: Exchange) -> str:
    if exchange.fault is not None:
        return str(exchange.fault)
    return f"HTTP {exchange.wire.status}" if exchange.wire is not None and exchange.wire.status >= 400 else ""


def _listed_names(answer: object) -> str:
    """Return the names of the tools, prompts or resources that an MCP server lists; empty for other answers."""
    if isinstance(answer, dict):
        for kind in ("tools", "prompts", "resources"):
            listed = answer.get(kind)
            if isinstance(listed, list) and all(isinstance(each, dict) and "name" in each for each in listed):
                return f"{pluralize(len(listed), kind[:-1])}: {', '.join(str(each['name']) for each in listed)}"
    return ""


def _arguments(given: Any) -> JsonObject:
    return given if isinstance(given, dict) else {"": given}


def _messages(exchange: Exchange) -> list[JsonObject]:
    messages: list[JsonObject] = (exchange.request_fields() or {}).get("messages", [])
    return messages


def _message_text(message: JsonObject) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [part.get("text") if isinstance(part, dict) else part for part in content]
        if all(isinstance(each, str) for each in texts):
            return "\n".join(map(str, texts))
    rest = {name: value for name, value in message.items() if name != "role"}
    return msgspec.json.encode(rest if content is None else content).decode()
