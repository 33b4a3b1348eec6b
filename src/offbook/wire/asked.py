"""What a call asks: a request of a model where a codec can read it, else the HTTP request itself."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qsl, urlencode

import orjson
from msgspec import Struct

from offbook.codecs.codec import WireRequest
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request
from offbook.recording.fingerprint import canonical_bytes, identify
from offbook.recording.normalise import NO_RULES, NormaliseRules
from offbook.recording.wire_record import wire_text
from offbook.wire.http_call import HttpCall
from offbook.wire.route import Route, route_of

MAX_KEPT_BYTES = 16 * 1024 * 1024
MAX_KEPT = 4096
_SECRET_QUERY = frozenset(("key", "api_key", "access_token"))
_BOUNDARY = re.compile(r'multipart/[^;]+;.*boundary="?([^";\s]+)"?', re.IGNORECASE)


class Asked(Struct, frozen=True):
    """What a call asks. `fields` is that as canonical JSON, `request_hash` its fingerprint.

    `request` is set where a codec reads the call. Where it should and cannot, `problem` says why.
    `wants_usage` and `is_array` are wishes of streaming clients that are no part of what they ask.
    """

    route: Route
    place: str
    request: Request | None
    request_hash: str
    fields: bytes
    wants_usage: bool = True
    is_array: bool = False
    problem: str = ""
    method: str = "POST"

    @property
    def is_streamed(self) -> bool:
        return self.request is not None and self.request.stream

    @property
    def body(self) -> Any:
        """The JSON of a call that no codec has read, or its body as text."""
        return orjson.loads(self.fields).get("body")

    @property
    def model(self) -> str:
        """The model that is asked, if one is."""
        if self.request is not None:
            return self.request.model
        body = self.body
        model = body.get("model") if isinstance(body, dict) else None
        return model if isinstance(model, str) else ""


class Reader:
    """Reads calls. Calls of models are read once: clients repeat them when they retry, and tests all the time."""

    def __init__(self, rules: NormaliseRules = NO_RULES) -> None:
        self._rules = rules
        self._kept: dict[tuple[str, str, bytes], Asked] = {}
        self._kept_bytes = 0

    def read(self, call: HttpCall) -> Asked:
        """What `call` asks. Never raises."""
        key = (call.path, call.query, call.body)
        asked = self._kept.get(key) if call.method == "POST" else None
        if asked is None:
            asked = read_call(call, self._rules)
            if asked.request is not None:
                self._keep(key, asked)
        return asked

    def _keep(self, key: tuple[str, str, bytes], asked: Asked) -> None:
        if self._kept_bytes + len(key[2]) > MAX_KEPT_BYTES or len(self._kept) >= MAX_KEPT:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept[key] = asked
        self._kept_bytes += len(key[2])


def read_call(call: HttpCall, rules: NormaliseRules = NO_RULES) -> Asked:
    """What `call` asks. Never raises."""
    route = route_of(call.method, call.path, call.headers)
    if route.codec is None:
        return _plain(call, route)
    try:
        body = _json(call.body)
        wished = f"{call.path}?{call.query}" if call.query else call.path
        request = route.codec.decode_request(WireRequest(wished, body))
        request_hash, fields = identify(request, rules)
    except RequestError as error:
        return _plain(call, Route(route.vendor, route.operation, route.vendor_codec), problem=str(error))
    return Asked(
        route,
        call.path,
        request,
        request_hash,
        fields,
        wants_usage=_wants_usage(body),
        is_array=route.vendor == "google" and request.stream and "alt=sse" not in call.query,
    )


def _json(body: bytes) -> JsonObject:
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"the body is not JSON: {error}", source="request body") from None
    if not isinstance(value, dict):
        raise RequestError("the body is not a JSON object", source="request body")
    return value


def _wants_usage(body: JsonObject) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _plain(call: HttpCall, route: Route, *, problem: str = "") -> Asked:
    """A call as HTTP alone. Keys in its query and the boundaries of its parts do not count."""
    place = call.path + _query(call.query)
    asked = {"method": call.method, "path": place, "body": _body(call)}
    try:
        fields = canonical_bytes(asked)
    except RequestError:  # JSON that is nested too deep to be written again is text
        fields = canonical_bytes(asked | {"body": _text(call)})
    return Asked(route, place, None, sha256(fields).hexdigest(), fields, problem=problem, method=call.method)


def _query(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = urlencode([(name, value) for name, value in pairs if name.lower() not in _SECRET_QUERY])
    return f"?{kept}" if kept else ""


def _body(call: HttpCall) -> Any:
    if not call.body:
        return None
    try:
        return orjson.loads(call.body)
    except orjson.JSONDecodeError:
        return _text(call)


def _text(call: HttpCall) -> Any:
    boundary = _BOUNDARY.match(call.headers.get("content-type", ""))
    data = call.body if boundary is None else call.body.replace(boundary[1].encode("latin-1"), b"boundary")
    text = wire_text(data)
    return text if isinstance(text, str) else {"base64": text.base64}
