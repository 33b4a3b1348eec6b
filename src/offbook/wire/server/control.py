"""The control endpoints below /_offbook: start, inspect and delete sessions, and report effects, over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook import __version__
from offbook.decoding import decode
from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.text import did_you_mean, suggestion
from offbook.tools.effects import parse_effects
from offbook.wire.backend import AcceptedCall, SessionRegistry, split_session_path
from offbook.wire.options import parse_fault_plan
from offbook.wire.request import HttpRequest
from offbook.wire.response import NO_ANSWER, HttpResponse, whole_response
from offbook.wire.session import WireSession

if TYPE_CHECKING:
    from offbook.wire.tools import ToolAnswer, ToolMessage

CONTROL_PREFIX = "/_offbook"
DEFAULT_SESSION = "default"
"""The name of the unnamed session here, unless a session has that name."""

_SESSIONS = f"{CONTROL_PREFIX}/sessions"
_EFFECTS = f"{CONTROL_PREFIX}/effects"
TOOLS_PATH = f"{CONTROL_PREFIX}/tools"
"""The path at which a program asks about its tool calls."""
_ENDPOINTS = f"GET {CONTROL_PREFIX}/health, GET {_SESSIONS}, GET, PUT or DELETE {_SESSIONS}/NAME, and POST {_EFFECTS}"
_EXAMPLE = 'like {"faults": ["call=3: http_error 500"]}'


class _SessionBody(Struct):
    """The body that starts a session: faults, each like `call=3: http_error 500`."""

    faults: list[str] = field(default_factory=list)


async def control_response(request: HttpRequest, sessions: SessionRegistry, *, has_peers: bool = False) -> HttpResponse:
    """Answer a request below `/_offbook`. One of several processes does not know the others' calls."""
    path = split_session_path(request.path)[1]
    if path in (_EFFECTS, TOOLS_PATH):
        is_effects = path == _EFFECTS
        return _answer_effects(request, sessions) if is_effects else await _answer_tools(request, sessions)
    request = replace(request, path=path)
    method = "GET" if request.method == "HEAD" else request.method
    if has_peers and (request.path == _SESSIONS or request.path.startswith(f"{_SESSIONS}/")):
        reason = "several processes answer, and each knows its own calls alone"
        hint = "start another session by another name, or use one process"
        return _error_json(InputError(reason, hint=hint), 409)
    prefix, slash, name = request.path.partition(f"{_SESSIONS}/")
    if slash and not prefix:
        return _answer_session(method, name, request, sessions)
    is_known = request.path in (f"{CONTROL_PREFIX}/health", _SESSIONS)
    if not is_known or method != "GET":
        return _no_endpoint(request, 405 if is_known else 404)
    if request.path == _SESSIONS:
        return _json_response({"sessions": [session_summary(session) for session in sessions]})
    return _json_response({"status": "ok", "version": __version__})


def _answer_session(method: str, name: str, request: HttpRequest, sessions: SessionRegistry) -> HttpResponse:
    name = "" if name == DEFAULT_SESSION and sessions.find(name) is None else name
    match method:
        case "GET":
            session = sessions.find(name) if name else sessions.named("")
            return _unknown_session(name, sessions) if session is None else _json_response(session_report(session))
        case "PUT":
            try:
                plan = _parse_plan(request.body or b"{}", has_tools=sessions.has_tools)
            except InputError as error:
                return _error_json(error, 400)
            return _json_response(session_summary(sessions.start(name, plan)), 201)
        case "DELETE":
            is_gone = sessions.forget(name) or not name
            return HttpResponse(204) if is_gone else _unknown_session(name, sessions)
        case _:
            return _no_endpoint(request, 405)


def _answer_effects(request: HttpRequest, sessions: SessionRegistry) -> HttpResponse:
    """Note effects that the program of a session reports."""
    if request.method != "POST":
        return _no_endpoint(request, 405)
    session = sessions.for_request(request)[0]
    try:
        is_killed = session.add_effects(parse_effects(request.body, source=_EFFECTS))
    except InputError as error:
        session.refused_effects.append(error)
        return _error_json(error, 400)
    return NO_ANSWER if is_killed else HttpResponse(204)


