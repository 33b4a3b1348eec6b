"""Parses an HTTP request into the model call that it makes: vendor, operation, protocol, fields and fingerprint."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.base import Codec, OtherProtocolError, WireRequest
from offbook.codecs.framing import PackedBodyError, unpack_body
from offbook.decoding import convert
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request
from offbook.providers.aws_signature import SIGNED_SCHEME
from offbook.recording.format.wire_record import PLAIN_HTTP, WEBSOCKET, wire_text
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, canonical_bytes, identify
from offbook.recording.match.folders import NO_RENAMES, Renames
from offbook.recording.redact.rules import note_credentials
from offbook.schema_errors import explain_msgspec_error
from offbook.vendors import (
    CREDENTIAL_QUERY,
    MIN_WEAK_CREDENTIAL_CHARS,
    SECRET_QUERY,
    VENDORS,
    VendorName,
    codec_of,
    is_credential_name,
)

if TYPE_CHECKING:
    from offbook.codecs.rules.rule import RuleRefusal

_AWS_ATTEMPT = re.compile(r"attempt=([1-9][0-9]{0,4})(?![0-9])")


class HttpRequest(Struct, frozen=True, gc=False):
    """An HTTP request. `path` starts with a slash and has no query; header names are lower-case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def attempt(self) -> int | None:
        """The number of this attempt, from 1, if the client sends it (`x-stainless-retry-count`, `amz-sdk-request`)."""
        count = self.headers.get("x-stainless-retry-count", "")
        if count.isascii() and count.isdigit() and len(count) < 6:
            return int(count) + 1
        found = _AWS_ATTEMPT.match(self.headers.get("amz-sdk-request", ""))
        return None if found is None else int(found[1])


def origin_of(url: str) -> str:
    """Return the scheme and the host of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


def header_dict(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Return raw headers as a dict of str."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}


_PARAMETER = re.compile(r"(?i:token|response|signature|key|secret|password|nonce|assertion)=\"?([^\",\s]+)")
_SIGNATURE = re.compile(r"(?:Credential|Signature)=([^/,\s]+)")


def credentials_of(request: HttpRequest) -> tuple[str, ...]:
    """Return a request's authentication secrets, from headers, cookies and the query."""
    found = [value for name, value in parse_qsl(request.query) if _is_credential(name.lower(), value)]
    for name, value in request.headers.items():
        if name.lower() == "cookie":
            found += [pair.partition("=")[2].strip(' "') for pair in value.split(";")]
        elif name.lower() == "sec-websocket-protocol":
            found.append(subprotocol_key(value))
        elif is_credential_name(name.lower()):
            scheme, _, rest = value.strip().partition(" ")
            found += [value.strip(), rest.strip(), *_PARAMETER.findall(rest)]
            found += _basic_password(rest) if scheme.lower() == "basic" else []
            found += _SIGNATURE.findall(rest) if scheme == SIGNED_SCHEME else []
    return tuple(dict.fromkeys(filter(None, found)))


MAX_SEEN_KEYS = 1_000
_KEY_PLACES = ("cookie", "sec-websocket-protocol")
_seen_keys: set[tuple[str, ...]] = set()


def note_credentials_of(request: HttpRequest) -> None:
    """Remember the credentials of a request, which are not to be printed; quick if its key has been seen."""
    headers = request.headers.items()
    keys = (request.query, *(value for name, value in headers if name in _KEY_PLACES or is_credential_name(name)))
    if keys not in _seen_keys:
        if len(_seen_keys) >= MAX_SEEN_KEYS:
            _seen_keys.clear()
        _seen_keys.add(keys)
        note_credentials(credentials_of(request))


_SET_COOKIE = re.compile(r"(?:^|, ?)[^=;,\s]+=\"?([^;,\s\"]+)")


def set_cookies(header: str) -> list[str]:
    """Return the values that a response tells its client to authenticate with. A short one may be a word."""
    return [value for value in _SET_COOKIE.findall(header) if _is_opaque(value)]


def _is_opaque(value: str) -> bool:
    return len(value) >= MIN_WEAK_CREDENTIAL_CHARS and any(map(str.isdigit, value))


def _is_credential(name: str, value: str) -> bool:
    """Return whether a query parameter authenticates a request."""
    return name in SECRET_QUERY or is_credential_name(name) or (name in CREDENTIAL_QUERY and _is_opaque(value))


_KEY_SUBPROTOCOL = "openai-insecure-api-key."


def is_key_subprotocol(name: str) -> bool:
    """Return whether a WebSocket subprotocol is the key of a client: pages in browsers cannot send headers."""
    return name.startswith(_KEY_SUBPROTOCOL)


