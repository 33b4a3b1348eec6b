"""Parses an HTTP request into the model call that it makes: vendor, operation, protocol, fields and fingerprint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode

import msgspec
import orjson
from msgspec import Struct

from offbook.codecs.base import Codec, WireRequest
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request
from offbook.recording.format.wire_record import PLAIN_HTTP, wire_text
from offbook.recording.match.fingerprint import canonical_bytes, identify
from offbook.recording.match.normalise import NO_RULES, NormaliseRules
from offbook.vendors import CODECS


class HttpRequest(Struct, frozen=True, gc=False):
    """One HTTP request. `path` starts with a slash and has no query; the names of headers are lower-case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def attempt(self) -> int | None:
        """Which try of its call this is, from 1, if the client says so."""
        count = self.headers.get("x-stainless-retry-count", "")
        return int(count) + 1 if count.isascii() and count.isdigit() and len(count) < 6 else None


Vendor = Literal["openai", "anthropic", "google", "ollama"]
Operation = Literal["generate", "count_tokens", "embed", "models", "other"]


class ApiRoute(Struct, frozen=True):
    """What stands at a path. A `generate` has the codec of its protocol; `vendor_codec` writes the vendor's errors."""

    vendor: Vendor
    operation: Operation
    vendor_codec: Codec
    codec: Codec | None = None

    @property
    def protocol(self) -> str:
        return PLAIN_HTTP if self.codec is None else self.codec.name


def _model_route(vendor: Vendor, codec: str) -> ApiRoute:
    return ApiRoute(vendor, "generate", CODECS[codec], CODECS[codec])


def _other_route(vendor: Vendor, operation: Operation) -> ApiRoute:
    return ApiRoute(vendor, operation, CODECS[_ERROR_CODECS[vendor]])


_ERROR_CODECS: dict[Vendor, str] = {
    "openai": "openai_chat",
    "anthropic": "anthropic",
    "google": "gemini",
    "ollama": "ollama",
}
_POST_ROUTES = (
    (re.compile(r".*/chat/completions"), _model_route("openai", "openai_chat")),
    (re.compile(r".*/responses"), _model_route("openai", "openai_responses")),
    (re.compile(r"(.*/v1)?/messages"), _model_route("anthropic", "anthropic")),
    (re.compile(r".*:(streamG|g)enerateContent"), _model_route("google", "gemini")),
    (re.compile(r"/api/chat"), _model_route("ollama", "ollama")),
    (re.compile(r"/api/embed(dings)?"), _other_route("ollama", "embed")),
    (re.compile(r"/api/show"), _other_route("ollama", "models")),
    (re.compile(r".*:(batchE|e)mbedContents?"), _other_route("google", "embed")),
    (re.compile(r".*:countTokens"), _other_route("google", "count_tokens")),
    (re.compile(r"(.*/v1)?/messages/count_tokens"), _other_route("anthropic", "count_tokens")),
    (re.compile(r".*/responses/input_tokens"), _other_route("openai", "count_tokens")),
    (re.compile(r".*/embeddings"), _other_route("openai", "embed")),
)
_MODELS_PATH = re.compile(r"(.*/)?models(/.+)?|/api/(tags|ps|version)")
_GOOGLE_PATH = re.compile(r"/(v1alpha|v1beta|upload/v1beta)/")
_OLLAMA_PATH = re.compile(r"/api/(?!v\d)")


def route_of(method: str, path: str, headers: Mapping[str, str]) -> ApiRoute:
    """What `method` asks at `path`."""
    if method == "POST":
        for pattern, route in _POST_ROUTES:
            if pattern.fullmatch(path):
                return route
    operation: Operation = "models" if method == "GET" and _MODELS_PATH.fullmatch(path) else "other"
    return _other_route(_vendor_at(path, headers), operation)


def _vendor_at(path: str, headers: Mapping[str, str]) -> Vendor:
    """Whose API the path belongs to, where the path alone does not tell."""
    if "anthropic-version" in headers or "anthropic-beta" in headers:
        return "anthropic"
    if _GOOGLE_PATH.match(path) or "x-goog-api-key" in headers or "x-goog-api-client" in headers:
        return "google"
    return "ollama" if _OLLAMA_PATH.match(path) else "openai"


MAX_CACHED_BYTES = 16 * 1024 * 1024
MAX_CACHED = 4096
_SECRET_QUERY = frozenset(("key", "api_key", "access_token"))
_BOUNDARY = re.compile(r'multipart/[^;]+;.*boundary="?([^";\s]+)"?', re.IGNORECASE)


class ParsedRequest(Struct, frozen=True):
    """What a call asks. `fields` is that as canonical JSON, `request_hash` its fingerprint.

    `request` is set where a codec reads the call. Where it should and cannot, `problem` says why.
    `wants_usage` and `is_array` are wishes of streaming clients that are no part of what they ask.
    """

    route: ApiRoute
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


