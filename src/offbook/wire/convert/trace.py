"""What other tools have written about calls, and the recording that becomes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias
from urllib.parse import urlsplit

import msgspec
import orjson
from msgspec import Raw, Struct
from msgspec.structs import replace

from offbook.errors import InputError, RequestError
from offbook.messages import Request, Response
from offbook.providers.pricing import PriceTable
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange, recorded_calls
from offbook.recording.format.file import parse_exchange, parse_tool_exchange
from offbook.recording.redact.redactor import Redactor
from offbook.vendors import CODEC_NAMES, VENDOR_OF, VENDORS, codec_of
from offbook.wire.proxy.recorder import ResponseCapture, build_exchange
from offbook.wire.request import HttpRequest, ParsedRequest, credentials_of, parse_request
from offbook.wire.response import Frame

_MODEL_HOSTS = frozenset(urlsplit(vendor.base_url).hostname for vendor in VENDORS.values() if vendor.needs_key)
"""Hosts that serve nothing but models; Ollama's is this machine."""
_MODEL_CALLS = frozenset(("generate", "embed", "count_tokens"))


class Unmapped(Struct, frozen=True):
    """A part of a file that has no equivalent in the other format, and why."""

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


class ModelCall(Struct, frozen=True, kw_only=True):
    """A model call of which the messages are known, but not the bytes. `provider` is one of ours."""

    place: str
    provider: str
    request: Request
    response: Response
    latency_ms: float = 0.0
    recorded_at: str = ""


class AnyRequestCall(Struct, frozen=True, kw_only=True):
    """A model call of which only the answer is known: it answers any request, in the order of the file."""

    place: str
    key: str
    exchange: Exchange


class ToolRun(Struct, frozen=True, kw_only=True):
    """A call of a tool."""

    place: str
    tool: str
    exchange: ToolExchange


AnyCall: TypeAlias = HttpCall | ModelCall | AnyRequestCall | ToolRun


class Trace(Struct, frozen=True):
    """The calls in a file, in order, and what of it is not one. `enclosing` counts spans that add nothing to calls."""

    calls: tuple[AnyCall, ...]
    unmapped: tuple[Unmapped, ...] = ()
    enclosing: int = 0


def record_trace(trace: Trace, document: Document, *, redactor: Redactor) -> list[Unmapped]:
    """Add the calls of a trace to a recording, without secrets, and return what could not be mapped."""
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
    if isinstance(call, ToolRun):
        tool, ran = redactor.text(call.tool), redactor.redact_tool(call.exchange)
        parse_tool_exchange(tool, msgspec.json.encode(ran), source=call.place)
        document.add_tool(tool, ran)
        return
    if isinstance(call, AnyRequestCall):
        key, exchange = call.key, call.exchange
    elif isinstance(call, ModelCall):
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
    exchange = build_exchange(parsed, capture.end("complete"), prices=prices, recorded_at=call.recorded_at)
    request_hash = call.request_hash or exchange.request_hash
    return replace(exchange, recorded_at=call.recorded_at or None, request_hash=request_hash)


class _TraceClock:
    """The time of a call that is over, in ms since it began."""

    now_ms = 0.0

    def monotonic_s(self) -> float:
        return self.now_ms / 1000.0

    def utc_now(self) -> datetime:
        return datetime.fromtimestamp(0.0, UTC)

    async def sleep_s(self, delay_s: float) -> None:
        self.now_ms += delay_s * 1000.0


def _model_exchange(call: ModelCall, prices: PriceTable) -> tuple[str, Exchange]:
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
    """Return the moment when a call ended that started at an ISO 8601 moment, as recordings write it; empty if it is
    not one."""
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