def subprotocol_key(offered: str) -> str:
    """Return the key in a WebSocket client's offered subprotocols, or ""."""
    names = (name.strip() for name in offered.split(","))
    return next((name.removeprefix(_KEY_SUBPROTOCOL) for name in names if is_key_subprotocol(name)), "")


def _basic_password(encoded: str) -> list[str]:
    try:
        user, _, password = b64decode(encoded).decode().partition(":")
    except ValueError:
        return []
    return [password, f"{user}:{password}"]


def unpacked_body(request: HttpRequest) -> bytes:
    """Return the body of a request as it was before its `content-encoding`.

    Raises:
        PackedBodyError: it cannot be unpacked.
    """
    encoding = request.headers.get("content-encoding", "")
    return unpack_body(request.body, encoding) if encoding else request.body


Operation = Literal["generate", "count_tokens", "embed", "models", "other"]


class ApiRoute(Struct, frozen=True):
    """The endpoint of a path. `protocol` names the codec of a `generate`; others are plain HTTP, or one exchange of a
    WebSocket.
    """

    vendor: VendorName
    operation: Operation
    protocol: str = PLAIN_HTTP

    @property
    def codec(self) -> Codec | None:
        """The codec of a `generate`."""
        return None if self.protocol in (PLAIN_HTTP, WEBSOCKET) else codec_of(self.protocol)

    @property
    def any_codec(self) -> Codec:
        """The codec of the protocol, or else of the vendor, which encodes its errors."""
        return self.codec or VENDORS[self.vendor].codec


_POST_ROUTES = (
    (re.compile(r".*/chat/completions"), ApiRoute("openai", "generate", "openai_chat")),
    (re.compile(r"(?!.*/fim/).*/completions"), ApiRoute("openai", "generate", "openai_completions")),
    (re.compile(r".*/responses"), ApiRoute("openai", "generate", "openai_responses")),
    (re.compile(r"(.*/v1)?/messages"), ApiRoute("anthropic", "generate", "anthropic")),
    (re.compile(r".*:(streamG|g)enerateContent"), ApiRoute("google", "generate", "gemini")),
    (re.compile(r".*/model/.+/converse(-stream)?"), ApiRoute("bedrock", "generate", "bedrock")),
    (re.compile(r".*/model/.+/invoke(-with-response-stream)?"), ApiRoute("bedrock", "generate", "bedrock_anthropic")),
    (re.compile(r".*/model/.+/count-tokens"), ApiRoute("bedrock", "other")),
    (re.compile(r"/api/chat"), ApiRoute("ollama", "generate", "ollama")),
    (re.compile(r"/api/generate"), ApiRoute("ollama", "generate", "ollama_generate")),
    (re.compile(r"/api/embed(dings)?"), ApiRoute("ollama", "embed")),
    (re.compile(r"/api/show"), ApiRoute("ollama", "models")),
    (re.compile(r".*:(batchE|e)mbedContents?"), ApiRoute("google", "embed")),
    (re.compile(r".*:countTokens"), ApiRoute("google", "count_tokens")),
    (re.compile(r"(.*/v1)?/messages/count_tokens"), ApiRoute("anthropic", "count_tokens")),
    (re.compile(r".*/publishers/anthropic/models/count-tokens:rawPredict"), ApiRoute("vertex", "other")),
    (
        re.compile(r".*/publishers/anthropic/models/[^/]+:(streamR|r)awPredict"),
        ApiRoute("vertex", "generate", "anthropic"),
    ),
    (re.compile(r".*/responses/input_tokens"), ApiRoute("openai", "count_tokens")),
    (re.compile(r".*/embeddings"), ApiRoute("openai", "embed")),
)
_MODELS_PATH = re.compile(r"(.*/)?models(/.+)?|/api/(tags|ps|version)")
_GOOGLE_PATH = re.compile(r"/(v1alpha|v1beta|upload/v1beta)/")
_VERTEX_PATH = re.compile(r"(/v1[a-z0-9]*)?/(projects/[^/]+/locations/[^/]+/|publishers/)")
_ANTHROPIC_PROBE = "/api/hello"
_OLLAMA_PATH = re.compile(r"/api/(?!v\d)")


def route_of(method: str, path: str, headers: Mapping[str, str]) -> ApiRoute:
    """Return the endpoint that `method` calls at `path`."""
    if method == "POST":
        for pattern, route in _POST_ROUTES:
            if pattern.fullmatch(path):
                return ApiRoute(_cloud_at(path) or route.vendor, route.operation, route.protocol)
    operation: Operation = "models" if method == "GET" and _MODELS_PATH.fullmatch(path) else "other"
    return ApiRoute(_vendor_at(path, headers), operation)


