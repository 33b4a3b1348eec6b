"""An answer that leaves in one piece, as HTTP/1.1 spells it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from http import HTTPStatus

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_WITHOUT_BODY = frozenset((*range(100, 200), 204, 304))
_PLAIN_HEADER = re.compile(r"(?!connection:)[a-z0-9-]+: [\x20-\x7e]*")


def http_bytes(status: int | None, headers: Mapping[str, str], body: bytes, *, is_streamed: bool) -> bytes | None:
    """The head and the body, which is one chunk if it is streamed; if not, the headers tell its length.

    None if something about the head takes a closer look before it may be sent.
    """
    line = None if status is None or status in _WITHOUT_BODY else _STATUS_LINES.get(status)
    lines = [f"{name}: {value}" for name, value in headers.items()]
    if line is None or not all(_PLAIN_HEADER.fullmatch(header) for header in lines):
        return None
    told = "".join([f"{header}\r\n" for header in lines])
    if not is_streamed:
        return f"{line}{told}\r\n".encode() + body
    chunk = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return f"{line}{told}transfer-encoding: chunked\r\n\r\n".encode() + chunk + b"0\r\n\r\n"
