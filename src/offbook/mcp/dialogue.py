"""The dialogue of a recorded server and its client: timed messages, server requests, and the client's answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from math import isfinite
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from offbook.comparison import difference_between
from offbook.errors import RecordingMismatchError
from offbook.mcp.answer import McpAnswer
from offbook.mcp.message import SUBSCRIPTION_META, McpMessage, encode, id_key, json_in_texts, parse_message, with_id
from offbook.messages import JsonObject
from offbook.recording.match.mismatch import RECORD_AGAIN
from offbook.recording.redact.rules import mask_json

CLIENT_ANSWER_S = 120.0
"""Seconds that a request of the server waits for the client's answer in a replay."""


class AnswerSink(Protocol):
    """Receives the messages of an answer."""

    def write(self, raw: bytes) -> None:
        """Write one message, or noise, without a line end."""
        ...

    def end(self, answer: McpAnswer) -> None:
        """Note that all messages of an answer were written."""
        ...


class OwnMessage(Struct, frozen=True, kw_only=True):
    """A message that a server sends outside any call: a notification, or a request, whose answer goes to `on_answer`;
    None if none comes in time.
    """

    method: str
    params: dict[str, Any] | None = None
    on_answer: Callable[[McpMessage | None], None] | None = None

    @property
    def fields(self) -> dict[str, Any]:
        return {"method": self.method} | ({} if self.params is None else {"params": self.params})


_LIST_CHANGES = {
    "notifications/tools/list_changed": "toolsListChanged",
    "notifications/prompts/list_changed": "promptsListChanged",
    "notifications/resources/list_changed": "resourcesListChanged",
}
"""The fields of `subscriptions/listen` that request each notification."""


def subscriber(request: McpMessage, write: Callable[[bytes], None]) -> Callable[[OwnMessage], None]:
    """Return a listener that writes the notifications requested by a `subscriptions/listen`, under its id."""
    asked = request.params.get("notifications")
    wanted = asked if isinstance(asked, dict) else {}

    def listener(message: OwnMessage) -> None:
        params = message.params or {}
        uris = wanted.get("resourceSubscriptions")
        is_update = message.method == "notifications/resources/updated"
        is_wanted = isinstance(uris, list) and params.get("uri") in uris if is_update else False
        if is_wanted or wanted.get(_LIST_CHANGES.get(message.method, "")) is True:
            write(encode(message.fields | {"params": params | {"_meta": {SUBSCRIPTION_META: request.id}}}))

    return listener


class _Question(Struct, frozen=True):
    """A server request that the client has not answered. `abandon` is called if it never can."""

    on_answer: Callable[[McpMessage | None], None]
    abandon: Callable[[], None]
    timer: asyncio.TimerHandle | None = None