def _cloud_at(path: str) -> VendorName | None:
    """Return the cloud that serves others' models at such a path, or None for the vendor itself."""
    if path.startswith("/openai/"):
        return "azure"
    return "vertex" if _VERTEX_PATH.match(path) else None


def _vendor_at(path: str, headers: Mapping[str, str]) -> VendorName:
    """Return the vendor by headers, where the path alone does not show it."""
    if (cloud := _cloud_at(path)) is not None:
        return cloud
    if "anthropic-version" in headers or "anthropic-beta" in headers or path == _ANTHROPIC_PROBE:
        return "anthropic"
    if _GOOGLE_PATH.match(path) or "x-goog-api-key" in headers or "x-goog-api-client" in headers:
        return "google"
    if "x-amz-date" in headers:
        return "bedrock"
    return "ollama" if _OLLAMA_PATH.match(path) else "openai"


MAX_CACHED_BYTES = 16 * 1024 * 1024
MAX_CACHED = 4096
_BOUNDARY = re.compile(r'multipart/[^;]+;.*boundary="?([^";\s]+)"?', re.IGNORECASE)


class SentRequest(Struct, frozen=True, dict=True):
    """A model request as sent: the protocol of its path, its path with the query, and its body.

    It is judged once: clients repeat requests, and their parser keeps them.
    """

    protocol: str
    path: str
    body: bytes

    def refusal(self, *, has_real_answers: bool) -> RuleRefusal | None:
        """Return the vendor's refusal of the request, or None if no rule applies."""
        return self._refusal_after_real_answers if has_real_answers else self._refusal

    @cached_property
    def _refusal(self) -> RuleRefusal | None:
        return self._judge(has_real_answers=False)

    @cached_property
    def _refusal_after_real_answers(self) -> RuleRefusal | None:
        return self._judge(has_real_answers=True)

    def _judge(self, *, has_real_answers: bool) -> RuleRefusal | None:
        from offbook.codecs.rules import refusal_of  # noqa: PLC0415 - only requests that are not recorded need it

        try:
            request = WireRequest(self.path, _json_object(self.body))
            return refusal_of(self.protocol, request, has_real_answers=has_real_answers)
        except (RequestError, RecursionError):  # it is not JSON, or nested too deep
            return None


