"""The control endpoints below /_offbook: start, inspect and delete sessions over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from offbook.errors import InputError
from offbook.faults import FaultPlan
from offbook.text import did_you_mean, suggestion
from offbook.version import __version__
from offbook.wire.backend import SessionRegistry, parse_fault_plan
from offbook.wire.session import WireSession

CONTROL_PREFIX = "/_offbook"
DEFAULT_SESSION = "default"
"""What the session without a name is called here, unless there is one of that very name."""

_ENDPOINTS = (
    f"GET {CONTROL_PREFIX}/health, GET {CONTROL_PREFIX}/sessions, and GET, PUT or DELETE {CONTROL_PREFIX}/sessions/NAME"
)
_EXAMPLE = 'like {"faults": ["call=3: http_error 500"]}'


class _SessionBody(Struct):
    """What a session is started with: faults, each like `call=3: http_error 500`."""

    faults: list[str] = field(default_factory=list)


def control_app(sessions: SessionRegistry) -> Starlette:
    """The endpoints below `/_offbook`."""

    def name_in(request: Request) -> str:
        name: str = request.path_params["name"]
        return "" if name == DEFAULT_SESSION and sessions.find(name) is None else name

    async def health(request: Request) -> Response:
        return _json_response({"status": "ok", "version": __version__})

    async def listing(request: Request) -> Response:
        return _json_response({"sessions": [session_summary(session) for session in sessions]})

    async def look(request: Request) -> Response:
        name = name_in(request)
        session = sessions.find(name) if name else sessions.named("")
        return _unknown_session(name, sessions) if session is None else _json_response(session_report(session))

    async def start(request: Request) -> Response:
        try:
            plan = _plan_in(await request.body() or b"{}")
        except InputError as error:
            return _error_json(error, 400)
        return _json_response(session_summary(sessions.start(name_in(request), plan)), 201)

    async def forget(request: Request) -> Response:
        name = name_in(request)
        return Response(status_code=204) if sessions.forget(name) or not name else _unknown_session(name, sessions)

    name = CONTROL_PREFIX + "/sessions/{name:path}"
    return Starlette(
        routes=[
            Route(CONTROL_PREFIX + "/health", health),
            Route(CONTROL_PREFIX + "/sessions", listing),
            Route(name, look, methods=["GET"]),
            Route(name, start, methods=["PUT"]),
            Route(name, forget, methods=["DELETE"]),
        ],
        exception_handlers={HTTPException: _not_found},
    )


def session_summary(session: WireSession) -> dict[str, Any]:
    """A session in numbers."""
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
    """A session call by call. What was asked of models is left out: it may be large, and secret."""
    calls = [
        {name: value for name, value in msgspec.to_builtins(call).items() if name != "request"}
        for call in session.calls
    ]
    unused = [msgspec.to_builtins(left) for left in session.unused()]
    misses = [msgspec.to_builtins(miss) for miss in session.misses]
    return session_summary(session) | {"calls": calls, "misses": misses, "unused": unused}


def _plan_in(body: bytes) -> FaultPlan:
    """The faults that a session is to be started with.

    Raises:
        InputError: the body is no such wish, or a fault cannot be read.
    """
    try:
        wish, given = (
            msgspec.json.decode(body, type=_SessionBody),
            msgspec.json.decode(body, type=dict[str, msgspec.Raw]),
        )
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"the body cannot be read: {error}", hint=_EXAMPLE) from None
    for name in given:
        if name not in _SessionBody.__struct_fields__:
            hint = did_you_mean(name, _SessionBody.__struct_fields__, kind="fields")
            raise InputError(f"unknown field {name!r}", hint=hint)
    return parse_fault_plan(wish.faults)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = InputError(f"there is no {request.method} {request.url.path}", hint=f"there is: {_ENDPOINTS}")
    return _error_json(told, error.status_code)


def _unknown_session(name: str, sessions: SessionRegistry) -> Response:
    names = [session.name or DEFAULT_SESSION for session in sessions]
    return _error_json(InputError(f"there is no session {name!r}", hint=suggestion(name, names, kind="sessions")), 404)


def _error_json(error: InputError, status: int) -> Response:
    return _json_response({"error": str(error)}, status)


def _json_response(value: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
