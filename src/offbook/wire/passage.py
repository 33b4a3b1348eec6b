"""One call's way upstream and back: every piece is passed on as it comes, and all of it is heard."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import TYPE_CHECKING

from offbook.wire.answer import Ending
from offbook.wire.heard import Heard, Hearing
from offbook.wire.sending import Send
from offbook.wire.unpacking import Unpacker, UnpackingError, unpacker_of
from offbook.wire.upstream_headers import returned

if TYPE_CHECKING:
    import httpx2

END_PATIENCE_S = 0.25
"""How long a piece that seems to be the last is held back, to hear first whether it is."""

_LARGEST_STATUS = 599
_BODILESS = (204, 304)


class Passage:
    """Passes upstream's answer on to `send`.

    `keep` is called once, with all that came, before the client can see the end of it: also if it was cut off, or if
    this is cancelled because the client has left.
    """

    def __init__(self, hearing: Hearing, *, keep: Callable[[Heard], None], send: Send) -> None:
        self._hearing, self._keep, self._send = hearing, keep, send
        self._heard: Heard | None = None

    async def run(self, client: httpx2.AsyncClient, request: httpx2.Request) -> Heard:
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

    async def _relay(self, client: httpx2.AsyncClient, request: httpx2.Request) -> tuple[Ending, str]:
        """Pass the answer on; how it ended, and why so if it failed."""
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        try:
            answer = await client.send(request, stream=True)
            try:
                await self._pass(answer)
            finally:
                await answer.aclose()
        except httpx2.TimeoutException as error:
            return "silence", _told(error)
        except (httpx2.RemoteProtocolError, UnpackingError) as error:
            return "cut", _told(error)
        except httpx2.HTTPError as error:
            return "reset", _told(error)
        return "complete", ""

    async def _pass(self, answer: httpx2.Response) -> None:
        import httpx2  # noqa: PLC0415

        if answer.status_code > _LARGEST_STATUS:
            raise httpx2.RemoteProtocolError(f"status {answer.status_code}")
        unpacker = unpacker_of(answer.headers.get("content-encoding", ""))
        headers = returned(answer.headers.raw, is_unpacked=unpacker is not None)
        named = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
        self._hearing.begin(answer.status_code, named)
        head = {"type": "http.response.start", "status": answer.status_code, "headers": headers}
        if _is_bodiless(answer):
            await answer.aread()
            self._end("complete")
            await self._send(head)
        else:
            await self._send(head)
            await self._pass_body(_unpacked(answer.aiter_raw(), unpacker))

    async def _pass_body(self, pieces: AsyncGenerator[bytes, None]) -> None:
        """Pass on each piece at once. One that a client may take for the last is held until upstream has ended."""
        upcoming = _next(pieces)
        try:
            while (piece := await upcoming) is not None:
                upcoming = _next(pieces)
                if self._hearing.hear(piece) and await _is_end(upcoming):
                    self._end("complete")
                await self._send({"type": "http.response.body", "body": piece, "more_body": True})
        finally:
            upcoming.cancel()
            await asyncio.wait([upcoming])
            await pieces.aclose()

    def _end(self, ending: Ending, *, failure: str = "", has_client_left: bool = False) -> Heard:
        if self._heard is None:
            self._heard = self._hearing.end(ending, failure=failure, has_client_left=has_client_left)
            self._keep(self._heard)
        return self._heard


def _is_bodiless(answer: httpx2.Response) -> bool:
    """Whether the head is all that a client waits for."""
    is_empty = answer.status_code in _BODILESS or answer.headers.get("content-length") == "0"
    return is_empty or answer.request.method == "HEAD"


def _next(pieces: AsyncIterator[bytes]) -> asyncio.Future[bytes | None]:
    """The next piece to come, or None for the end."""
    return asyncio.ensure_future(anext(pieces, None))


async def _is_end(upcoming: asyncio.Future[bytes | None]) -> bool:
    """Whether the end comes soon, and nothing before it."""
    await asyncio.wait([upcoming], timeout=END_PATIENCE_S)
    return upcoming.done() and upcoming.exception() is None and upcoming.result() is None


async def _unpacked(pieces: AsyncIterator[bytes], unpacker: Unpacker | None) -> AsyncGenerator[bytes, None]:
    async for piece in pieces:
        data = piece if unpacker is None else unpacker.unpack(piece)
        if data:
            yield data


def _told(error: Exception) -> str:
    """What went wrong; of other failures than those to connect only the kind, as their text may hold a header."""
    import httpx2  # noqa: PLC0415

    is_harmless = isinstance(error, httpx2.ConnectError) and bool(str(error))
    return f"{type(error).__name__}: {error}" if is_harmless else type(error).__name__
