"""Pages on loopback, to the byte."""

from __future__ import annotations

from collections.abc import Mapping

from .loopback import LoopbackServer, ServerCall


def page(body: bytes | str, *, status: str = "200 OK", **headers: str) -> bytes:
    """An answer as it goes over the wire; a header's name has `_` for `-`."""
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


class PageServer(LoopbackServer):
    """Answers with the page of the path, or says nothing until the client is gone."""

    def __init__(self, pages: Mapping[str, bytes | None]) -> None:
        super().__init__(self._show)
        self.pages = dict(pages)

    def _show(self, call: ServerCall) -> None:
        answer = self.pages[call.path]
        if answer is not None:
            call.raw(answer)
        else:
            call.has_client_left()
