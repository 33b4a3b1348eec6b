"""Checks that what came over the wire says the same as the fields of its exchange."""

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
    """What the bytes of an answer say otherwise than its fields; empty if they say the same.

    What failed, and what is no call of a model, has no fields to compare with.
    """
    record = exchange.wire
    if record is None or record.protocol == PLAIN_HTTP or exchange.fault is not None:
        return ""
    codec = CODECS.get(record.protocol)
    if codec is None:
        known = suggestion(record.protocol, [*CODECS, PLAIN_HTTP], kind="protocols")
        return f"the protocol {ascii(record.protocol)[:60]} is unknown; {known}"
    if record.status >= 400:
        return f"the status is {record.status}, and the fields tell an answer"
    try:
        response = _decoded_response(record, codec)
    except ProviderError as error:
        return printable(f"the bytes are no answer of {record.protocol}: {error}")
    told = exchange.response(model="", provider="")
    differing = [name for name, value in _compared_fields(response).items() if value != _compared_fields(told)[name]]
    return f"the bytes say something else than the fields: {', '.join(differing)}" if differing else ""


def _decoded_response(record: WireRecord, codec: Codec) -> Response:
    """The response in the bytes. Raises ProviderError if there is none."""
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
