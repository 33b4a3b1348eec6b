"""A real MCP server over HTTP: requests are forwarded unchanged, and clients log in through offbook."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, MutableMapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

import msgspec
from msgspec import Struct

from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event, splitter_for
from offbook.decoding import decode
from offbook.errors import InputError
from offbook.mcp.answer import McpAnswer
from offbook.mcp.http.endpoint import SESSION_ID, SSE_TYPE, ClientStreams, batch_response, sse_frames, to_http
from offbook.mcp.message import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    SUBSCRIPTION_META,
    UNSUPPORTED_VERSION,
    McpMessage,
    MessageError,
    encode_batch,
    error_message,
    id_key,
    is_batch,
    parse_batch,
    parse_message,
)
from offbook.mcp.session import McpSession, PendingCall
from offbook.wire.proxy.upstream import client_response_headers, upstream_request_headers
from offbook.wire.request import HttpRequest, credentials_of, header_dict
from offbook.wire.response import JSON_TYPE, HttpResponse, whole_response
from offbook.wire.server.access import TOKEN_HEADER, token_path
from offbook.wire.server.connection import (
    TRANSPORT,
    Receive,
    Scope,
    Send,
    send_response,
    until_client_leaves,
    while_client_waits,
)

if TYPE_CHECKING:
    import httpx2


CONNECT_TIMEOUT_S = 10.0
LOOPBACK_HOSTS = ("127.0.0.1", "localhost", "::1")


def checked_url(url: str, *, source: str) -> str:
    """Return the URL of an MCP server.

    Raises:
        InputError: it is invalid.
    """
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url or url.split() != [url]:
        raise InputError("expected the URL of an MCP server", source=source, hint="like https://example.com/mcp")
    return url


ENDPOINT_QUERY = "offbook_endpoint"
"""The query parameter in which an HTTP+SSE (2024) client repeats the real server's address."""

PROTECTED_RESOURCE = "/.well-known/oauth-protected-resource"
_METADATA_URL = re.compile(rb'(resource_metadata=")([^"]*)(")')


