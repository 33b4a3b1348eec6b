"""A real MCP server over HTTP: requests are forwarded to it as they are, and its answers recorded and passed on."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from offbook.codecs.framing import SseDecoder, splitter_for
from offbook.errors import InputError
from offbook.mcp.answer import TimedMessage
from offbook.mcp.http import SSE_TYPE, to_http
from offbook.mcp.message import INTERNAL_ERROR, Message, MessageError, error_message, parse_message
from offbook.mcp.session import McpCall, McpSession
from offbook.wire.proxy.upstream import client_response_headers, upstream_request_headers
from offbook.wire.request import HttpRequest, credentials_of
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.server.connection import send_response, until_client_leaves
from offbook.wire.server.http_protocol import TRANSPORT, Receive, Scope, Send

if TYPE_CHECKING:
    import httpx2

CONNECT_TIMEOUT_S = 10.0
BAD_GATEWAY = 502
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def checked_url(url: str, *, source: str) -> str:
    """Return the URL of an MCP server.

    Raises:
        InputError: it is not one.
    """
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or url.split() != [url]:
        raise InputError("expected the URL of an MCP server", source=source, hint="like https://example.com/mcp")
    return url


class HttpUpstream:
    """The real server at `url`. Clients' headers go there, keys included, and those of `headers` that a client does not
    send itself; none is kept."""

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._url = checked_url(url, source="url")
        self._headers = {name.lower().encode(): value.encode() for name, value in (headers or {}).items()}
        self._client: httpx2.AsyncClient | None = None

    async def forward(
        self, request: HttpRequest, session: McpSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a client by its session, or by the real server."""
        call = None
        message = _parsed(request) if request.method == "POST" else None
        if message is not None and message.is_request:
            call = session.start(message)
            answer = session.answer(call)
            if answer is not None:
                await send_response(to_http(answer, message), scope, receive, send)
                return
        forwarding = _Forwarding(self._open(), session, call, send=send, credentials=credentials_of(request))
        work = asyncio.ensure_future(forwarding.run(self._request(request, scope)))
        leaving = asyncio.ensure_future(until_client_leaves(receive))
        try:
            await asyncio.wait([work, leaving], return_when=asyncio.FIRST_COMPLETED)
            response = work.result() if work.done() else None
        finally:
            work.cancel()
            leaving.cancel()
            await asyncio.gather(work, leaving, return_exceptions=True)
        if response is not None:
            await _send_last(response, scope, receive, send)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    def _request(self, request: HttpRequest, scope: Scope) -> httpx2.Request:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        sent = upstream_request_headers(scope["headers"])
        names = {name.lower() for name, _ in sent}
        headers = [*sent, *((name, value) for name, value in self._headers.items() if name not in names)]
        url = httpx2.URL(self._url)
        return httpx2.Request(request.method, url, headers=headers, content=request.body)

    def _open(self) -> httpx2.AsyncClient:
        import httpx2  # noqa: PLC0415

        if self._client is None:
            parts = urlsplit(self._url)
            self._client = httpx2.AsyncClient(
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if parts.scheme == "http" else True,
                timeout=httpx2.Timeout(None, connect=CONNECT_TIMEOUT_S),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
                trust_env=parts.hostname not in LOOPBACK_HOSTS,
            )
        return self._client


def _parsed(request: HttpRequest) -> Message | None:
    try:
        return parse_message(request.body)
    except MessageError:
        return None


async def _send_last(response: HttpResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Send what is left to send: a whole response, or the break of one that was forwarded in part."""
    if response.status is None and response.ending == "cut":
        scope[TRANSPORT].close()
        await until_client_leaves(receive)
    else:
        await send_response(response, scope, receive, send)


class _Forwarding:
    """One request on its way to the real server. `call` is set if the request is one that is recorded."""

    def __init__(
        self,
        client: httpx2.AsyncClient,
        session: McpSession,
        call: McpCall | None,
        *,
        send: Send,
        credentials: tuple[str, ...],
    ) -> None:
        self._client, self._session, self._call, self._send = client, session, call, send
        self._credentials = credentials
        self._messages: list[TimedMessage] = []
        self._finished: HttpResponse | None = None
        self._is_answered = False

    async def run(self, request: httpx2.Request) -> HttpResponse | None:
        """Forward the request, and its response to the client. Return what is to be sent in its place or to its end,
        if that is not all."""
        import httpx2  # noqa: PLC0415

        has_started = False
        try:
            response = await self._client.send(request, stream=True)
            try:
                has_started = await self._forward(response)
            finally:
                await response.aclose()
        except httpx2.HTTPError as error:
            return self._failed(
                f"{type(error).__name__} from the server", has_started=has_started or self._is_streaming
            )
        if self._finished is not None:
            return self._finished
        if self._call is not None and not self._is_answered and self._is_streaming:
            return self._failed("the stream ended without a response", has_started=True)
        return None

    _is_streaming = False

    async def _forward(self, response: httpx2.Response) -> bool:
        headers = client_response_headers(response.headers.raw, is_decompressed=False)
        head = {"type": "http.response.start", "status": response.status_code, "headers": headers}
        if response.headers.get("content-type", "").partition(";")[0].strip().lower() == SSE_TYPE:
            self._is_streaming = True
            await self._forward_events(response.aiter_raw(), head)
        else:
            body = await response.aread()
            self._take(body)
            if self._finished is None:
                await self._send(head)
                await self._send({"type": "http.response.body", "body": body})
        return True

    async def _forward_events(self, pieces: AsyncIterator[bytes], head: dict[str, object]) -> None:
        """Forward events as they come; if the call has a fault, they are kept for it."""
        is_held = self._call is not None and self._session.is_held(self._call)
        if not is_held:
            await self._send(head)
        splitter, decoder = splitter_for(SSE_TYPE), SseDecoder()
        async for piece in pieces:
            for frame in splitter.feed(piece):
                for event in decoder.feed(frame):
                    self._take(event.data.encode())
                if not is_held:
                    await self._send({"type": "http.response.body", "body": frame, "more_body": True})
        if not is_held and (self._call is None or self._is_answered):
            await self._send({"type": "http.response.body", "body": b""})

    def _take(self, raw: bytes) -> None:
        """Take a message of the server; record the call when it is its response."""
        try:
            message = parse_message(raw)
        except MessageError:
            return
        call = self._call
        if call is None:
            if message.is_notification:
                self._session.notice(message.raw)
            return
        self._messages.append((self._session.elapsed_ms(call), message.raw))
        if message.is_response and message.id == call.request.id:
            self._is_answered = True
            answer = self._session.finish(call, self._messages, credentials=self._credentials)
            self._finished = None if answer is None else to_http(answer, call.request)

    def _failed(self, reason: str, *, has_started: bool) -> HttpResponse:
        if self._call is not None and not self._is_answered:
            self._session.lose(self._call, reason)
        if has_started:
            return HttpResponse(None, ending="cut")
        request_id = None if self._call is None else self._call.request.id
        return whole_response(
            BAD_GATEWAY, error_message(request_id, INTERNAL_ERROR, f"the MCP server did not answer: {reason}")
        )
