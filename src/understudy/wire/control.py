"""The server's own endpoints: sessions are started, looked at and forgotten over HTTP, from any language."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
from msgspec import Struct, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from understudy.errors import InputError
from understudy.version import __version__
from understudy.wire.session import WireSession
from understudy.wire.sessions import Sessions
from understudy.wire.stage import plan_of

PREFIX = "/_understudy"


class _Wish(Struct, forbid_unknown_fields=True):
    """What a session is started with: faults, each like `call=3: http_error 500`."""

    faults: list[str] = field(default_factory=list)


def control_app(sessions: Sessions) -> Starlette:
    """The endpoints below `/_understudy`."""

    async def health(request: Request) -> Response:
        return _json({"status": "ok", "version": __version__})

    async def listing(request: Request) -> Response:
        return _json({"sessions": [summary(session) for session in sessions]})

    async def look(request: Request) -> Response:
        session = sessions.find(request.path_params["name"])
        return _json({"error": "there is no such session"}, 404) if session is None else _json(report(session))

    async def start(request: Request) -> Response:
        try:
            wish = msgspec.json.decode(await request.body() or b"{}", type=_Wish)
            plan = plan_of(wish.faults)
        except (msgspec.DecodeError, UnicodeDecodeError, InputError) as error:
            return _json({"error": str(error)}, 400)
        return _json(summary(sessions.start(request.path_params["name"], plan)), 201)

    async def forget(request: Request) -> Response:
        known = sessions.forget(request.path_params["name"])
        return Response(status_code=204) if known else _json({"error": "there is no such session"}, 404)

    name = PREFIX + "/sessions/{name:path}"
    return Starlette(
        routes=[
            Route(PREFIX + "/health", health),
            Route(PREFIX + "/sessions", listing),
            Route(name, look, methods=["GET"]),
            Route(name, start, methods=["PUT"]),
            Route(name, forget, methods=["DELETE"]),
        ]
    )


def summary(session: WireSession) -> dict[str, Any]:
    """A session in numbers."""
    return {
        "name": session.name,
        "calls": len(session.calls),
        "misses": len(session.misses),
        "unused": len(session.unused()),
        "struck": [str(planned) for planned in session.fired],
        "unstruck": [str(planned) for planned in session.unstruck()],
    }


def report(session: WireSession) -> dict[str, Any]:
    """A session call by call. What was asked of models is left out: it may be large, and secret."""
    calls = [
        {name: value for name, value in msgspec.to_builtins(call).items() if name != "request"}
        for call in session.calls
    ]
    unused = [msgspec.to_builtins(left) for left in session.unused()]
    misses = [msgspec.to_builtins(miss) for miss in session.misses]
    return summary(session) | {"calls": calls, "misses": misses, "unused": unused}


def _json(value: dict[str, Any], status: int = 200) -> Response:
    return Response(orjson.dumps(value), status, media_type="application/json")
