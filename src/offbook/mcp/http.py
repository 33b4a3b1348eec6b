"""MCP over Streamable HTTP: one endpoint of one session, in both eras; an answer becomes JSON or server-sent events."""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from offbook.codecs.framing import encode_sse_event
from offbook.mcp.answer import McpAnswer, error_answer, whole_answer
from offbook.mcp.message import (
    CAPABILITIES_META,
    HANDSHAKE_VERSIONS,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MODERN_VERSIONS,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
    VERSION_META,
    Message,
    MessageError,
    error_message,
    parse_message,
)
from offbook.mcp.session import McpSession
from offbook.wire.request import HttpRequest
from offbook.wire.response import JSON_TYPE, HttpResponse

SSE_TYPE = "text/event-stream"
SESSION_ID = "mcp-session-id"
VERSION_HEADER = "mcp-protocol-version"
SESSION_NOT_FOUND = -32001
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}
"""The parameter that the header `Mcp-Name` repeats, by method."""

_ERROR_STATUS = {PARSE_ERROR: 400, INVALID_REQUEST: 400, INVALID_PARAMS: 400, -32021: 400, METHOD_NOT_FOUND: 404} | {
    HEADER_MISMATCH: 400,
    UNSUPPORTED_VERSION: 400,
}
_SSE_HEADERS = {"content-type": SSE_TYPE, "cache-control": "no-cache"}
_BASE64_VALUE = re.compile(r"=\?base64\?(.*)\?=")


