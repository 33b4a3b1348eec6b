"""The recording proxy: forwards calls to the real APIs and streams their responses back to the client."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, MutableMapping
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from msgspec.structs import replace

from offbook.codecs.framing import PackedBodyError
from offbook.errors import InputError, RecordingWriteError
from offbook.recording.call_cache import CallTurn
from offbook.wire.backend import AcceptedCall, split_session_path
from offbook.wire.options import END_WAIT_S
from offbook.wire.proxy.fork import with_model
from offbook.wire.proxy.forwarding import (
    BAD_GATEWAY,
    GATEWAY_TIMEOUT,
    ForwardedCall,
    decompressed,
    describe_error,
    describe_no_answer,
    ending_of,
)
from offbook.wire.proxy.recorder import (
    CapturedResponse,
    RecordedExchange,
    WireRecorder,
)
from offbook.wire.proxy.upstream import (
    CONNECT_TIMEOUT_S,
    ORIGIN,
    UpstreamRequest,
    Upstreams,
    encode_upstream_request,
    upstream_client,
)
from offbook.wire.request import HttpRequest, credentials_of
from offbook.wire.response import (
    STATUSES_WITHOUT_BODY,
    HttpResponse,
    ResponseEnding,
    error_response,
    refusal_response,
)
from offbook.wire.server.connection import (
    TRANSPORT,
    Receive,
    Scope,
    Send,
    reset_connection,
    send_response,
    until_client_leaves,
    while_client_waits,
)
from offbook.wire.session import CallAttempt, CallOutcome, WireSession

if TYPE_CHECKING:
    import httpx2

    from offbook.wire.websocket.connection import WebSocketConnection

logger = logging.getLogger("offbook.wire")

_LARGEST_STATUS = 599
MAX_HELD_BYTES = 8 * 1024 * 1024
"""The size limit of a response held until its end."""
_PATH_CHARS = "/:@!$&'()*+,;=~-._"


class Proxy:
    """Forwards calls to `upstreams`, and records what they answer.

    `timeout_s` is the longest wait for a real API to send more; None waits forever. A piece that a client may treat as
    the last waits for up to `end_wait_s` until the API has ended its response. Faults change what clients get, not what
    is recorded. A `model` is asked instead of the one that a model call names; it is recorded as what answered.
    """

    def __init__(
        self,
        upstreams: Upstreams,
        recorder: WireRecorder,
        *,
        timeout_s: float | None = None,
        end_wait_s: float = END_WAIT_S,
        model: str = "",
    ) -> None:
        self._upstreams, self._recorder, self._model = upstreams, recorder, model
        self._timeout_s, self._end_wait_s = timeout_s, end_wait_s
        self._clients: dict[str, httpx2.AsyncClient] = {}

    async def forward(self, accepted: AcceptedCall, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request to the real API, and forward its response."""
        session, attempt = accepted.session, accepted.attempt
        assert attempt is not None
        vendor = attempt.parsed.route.vendor
        upstreams = self._upstreams.at(scope.get(ORIGIN), vendor)
        try:
            address = upstreams.address(vendor)
            raw_path = split_session_path(scope["raw_path"].decode("latin-1"))[1]
            sent = UpstreamRequest(attempt.parsed.route, accepted.request, raw_path, scope["headers"])
            sent, attempt = self._asked(sent, attempt)
            upstream_request = await encode_upstream_request(upstreams, sent)
            forwarder = StreamForwarder(
                session,
                attempt,
                self._recorder,
                address=address,
                send=send,
                end_wait_s=self._end_wait_s,
                credentials=_credentials(accepted.request, upstream_request),
            )
        except InputError as error:
            answer = refusal_response(attempt.parsed.route.any_codec, 400, str(error))
            session.note(replace(attempt, fault=None), answer, CallOutcome("refused"))
            await send_response(answer, scope, receive, send)
            return
        turn = await self._turn(session, attempt, receive)
        if turn is None:
            return
        if isinstance(turn, HttpResponse):
            await send_response(turn, scope, receive, send)
            return
        forwarder.turn = turn
        try:
            captured = await while_client_waits(
                forwarder.run(self._client(upstreams, vendor), upstream_request), receive
            )
        except RecordingWriteError:
            await _break_off(HttpResponse(None, ending="cut"), scope, receive)
            return
        finally:
            turn.release()
        if captured is None:
            return
        replacement = forwarder.replacement_response()
        if replacement is not None:
            await send_response(replacement, scope, receive, send)
        elif captured.answer.ending != "complete":
            await _break_off(captured.answer, scope, receive)

    def _asked(self, sent: UpstreamRequest, attempt: CallAttempt) -> tuple[UpstreamRequest, CallAttempt]:
        """Return a call with the model that is asked instead. Its fingerprint stays that of its client."""
        parsed = attempt.parsed
        if not self._model or parsed.request is None:
            return sent, attempt
        asked = replace(parsed, request=replace(parsed.request, model=self._model))
        return with_model(sent, self._model), replace(attempt, parsed=asked)

    async def _turn(
        self, session: WireSession, attempt: CallAttempt, receive: Receive
    ) -> CallTurn | HttpResponse | None:
        """Wait for the turn of a call, while another process makes it; None if the client has left.

        Returns the answer if there is one then, or if the recording cannot be reached.
        """
        source, parsed = session.source, attempt.parsed

        def check() -> bool:
            return source is not None and source.look_up(parsed, attempt.step_id).mismatch is None

        try:
            turn = await while_client_waits(self._recorder.turn(attempt.step_id, parsed.request_hash, check), receive)
        except InputError as error:
            return session.refuse(attempt, error)
        if turn is None or not turn.is_answered:
            return turn
        return session.answer(attempt)

    def forward_websocket(self, accepted: AcceptedCall, connection: WebSocketConnection) -> None:
        """Open the session at the real API, and forward both sides' messages."""
        from offbook.wire.websocket.live import LiveSession, UpstreamPlace  # noqa: PLC0415 - most clients use none

        assert accepted.attempt is not None
        request, route = accepted.request, accepted.attempt.parsed.route
        auth = self._upstreams.auth(route)
        own_key = replace(request, headers=auth or {}, query="")
        place = UpstreamPlace(
            url=lambda: self._upstreams.url(route, quote(request.path, safe=_PATH_CHARS), request.query),
            address=self._upstreams.address(route.vendor),
            auth=auth,
            connect_timeout_s=CONNECT_TIMEOUT_S,
            credentials=(*credentials_of(request), *credentials_of(own_key)),
        )
        live = LiveSession(connection, accepted, self._recorder, place)
        connection.dialogue = live
        connection.start(live.run())

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def _client(self, upstreams: Upstreams, vendor: str) -> httpx2.AsyncClient:
        address = upstreams.address(vendor)
        if address not in self._clients:
            self._clients[address] = upstream_client(upstreams, vendor, timeout_s=self._timeout_s)
        return self._clients[address]