class ParsedRequest(Struct, frozen=True):
    """A parsed request. `fields` is its content as canonical JSON, `request_hash` its fingerprint.

    `request` is set if a codec decoded it; `problem` is the reason why a codec failed. `wants_usage` and `is_array` are
    options of streaming clients outside the fingerprint. `is_message` if it was sent over a WebSocket after the
    handshake. `sent` is set if the path is a model call's. `renames` are the names of folders in its answer.
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
    is_message: bool = False
    sent: SentRequest | None = None
    renames: Renames = NO_RENAMES

    @property
    def is_streamed(self) -> bool:
        return self.request is not None and self.request.stream

    @property
    def protocol(self) -> str:
        return self.route.protocol

    @property
    def vendor(self) -> str:
        return self.route.vendor

    @property
    def body(self) -> Any:
        """The body of a request that no codec has decoded: its JSON, or its text."""
        return orjson.loads(self.fields).get("body")

    @property
    def model(self) -> str:
        """The model that the request names, or ""."""
        if self.request is not None:
            return self.request.model
        body = self.body
        model = body.get("model") if isinstance(body, dict) else None
        return model if isinstance(model, str) else ""


class RequestParser:
    """Parses requests, and caches model calls: clients repeat them when they retry, and tests all the time."""

    def __init__(self, rules: NormaliseRules = NO_RULES) -> None:
        self.rules = rules
        self._cache: dict[tuple[str, str, bytes], ParsedRequest] = {}
        self._cached_bytes = 0

    def parse(self, request: HttpRequest) -> ParsedRequest:
        """Parse `request`. Never raises."""
        if "content-encoding" in request.headers:
            return parse_request(request, self.rules)
        key = (request.path, request.query, request.body)
        parsed = self._cache.get(key) if request.method == "POST" else None
        if parsed is None:
            parsed = parse_request(request, self.rules)
            if parsed.request is not None:
                self._add_to_cache(key, parsed)
        return parsed

    def _add_to_cache(self, key: tuple[str, str, bytes], parsed: ParsedRequest) -> None:
        if self._cached_bytes + len(key[2]) > MAX_CACHED_BYTES or len(self._cache) >= MAX_CACHED:
            self._cache.clear()
            self._cached_bytes = 0
        self._cache[key] = parsed
        self._cached_bytes += len(key[2])


def parse_request(request: HttpRequest, rules: NormaliseRules = NO_RULES) -> ParsedRequest:
    """Parse `request`. Never raises."""
    route = route_of(request.method, request.path, request.headers)
    try:
        request = replace(request, body=unpacked_body(request)) if "content-encoding" in request.headers else request
    except PackedBodyError as error:
        return _parse_packed(request, ApiRoute(route.vendor, route.operation), problem=str(error))
    if route.codec is None:
        return _parse_plain_http(request, route)
    target = f"{request.path}?{request.query}" if request.query else request.path
    sent = SentRequest(route.protocol, target, request.body)
    try:
        body = _json_object(request.body)
        model_request = route.codec.decode_request(WireRequest(target, body))
        request_hash, fields = identify(model_request, rules)
    except OtherProtocolError:
        return _parse_plain_http(request, ApiRoute(route.vendor, route.operation))
    except RequestError as error:
        plain = _parse_plain_http(request, ApiRoute(route.vendor, route.operation), problem=str(error))
        return replace(plain, sent=sent)
    return ParsedRequest(
        route=route,
        place=request.path,
        request=model_request,
        request_hash=request_hash,
        fields=fields,
        wants_usage=_wants_usage(body),
        is_array=route.protocol == "gemini" and model_request.stream and "alt=sse" not in request.query,
        sent=sent,
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


def _parse_packed(request: HttpRequest, route: ApiRoute, *, problem: str) -> ParsedRequest:
    """Parse a request whose body cannot be unpacked. Only its digest is kept, because it may hold secrets."""
    encoding, digest = request.headers["content-encoding"], sha256(request.body).hexdigest()
    body = orjson.dumps({"content-encoding": encoding, "sha256": digest})
    return _parse_plain_http(replace(request, body=body), route, problem=problem)


def _parse_plain_http(request: HttpRequest, route: ApiRoute, *, problem: str = "") -> ParsedRequest:
    """Parse a request as HTTP alone. Keys in its query and multipart boundaries are not part of the fingerprint."""
    place = request.path + query_without_secrets(request.query)
    content = {"method": request.method, "path": place, "body": _json_or_text(request)}
    try:
        fields = canonical_bytes(content)
    except RequestError:  # JSON that is nested too deep to be encoded again is treated as text
        fields = canonical_bytes(content | {"body": _body_text(request)})
    return ParsedRequest(
        route=route,
        place=place,
        request=None,
        request_hash=sha256(fields).hexdigest(),
        fields=fields,
        problem=problem,
        method=request.method,
    )


def query_without_secrets(query: str) -> str:
    """Return a query with its `?`, without parameters that hold a key, or "" if it is empty."""
    pairs = parse_qsl(query, keep_blank_values=True)
    encoded = urlencode([(name, value) for name, value in pairs if name.lower() not in SECRET_QUERY])
    return f"?{encoded}" if encoded else ""


def _json_or_text(request: HttpRequest) -> Any:
    if not request.body:
        return None
    try:
        return orjson.loads(request.body)
    except orjson.JSONDecodeError:
        return _body_text(request)


def _body_text(request: HttpRequest) -> Any:
    boundary = _BOUNDARY.match(request.headers.get("content-type", ""))
    data = request.body if boundary is None else request.body.replace(boundary[1].encode("latin-1"), b"boundary")
    text = wire_text(data)
    return text if isinstance(text, str) else {"base64": b64encode(data).decode()}


T = TypeVar("T", bound=msgspec.Struct)


def read_body(body: object, shape: type[T], *, place: str = "") -> T:
    """Convert a JSON object to `shape`. Fields may also have their Python names; unknown fields are ignored.

    `place` is the path of the object in the body.

    Raises:
        RequestError: the body is not an object, or a field is missing or has the wrong type.
    """
    try:
        return convert(_with_wire_names(body, shape), shape)
    except msgspec.ValidationError as error:
        reason, path = explain_msgspec_error(error)
        if missing := re.fullmatch(r"the field (.*) is missing", reason):
            reason, path = "this field is missing", f"{path}.{missing[1]}"
        raise RequestError(reason, source="request body", place=f"{place}{path}".lstrip(".")) from None


def _with_wire_names(body: object, shape: type[T]) -> object:
    if not isinstance(body, dict):
        return body
    names = dict(zip(shape.__struct_fields__, shape.__struct_encode_fields__, strict=True))
    return {names.get(name, name): value for name, value in body.items()}
