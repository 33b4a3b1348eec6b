"""The HTTP requests that a recording answers, made again from what it keeps of them."""

from __future__ import annotations

import orjson
from msgspec.structs import replace

from offbook.errors import RequestError
from offbook.messages import JsonObject, Request
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import BinaryText, wire_bytes
from offbook.vendors import CODEC_NAMES, PROVIDER_NAMES, VENDOR_OF, VENDORS
from offbook.wire.convert.trace import http_request_of
from offbook.wire.request import HttpRequest, origin_of, route_of


def in_order(document: Document) -> list[tuple[str, Exchange]]:
    """Return the exchanges in the order in which they were recorded; those without a moment come first."""
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
    """Return our name of the provider in whose protocol an exchange was recorded."""
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
