"""The recording proxy: forwards calls to the real APIs and streams their responses back to the client."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from offbook.errors import InputError
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.wire.backend import split_session_path
from offbook.wire.calls import CallAttempt
from offbook.wire.encode import error_response
from offbook.wire.proxy.capture import (
    CapturedResponse,
    DecompressionError,
    Decompressor,
    ResponseCapture,
    decompressor_for,
)
from offbook.wire.proxy.forwarding import describe_failure, describe_no_answer
from offbook.wire.proxy.recorder import RecordedExchange, WireRecorder
from offbook.wire.proxy.upstream import Upstreams, client_response_headers, upstream_request_headers
from offbook.wire.request import HttpRequest, Vendor
from offbook.wire.response import HttpResponse, ResponseEnding
from offbook.wire.server.connection import TRANSPORT, reset_connection
from offbook.wire.server.send import Receive, Scope, Send, send_response, until_client_leaves
from offbook.wire.session import WireSession

if TYPE_CHECKING:
    import httpx2


END_PATIENCE_S = 0.25
"""How long a piece that seems to be the last is held back, to hear first whether it is."""

_LARGEST_STATUS = 599
_BODILESS_STATUSES = (204, 304)


class StreamForwarder:
    """Passes upstream's answer on to `send`.

    `keep` is called once, with all that came, before the client can see the end of it: also if it was cut off, or if
    this is cancelled because the client has left.
    """

    def __init__(
        self, response_capture: ResponseCapture, *, keep: Callable[[CapturedResponse], None], send: Send
    ) -> None:
        self._capture, self._keep, self._send = response_capture, keep, send
        self._heard: CapturedResponse | None = None

    async def run(self, client: httpx2.AsyncClient, request: httpx2.Request) -> CapturedResponse:
        """Ask upstream. An answer that did not end as it should is left for the caller to break off."""
        try:
            ending, failure = await self._relay(client, request)
        except asyncio.CancelledError:
            self._end("complete", has_client_left=True)
            raise
        heard = self._end(ending, failure=failure)
        if ending == "complete":
            await self._send({"type": "http.response.body", "body": b""})
        return heard

    async def _relay(self, client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[ResponseEnding, str]:
        """Pass the answer on; how it ended, and why so if it failed."""
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        try:
            answer = await client.send(request, stream=True)
            try:
                await self._pass(answer)
            finally:
                await answer.aclose()
        except httpx2.TimeoutException as error:
            return "silence", _describe_error(error)
        except (httpx2.RemoteProtocolError, DecompressionError) as error:
            return "cut", _describe_error(error)
        except httpx2.HTTPError as error:
            return "reset", _describe_error(error)
        return "complete", ""

    async def _pass(self, answer: httpx2.Response) -> None:
        import httpx2  # noqa: PLC0415

        if answer.status_code > _LARGEST_STATUS:
            raise httpx2.RemoteProtocolError(f"status {answer.status_code}")
        unpacker = decompressor_for(answer.headers.get("content-encoding", ""))
        headers = client_response_headers(answer.headers.raw, is_unpacked=unpacker is not None)
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        self._capture.begin(answer.status_code, named)
        head = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
        if _is_bodiless(answer):
            await answer.aread()
            self._end("complete")
            await self._send(head)
        else:
            await self._send(head)
            await self._pass_body(_decompressed(answer.aiter_raw(), unpacker))

    async def _pass_body(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Pass on each piece at once. One that a client may take for the last is held until upstream has ended."""
        upcoming = _next_piece(pieces)
        try:
            while (piece := await upcoming) is not None:
                upcoming = _next_piece(pieces)
                if self._capture.hear(piece) and await _ends_soon(upcoming):
                    self._end("complete")
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            upcoming.cancel()
            await asyncio.wait([upcoming])
            await pieces.aclose()

    def _end(self, ending: ResponseEnding, *, failure: str = "", has_client_left: bool = False) -> CapturedResponse:
        if self._heard is None:
            self._heard = self._capture.end(ending, failure=failure, has_client_left=has_client_left)
            self._keep(self._heard)
        return self._heard


def _is_bodiless(answer: httpx2.Response) -> bool:
    """Whether the head is all that a client waits for."""
    is_empty = answer.status_code in _BODILESS_STATUSES or answer.headers.get("content-length") == "0"
    return is_empty or answer.request.method == "HEAD"