class HttpEndpoint:
    """Answers the HTTP requests of one session to one server from its recording, statelessly for modern clients."""

    def __init__(self, session: McpSession) -> None:
        self.session = session
        self._ids: set[str] = set()

    def respond(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request."""
        match request.method:
            case "POST":
                message = self._accept(request)
                return (
                    message
                    if isinstance(message, HttpResponse)
                    else self._to_http(self._answer(message), message, request.headers)
                )
            case "GET" | "DELETE":
                return self._get_or_delete(request)
            case _:
                return _not_allowed("GET, POST, DELETE")

    def _get_or_delete(self, request: HttpRequest) -> HttpResponse:
        session_id = request.headers.get(SESSION_ID)
        if session_id is None or request.headers.get(VERSION_HEADER) in MODERN_VERSIONS:
            return _not_allowed("POST")
        if session_id not in self._ids:
            return _gone(None)
        if request.method == "DELETE":
            self._ids.discard(session_id)
            return HttpResponse(200)
        return HttpResponse(200, _SSE_HEADERS, is_streamed=True, ending="silence", end_ms=float("inf"))

    async def respond_after_work(self, request: HttpRequest) -> HttpResponse:
        """Return the response to a request whose answer may take time."""
        message = self._accept(request) if request.method == "POST" else self.respond(request)
        if isinstance(message, HttpResponse):
            return message
        answer = self._answer(message)
        return self._to_http(answer if answer.work is None else await answer.work(), message, request.headers)

    def _accept(self, request: HttpRequest) -> Message | HttpResponse:
        """Return the message that is to be answered, or the response to one that is not."""
        try:
            message = parse_message(request.body)
        except MessageError as error:
            is_json = "not JSON:" not in str(error)
            reason = "Invalid Request: one JSON-RPC message is expected" if is_json else f"Parse error: {error}"
            return _json(400, error_message(None, INVALID_REQUEST if is_json else PARSE_ERROR, reason))
        refusal = check_request(message, request.headers) or self._check_session(message, request.headers)
        if refusal is not None:
            return refusal
        return message if message.is_request else HttpResponse(202)

    def _answer(self, message: Message) -> McpAnswer:
        answer = self.session.answer(self.session.start(message))
        assert answer is not None, "a session that is not live answers everything"
        return answer

    def _check_session(self, message: Message, headers: Mapping[str, str]) -> HttpResponse | None:
        """Return why a request of the handshake era is refused, if it is."""
        if is_modern(message, headers) or message.method == "initialize":
            return None
        session_id = headers.get(SESSION_ID)
        if session_id is None:
            reason = "Bad Request: no session; start with initialize, or name the protocol version in _meta"
            return _json(400, error_message(message.id, INVALID_REQUEST, reason))
        return None if session_id in self._ids else _gone(message.id)

    def _to_http(self, answer: McpAnswer, request: Message, headers: Mapping[str, str]) -> HttpResponse:
        if answer.forgets_session:
            self._ids.discard(headers.get(SESSION_ID, ""))
        response = to_http(answer, request, accepts_sse=SSE_TYPE in headers.get("accept", SSE_TYPE))
        if request.method != "initialize":
            return response
        session_id = secrets.token_hex(16)
        self._ids.add(session_id)
        return replace(response, headers=response.headers | {SESSION_ID: session_id})


def to_http(answer: McpAnswer, request: Message, *, accepts_sse: bool = True) -> HttpResponse:
    """Return an answer as an HTTP response: JSON if it is one message that is due at once, else server-sent events."""
    if answer.ending == "exit":
        return HttpResponse(None, ending="reset")
    is_whole = answer.ending == "complete" and not answer.noise
    if is_whole and (len(answer.messages) == 1 or not accepts_sse):
        at_ms, raw = answer.messages[-1]
        status = _status(answer, raw) if request.era == "modern" else answer.status
        return HttpResponse(status, {"content-type": JSON_TYPE} | answer.headers, ((at_ms, raw),), end_ms=at_ms)
    if answer.ending == "silence" and not answer.messages:
        return HttpResponse(None, ending="silence", end_ms=answer.end_ms)
    frames = [(0.0, encode_sse_event(answer.noise, "message"))] if answer.noise else []
    frames += [(at_ms, encode_sse_event(raw, "message")) for at_ms, raw in answer.messages]
    return HttpResponse(
        answer.status,
        _SSE_HEADERS | answer.headers,
        tuple(frames),
        is_streamed=True,
        ending=answer.ending,
        end_ms=max(answer.end_ms, frames[-1][0] if frames else 0.0),
    )


def _status(answer: McpAnswer, raw: bytes) -> int:
    """Return the status of a modern answer: errors of the protocol have one of their own."""
    error = parse_message(raw).fields.get("error")
    code = error.get("code") if isinstance(error, dict) else None
    return _ERROR_STATUS.get(code, answer.status) if isinstance(code, int) else answer.status


def is_modern(message: Message, headers: Mapping[str, str]) -> bool:
    """Return whether a message over HTTP is of the modern era, by its header or by its `_meta`."""
    if message.method == "initialize":
        return False
    return headers.get(VERSION_HEADER) in MODERN_VERSIONS or message.era == "modern"


def check_request(message: Message, headers: Mapping[str, str]) -> HttpResponse | None:
    """Return why a message is refused for its headers, if it is: what a server of its era says."""
    version = headers.get(VERSION_HEADER)
    if not is_modern(message, headers):
        if version is None or version in HANDSHAKE_VERSIONS or message.method == "initialize":
            return None
        return _unsupported(message, version)
    if not message.is_request:
        return None
    answer = _check_modern(message, headers)
    return None if answer is None else to_http(answer, message)


def _check_modern(message: Message, headers: Mapping[str, str]) -> McpAnswer | None:
    version = message.meta.get(VERSION_META)
    missing = [name for name in (VERSION_META, CAPABILITIES_META) if name not in message.meta]
    if missing:
        return _refuse(message, INVALID_PARAMS, f"params._meta lacks {', '.join(missing)}")
    if headers.get(VERSION_HEADER) != version:
        return _refuse(message, HEADER_MISMATCH, f"the header {VERSION_HEADER} does not match the version in _meta")
    if headers.get("mcp-method") != message.method:
        return _refuse(message, HEADER_MISMATCH, "the header mcp-method does not match the method")
    named = message.params.get(_NAMED.get(message.method, ""))
    if named is not None and decode_header(headers.get("mcp-name")) != named:
        return _refuse(message, HEADER_MISMATCH, "the header mcp-name does not match the parameters")
    if version not in MODERN_VERSIONS:
        data = {"supported": list(MODERN_VERSIONS), "requested": version}
        return error_answer(message, UNSUPPORTED_VERSION, "Unsupported protocol version", data, status=400)
    return None


def _refuse(message: Message, code: int, reason: str) -> McpAnswer:
    return error_answer(message, code, reason, status=400)


def _unsupported(message: Message, version: str) -> HttpResponse:
    data = {"supported": [*HANDSHAKE_VERSIONS, *MODERN_VERSIONS], "requested": version}
    raw = error_message(message.id, UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    return _json(400, raw)


def decode_header(value: str | None) -> str | None:
    """Return the value of a header that may be wrapped as `=?base64?…?=`; None if it cannot be decoded."""
    wrapped = None if value is None else _BASE64_VALUE.fullmatch(value)
    if wrapped is None:
        return value
    try:
        return base64.b64decode(wrapped[1], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None


def encode_header(value: str) -> str:
    """Return a value for a header, wrapped as `=?base64?…?=` if it could not be sent as it is."""
    is_plain = value.isascii() and value.isprintable() and value == value.strip()
    if is_plain and not _BASE64_VALUE.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def _json(status: int, raw: bytes) -> HttpResponse:
    return HttpResponse(status, {"content-type": JSON_TYPE}, whole_answer(raw).messages)


def _gone(id: Any) -> HttpResponse:
    return _json(404, error_message(id, SESSION_NOT_FOUND, "Session not found"))


def _not_allowed(methods: str) -> HttpResponse:
    return HttpResponse(405, {"allow": methods})
