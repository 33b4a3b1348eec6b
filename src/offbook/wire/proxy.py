"""The proxy: asks the real APIs what a recording cannot answer, passes their answers on and has them recorded."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Coroutine, MutableMapping
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec.structs import replace

from offbook.errors import InputError
from offbook.recording.keys import KEY_HINT, shown, unfit_reason
from offbook.wire.answer import Answer
from offbook.wire.connection import TRANSPORT, reset
from offbook.wire.encoding import error_answer
from offbook.wire.heard import Heard, Hearing
from offbook.wire.http_call import HttpCall
from offbook.wire.passage import Passage
from offbook.wire.recorder import Kept, WireRecorder
from offbook.wire.route import Vendor
from offbook.wire.sending import Receive, Scope, Send, send_answer, until_left
from offbook.wire.session import WireSession
from offbook.wire.sessions import split_path
from offbook.wire.taken import Taken
from offbook.wire.upstream_failure import failure_of, no_answer
from offbook.wire.upstream_headers import forwarded
from offbook.wire.upstreams import Upstreams

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
logger = logging.getLogger("offbook.wire")

CONNECT_TIMEOUT_S = 10.0
BAD_GATEWAY, GATEWAY_TIMEOUT = 502, 504
_KEYS = ("key", "api_key", "access_token")


class Proxy:
    """Forwards calls to `upstreams`, and has `recorder` keep what comes back.

    `timeout_s` is the longest wait for upstream to go on; None waits for ever. Faults strike what clients get, not what
    is recorded.
    """

    def __init__(self, upstreams: Upstreams, recorder: WireRecorder, *, timeout_s: float | None = None) -> None:
        self._upstreams, self._recorder, self._timeout_s = upstreams, recorder, timeout_s
        self._clients: dict[Vendor, httpx2.AsyncClient] = {}

    async def forward(
        self, session: WireSession, taken: Taken, call: HttpCall, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Ask the real API, and pass on what it answers."""
        try:
            request = self._request(taken, call, scope)
        except InputError as error:
            await send_answer(_refusal(session, taken, error), scope, receive, send)
            return
        vendor = taken.asked.route.vendor
        client = self._client(vendor)
        forwarding = _Forwarding(session, taken, self._recorder, self._upstreams.address(vendor))
        hearing = Hearing(taken.asked, self._recorder.clock)
        passage = Passage(hearing, keep=forwarding.keep, send=send if taken.fault is None else _unheard)
        heard = await _while_there(passage.run(client, request), receive)
        answer = None if heard is None else forwarding.left_to_send(heard)
        if answer is not None:
            await send_answer(answer, scope, receive, send)
        elif heard is not None and heard.answer.ending != "complete":
            await _break_off(heard.answer, scope, receive)

    async def close(self) -> None:
        """Close the connections."""
        for client in self._clients.values():
            await client.aclose()
        self._clients.clear()

    def _request(self, taken: Taken, call: HttpCall, scope: Scope) -> httpx2.Request:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        if taken.step_id is not None and (reason := unfit_reason(taken.step_id)):
            raise InputError(f"{shown(taken.step_id)} {reason}", source="step", hint=KEY_HINT)
        route = taken.asked.route
        raw_path = split_path(scope["raw_path"].decode("latin-1"))[1]
        headers = forwarded(scope["headers"], auth=self._upstreams.auth(route))
        try:
            url = httpx2.URL(self._upstreams.url(route, raw_path, call.query))
        except httpx2.InvalidURL:
            raise InputError("the path is none that can be asked for upstream") from None
        logged, target = _without_keys(url), {"target": url.raw_path}  # httpx2 logs the URLs that it asks for
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


class _Forwarding:
    """A call on its way: how it is kept, noted and answered where upstream's own answer is not passed on."""

    def __init__(self, session: WireSession, taken: Taken, recorder: WireRecorder, address: str) -> None:
        self._session, self._taken, self._recorder, self._address = session, taken, recorder, address
        self._kept: Kept | None = None

    def keep(self, heard: Heard) -> None:
        """Have what came recorded, and put the call on its session's list."""
        try:
            self._kept = self._recorder.keep(self._taken, heard)
        except InputError as error:
            logger.error("%s: not recorded, and so not answered: %s", self._taken.asked.place, error)  # noqa: TRY400
            raise
        if not self._is_to_be_struck(heard):
            answer = self._failure(heard) if self._has_failed(heard) else heard.answer
            self._note(heard, answer)

    def left_to_send(self, heard: Heard) -> Answer | None:
        """What is to be sent to the client now; None if upstream's answer was passed on."""
        if self._has_failed(heard):
            return self._failure(heard)
        clean = heard.answer.after(0.0)
        if self._is_to_be_struck(heard) and self._kept is not None:
            response = self._kept.exchange.response(model=self._taken.asked.model, provider="")
            return self._session.broken(self._taken, clean, response, key=self._kept.key)
        return None if self._taken.fault is None else clean

    def _note(self, heard: Heard, answer: Answer) -> None:
        taken, kept = replace(self._taken, fault=None), self._kept
        if kept is None:
            self._session.note(taken, answer, "passed")
        else:
            failure = failure_of(kept.exchange, heard, self._address)
            self._session.note(taken, answer, "recorded", key=kept.key, failure=failure)

    def _is_to_be_struck(self, heard: Heard) -> bool:
        """Whether a fault is to strike a sound answer: one that has failed by itself is passed on as it is."""
        is_sound = self._kept is not None and self._kept.exchange.fault is None and not heard.has_client_left
        return is_sound and self._taken.fault is not None

    def _has_failed(self, heard: Heard) -> bool:
        """Whether the client must be told that there is no answer."""
        is_unsendable = self._taken.fault is not None and heard.is_too_large
        return not heard.has_client_left and (heard.answer.status is None or is_unsendable)

    def _failure(self, heard: Heard) -> Answer:
        """An error in the vendor's shape, which names the server but nothing of what was asked."""
        route = self._taken.asked.route
        another = f"--upstream {route.vendor}=…, or upstreams={{{route.vendor!r}: …}} in Python"
        hint = f"check that it runs and can be reached from here, or name another: {another}"
        if heard.is_too_large:
            status, told = BAD_GATEWAY, f"{self._address} answered more than can be held to be broken by a fault"
        else:
            status = GATEWAY_TIMEOUT if heard.answer.ending == "silence" else BAD_GATEWAY
            told = f"{no_answer(heard, self._address)}; {hint}"
        return error_answer(route.codec or route.vendor_codec, status, told)


def _without_keys(url: httpx2.URL) -> httpx2.URL:
    for name in _KEYS:
        if name in url.params:
            url = url.copy_remove_param(name)
    return url


async def _while_there(work: Coroutine[Any, Any, T], receive: Receive) -> T | None:
    """What the work gives, or None if the client leaves before, which ends the work."""
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(until_left(receive))
    try:
        await asyncio.wait([working, leaving], return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _break_off(answer: Answer, scope: Scope, receive: Receive) -> None:
    """End the connection as upstream ended its own."""
    transport: asyncio.Transport = scope[TRANSPORT]
    if answer.ending == "cut":
        transport.close()
    else:
        await reset(transport)
    await until_left(receive)


async def _unheard(message: MutableMapping[str, Any]) -> None:
    """Send to nobody."""


def _refusal(session: WireSession, taken: Taken, error: InputError) -> Answer:
    codec = taken.asked.route.codec or taken.asked.route.vendor_codec
    answer = error_answer(codec, 400, str(error), headers={"x-should-retry": "false"})
    return session.note(replace(taken, fault=None), answer, "refused")