def _next_piece(pieces: AsyncIterator[bytes]) -> asyncio.Future[bytes | None]:
    """The next piece to come, or None for the end."""
    return asyncio.ensure_future(anext(pieces, None))


async def _ends_soon(upcoming: asyncio.Future[bytes | None]) -> bool:
    """Whether the end comes soon, and nothing before it."""
    await asyncio.wait([upcoming], timeout=END_PATIENCE_S)
    return upcoming.done() and upcoming.exception() is None and upcoming.result() is None


async def _decompressed(pieces: AsyncIterator[bytes], unpacker: Decompressor | None) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        data = piece if unpacker is None else unpacker.unpack(piece)
        if data:
            yield data


def _describe_error(error: Exception) -> str:
    """What went wrong; of other failures than those to connect only the kind, as their text may hold a header."""
    import httpx2  # noqa: PLC0415

    is_harmless = isinstance(error, httpx2.ConnectError) and bool(str(error))
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__


T = TypeVar("T")
logger = logging.getLogger("offbook.wire")

CONNECT_TIMEOUT_S = 10.0
BAD_GATEWAY, GATEWAY_TIMEOUT = 502, 504
_SECRET_PARAMETERS = ("key", "api_key", "access_token")


class Proxy:
    """Forwards calls to `upstreams`, and has `recorder` keep what comes back.

    `timeout_s` is the longest wait for upstream to go on; None waits for ever. Faults strike what clients get, not what
    is recorded.
    """

    def __init__(self, upstreams: Upstreams, recorder: WireRecorder, *, timeout_s: float | None = None) -> None:
        self._upstreams, self._recorder, self._timeout_s = upstreams, recorder, timeout_s
        self._clients: dict[Vendor, httpx2.AsyncClient] = {}

    async def forward(
        self, session: WireSession, taken: CallAttempt, call: HttpRequest, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Ask the real API, and pass on what it answers."""
        try:
            request = self._request(taken, call, scope)
        except InputError as error:
            await send_response(_refusal(session, taken, error), scope, receive, send)
            return
        vendor = taken.asked.route.vendor
        client = self._client(vendor)
        forwarding = _ForwardedCall(session, taken, self._recorder, self._upstreams.address(vendor))
        response_capture = ResponseCapture(taken.asked, self._recorder.clock)
        passage = StreamForwarder(
            response_capture, keep=forwarding.keep, send=send if taken.fault is None else _discard
        )
        heard = await _while_client_waits(passage.run(client, request), receive)
        answer = None if heard is None else forwarding.replacement_response(heard)
        if answer is not None:
            await send_response(answer, scope, receive, send)
        elif heard is not None and heard.answer.ending != "complete":
            await _break_off(heard.answer, scope, receive)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def _request(self, taken: CallAttempt, call: HttpRequest, scope: Scope) -> httpx2.Request:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        if taken.step_id is not None and (reason := unfit_reason(taken.step_id)):
            raise InputError(f"{quote_name(taken.step_id)} {reason}", source="step", hint=KEY_HINT)
        route = taken.asked.route
        raw_path = split_session_path(scope["raw_path"].decode("latin-1"))[1]
        headers = upstream_request_headers(scope["headers"], auth=self._upstreams.auth(route))
        try:
            url = httpx2.URL(self._upstreams.url(route, raw_path, call.query))
        except httpx2.InvalidURL:
            raise InputError("the path is none that can be asked for upstream") from None
        logged, target = (
            _without_secret_parameters(url),
            {"target": url.raw_path},
        )  # httpx2 logs the URLs that it asks for
        return httpx2.Request(
            call.method, logged, headers=headers, content=call.body, extensions=target if logged != url else None
        )

    def _client(self, vendor: Vendor) -> httpx2.AsyncClient:
        """The client for a vendor's server. For one on this machine, proxies of the environment do not count."""
        import httpx2  # noqa: PLC0415

        if vendor not in self._clients:
            is_plain = self._upstreams.address(vendor).startswith("http://")
            self._clients[vendor] = httpx2.AsyncClient(
                verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if is_plain else True,  # loading certificates takes long
                timeout=httpx2.Timeout(self._timeout_s, connect=CONNECT_TIMEOUT_S, pool=None),
                limits=httpx2.Limits(max_connections=None, max_keepalive_connections=None),
                trust_env=not self._upstreams.is_loopback(vendor),
            )
        return self._clients[vendor]


class _ForwardedCall:
    """A call on its way: how it is kept, noted and answered where upstream's own answer is not passed on."""

    def __init__(self, session: WireSession, taken: CallAttempt, recorder: WireRecorder, address: str) -> None:
        self._session, self._taken, self._recorder, self._address = session, taken, recorder, address
        self._kept: RecordedExchange | None = None

    def keep(self, heard: CapturedResponse) -> None:
        """Have what came recorded, and put the call on its session's list."""
        try:
            self._kept = self._recorder.keep(self._taken, heard)
        except InputError as error:
            logger.error("%s: not recorded, and so not answered: %s", self._taken.asked.place, error)  # noqa: TRY400
            raise
        if not self._fault_applies(heard):
            answer = self._failure(heard) if self._has_failed(heard) else heard.answer
            self._note(heard, answer)

    def replacement_response(self, heard: CapturedResponse) -> HttpResponse | None:
        """What is to be sent to the client now; None if upstream's answer was passed on."""
        if self._has_failed(heard):
            return self._failure(heard)
        clean = heard.answer.after(0.0)
        if self._fault_applies(heard) and self._kept is not None:
            response = self._kept.exchange.response(model=self._taken.asked.model, provider="")
            return self._session.broken(self._taken, clean, response, key=self._kept.key)
        return None if self._taken.fault is None else clean

    def _note(self, heard: CapturedResponse, answer: HttpResponse) -> None:
        taken, kept = replace(self._taken, fault=None), self._kept
        if kept is None:
            self._session.note(taken, answer, "passed")
        else:
            failure = describe_failure(kept.exchange, heard, self._address)
            self._session.note(taken, answer, "recorded", key=kept.key, failure=failure)

    def _fault_applies(self, heard: CapturedResponse) -> bool:
        """Whether a fault is to strike a sound answer: one that has failed by itself is passed on as it is."""
        is_sound = self._kept is not None and self._kept.exchange.fault is None and not heard.has_client_left
        return is_sound and self._taken.fault is not None

    def _has_failed(self, heard: CapturedResponse) -> bool:
        """Whether the client must be told that there is no answer."""
        is_unsendable = self._taken.fault is not None and heard.is_too_large
        return not heard.has_client_left and (heard.answer.status is None or is_unsendable)

    def _failure(self, heard: CapturedResponse) -> HttpResponse:
        """An error in the vendor's shape, which names the server but nothing of what was asked."""
        route = self._taken.asked.route
        another = f"--upstream {route.vendor}=…, or upstreams={{{route.vendor!r}: …}} in Python"
        hint = f"check that it runs and can be reached from here, or name another: {another}"
        if heard.is_too_large:
            status, told = BAD_GATEWAY, f"{self._address} answered more than can be held to be broken by a fault"
        else:
            status = GATEWAY_TIMEOUT if heard.answer.ending == "silence" else BAD_GATEWAY
            told = f"{describe_no_answer(heard, self._address)}; {hint}"
        return error_response(route.codec or route.vendor_codec, status, told)


def _without_secret_parameters(url: httpx2.URL) -> httpx2.URL:
    for name in _SECRET_PARAMETERS:
        if name in url.params:
            url = url.copy_remove_param(name)
    return url


async def _while_client_waits(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """What the work gives, or None if the client leaves before, which ends the work."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(until_client_leaves(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _break_off(answer: HttpResponse, scope: Scope, receive: Receive) -> None:
    """End the connection as upstream ended its own."""
    transport: asyncio.Transport = scope[TRANSPORT]
    if answer.ending == "cut":
        transport.close()
    else:
        await reset_connection(transport)
    await until_client_leaves(receive)


async def _discard(message: MutableMapping[str, Any]) -> None:
    """Send to nobody."""


def _refusal(session: WireSession, taken: CallAttempt, error: InputError) -> HttpResponse:
    codec = taken.asked.route.codec or taken.asked.route.vendor_codec
    answer = error_response(codec, 400, str(error), headers={"x-should-retry": "false"})
    return session.note(replace(taken, fault=None), answer, "refused")
