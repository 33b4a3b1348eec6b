"""Checks that the recorded HTTP response of an exchange agrees with its fields."""

from __future__ import annotations

import re
from typing import Any

import orjson

from offbook.codecs.base import Codec
from offbook.codecs.framing import encode_sse_event
from offbook.errors import ProviderError
from offbook.messages import Response, ToolCall
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import PLAIN_HTTP, WireRecord, json_documents
from offbook.text import printable, suggestion
from offbook.vendors import CODECS

_STREAMED = re.compile(r"text/event-stream|application/(x-ndjson|jsonl)")


def disagreement(exchange: Exchange) -> str:
    """Return how the bytes of a response differ from the fields of its exchange; empty if they agree.

    A call that failed, and one that is not a model call, has no fields to compare.
    """
    record = exchange.wire
    if record is None or record.protocol == PLAIN_HTTP or exchange.fault is not None:
        return ""
    codec = CODECS.get(record.protocol)
    if codec is None:
        known = suggestion(record.protocol, [*CODECS, PLAIN_HTTP], kind="protocols")
        return f"the protocol {ascii(record.protocol)[:60]} is unknown; {known}"
    if record.status >= 400:
        return f"the status is {record.status}, but the fields have a response"
    try:
        response = _decoded_response(record, codec)
    except ProviderError as error:
        return printable(f"the bytes are not a response of {record.protocol}: {error}")
    recorded = _compared_fields(exchange.response(model="", provider=""))
    differing = [name for name, value in _compared_fields(response).items() if value != recorded[name]]
    return f"the bytes differ from the fields: {', '.join(differing)}" if differing else ""


def _decoded_response(record: WireRecord, codec: Codec) -> Response:
    """Decode the response. Raise ProviderError if there is none."""
    content = record.content()
    if not record.is_streamed and not _STREAMED.match(record.headers.get("content-type", "")):
        return codec.decode_response(content)
    if content.lstrip().startswith(b"["):
        content = b"".join(encode_sse_event(orjson.dumps(document)) for document in json_documents(content))
    decoder = codec.stream_decoder()
    for _ in decoder.feed(content):
        pass
    return decoder.close()[1]


def _compared_fields(response: Response) -> dict[str, Any]:
    return {"content": response.content, "tool_calls": [_compared_call(call) for call in response.tool_calls]}


def _compared_call(call: ToolCall) -> tuple[str, Any]:
    return call.tool, call.args if call.raw_arguments is None else call.raw_arguments
