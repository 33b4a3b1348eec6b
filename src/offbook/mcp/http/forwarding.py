"""One request on its way to a real MCP server over HTTP: what comes back passes to the client, and is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from typing import TYPE_CHECKING

from offbook.codecs.framing import ServerSentEvent, SseDecoder, splitter_for
from offbook.mcp.answer import McpAnswer
from offbook.mcp.http.endpoint import batch_response, sse_frames, to_http
from offbook.mcp.http.streams import SSE_TYPE, ClientStreams
from offbook.mcp.message import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_META,
    UNSUPPORTED_VERSION,
    Message,
    MessageError,
    encode_batch,
    error_message,
    id_key,
    is_batch,
    parse_batch,
    parse_message,
)
from offbook.mcp.session import McpSession, PendingCall
from offbook.wire.proxy.upstream import client_response_headers
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.server.connection import Send

if TYPE_CHECKING:
    import httpx2

BAD_GATEWAY = 502


class OpenCalls:
    """The calls of one client whose answer comes on another stream than that of the request: one that was resumed, or
    the only one that HTTP+SSE of 2024 has."""

    def __init__(self) -> None:
        self.calls: dict[bytes, PendingCall] = {}

    def lose(self, session: McpSession) -> None:
        """Note that the answers never came."""
        for pending in self.calls.values():
            session.lose(pending.call, "the stream ended without a response")
        self.calls.clear()


class Forwarding:
    """Forwards one request, and its response to the client by `send`.

    Args:
        pending: the calls of the request, by the keys of their ids; none for a GET.
        answered: the calls of a batch that are answered already, without the real server.
        elsewhere: the calls of the client that are answered on other streams.
        client_key: what the ids of a client are unique together with.
        credentials: what the server was given to prove who the client is.
        rename_endpoint: returns the address of an `endpoint` event (HTTP+SSE of 2024) for the client.
    """

    def __init__(
        self,
        session: McpSession,
        *,
        send: Send,
        pending: dict[bytes, PendingCall],
        answered: Sequence[tuple[Message, McpAnswer]],
        elsewhere: OpenCalls,
        client_key: bytes,
        credentials: tuple[str, ...],
        rename_endpoint: Callable[[str], str],
    ) -> None:
        self._session, self._send, self._credentials = session, send, credentials
        self._has_calls, self._pending = bool(pending), pending
        self._answers, self._elsewhere, self._client_key = list(answered), elsewhere, client_key
        self._rename_endpoint = rename_endpoint
        self._is_held = bool(answered) or any(session.is_held(each.call) for each in pending.values())
        self._is_batch = len(pending) + len(answered) > 1
        self._replacement: HttpResponse | None = None
        self._has_ids = self._has_head = self._is_streamed = False
        self._ending = "complete"

    async def run(self, client: httpx2.AsyncClient, request: httpx2.Request) -> HttpResponse | None:
        """Forward the request and its response. Return what is to be sent in its place or to its end, if that is not
        all."""
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        try:
            response = await client.send(request, stream=True)
            try:
                await self._forward(response)
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            return self._failed(f"{type(error).__name__} from the server")
        if self._replacement is not None:
            return self._replacement
        if self._pending and self._is_streamed and not self._is_resumable:
            return self._failed("the stream ended without a response")
        return None

    async def _forward(self, response: httpx2.Response) -> None:
        headers = client_response_headers(response.headers.raw, is_decompressed=False)
        head = {"type": "http.response.start", "status": response.status_code, "headers": headers}
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == SSE_TYPE:
            self._is_streamed = True
            await self._forward_events(response.aiter_raw(), head)
            return
        body = await response.aread()
        if not self._is_refusal(response.status_code, body):
            self._take(body)
        if self._replacement is None:
            self._lose(f"the server answered with HTTP {response.status_code}")
            await self._send(head)
            await self._send({"type": "http.response.body", "body": body})

    def _is_refusal(self, status: int, body: bytes) -> bool:
        """Return whether a response is about HTTP, and not an answer: no login, no session, a wrong header. In the
        handshake era answers come with 200; modern errors have a status of their own."""
        if status < 400 or not self._pending:
            return False
        is_modern = all(each.call.request.era == "modern" for each in self._pending.values())
        if not is_modern or status not in (400, 404):
            return True
        try:
            error = parse_message(body).fields.get("error")
        except MessageError:
            return True
        code = error.get("code") if isinstance(error, dict) else None
        return (code != METHOD_NOT_FOUND) if status == 404 else code in (None, HEADER_MISMATCH, UNSUPPORTED_VERSION)

    def _lose(self, reason: str) -> None:
        """Note that the calls that are left are not answered."""
        for pending in self._pending.values():
            self._session.lose(pending.call, reason)
        self._pending.clear()

    async def _forward_events(self, pieces: AsyncIterator[bytes], head: dict[str, object]) -> None:
        """Forward events as they come. Those of a call with a fault are kept for it, but for what the server asks."""
        if not self._is_held:
            await self._send_head(head)
        splitter, decoder = splitter_for(SSE_TYPE), SseDecoder()
        async for piece in pieces:
            for frame in splitter.feed(piece):
                self._has_ids = self._has_ids or frame.startswith(b"id:") or b"\nid:" in frame
                for passed in self._passed(frame, decoder.feed(frame)):
                    await self._send_head(head)
                    await self._send({"type": "http.response.body", "body": passed, "more_body": True})
                if self._ending != "complete":
                    self._replacement = HttpResponse(None, ending="cut")
                    return
        if self._has_head and (not self._pending or self._is_resumable):
            await self._send({"type": "http.response.body", "body": b""})

    async def _send_head(self, head: dict[str, object]) -> None:
        if not self._has_head:
            self._has_head = True
            await self._send(head)

    def _passed(self, frame: bytes, events: list[ServerSentEvent]) -> list[bytes]:
        """Return what the client gets for a frame of the server: itself, or what replaces it."""
        if not events:
            return [] if self._is_held else [frame]
        if events[0].event == "endpoint":
            address = self._rename_endpoint(events[0].data)
            self._client_key = events[0].data.encode()
            return [f"event: endpoint\ndata: {address}\n\n".encode()]
        return [passed for event in events for passed in self._take(event.data.encode(), frame)]

    def _take(self, raw: bytes, frame: bytes = b"") -> list[bytes]:
        """Take messages of the server, and return the events that the client gets for them."""
        try:
            messages = parse_batch(raw) if is_batch(raw) else [parse_message(raw)]
        except MessageError:
            return [] if self._is_held else [frame]
        taken = [(message, self._take_message(message)) for message in messages]
        if all(instead is None for _, instead in taken):
            return [frame]
        return [event for message, instead in taken for event in self._events(message, instead)]

    def _events(self, message: Message, instead: McpAnswer | None) -> list[bytes]:
        if instead is None:
            return [event for _, event in sse_frames(McpAnswer(messages=((0.0, message.raw),)))]
        if instead.ending != "complete":
            self._ending = instead.ending
        return [event for _, event in sse_frames(instead)]

    def _take_message(self, message: Message) -> McpAnswer | None:
        """Take a message, and return what the client gets instead; None if it gets the message."""
        pending = self._pending_for(message)
        if message.is_request:
            self._session.note_question(self._client_key + id_key(message.id), message, pending)
        if pending is None:
            if message.is_notification:
                self._session.note_own_message(message)
            return None
        pending.messages.append((self._session.elapsed_ms(pending.call), message.raw))
        if not message.is_response:
            return None if message.is_request or not self._session.is_held(pending.call) else McpAnswer()
        return self._finish(pending, message)

    def _finish(self, pending: PendingCall, response: Message) -> McpAnswer | None:
        key = id_key(response.id)
        is_own = self._pending.pop(key, None) is not None
        self._elsewhere.calls.pop(key, None)
        answer = self._session.finish(pending.call, pending.messages, credentials=self._credentials)
        if not is_own or self._has_head or not (self._is_held or answer is not None):
            return answer
        self._answers.append((pending.call.request, answer or McpAnswer(messages=((0.0, response.raw),))))
        if not self._pending:
            self._replacement = self._whole_response()
        return McpAnswer()

    def _whole_response(self) -> HttpResponse:
        """Return the response to a request of which the client has got nothing yet."""
        if self._is_batch:
            return batch_response(self._answers, ClientStreams())
        request, answer = self._answers[0]
        return to_http(answer, request)

    def _pending_for(self, message: Message) -> PendingCall | None:
        """Return the call that a message belongs to: its response, its progress, or the one that it came for."""
        if message.is_response:
            key = id_key(message.id)
            return self._pending.get(key) or self._elsewhere.calls.get(key)
        if SUBSCRIPTION_META in message.meta or message.method == "notifications/subscriptions/acknowledged":
            return None
        calls = list((self._pending if self._has_calls else self._elsewhere.calls).values())
        if message.method == "notifications/progress":
            token = message.progress_token
            return next((each for each in calls if each.call.request.progress_token == token), None)
        return calls[0] if calls else None

    @property
    def _is_resumable(self) -> bool:
        return self._is_streamed and self._has_ids and bool(self._client_key)

    def end(self) -> None:
        """Leave the calls that are not answered to the streams by which the client resumes this one, or to others."""
        if self._is_resumable:
            self._elsewhere.calls |= self._pending
            return
        for pending in self._pending.values():
            self._session.give_up(pending.call)

    def _failed(self, reason: str) -> HttpResponse | None:
        if self._has_head or self._is_streamed:
            if not self._is_resumable:
                self._lose(reason)
            return HttpResponse(None, ending="cut")
        errors = [
            error_message(each.call.request.id, INTERNAL_ERROR, f"the MCP server did not answer: {reason}")
            for each in self._pending.values()
        ] or [error_message(None, INTERNAL_ERROR, f"the MCP server did not answer: {reason}")]
        self._lose(reason)
        return whole_response(BAD_GATEWAY, errors[0] if len(errors) == 1 else encode_batch(errors))
