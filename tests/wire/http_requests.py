"""Calls of every protocol, and what recordings say of them."""

from __future__ import annotations

from typing import Any

import orjson

from offbook.codecs.event_stream import event_documents
from offbook.messages import Accumulator, JsonObject, Request, Response
from offbook.vendors import CODECS, VENDORS
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from offbook.wire.request import HttpRequest, ParsedRequest, parse_request
from offbook.wire.response import HttpResponse
from offbook.wire.session import WireSession

EVERY_PROTOCOL = tuple(CODECS)
PROMPT_PROTOCOLS = tuple(name for vendor in VENDORS.values() for name in vendor.prompt_codecs.values())
PROTOCOLS = tuple(name for name in CODECS if name not in PROMPT_PROTOCOLS)
"""The protocols of conversations, with tools."""
TOOL = {"type": "function", "function": {"name": "look_up", "parameters": {"type": "object", "properties": {}}}}


def request_of(text: str = "Hi", **fields: Any) -> Request:
    """A request of one message."""
    return Request(messages=({"role": "user", "content": text},), **{"model": "m", **fields})


def call_of(
    protocol: str = "openai_chat", text: str = "Hi", *, headers: dict[str, str] | None = None, **fields: Any
) -> HttpRequest:
    """A call by which a client of that protocol makes a request of one message."""
    return http_call(protocol, request_of(text, **fields), headers=headers)


def http_call(protocol: str, request: Request, *, headers: dict[str, str] | None = None) -> HttpRequest:
    """A call by which a client of that protocol makes the request."""
    wire = CODECS[protocol].encode_request(request)
    path, _, query = wire.path.partition("?")
    return HttpRequest("POST", path, query, headers or {}, orjson.dumps(wire.body))


def parsed_of(protocol: str = "openai_chat", text: str = "Hi", **fields: Any) -> ParsedRequest:
    """What such a call asks."""
    return parse_request(call_of(protocol, text, **fields))


def entry_of(call: HttpRequest, **fields: Any) -> JsonObject:
    """The entry of a recording that answers the call."""
    parsed_request = parse_request(call)
    return {"request_hash": parsed_request.request_hash, "request": orjson.loads(parsed_request.fields), **fields}


def recording_of(*entries: JsonObject, **steps: Any) -> JsonObject:
    """A recording in which the entries stand under the hashes of their requests, in lists, and the steps by name."""
    by_hash: dict[str, list[JsonObject]] = {}
    for entry in entries:
        by_hash.setdefault(entry["request_hash"], []).append(entry)
    return {"_version": 2, **by_hash, **steps}


def session_of(responses: JsonObject | None = None, **options: Any) -> WireSession:
    """A session that is answered from these responses."""
    return WireBackend(WireOptions(responses=responses or {}, **options)).sessions.named("")


def answer_to(session: WireSession, call: HttpRequest) -> HttpResponse:
    """What the session answers."""
    answer = session.answer(session.start(call))
    assert answer is not None
    return answer


def read(answer: HttpResponse, protocol: str = "openai_chat") -> Response:
    """The response that a client of that protocol reads from an answer."""
    assert answer.status == 200, answer.content
    return decode(answer.content, protocol, is_streamed=answer.is_streamed)


def decode(content: bytes, protocol: str = "openai_chat", *, is_streamed: bool) -> Response:
    """The response in the bytes of an answer."""
    if not is_streamed:
        return CODECS[protocol].decode_response(content)
    decoder, joined = CODECS[protocol].stream_decoder(), Accumulator()
    for delta in decoder.feed(content):
        joined.add(delta)
    deltas, response = decoder.close()
    for delta in deltas:
        joined.add(delta)
    assert joined.join(response) == response
    return response


def text_of(answer: HttpResponse, protocol: str = "openai_chat") -> str:
    """The text in an answer."""
    return read(answer, protocol).content


def error_in(answer: HttpResponse, protocol: str = "openai_chat") -> str:
    """The message in an error."""
    return CODECS[protocol].decode_error(answer.content)


def text_in(content: bytes) -> bytes:
    """The text of a body: of binary events, their JSON."""
    documents = event_documents(content)
    return content if documents is None else b"".join(documents)