def _credentials(received: HttpRequest, sent: httpx2.Request) -> tuple[str, ...]:
    """Return the client's credentials, and those sent upstream instead."""
    return (*credentials_of(received), *credentials_of(replace(received, headers=dict(sent.headers), query="")))


class StreamForwarder(ForwardedCall):
    """Forwards a real API's response to an ASGI `send`, or only captures it if the call has a fault.

    The response is recorded before the client sees its end, even if it breaks off, or if this is cancelled because the
    client left.
    """

    def __init__(
        self,
        session: WireSession,
        attempt: CallAttempt,
        recorder: WireRecorder,
        *,
        address: str,
        send: Send,
        end_wait_s: float,
        credentials: tuple[str, ...],
    ) -> None:
        super().__init__(session, attempt, recorder, address=address, credentials=credentials)
        self._end_wait_s = end_wait_s
        self._send = _discard if self.has_fault else send

    async def run(self, client: httpx2.AsyncClient, request: httpx2.Request) -> CapturedResponse:
        """Send the request upstream. The caller must break off an incomplete response."""
        try:
            ending, failure = await self._forward(client, request)
        except asyncio.CancelledError:
            self.end("complete", has_client_left=True)
            raise
        captured = self.end(ending, failure=failure)
        if ending == "complete":
            await self._send({"type": "http.response.body", "body": b""})
        return captured

    async def _forward(self, client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[ResponseEnding, str]:
        """Forward the response, and return its ending and its failure, if any."""
        import httpx2  # noqa: PLC0415

        try:
            response = await client.send(request, stream=True)
            try:
                await self._forward_response(response)
            finally:
                await response.aclose()
        except (httpx2.HTTPError, PackedBodyError) as error:
            return ending_of(error), describe_error(error)
        return "complete", ""

    async def _forward_response(self, response: httpx2.Response) -> None:
        import httpx2  # noqa: PLC0415

        if response.status_code > _LARGEST_STATUS:
            raise httpx2.RemoteProtocolError(f"status {response.status_code}")
        headers = self.start(response.status_code, response.headers.raw)
        head: MutableMapping[str, Any] = {
            "type": "http.response.start",
            "status": response.status_code,
            "headers": headers,
        }
        if _is_bodiless(response):
            await response.aread()
            self.end("complete")
            await self._send(head)
        else:
            await self._forward_body(head, decompressed(response.aiter_raw(), None))

    async def _forward_body(self, head: MutableMapping[str, Any], pieces: AsyncGenerator[bytes, None]) -> None:
        """Forward each piece at once. A piece that a client may treat as the last is held until upstream has ended. So
        is the head of an unstreamed response, because many clients read no further than an error's status.
        """
        reader, held = _PieceReader(pieces), [head]
        try:
            if self._capture.is_streamed:
                await self._send(held.pop())
            while (piece := await reader.take()) is not None:
                held.append(_body_message(piece))
                if self.capture(piece) or head in held:
                    held += map(_body_message, await self._until_end(reader))
                for each in held:
                    await self._send(each)
                held.clear()
            if held:
                self.end("complete")
                await self._send(head)
        finally:
            await reader.close()

    async def _until_end(self, reader: _PieceReader) -> list[bytes]:
        """Return the data until upstream ends, and record the response then; or until the wait is over, or there is too
        much data.
        """
        loop = asyncio.get_running_loop()
        deadline_s, pieces = loop.time() + self._end_wait_s, list[bytes]()
        while sum(map(len, pieces)) < MAX_HELD_BYTES and await reader.is_ready(deadline_s - loop.time()):
            piece = await reader.take()
            if piece is None:
                self.end("complete")
                break
            self.capture(piece)
            pieces.append(piece)
        return pieces

    def _record(self, captured: CapturedResponse) -> RecordedExchange | None:
        try:
            return super()._record(captured)
        except RecordingWriteError as error:
            logger.error("%s: not recorded, and so not answered: %s", self._attempt.parsed.place, error)  # noqa: TRY400
            raise

    def _error_response(self, captured: CapturedResponse) -> HttpResponse | None:
        """Return an error that names an upstream server that did not answer, and nothing of the request."""
        if captured.answer.status is not None or captured.has_client_left:
            return super()._error_response(captured)
        route = self._attempt.parsed.route
        another = f"--upstream {route.vendor}=…, or upstreams={{{route.vendor!r}: …}} in Python"
        hint = f"check that it runs and can be reached from here, or name another: {another}"
        status = GATEWAY_TIMEOUT if captured.answer.ending == "silence" else BAD_GATEWAY
        return error_response(route.any_codec, status, f"{describe_no_answer(captured, self._address)}; {hint}")


def _body_message(piece: bytes) -> MutableMapping[str, Any]:
    return {"type": "http.response.body", "body": piece, "more_body": True}


def _is_bodiless(response: httpx2.Response) -> bool:
    """Return whether the head is all that a client waits for."""
    is_empty = response.status_code in STATUSES_WITHOUT_BODY or response.headers.get("content-length") == "0"
    return is_empty or response.request.method == "HEAD"


class _PieceReader:
    """Reads pieces one ahead, so a caller can wait for the next one, give up, and continue later."""

    def __init__(self, pieces: AsyncGenerator[bytes, None]) -> None:
        self._pieces = pieces
        self._upcoming = self._read()

    async def is_ready(self, wait_s: float) -> bool:
        """Wait, and return whether the next piece, or the end, was read without an error."""
        await asyncio.wait([self._upcoming], timeout=max(wait_s, 0.0))
        return self._upcoming.done() and self._upcoming.exception() is None

    async def take(self) -> bytes | None:
        """Return the next piece, or None at the end."""
        piece = await self._upcoming
        if piece is not None:
            self._upcoming = self._read()
        return piece

    async def close(self) -> None:
        self._upcoming.cancel()
        await asyncio.wait([self._upcoming])
        await self._pieces.aclose()

    def _read(self) -> asyncio.Future[bytes | None]:
        return asyncio.ensure_future(anext(self._pieces, None))


async def _break_off(answer: HttpResponse, scope: Scope, receive: Receive) -> None:
    """End the connection as upstream ended its own."""
    transport: asyncio.Transport = scope[TRANSPORT]
    if answer.ending == "cut":
        transport.close()
    else:
        await reset_connection(transport)
    await until_client_leaves(receive)


async def _discard(message: MutableMapping[str, Any]) -> None:
    """Discard an ASGI message."""
