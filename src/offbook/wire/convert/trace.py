"""Converts other tools' calls to a recording, and recorded requests to HTTP requests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import replace

from offbook.errors import InputError, RequestError
from offbook.messages import JsonObject, Request, Response
from offbook.providers.pricing import PriceTable
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange, recorded_calls
from offbook.recording.format.file import parse_exchange, parse_tool_exchange
from offbook.recording.format.wire_record import BinaryText, wire_bytes
from offbook.recording.redact.redactor import Redactor
from offbook.vendors import CODEC_NAMES, PROVIDER_NAMES, VENDOR_OF, VENDORS, codec_of
from offbook.wire.proxy.recorder import ResponseCapture, build_exchange
from offbook.wire.request import HttpRequest, ParsedRequest, credentials_of, origin_of, parse_request, route_of
from offbook.wire.response import Frame

_MODEL_HOSTS = frozenset(urlsplit(vendor.base_url).hostname for vendor in VENDORS.values() if vendor.needs_key)
"""Hosts that serve only models. Ollama's is this machine."""
_MODEL_CALLS = frozenset(("generate", "embed", "count_tokens"))


class Unmapped(Struct, frozen=True):
    """A part of a file without an equivalent in the other format, and the reason."""

    place: str
    reason: str


class HttpCall(Struct, frozen=True, kw_only=True):
    """An HTTP exchange. The `frames` are the pieces of the body, decompressed, with their times in ms.

    `place` names it in its file. `key` and `request_hash` are set if an earlier recording had them.
    """

    place: str
    host: str
    request: HttpRequest
    status: int
    headers: Mapping[str, str]
    frames: tuple[Frame, ...]
    duration_ms: float = 0.0
    recorded_at: str = ""
    key: str = ""
    request_hash: str = ""


class TracedModelCall(Struct, frozen=True, kw_only=True):
    """A model call with known messages but unknown bytes. `provider` is one of ours."""

    place: str
    provider: str
    request: Request
    response: Response
    latency_ms: float = 0.0
    recorded_at: str = ""


class AnyRequestCall(Struct, frozen=True, kw_only=True):
    """A model call with only a known answer. It answers any request, in the order of the file."""

    place: str
    key: str
    exchange: Exchange


