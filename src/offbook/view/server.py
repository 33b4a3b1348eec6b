"""The server of the viewer: one page, its script and style, and the JSON that it shows, on loopback and read-only."""

from __future__ import annotations

import asyncio
from functools import cache, partial
from importlib.resources import files
from types import TracebackType
from typing import Self
from urllib.parse import parse_qsl

import msgspec

from offbook.errors import InputError
from offbook.view.api import ApiAnswer, ViewApi
from offbook.view.library import RunLibrary
from offbook.wire.request import header_dict
from offbook.wire.response import HttpResponse, whole_response
from offbook.wire.server.access import Access
from offbook.wire.server.connection import ClientConnection, send_response
from offbook.wire.server.http_protocol import OpenConnections, Receive, Scope, Send
from offbook.wire.server.listener import ServerThread, bind_socket

LOOPBACK = "127.0.0.1"
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_STATIC = {
    "/": ("offbook.view", "viewer.html"),
    "/common.css": ("offbook.report", "common.css"),
    "/common.js": ("offbook.report", "common.js"),
    "/viewer.css": ("offbook.view", "viewer.css"),
    **{
        f"/{name}.js": ("offbook.view", f"{name}.js")
        for name in ("viewer", "virtual_list", "runs", "recording", "compare", "history")
    },
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
)
_SAFE = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer", "cache-control": "no-cache"}


class ViewServer:
    """Shows the runs of a library at `url` while its `with` block runs. Port 0 is any free port.

    Raises:
        InputError: it cannot listen at the port.
    """

    def __init__(self, library: RunLibrary, *, port: int = 0) -> None:
        self._api, self._access = ViewApi(library), Access()
        listener = bind_socket(LOOPBACK, port)
        self.url = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
        opened = OpenConnections()
        self._thread = ServerThread(listener, partial(ClientConnection, self._answer, opened), opened)
        self._turn: asyncio.Lock | None = None

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = header_dict(scope["headers"])
        query = scope["query_string"].decode("latin-1")
        refusal = self._access.refusal(headers, query)
        if refusal is not None:
            response = _error(refusal.status, refusal.message)
        elif scope["method"] not in ("GET", "HEAD"):
            response = _error(405, "the viewer changes nothing: GET and HEAD are all that it answers")
        elif scope["path"] in _STATIC:
            response = _static(scope["path"])
        else:
            response = await self._dynamic(scope["path"], query, headers.get("if-none-match", ""))
        await send_response(response, scope, receive, send)

    async def _dynamic(self, path: str, query: str, known: str) -> HttpResponse:
        """Read what is asked for in a thread, one request at a time, so that the page stays responsive."""
        if self._turn is None:
            self._turn = asyncio.Lock()
        async with self._turn:
            try:
                fields = dict(parse_qsl(query))
                answer = await asyncio.to_thread(self._api.answer, path, fields, known.strip('"'))
            except InputError as error:
                return _error(404, str(error))
        return HttpResponse(304, dict(_SAFE)) if answer is None else _found(answer)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Stop the server. Safe to call twice."""
        self._thread.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def _found(answer: ApiAnswer) -> HttpResponse:
    headers = {**_SAFE, "etag": f'"{answer.tag}"'}
    return whole_response(200, answer.body, headers=headers, content_type=answer.content_type)


def _error(status: int, message: str) -> HttpResponse:
    return whole_response(status, msgspec.json.encode({"error": message}), headers=_SAFE)


@cache
def _static(path: str) -> HttpResponse:
    package, name = _STATIC[path]
    body = (files(package) / "page" / name).read_bytes()
    content_type = f"{_TYPES[name.rpartition('.')[2]]}; charset=utf-8"
    return whole_response(200, body, headers=_SAFE | {"content-security-policy": _POLICY}, content_type=content_type)