def accept_tools(request: HttpRequest, sessions: SessionRegistry) -> AcceptedCall | None:
    """Answer the questions of a session's program about its tools.

    Returns None for any other request, and if the answer may have to wait; nothing has happened then.
    """
    if not request.path.endswith(TOOLS_PATH) or split_session_path(request.path)[1] != TOOLS_PATH:
        return None
    session = sessions.for_request(request)[0]
    tools = sessions.tools_of(session)
    message = None if tools is None or tools.may_wait else _tool_message(request)
    if tools is None or message is None:
        return None
    return AcceptedCall(session, request, None, _tool_response(tools.answer(message)))


async def _answer_tools(request: HttpRequest, sessions: SessionRegistry) -> HttpResponse:
    """Like `accept_tools`, and wait for the answer."""
    tools = sessions.tools_of(sessions.for_request(request)[0])
    if request.method != "POST" or tools is None:
        return _no_endpoint(request, 404 if tools is None else 405)
    message = _tool_message(request)
    if message is None:
        return _error_json(InputError("the body is not what a program asks about its tools"), 400)
    return _tool_response(await tools.answer_in_order(message))


def _tool_message(request: HttpRequest) -> ToolMessage | None:
    """Return a program's question, or None if its body cannot be read."""
    from offbook.wire.tools import ToolMessage  # noqa: PLC0415 - only programs that we start have such tools

    try:
        return decode(request.body, ToolMessage)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _tool_response(answer: ToolAnswer | None) -> HttpResponse:
    return NO_ANSWER if answer is None else whole_response(200, msgspec.json.encode(answer))


def session_summary(session: WireSession) -> dict[str, Any]:
    """Return the counts of a session."""
    return {
        "name": session.name,
        "call_count": session.call_count,
        "try_count": session.outcomes.total(),
        "miss_count": len(session.misses),
        "unused_count": len(session.unused()),
        "fired": [str(planned) for planned in session.fired],
        "unfired": [str(planned) for planned in session.unfired()],
    }


def session_report(session: WireSession) -> dict[str, Any]:
    """Return a session call by call. Model requests are left out, as they may be large or secret."""
    calls = [
        {name: value for name, value in msgspec.to_builtins(call).items() if name != "request"}
        for call in session.calls
    ]
    unused = [msgspec.to_builtins(entry) for entry in session.unused()]
    misses = [msgspec.to_builtins(miss) for miss in session.misses]
    effects = [msgspec.to_builtins(effect) for effect in session.effects]
    return session_summary(session) | {"calls": calls, "misses": misses, "unused": unused, "effects": effects}


def _parse_plan(body: bytes, *, has_tools: bool) -> FaultPlan:
    """Parse the faults of a session to be started.

    Raises:
        InputError: the body is invalid, or a fault cannot be parsed.
    """
    try:
        parsed = decode(body, _SessionBody)
        names = decode(body, dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body cannot be read: {error}", hint=_EXAMPLE) from None
    for name in names:
        if name not in _SessionBody.__struct_fields__:
            hint = did_you_mean(name, _SessionBody.__struct_fields__, kind="fields")
            raise InputError(f"unknown field {name!r}", hint=hint)
    return parse_fault_plan(parsed.faults, has_tools=has_tools)


def _no_endpoint(request: HttpRequest, status: int) -> HttpResponse:
    error = InputError(f"there is no {request.method} {request.path}", hint=f"there is: {_ENDPOINTS}")
    return _error_json(error, status)


def _unknown_session(name: str, sessions: SessionRegistry) -> HttpResponse:
    names = [session.name or DEFAULT_SESSION for session in sessions]
    return _error_json(InputError(f"there is no session {name!r}", hint=suggestion(name, names, kind="sessions")), 404)


def _error_json(error: InputError, status: int) -> HttpResponse:
    return _json_response({"error": str(error)}, status)


def _json_response(value: dict[str, Any], status: int = 200) -> HttpResponse:
    return whole_response(status, orjson.dumps(value))