class TracedToolCall(Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    place: str
    tool: str
    exchange: ToolExchange


AnyCall: TypeAlias = HttpCall | TracedModelCall | AnyRequestCall | TracedToolCall


class Trace(Struct, frozen=True):
    """The calls of a file in order, and its unmapped parts. `enclosing` counts spans that add nothing to calls."""

    calls: tuple[AnyCall, ...]
    unmapped: tuple[Unmapped, ...] = ()
    enclosing: int = 0


def read_each(
    items: Sequence[Any], noun: str, read: Callable[[Any, str], AnyCall | Unmapped], *, otherwise: str
) -> Trace:
    """Return the calls of a file's items. `read` returns the call of an item at a place, or the reason for having none.

    An item of an unexpected shape is not mapped; the reason begins with `otherwise`.
    """
    calls, unmapped = list[AnyCall](), list[Unmapped]()
    for number, item in enumerate(items, 1):
        try:
            found = read(item, f"{noun} {number}")
        except (TypeError, KeyError, AttributeError, ValueError) as error:
            found = Unmapped(f"{noun} {number}", f"{otherwise}: {error!r}")
        if isinstance(found, Unmapped):
            unmapped.append(found)
        else:
            calls.append(found)
    return Trace(tuple(calls), tuple(unmapped))


def record_trace(trace: Trace, document: Document, *, redactor: Redactor) -> list[Unmapped]:
    """Add the calls of a trace to a recording, without secrets, and return the unmapped parts."""
    unmapped, prices = list(trace.unmapped), PriceTable.default()
    for call in trace.calls:
        try:
            _record(call, document, redactor, prices)
        except (InputError, ValueError, TypeError) as error:  # what a recording could not hold
            reason = error.reason if isinstance(error, InputError) else str(error)
            unmapped.append(Unmapped(call.place, redactor.text(reason)))
    return unmapped


def _record(call: AnyCall, document: Document, redactor: Redactor, prices: PriceTable) -> None:
    """Add a call to a recording. Raises InputError, ValueError or TypeError if a recording cannot hold it."""
    if isinstance(call, TracedToolCall):
        tool, ran = redactor.text(call.tool), redactor.redact_tool(call.exchange)
        parse_tool_exchange(tool, msgspec.json.encode(ran), source=call.place)
        document.add_tool(tool, ran)
        return
    if isinstance(call, AnyRequestCall):
        key, exchange = call.key, call.exchange
    elif isinstance(call, TracedModelCall):
        key, exchange = _model_exchange(call, prices)
    else:
        key, exchange = _http_exchange(call, prices)
        redactor = redactor.knowing(credentials_of(call.request))
    clean = redactor.redact(exchange)
    parse_exchange(key, msgspec.json.encode(clean), source=call.place)
    if isinstance(call, AnyRequestCall):
        document.entries.setdefault(key, [])
    document.add(key, clean)


def _http_exchange(call: HttpCall, prices: PriceTable) -> tuple[str, Exchange]:
    parsed = parse_request(call.request)
    if parsed.route.operation not in _MODEL_CALLS and call.host not in _MODEL_HOSTS:
        raise RequestError(f"not a request to an API of models: {call.request.method} {call.host}{call.request.path}")
    exchange = _exchange_of(call, parsed, prices)
    return call.key or exchange.request_hash or parsed.request_hash, exchange


def _exchange_of(call: HttpCall, parsed: ParsedRequest, prices: PriceTable) -> Exchange:
    clock = _TraceClock()
    capture = ResponseCapture(parsed, clock)
    capture.start(call.status, {name: value for name, value in call.headers.items() if name != "content-encoding"})
    for at_ms, data in call.frames:
        clock.now_ms = at_ms
        capture.feed(data)
    clock.now_ms = max(clock.now_ms, call.duration_ms)
    made_at = datetime.fromisoformat(call.recorded_at) if call.recorded_at else None
    exchange = build_exchange(parsed, capture.end("complete"), prices=prices, made_at=made_at)
    request_hash = call.request_hash or exchange.request_hash
    return replace(exchange, recorded_at=call.recorded_at or None, request_hash=request_hash)


class _TraceClock:
    """The time since the start of a finished call, in ms."""

    now_ms = 0.0

    def monotonic_s(self) -> float:
        return self.now_ms / 1000.0

    def utc_now(self) -> datetime:
        return datetime.fromtimestamp(0.0, UTC)

    async def sleep_s(self, delay_s: float) -> None:
        self.now_ms += delay_s * 1000.0


def _model_exchange(call: TracedModelCall, prices: PriceTable) -> tuple[str, Exchange]:
    parsed = parse_request(http_request_of(call.request, call.provider))
    if parsed.request is None:
        raise RequestError(parsed.problem or "its request is not complete")
    response = call.response
    model = response.model or call.request.model
    at = datetime.fromisoformat(call.recorded_at) if call.recorded_at else None
    exchange = Exchange(
        content=response.content,
        model=model,
        provider=call.provider,
        usage=response.usage,
        cost_usd=prices.cost_usd(call.provider, model, response.usage, at=at),
        latency_ms=call.latency_ms,
        finish_reason=response.finish_reason,
        tool_calls=recorded_calls(response.tool_calls),
        reasoning=response.reasoning,
        recorded_at=call.recorded_at or None,
        request_hash=parsed.request_hash,
        request=Raw(parsed.fields),
    )
    return parsed.request_hash, exchange


def http_request_of(request: Request, provider: str, *, protocol: str = "") -> HttpRequest:
    """Return the HTTP request that a client of the provider sends for `request`, in its main protocol or in another.

    Raises:
        RequestError: the protocol of the provider cannot express it.
    """
    vendor = VENDOR_OF[provider]
    wire = codec_of(protocol or CODEC_NAMES[provider]).encode_request(request)
    path, _, query = wire.path.partition("?")
    root = urlsplit(vendor.base_url + vendor.api_path).path
    return HttpRequest("POST", root + path, query, {"content-type": "application/json"}, orjson.dumps(wire.body))


def ended_at(started: str, duration_ms: float) -> str:
    """Return the end of a call that started at an ISO 8601 moment, in the format of recordings, or "" for an invalid
    moment.
    """
    try:
        moment = datetime.fromisoformat(started)
        ended = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        return (ended + timedelta(milliseconds=duration_ms)).isoformat(timespec="microseconds")
    except (ValueError, OverflowError):
        return ""


def header_map(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return headers by their lower-case names; several of one name are joined, and HTTP/2's own are left out."""
    joined: dict[str, str] = {}
    for name, value in headers:
        lowered = name.lower()
        if not lowered.startswith(":"):
            joined[lowered] = f"{joined[lowered]}, {value}" if lowered in joined else value
    return joined


def in_order(document: Document) -> list[tuple[str, Exchange]]:
    """Return the exchanges in the order of recording. Those without a time come first."""
    return sorted(document, key=lambda item: item[1].recorded_at or "")


def recorded_request(exchange: Exchange) -> tuple[str, HttpRequest]:
    """Return the scheme and host of a recorded request, and the request in the protocol that it was recorded in.

    Raises:
        RequestError: the protocol cannot express it.
    """
    http = exchange.http_fields()
    if http is not None:
        path, _, query = str(http["path"]).partition("?")
        vendor = VENDORS[route_of(str(http["method"]), path, {}).vendor]
        request = HttpRequest(str(http["method"]), path, query, {"content-type": "application/json"}, _plain_body(http))
        return origin_of(vendor.base_url), request
    fields = exchange.request_fields()
    if fields is None:
        raise RequestError("it does not say which request it answers")
    provider = provider_of(exchange)
    protocol = "" if exchange.wire is None else exchange.wire.protocol
    request = http_request_of(model_request(fields, exchange, provider), provider, protocol=protocol)
    is_array = exchange.wire is not None and exchange.wire.headers.get("content-type", "").startswith(
        "application/json"
    )
    if provider == "google" and is_array:
        request = replace(request, query="")
    return origin_of(VENDOR_OF[provider].base_url), request


def provider_of(exchange: Exchange) -> str:
    """Return our name of the provider whose protocol an exchange was recorded in."""
    if exchange.wire is not None:
        return PROVIDER_NAMES[exchange.wire.protocol]
    return exchange.provider if exchange.provider in CODEC_NAMES else "openai"


def model_request(fields: JsonObject, exchange: Exchange, provider: str) -> Request:
    """Return the request of an exchange, streamed if its answer is."""
    is_streamed = exchange.chunks is not None if exchange.wire is None else exchange.wire.is_streamed
    extra = dict(fields.get("extra") or {})
    if provider == "openai" and is_streamed and exchange.usage is not None and exchange.usage.total_tokens:
        extra["stream_options"] = {"include_usage": True}
    return Request(
        tuple(fields["messages"]),
        fields.get("model", ""),
        temperature=fields.get("temperature"),
        max_tokens=fields.get("max_tokens"),
        tools=tuple(fields.get("tools") or ()),
        tool_choice=fields.get("tool_choice"),
        extra=extra,
        stream=is_streamed,
    )


def _plain_body(http: JsonObject) -> bytes:
    body = http.get("body")
    if body is None:
        return b""
    if isinstance(body, dict) and body.keys() == {"base64"}:
        return wire_bytes(BinaryText(body["base64"]))
    return body.encode() if isinstance(body, str) else orjson.dumps(body)