class AnswerSender:
    """Sends the answers of one client. Its methods are called on an event loop."""

    def __init__(self) -> None:
        self._questions: dict[bytes, _Question] = {}
        self._timers: dict[bytes, asyncio.TimerHandle] = {}
        self._work: dict[bytes, asyncio.Task[None]] = {}
        self._count = 0

    def send(self, request: McpMessage, answer: McpAnswer, sink: AnswerSink, *, elapsed_ms: float = 0.0) -> None:
        """Send an answer. The times of its messages count from the request, `elapsed_ms` ago."""
        if answer.work is not None:
            self.start(request, self._send_after(answer.work, request, sink))
            return
        if answer.noise:
            sink.write(answer.noise)
        self._send_from(request, answer, sink, 0, asyncio.get_running_loop().time() - elapsed_ms / 1000.0)

    def start(self, request: McpMessage, work: Coroutine[Any, Any, None]) -> None:
        """Start the work that a request waits for. It ends when the client cancels the request, or leaves."""
        key = id_key(request.id)
        task = self._work[key] = asyncio.ensure_future(work)
        task.add_done_callback(lambda _: self._work.pop(key) if self._work.get(key) is task else None)

    async def _send_after(
        self, work: Callable[[], Awaitable[McpAnswer]], request: McpMessage, sink: AnswerSink
    ) -> None:
        self.send(request, await work(), sink)

    def _send_from(
        self, request: McpMessage, answer: McpAnswer, sink: AnswerSink, place: int, started_s: float
    ) -> None:
        """Send the messages from a place on."""
        asks_client = answer.asks_client
        for index in range(place, len(answer.messages)):
            at_ms, raw = answer.messages[index]
            go_on = partial(self._send_from, request, answer, sink, index, started_s)
            if self._waits(request, at_ms, started_s, go_on):
                return
            if asks_client and (asked := parse_message(raw)).is_request:
                next_ones = partial(self._send_from, request, answer, sink, index + 1, started_s)
                self._ask(asked, request, answer, sink, next_ones)
                return
            sink.write(raw)
        sink.end(answer)
        if answer.on_sent is not None:
            answer.on_sent()

    def _ask(
        self, asked: McpMessage, request: McpMessage, answer: McpAnswer, sink: AnswerSink, go_on: Callable[[], None]
    ) -> None:
        """Send a server request, and continue after the client's answer."""
        questions = answer.questions

        def on_answer(received: McpMessage | None) -> None:
            instead = None if questions is None else questions.check(asked, received)
            if instead is None:
                go_on()
            else:
                self.send(request, instead, sink)

        abandon = (lambda: None) if questions is None else questions.abandon
        key = self._free_key(asked.id)
        timer = None
        if questions is not None:
            timer = asyncio.get_running_loop().call_later(CLIENT_ANSWER_S, self._give_up, key)
        self._questions[key] = _Question(on_answer, abandon, timer)
        sink.write(asked.raw if key == id_key(asked.id) else with_id(asked.raw, _id_of(key)))

    def notify(self, message: OwnMessage, write: Callable[[bytes], None]) -> None:
        """Send a message that the server sends on its own."""
        if message.on_answer is None:
            write(encode(message.fields))
            return
        self._count += 1
        key = self._free_key(f"server-{self._count}")
        timer = asyncio.get_running_loop().call_later(CLIENT_ANSWER_S, self._give_up, key)
        self._questions[key] = _Question(message.on_answer, lambda: None, timer)
        write(encode({"id": _id_of(key)} | message.fields))

    def _free_key(self, id: Any) -> bytes:
        """Return the key of an id, or a similar one if that is already in use."""
        key, number = id_key(id), 1
        while key in self._questions:
            number += 1
            key = id_key(f"{id}-{number}")
        return key

    def receive(self, response: McpMessage) -> bool:
        """Handle a client's response, and return whether a server request waits for it."""
        question = self._questions.pop(id_key(response.id), None)
        if question is None:
            return False
        if question.timer is not None:
            question.timer.cancel()
        question.on_answer(response)
        return True

    def _give_up(self, key: bytes) -> None:
        question = self._questions.pop(key, None)
        if question is not None:
            question.on_answer(None)

    def cancel(self, request_id: Any) -> None:
        """Send no more for a request that the client has cancelled."""
        key = id_key(request_id)
        for waiting in (self._timers.pop(key, None), self._work.pop(key, None)):
            if waiting is not None:
                waiting.cancel()

    async def finish_work(self, *, limit_s: float) -> None:
        """Wait for answers that take time."""
        if self._work:
            await asyncio.wait(self._work.values(), timeout=limit_s)

    def close(self) -> None:
        """Send no more."""
        questions, self._questions = self._questions, {}
        for question in questions.values():
            if question.timer is not None:
                question.timer.cancel()
            question.abandon()
        for timer in self._timers.values():
            timer.cancel()
        for work in self._work.values():
            work.cancel()

    def _waits(self, request: McpMessage, at_ms: float, started_s: float, go_on: Callable[[], None]) -> bool:
        """Return whether it is too early. `go_on` is then called later."""
        loop = asyncio.get_running_loop()
        due_s = started_s + at_ms / 1000.0
        if at_ms <= 0 or due_s <= loop.time():
            return False
        if isfinite(due_s):
            self._timers[id_key(request.id)] = loop.call_at(due_s, go_on)
        return True


def _id_of(key: bytes) -> Any:
    return msgspec.json.decode(key)


def client_answer_mismatch(
    method: str, expected: McpMessage | None, answer: McpMessage | None, *, key: str | None
) -> RecordingMismatchError | None:
    """Return how a client's answer to a server request differs from the recorded one, or None if it is equal or not
    recorded.
    """
    if answer is None:
        reason = f"the client did not answer {method} within {CLIENT_ANSWER_S:g} s"
        return RecordingMismatchError(reason, kind="drifted", key=key)
    if expected is None:
        return None
    recorded, sent = _comparable(expected), mask_json(_comparable(answer))
    if json_in_texts(recorded) == json_in_texts(sent):
        return None
    reason = f"the client's answer to {method} was recorded with another content. It differs:"
    difference = difference_between(recorded, sent)
    return RecordingMismatchError(reason, kind="drifted", key=key, difference=difference, hint=RECORD_AGAIN)


def _comparable(answer: McpMessage) -> JsonObject:
    """Return the compared part of an answer: the result without `_meta`, or the message of the error."""
    error = answer.fields.get("error")
    if error is not None:
        return {"error": error.get("message") if isinstance(error, dict) else error}
    result = answer.fields.get("result")
    if isinstance(result, dict):
        result = {name: value for name, value in result.items() if name != "_meta"}
    return {"result": result}