class HttpUpstream:
    """The real server at `url`. It gets the clients' headers, keys included, and those of `headers` that a client does
    not send; none is kept.
    """

    def __init__(self, url: str, *, headers: Mapping[str, str] | None = None) -> None:
        self._url = checked_url(url, source="url")
        self._headers = {name.lower().encode(): value.encode() for name, value in (headers or {}).items()}
        self._added = HttpRequest("POST", "", urlsplit(url).query, dict(headers or {}), b"")
        self._client: httpx2.AsyncClient | None = None
        self._clients: dict[str, _Client] = {}
        self._metadata_url = ""

    async def forward(
        self, request: HttpRequest, session: McpSession, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Answer a request of a client by its session, or by the real server."""
        key = _client_key(request).decode()
        client = self._clients.setdefault(key, _Client(session)) if key else _Client(session)
        messages = _parsed(request) if request.method == "POST" else []
        taken = await while_client_waits(client.take(messages, _client_key(request)), receive)
        if taken is None:
            return
        if messages and not taken.forwarded:
            response = client.respond(taken.answered, is_batch=is_batch(request.body))
            await send_response(response, scope, receive, send)
            return
        body = encode_batch(each.raw for each in taken.forwarded) if taken.answered else request.body
        forwarding = Forwarding(
            session,
            send=partial(self._send_with_login, send, scope),
            pending=taken.pending,
            answered=taken.answered,
            elsewhere=client.open_calls,
            client_key=_client_key(request),
            credentials=(*credentials_of(request), *credentials_of(self._added)),
            rename_endpoint=partial(self._rename_endpoint, client, send, scope),
        )
        running = forwarding.run(self._open(), self._request(request, scope, body))
        try:
            response_left = await while_client_waits(running, receive)
        finally:
            forwarding.end()
        if request.method == "DELETE" and _client_key(request).decode() in self._clients:
            self._clients.pop(_client_key(request).decode()).close()
        if response_left is not None:
            await _send_last(response_left, scope, receive, send)

    def _rename_endpoint(self, client: _Client, send: Send, scope: Scope, address: str) -> str:
        """Return the address for the messages of an HTTP+SSE (2024) client, relative to ours."""
        client.only_stream = _OnlyStream(send, scope)
        self._clients[address] = client
        return f"?{ENDPOINT_QUERY}={quote(address, safe='')}"

    async def _send_with_login(self, send: Send, scope: Scope, event: MutableMapping[str, Any]) -> None:
        """Send an event of a response. A 401 leads the client to the server's metadata through our address."""
        if event.get("status") == 401:
            event = dict(event) | {"headers": [self._led_here(header, scope) for header in event["headers"]]}
        await send(event)

    def _led_here(self, header: tuple[bytes, bytes], scope: Scope) -> tuple[bytes, bytes]:
        name, value = header
        found = _METADATA_URL.search(value) if name.lower() == b"www-authenticate" else None
        if found is None:
            return header
        self._metadata_url = found[2].decode("latin-1")
        ours = f"{_origin(scope)}{_token_path(scope)}{PROTECTED_RESOURCE}{scope['path']}".encode()
        return name, value[: found.start(2)] + ours + value[found.end(2) :]

    async def send_metadata(self, request: HttpRequest, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for the server's login metadata, below `/.well-known`, with its address replaced by ours."""
        import httpx2  # noqa: PLC0415

        parts = urlsplit(self._url)
        known = request.path[: request.path.find("/", len("/.well-known/"))] if request.path.count("/") > 2 else ""
        kind = known or request.path
        urls = [f"{parts.scheme}://{parts.netloc}{kind}{parts.path.rstrip('/')}"]
        urls += [f"{parts.scheme}://{parts.netloc}{kind}"]
        if kind == PROTECTED_RESOURCE and self._metadata_url:
            urls.insert(0, self._metadata_url)
        response = whole_response(404, b"{}")
        for url in dict.fromkeys(urls):
            try:
                found = await self._open().get(url, headers={"accept": JSON_TYPE})
            except httpx2.HTTPError as error:
                response = whole_response(BAD_GATEWAY, error_message(None, INTERNAL_ERROR, type(error).__name__))
                continue
            if found.is_success:
                body = found.content
                if kind == PROTECTED_RESOURCE:
                    resource = f"{_origin(scope)}{_token_path(scope)}{request.path.removeprefix(kind)}"
                    body = _with_resource(body, resource)
                response = whole_response(200, body)
                break
        await send_response(response, scope, receive, send)

    async def close(self) -> None:
        for client in self._clients.values():
            client.close()
        if self._client is not None:
            await self._client.aclose()

    def _request(self, request: HttpRequest, scope: Scope, body: bytes) -> httpx2.Request:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        sent = upstream_request_headers(scope["headers"])
        names = {name.lower() for name, _ in sent}
        headers = [*sent, *((name, value) for name, value in self._headers.items() if name not in names)]
        if body is not request.body:
            headers = [each for each in headers if each[0].lower() != b"content-length"]
        address = _endpoint_of(request)
        url = httpx2.URL(self._url)
        if address in self._clients:
            joined = url.join(address)
            url = joined if joined.host == url.host and joined.port == url.port else url
        return httpx2.Request(request.method, url, headers=headers, content=body)

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


def _parsed(request: HttpRequest) -> list[McpMessage]:
    """Return the messages of a request, or none for anything else, which passes unchanged."""
    try:
        return parse_batch(request.body) if is_batch(request.body) else [parse_message(request.body)]
    except MessageError:
        return []


def _endpoint_of(request: HttpRequest) -> str:
    return dict(parse_qsl(request.query)).get(ENDPOINT_QUERY, "")


def _client_key(request: HttpRequest) -> bytes:
    """Return a request's client id, or nothing for a modern client."""
    return (_endpoint_of(request) or request.headers.get(SESSION_ID, "")).encode()


class _TakenMessages(Struct, frozen=True):
    """The messages of a request: the calls for the real server and its other messages, and the calls that are answered
    already.
    """

    pending: dict[bytes, PendingCall]
    forwarded: list[McpMessage]
    answered: list[tuple[McpMessage, McpAnswer]]


class _Client:
    """One client of the real server, with the calls that are answered on another stream than their request's."""

    def __init__(self, session: McpSession) -> None:
        self._session = session
        self.open_calls = OpenCalls()
        self.streams = ClientStreams()
        self.only_stream: _OnlyStream | None = None

    async def take(self, messages: Sequence[McpMessage], client_key: bytes) -> _TakenMessages:
        """Handle the messages of a request. A message outside a batch waits for its turn."""
        taken = _TakenMessages({}, [], [])
        for message in messages:
            if message.is_request:
                await self._take_request(message, taken, is_alone=len(messages) == 1)
            elif message.is_response and self.streams.sender.receive(message):
                continue
            else:
                if message.is_response:
                    self._session.note_client_answer(client_key + id_key(message.id), message)
                taken.forwarded.append(message)
        if self.only_stream is not None:
            self.open_calls.calls.update(taken.pending)
            taken.pending.clear()
        return taken

    async def _take_request(self, request: McpMessage, taken: _TakenMessages, *, is_alone: bool) -> None:
        call = self._session.start(request)
        if is_alone and self._session.needs_turn(call):
            taken_turn = await self._session.take_turn(call)
            call, answer = (call, taken_turn) if isinstance(taken_turn, McpAnswer) else (taken_turn, None)
        else:
            answer = self._session.answer(call)
        if answer is None:
            taken.pending[id_key(request.id)] = PendingCall(call)
            taken.forwarded.append(request)
        else:
            taken.answered.append((request, answer))

    def respond(self, answered: Sequence[tuple[McpMessage, McpAnswer]], *, is_batch: bool) -> HttpResponse:
        """Return the response to a request that needs no real server."""
        if self.only_stream is not None:
            for message, answer in answered:
                self.streams.sender.send(message, answer, self.only_stream)
        if not answered or self.only_stream is not None:
            return HttpResponse(202)
        if is_batch:
            return batch_response(answered, self.streams)
        message, answer = answered[0]
        return self.streams.converse((message, answer)) if answer.asks_client else to_http(answer, message)

    def close(self) -> None:
        self.open_calls.lose(self._session)
        self.streams.close()


class _OnlyStream:
    """The stream of a client of HTTP+SSE (2024), on which it gets all messages."""

    def __init__(self, send: Send, scope: Scope) -> None:
        self._send, self._transport = send, scope[TRANSPORT]
        self._writing: asyncio.Future[None] | None = None

    def write(self, raw: bytes) -> None:
        event = {"type": "http.response.body", "body": encode_sse_event(raw, "message"), "more_body": True}
        self._writing = asyncio.ensure_future(self._write_after(self._writing, event))

    async def _write_after(self, earlier: asyncio.Future[None] | None, event: dict[str, Any]) -> None:
        if earlier is not None:
            await earlier
        await self._send(event)

    def end(self, answer: McpAnswer) -> None:
        if answer.ending in ("cut", "exit"):
            self._transport.close()


def _origin(scope: Scope) -> str:
    host = next((value for name, value in scope["headers"] if name == b"host"), b"127.0.0.1")
    return f"http://{host.decode('latin-1')}"


def _token_path(scope: Scope) -> str:
    """Return the beginning of our paths for the client of a request, which has the token of the server."""
    return token_path(header_dict(scope["headers"]).get(TOKEN_HEADER, ""))


def _with_resource(body: bytes, resource: str) -> bytes:
    """Return the metadata of a protected resource with another address; other data unchanged."""
    try:
        metadata = decode(body, dict[str, msgspec.Raw])
    except msgspec.DecodeError:
        return body
    return msgspec.json.encode(metadata | {"resource": resource})


async def _send_last(response: HttpResponse, scope: Scope, receive: Receive, send: Send) -> None:
    """Send the rest: a whole response, or the break of a partly forwarded one."""
    if response.status is None and response.ending == "cut":
        scope[TRANSPORT].close()
        await until_client_leaves(receive)
    else:
        await send_response(response, scope, receive, send)


BAD_GATEWAY = 502


class OpenCalls:
    """The calls of one client that are answered on another stream than their request's: a resumed one, or the only one
    of HTTP+SSE (2024).
    """

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
        client_key: makes the ids of a client unique.
        credentials: the client's proof of identity.
        rename_endpoint: returns the address of an `endpoint` event (HTTP+SSE of 2024) for the client.
    """

    def __init__(
        self,
        session: McpSession,
        *,
        send: Send,
        pending: dict[bytes, PendingCall],
        answered: Sequence[tuple[McpMessage, McpAnswer]],
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
        """Forward the request and its response. Return the replacement or the end, if the response is not complete."""
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
        """Return whether a response concerns HTTP and is no answer: no login, no session, a wrong header. Handshake-era
        answers come with 200; modern errors have their own status.
        """
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
        """Note that the remaining calls are not answered."""
        for pending in self._pending.values():
            self._session.lose(pending.call, reason)
        self._pending.clear()

    async def _forward_events(self, pieces: AsyncIterator[bytes], head: dict[str, object]) -> None:
        """Forward events as they arrive. Those of a call with a fault are held, except server requests."""
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
        """Return a server's frame for the client: unchanged, or its replacement."""
        if not events:
            return [] if self._is_held else [frame]
        if events[0].event == "endpoint":
            address = self._rename_endpoint(events[0].data)
            self._client_key = events[0].data.encode()
            return [f"event: endpoint\ndata: {address}\n\n".encode()]
        return [passed for event in events for passed in self._take(event.data.encode(), frame)]

    def _take(self, raw: bytes, frame: bytes = b"") -> list[bytes]:
        """Handle messages of the server, and return the events for the client."""
        try:
            messages = parse_batch(raw) if is_batch(raw) else [parse_message(raw)]
        except MessageError:
            return [] if self._is_held else [frame]
        taken = [(message, self._take_message(message)) for message in messages]
        if all(instead is None for _, instead in taken):
            return [frame]
        return [event for message, instead in taken for event in self._events(message, instead)]

    def _events(self, message: McpMessage, instead: McpAnswer | None) -> list[bytes]:
        if instead is None:
            return [event for _, event in sse_frames(McpAnswer(messages=((0.0, message.raw),)))]
        if instead.ending != "complete":
            self._ending = instead.ending
        return [event for _, event in sse_frames(instead)]

    def _take_message(self, message: McpMessage) -> McpAnswer | None:
        """Handle a message, and return its replacement for the client, or None for the message itself."""
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

    def _finish(self, pending: PendingCall, response: McpMessage) -> McpAnswer | None:
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
        """Return the whole response to a request, before the client has received any of it."""
        if self._is_batch:
            return batch_response(self._answers, ClientStreams())
        request, answer = self._answers[0]
        return to_http(answer, request)

    def _pending_for(self, message: McpMessage) -> PendingCall | None:
        """Return the call of a message: its response, its progress, or a message during it."""
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
        """Leave the unanswered calls to the client's resumed stream, or to other streams."""
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
