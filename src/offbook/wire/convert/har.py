"""HAR 1.2, the archive format of browsers and proxies: read as calls, and written from a recording."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterator
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from offbook import __version__
from offbook.errors import RequestError
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, exchanges_of
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.keys import short_key, tool_key
from offbook.recording.format.wire_record import wire_text
from offbook.wire.convert.trace import (
    HttpCall,
    Trace,
    Unmapped,
    ended_at,
    header_map,
    in_order,
    read_each,
    recorded_request,
)
from offbook.wire.request import HttpRequest, parse_request
from offbook.wire.response import Frame, HttpResponse, encode_exchange, recorded_response

OWN_FIELD = "_offbook"
"""The field for data without a HAR field. Other tools ignore fields that start with `_`."""
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")
_NO_MOMENT = "1970-01-01T00:00:00.000Z"


def read_har(document: JsonObject) -> Trace:
    """Return the calls of an archive."""
    return read_each(document["log"]["entries"], "entry", _read_entry, otherwise="not an entry of HAR 1.2")


def _read_entry(entry: JsonObject, place: str) -> HttpCall | Unmapped:
    reason = _unmappable_reason(entry)
    return Unmapped(place, reason) if reason else _call(entry, place)


def _unmappable_reason(entry: JsonObject) -> str:
    response = entry["response"]
    if response["status"] == 0:
        return "the request got no answer"
    if response["status"] == HTTPStatus.SWITCHING_PROTOCOLS:
        return "a WebSocket"
    content = response["content"]
    if "text" not in content and content.get("size", 0) > 0:
        return "the archive has no body of the response: save it with content"
    return ""


def _call(entry: JsonObject, place: str) -> HttpCall:
    request, response, own = entry["request"], entry["response"], _own_fields(entry)
    url, duration_ms = urlsplit(request["url"]), max(0.0, float(entry.get("time") or 0.0))
    content = response["content"]
    text = content.get("text") or ""
    body = b64decode(text, validate=True) if content.get("encoding") == "base64" else str(text).encode()
    return HttpCall(
        place=place,
        host=url.hostname or "",
        request=HttpRequest(
            str(request["method"]).upper(),
            url.path or "/",
            url.query,
            _headers(request, without="content-encoding"),  # what an archive holds is not packed
            _posted(request.get("postData")),
        ),
        status=int(response["status"]),
        headers=_headers(response, without="content-encoding"),
        frames=tuple(_frames(body, own, _first_byte_ms(entry, duration_ms))),
        duration_ms=duration_ms,
        recorded_at=own.get("recorded_at") or _moment(entry, duration_ms),
        key=own.get("key", ""),
        request_hash=own.get("request_hash", ""),
    )


def _own_fields(entry: JsonObject) -> JsonObject:
    """Return the fields that our own export added, if they have the right types."""
    own = entry.get(OWN_FIELD)
    own = own if isinstance(own, dict) else {}
    texts = {name: own[name] for name in ("key", "request_hash", "recorded_at") if isinstance(own.get(name), str)}
    if not _FINGERPRINT.fullmatch(texts.get("request_hash", "")):
        texts.pop("request_hash", None)
    if "recorded_at" in texts:
        texts["recorded_at"] = ended_at(texts["recorded_at"], 0.0)
    if str(own.get("key", "")).startswith("_"):
        texts.pop("key")
    return texts | {"frames": own["frames"]} if isinstance(own.get("frames"), list) else texts


def _moment(entry: JsonObject, duration_ms: float) -> str:
    started = str(entry.get("startedDateTime") or "")
    return "" if started == _NO_MOMENT else ended_at(started, duration_ms)


def _first_byte_ms(entry: JsonObject, duration_ms: float) -> float:
    timings = entry.get("timings")
    timings = timings if isinstance(timings, dict) else {}
    before = sum(max(0.0, float(timings.get(name) or 0.0)) for name in ("blocked", "dns", "connect", "send", "wait"))
    return min(before, duration_ms) if before else duration_ms


def _headers(message: JsonObject, *, without: str) -> dict[str, str]:
    headers = header_map((str(each["name"]), str(each["value"])) for each in message.get("headers") or ())
    headers.pop(without, None)
    return headers


def _posted(data: JsonObject | None) -> bytes:
    text = "" if data is None else data.get("text") or ""
    is_binary = data is not None and data.get("encoding") == "base64"
    return b64decode(text, validate=True) if is_binary else str(text).encode()


def _frames(body: bytes, own: JsonObject, at_ms: float) -> Iterator[Frame]:
    """Yield the pieces of a body at the times noted by our own export, and the rest at `at_ms`."""
    for noted_ms, length in own.get("frames", ()):
        yield float(noted_ms), body[:length]
        body = body[length:]
    if body:
        yield at_ms, body


def write_har(document: Document) -> tuple[bytes, list[Unmapped]]:
    """Return a recording as an archive, in the order of its calls, and the exchanges that HAR cannot express."""
    entries, unmapped = [], []
    for key, exchange in in_order(document):
        reason = unwritable_reason(exchange)
        try:
            if not reason:
                entries.append(_entry(key, exchange))
        except RequestError as error:
            reason = error.reason
        if reason:
            unmapped.append(Unmapped(short_key(key), reason))
    for tool in document.tools:
        count = len(exchanges_of(document.tools, tool))
        unmapped.append(Unmapped(tool_key(tool), f"calls of tools are not HTTP ({count})"))
    creator = {"name": "offbook", "version": __version__}
    log = {"version": "1.2", "creator": creator, "entries": entries}
    return orjson.dumps({"log": log}, option=orjson.OPT_INDENT_2) + b"\n", unmapped


def unwritable_reason(exchange: Exchange) -> str:
    """Return why an exchange cannot be expressed as a request and its answer; empty if it can."""
    if exchange.when is not None:
        return f"an answer with a condition (when: {exchange.when})"
    if exchange.fault is not None and (exchange.wire is None or exchange.wire.status == HTTPStatus.OK):
        return f"a call that broke off ({exchange.fault.type})"
    if not bytes(exchange.request):
        return "it does not say which request it answers"
    return ""


def _entry(key: str, exchange: Exchange) -> JsonObject:
    host, request = recorded_request(exchange)
    parsed = parse_request(request)
    has_bytes = exchange.wire is not None
    answer = recorded_response(exchange.wire) if exchange.wire is not None else encode_exchange(exchange, parsed)
    duration_ms = exchange.latency_ms
    own: JsonObject = {"key": key, "request_hash": exchange.request_hash, "recorded_at": exchange.recorded_at}
    if answer.is_streamed:
        own["frames"] = [[at_ms, len(data)] for at_ms, data in answer.frames]
    first_ms = answer.frames[0][0] if answer.frames and (has_bytes and answer.is_streamed) else duration_ms
    return {
        "startedDateTime": _started(exchange),
        "time": duration_ms,
        "request": _request_fields(host, request),
        "response": _response_fields(answer),
        "cache": {},
        "timings": {"send": 0, "wait": first_ms, "receive": duration_ms - first_ms},
        OWN_FIELD: {name: value for name, value in own.items() if value is not None},
    }


def _started(exchange: Exchange) -> str:
    try:
        ended = datetime.fromisoformat(exchange.recorded_at or "")
    except ValueError:
        return _NO_MOMENT
    return (ended - timedelta(milliseconds=exchange.latency_ms)).isoformat(timespec="milliseconds")


def _request_fields(origin: str, request: HttpRequest) -> JsonObject:
    url = f"{origin}{request.path}?{request.query}" if request.query else origin + request.path
    fields = {
        "method": request.method,
        "url": url,
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _header_list(request.headers),
        "queryString": [{"name": name, "value": value} for name, value in parse_qsl(request.query)],
        "headersSize": -1,
        "bodySize": len(request.body),
    }
    if not request.body:
        return fields
    return fields | {"postData": {"mimeType": request.headers["content-type"], **_text_fields(request.body)}}


def _response_fields(answer: HttpResponse) -> JsonObject:
    body, status = answer.content, answer.status or 0
    content_type = answer.headers.get("content-type", "application/octet-stream")
    return {
        "status": status,
        "statusText": HTTPStatus(status).phrase if status in list(HTTPStatus) else "",
        "httpVersion": "HTTP/1.1",
        "cookies": [],
        "headers": _header_list(answer.headers),
        "content": {"size": len(body), "mimeType": content_type, **_text_fields(body)},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": len(body),
    }


def _header_list(headers: Any) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in headers.items()]


def _text_fields(body: bytes) -> JsonObject:
    text = wire_text(body)
    return {"text": text} if isinstance(text, str) else {"text": b64encode(body).decode(), "encoding": "base64"}
