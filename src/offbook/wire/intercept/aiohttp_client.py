"""Interception of aiohttp: its connections are made in memory, and carry the bytes that a server would send."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import httptools

from offbook.wire.transport import transport_type

if TYPE_CHECKING:
    from offbook.wire.api import InProcessClients


def replace_connect(aiohttp: Any, find: Callable[[str, int | None], InProcessClients | None]) -> Callable[[], None]:
    """Let `find` choose the source of this library's answers, and return the function that undoes that."""
    connector = aiohttp.BaseConnector
    connect = connector.connect

    async def intercepting_connect(self: Any, request: Any, *parts: Any, **more: Any) -> Any:
        answers = find(request.url.host or "", request.url.port)
        if answers is None:
            return await connect(self, request, *parts, **more)
        loop = asyncio.get_running_loop()
        protocol = aiohttp.client_proto.ResponseHandler(loop=loop)
        protocol.connection_made(MemoryTransport(protocol, answers, origin=str(request.url.origin())))
        protocol.force_close()  # else it would be there for the next request, which may not be intercepted
        return aiohttp.connector.Connection(self, request.connection_key, protocol, loop)

    connector.connect = intercepting_connect

    def undo() -> None:
        connector.connect = connect

    return undo


class MemoryTransport(asyncio.Transport):
    """The transport of a connection without a socket: writes are a request, and reads its answer."""

    def __init__(self, protocol: Any, answers: InProcessClients, *, origin: str) -> None:
        super().__init__()
        self._protocol, self._answers, self._origin = protocol, answers, origin
        self._parser = httptools.HttpRequestParser(self)
        self._url, self._body, self._is_closing = b"", b"", False
        self._headers: list[tuple[bytes, bytes]] = []
        self._is_reading = asyncio.Event()
        self._is_reading.set()
        self._answering: asyncio.Task[None] | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._parser.feed_data(bytes(data))

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers.append((name, value))

    def on_headers_complete(self) -> None:
        if any(name.lower() == b"expect" for name, _ in self._headers):
            asyncio.get_running_loop().call_soon(self._receive, b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        self._answering = asyncio.get_running_loop().create_task(self._answer())

    async def _answer(self) -> None:
        """Have the request answered, and end the connection as the answer does."""
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        try:
            await self._send_response()
        except httpx2.RemoteProtocolError:
            self._lose(None)
        except httpx2.TransportError as error:
            self._lose(ConnectionResetError(str(error)))
        except Exception as error:
            self._lose(error)

    async def _send_response(self) -> None:
        import httpx2  # noqa: PLC0415

        method, url = self._parser.get_method().decode(), self._origin + self._url.decode("latin-1")
        request = httpx2.Request(method, url, headers=self._headers, content=self._body, extensions={"timeout": {}})
        transport = transport_type(httpx2)(self._answers)
        response = await transport.handle_async_request(request)
        try:
            is_chunked = "content-length" not in response.headers
            lines = [b"HTTP/1.1 %d %b" % (response.status_code, response.reason_phrase.encode())]
            lines += [
                b"%b: %b" % header for header in response.headers.raw if header[0].lower() != b"transfer-encoding"
            ]
            self._receive(b"\r\n".join([*lines, *([b"transfer-encoding: chunked"] if is_chunked else []), b"", b""]))
            async for data in response.stream:
                await self._is_reading.wait()
                self._receive(b"%x\r\n%b\r\n" % (len(data), data) if is_chunked and data else data)
            self._receive(b"0\r\n\r\n" if is_chunked else b"")
        finally:
            await response.aclose()
            await transport.aclose_live()

    def _receive(self, data: bytes) -> None:
        if data and not self._is_closing:
            self._protocol.data_received(data)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_closing:
            self._is_closing = True
            self._protocol.connection_lost(error)

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        if self._is_closing:
            return
        self._is_closing = True
        if self._answering is not None:
            self._answering.cancel()
        asyncio.get_running_loop().call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        self.close()

    def pause_reading(self) -> None:
        self._is_reading.clear()

    def resume_reading(self) -> None:
        self._is_reading.set()

    def get_write_buffer_size(self) -> int:
        return 0

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> Any:
        return self._protocol
