"""Reads the cassettes of vcrpy, in YAML and JSON."""

from __future__ import annotations

from base64 import b64decode
from typing import Any
from urllib.parse import urlsplit

from offbook.codecs.framing import PackedBodyError, unpack_body
from offbook.messages import JsonObject
from offbook.wire.convert.trace import HttpCall, Trace, ended_at, header_map, read_each
from offbook.wire.request import HttpRequest


def read_cassette(document: JsonObject) -> Trace:
    """Return the calls of a cassette."""
    otherwise = "not an interaction as vcrpy writes it"
    return read_each(document["interactions"], "interaction", _call, otherwise=otherwise)


def _call(interaction: JsonObject, place: str) -> HttpCall:
    asked, answered = interaction["request"], interaction["response"]
    url = urlsplit(asked["uri"])
    headers = _headers(answered["headers"])
    status = answered["status"]["code"] if "status" in answered else answered["status_code"]
    body = _unpacked(_body(answered.get("body", answered.get("content"))), headers)
    request = HttpRequest(
        str(asked["method"]).upper(), url.path or "/", url.query, _headers(asked["headers"]), _body(asked.get("body"))
    )
    return HttpCall(
        place=place,
        host=url.hostname or "",
        request=request,
        status=int(status),
        headers=headers,
        frames=((0.0, body),) if body else (),
        recorded_at=ended_at(str(interaction.get("recorded_at") or ""), 0.0),
    )


def _headers(headers: Any) -> dict[str, str]:
    pairs = headers.items() if isinstance(headers, dict) else headers
    return header_map(
        (_text(name), _text(value))
        for name, values in pairs
        for value in (values if isinstance(values, list) else [values])
    )


def _text(value: Any) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value)


def _body(body: Any) -> bytes:
    """Return a body: text, bytes, or an object that holds either."""
    if isinstance(body, dict):
        if "base64_string" in body:
            return b64decode(body["base64_string"], validate=True)
        body = body.get("string")
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    if isinstance(body, str):
        return body.encode()
    raise TypeError(f"a body that is a {type(body).__name__}")


def _unpacked(body: bytes, headers: dict[str, str]) -> bytes:
    """Return the body without its compression. Some clients unpack it, and leave its headers as they were."""
    try:
        return unpack_body(body, headers.get("content-encoding", ""))
    except PackedBodyError:
        if _is_text(body):
            return body
        raise


def _is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