class RequestParser:
    """Reads calls. Calls of models are read once: clients repeat them when they retry, and tests all the time."""

    def __init__(self, rules: NormaliseRules = NO_RULES) -> None:
        self._rules = rules
        self._kept: dict[tuple[str, str, bytes], ParsedRequest] = {}
        self._kept_bytes = 0

    def read(self, call: HttpRequest) -> ParsedRequest:
        """What `call` asks. Never raises."""
        key = (call.path, call.query, call.body)
        asked = self._kept.get(key) if call.method == "POST" else None
        if asked is None:
            asked = parse_request(call, self._rules)
            if asked.request is not None:
                self._keep(key, asked)
        return asked

    def _keep(self, key: tuple[str, str, bytes], asked: ParsedRequest) -> None:
        if self._kept_bytes + len(key[2]) > MAX_CACHED_BYTES or len(self._kept) >= MAX_CACHED:
            self._kept.clear()
            self._kept_bytes = 0
        self._kept[key] = asked
        self._kept_bytes += len(key[2])


def parse_request(call: HttpRequest, rules: NormaliseRules = NO_RULES) -> ParsedRequest:
    """What `call` asks. Never raises."""
    route = route_of(call.method, call.path, call.headers)
    if route.codec is None:
        return _parse_plain_http(call, route)
    try:
        body = _json_object(call.body)
        wished = f"{call.path}?{call.query}" if call.query else call.path
        request = route.codec.decode_request(WireRequest(wished, body))
        request_hash, fields = identify(request, rules)
    except RequestError as error:
        return _parse_plain_http(call, ApiRoute(route.vendor, route.operation, route.vendor_codec), problem=str(error))
    return ParsedRequest(
        route,
        call.path,
        request,
        request_hash,
        fields,
        wants_usage=_wants_usage(body),
        is_array=route.vendor == "google" and request.stream and "alt=sse" not in call.query,
    )


def _json_object(body: bytes) -> JsonObject:
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


def _parse_plain_http(call: HttpRequest, route: ApiRoute, *, problem: str = "") -> ParsedRequest:
    """A call as HTTP alone. Keys in its query and the boundaries of its parts do not count."""
    place = call.path + _query_without_secrets(call.query)
    asked = {"method": call.method, "path": place, "body": _json_or_text(call)}
    try:
        fields = canonical_bytes(asked)
    except RequestError:  # JSON that is nested too deep to be written again is text
        fields = canonical_bytes(asked | {"body": _body_text(call)})
    return ParsedRequest(route, place, None, sha256(fields).hexdigest(), fields, problem=problem, method=call.method)


def _query_without_secrets(query: str) -> str:
    pairs = parse_qsl(query, keep_blank_values=True)
    kept = urlencode([(name, value) for name, value in pairs if name.lower() not in _SECRET_QUERY])
    return f"?{kept}" if kept else ""


def _json_or_text(call: HttpRequest) -> Any:
    if not call.body:
        return None
    try:
        return orjson.loads(call.body)
    except orjson.JSONDecodeError:
        return _body_text(call)


def _body_text(call: HttpRequest) -> Any:
    boundary = _BOUNDARY.match(call.headers.get("content-type", ""))
    data = call.body if boundary is None else call.body.replace(boundary[1].encode("latin-1"), b"boundary")
    text = wire_text(data)
    return text if isinstance(text, str) else {"base64": text.base64}


T = TypeVar("T", bound=msgspec.Struct)
_ERROR_PATH = " - at `$"
_MISSING_FIELD = re.compile(r"Object missing required field `(?P<name>.*)`")


def read_body(body: object, shape: type[T], *, place: str = "") -> T:
    """A JSON object as `shape`, whose own fields may also be named as in Python; other fields are ignored.

    `place` is where the object stands in the body.

    Raises:
        RequestError: it is no object, or a field is missing or is not what the shape says.
    """
    try:
        return msgspec.convert(_with_wire_names(body, shape), type=shape)
    except msgspec.ValidationError as error:
        raise _body_error(str(error), place) from None


def _with_wire_names(body: object, shape: type[T]) -> object:
    if not isinstance(body, dict):
        return body
    names = dict(zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True))
    return {names.get(name, name): value for name, value in body.items()}


def _body_error(message: str, place: str) -> RequestError:
    reason, _, path = message.rpartition(_ERROR_PATH) if _ERROR_PATH in message else (message, "", "")
    path = path.removesuffix("`")
    missing = _MISSING_FIELD.fullmatch(reason)
    if missing:
        reason, path = "this field is missing", f"{path}.{missing['name']}"
    return RequestError(reason[:1].lower() + reason[1:], source="request body", place=f"{place}{path}".lstrip("."))
