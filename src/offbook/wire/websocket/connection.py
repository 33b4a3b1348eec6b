"""The server's end of a WebSocket: parses a client's data, answers pings and closes, and sends timed frames."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from offbook.wire.backend import AcceptedCall
from offbook.wire.response import HttpResponse
from offbook.wire.server.connection import FlowControl, reset_connection
from offbook.wire.websocket.framing import (
    CLOSE,
    INTERNAL_ERROR,
    PING,
    PONG,
    CloseMessage,
    FrameParser,
    FramingError,
    SocketMessage,
    decode_close,
    encode_close,
    encode_frame,
)

logger = logging.getLogger("offbook.wire")

CLOSE_WAIT_S = 5.0
"""The time limit for a client to answer a close frame."""
MAX_UNSENT_ANSWERS = 64
"""The number of answers that may wait for their time. Above it, reading from the client pauses."""


class Dialogue(Protocol):
    """Answers the messages of one client."""

    def receive(self, message: SocketMessage) -> None:
        """Called with each message of the client, text or binary."""
        ...

    def lost(self) -> None:
        """Called once, when the connection has ended or the client has closed it."""
        ...


class _Delivery(Struct, frozen=True):
    """An answer to send, and the start of its times."""

    accepted: AcceptedCall
    answer: HttpResponse
    started_s: float


class WebSocketConnection:
    """One connection that has left HTTP. Its `dialogue` answers messages with encoded frames.

    Answers are sent one at a time, each frame at its time. An answer that does not end as `complete` is the last.
    """

    def __init__(self, transport: asyncio.Transport, flow: FlowControl, tasks: set[asyncio.Task[None]]) -> None:
        self.transport, self.flow = transport, flow
        self.dialogue: Dialogue | None = None
        self._tasks = tasks
        self._parser = FrameParser(expects_mask=True)
        self._waiting: deque[_Delivery] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._has_sent_close = self._is_deaf = False

    def feed(self, data: bytes) -> None:
        """Handle data of the client."""
        if self._is_deaf:
            return
        try:
            for message in self._parser.feed(data):
                self._receive(message)
                if self._is_deaf:
                    return
        except FramingError as error:
            self._fail(CloseMessage(error.code, error.reason))
        except Exception:
            logger.exception("a WebSocket message could not be answered")
            self._fail(CloseMessage(INTERNAL_ERROR, "the server failed to answer; see its log"))
        if self.flow.is_writing_paused:
            self.flow.pause_reading()

    def connection_lost(self) -> None:
        """Note that the connection has ended."""
        self._is_deaf = True
        if not self._left.done():
            self._left.set_result(None)
            if self.dialogue is not None:
                self.dialogue.lost()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start a task that is cancelled when the server stops."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def write(self, data: bytes) -> None:
        """Send bytes at once, unless the connection is closing: nothing follows a close frame."""
        if not self._is_closing:
            self.transport.write(data)

    @property
    def _is_closing(self) -> bool:
        return self._has_sent_close or self.transport.is_closing()

    def close(self, close: CloseMessage) -> None:
        """Send a close frame, and close the connection when the client has answered it, or does not in time."""
        if not self._is_closing:
            self.write(encode_close(close))
            self._expect_close()

    def deliver(self, accepted: AcceptedCall, answer: HttpResponse) -> None:
        """Send an answer after the waiting ones."""
        delivery = _Delivery(accepted, answer, accepted.session.clock.time())
        if self._sending is None and not accepted.is_ordered and self._is_due(answer):
            self.write(answer.content)
            accepted.session.clock.activity.count += 1
            accepted.delivered()
            return
        self._waiting.append(delivery)
        if len(self._waiting) > MAX_UNSENT_ANSWERS:
            self.flow.pause_reading()
        if self._sending is None:
            self._sending = self.start(self._send_all())

    def _fail(self, close: CloseMessage) -> None:
        """Close the connection after unintelligible data. Further data is read and ignored: closing with unread data
        would reset the connection, and lose the reason.
        """
        self._is_deaf = True
        self.close(close)
        if not self.transport.is_closing():
            self.transport.write_eof()

    def _is_due(self, answer: HttpResponse) -> bool:
        is_late = answer.end_ms > 0 or (answer.frames and answer.frames[-1][0] > 0)
        return answer.ending == "complete" and not is_late and not self.flow.is_writing_paused

    def _receive(self, message: SocketMessage) -> None:
        if message.is_data:
            if self.dialogue is not None and not self._has_sent_close:
                self.dialogue.receive(message)
        elif message.opcode == PING:
            self.write(encode_frame(PONG, message.data))
        elif message.opcode == CLOSE:
            self._answer_close(decode_close(message.data))

    def _answer_close(self, close: CloseMessage) -> None:
        self._is_deaf = True
        self.write(encode_close(close))
        self.transport.close()

    def _expect_close(self) -> None:
        self._has_sent_close = True
        asyncio.get_running_loop().call_later(CLOSE_WAIT_S, self.transport.close)

    async def _send_all(self) -> None:
        try:
            while self._waiting:
                delivery = self._waiting.popleft()
                async with delivery.accepted.in_order():
                    is_sent = await self._send(delivery)
                if is_sent:
                    delivery.accepted.delivered()
                else:
                    delivery.accepted.left()
                self.flow.resume_reading()
        finally:
            self._sending = None

    async def _send(self, delivery: _Delivery) -> bool:
        """Send an answer, and return whether all of it was sent before the client left."""
        answer, activity = delivery.answer, delivery.accepted.session.clock.activity
        for at_ms, data in answer.frames:
            if await self._left_before(delivery, at_ms):
                return False
            self.write(data)
            activity.count += 1
            if self.flow.is_writing_paused:
                await self.flow.until_writable()
        if await self._left_before(delivery, answer.end_ms):
            return False
        await self._end(delivery)
        return answer.ending in ("complete", "closed")

    async def _left_before(self, delivery: _Delivery, due_ms: float) -> bool:
        clock = delivery.accepted.session.clock
        wait_ms = due_ms - (clock.time() - delivery.started_s) * 1000.0
        if wait_ms > 0:
            await clock.wait(self._left, wait_ms / 1000.0)
        return self._left.done() or self._is_closing

    async def _end(self, delivery: _Delivery) -> None:
        match delivery.answer.ending:
            case "complete":
                return
            case "closed":
                self._expect_close()
            case "cut":
                self.transport.close()
            case "reset" | "silence":
                with delivery.accepted.session.clock.working():
                    await reset_connection(self.transport)


def after_head(answer: HttpResponse, head: bytes) -> HttpResponse:
    """Return an answer that begins with an HTTP response, which switches the protocol."""
    (at_ms, data), *rest = answer.frames or ((answer.end_ms, b""),)
    return replace(answer, frames=((at_ms, head + data), *rest))
