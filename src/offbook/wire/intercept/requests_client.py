"""Interception of requests: its adapters get responses from a stand-in, and raise the errors of a socket."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from http.client import IncompleteRead
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from offbook.wire.transport import transport_type

if TYPE_CHECKING:
    from offbook.wire.api import InProcessClients


def replace_send(requests: Any, find: Callable[[str, int | None], InProcessClients | None]) -> Callable[[], None]:
    """Let `find` choose the source of this library's answers, and return the function that undoes that."""
    adapter_type = requests.adapters.HTTPAdapter
    send = adapter_type.send

    def intercepting_send(
        self: Any, request: Any, stream: bool = False, timeout: Any = None, *parts: Any, **more: Any
    ) -> Any:
        url = urlsplit(request.url)
        answers = find(url.hostname or "", url.port or {"http": 80, "https": 443}.get(url.scheme))
        if answers is None:
            return send(self, request, stream, timeout, *parts, **more)
        return _InterceptedSend(requests, self, request).send(answers, _read_timeout_s(timeout))

    adapter_type.send = intercepting_send

    def undo() -> None:
        adapter_type.send = send

    return undo


def _read_timeout_s(timeout: Any) -> float | None:
    """Return the longest wait for a piece: a timeout is a number of seconds, or two, or an object of urllib3."""
    found = timeout[1] if isinstance(timeout, tuple) else getattr(timeout, "read_timeout", timeout)
    return float(found) if isinstance(found, int | float) else None


class _InterceptedSend:
    """One request of an adapter."""

    def __init__(self, requests: Any, adapter: Any, request: Any) -> None:
        self._requests, self._adapter, self._request = requests, adapter, request

    def send(self, answers: InProcessClients, read_timeout_s: float | None) -> Any:
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        request = httpx2.Request(
            self._request.method,
            self._request.url,
            headers=list(self._request.headers.items()),
            content=_body_of(self._request),
            extensions={"timeout": {"read": read_timeout_s}},
        )
        errors, transport = self._requests.exceptions, transport_type(httpx2)(answers)
        try:
            response = transport.handle_request(request)
        except httpx2.TimeoutException as error:
            raise errors.ReadTimeout(str(error), request=self._request) from None
        except httpx2.TransportError as error:
            raise errors.ConnectionError(str(error), request=self._request) from None
        return self._response(response, transport)

    def _response(self, response: Any, transport: Any) -> Any:
        from urllib3 import HTTPHeaderDict, HTTPResponse  # noqa: PLC0415 - requests has loaded it

        raw = HTTPResponse(
            body=_ResponseBody(response, transport),
            headers=HTTPHeaderDict(response.headers.multi_items()),
            status=response.status_code,
            reason=response.reason_phrase,
            preload_content=False,
            decode_content=False,
            request_method=self._request.method,
        )
        return self._adapter.build_response(self._request, raw)


def _body_of(request: Any) -> bytes:
    body = request.body or b""
    if isinstance(body, bytes | str):
        return body.encode() if isinstance(body, str) else body
    return bytes(body.read()) if hasattr(body, "read") else b"".join(body)


class _ResponseBody(io.RawIOBase):
    """A response body as a file that fails like a socket, with errors known to urllib3."""

    def __init__(self, response: Any, transport: Any) -> None:
        self._response, self._transport, self._pieces = response, transport, self._read_pieces(response)
        self._left = b""

    @staticmethod
    def _read_pieces(response: Any) -> Iterator[bytes]:
        import httpx2  # noqa: PLC0415

        try:
            yield from response.stream
        except httpx2.TimeoutException as error:
            raise TimeoutError(str(error)) from None
        except httpx2.RemoteProtocolError:
            raise IncompleteRead(b"") from None
        except httpx2.TransportError as error:
            raise ConnectionResetError(str(error)) from None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._left:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._left = piece
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def close(self) -> None:
        if not self.closed:
            self._response.close()
            self._transport.close_live()
        super().close()
