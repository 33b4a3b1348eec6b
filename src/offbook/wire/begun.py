"""A call that its session has taken on, before anything of its answer is sent."""

from __future__ import annotations

import logging

from msgspec import Struct

from offbook.wire.answer import Answer
from offbook.wire.encoding import error_answer
from offbook.wire.http_call import HttpCall
from offbook.wire.route import route_of
from offbook.wire.session import WireSession
from offbook.wire.sessions import Sessions
from offbook.wire.taken import Taken

logger = logging.getLogger("offbook.wire")

BEGUN = "offbook.begun"
"""Where a scope has the call, if it was begun."""


class Begun(Struct, frozen=True, gc=False):
    """A call with its answer. Without one, only upstream can tell it. One that could not be taken is not `taken`."""

    session: WireSession
    call: HttpCall
    taken: Taken | None
    answer: Answer | None


def begin(sessions: Sessions, call: HttpCall) -> Begun:
    """Have the call taken on by its session. Never raises: what fails here is logged, and answered with a 500."""
    session, call = sessions.of(call)
    try:
        taken = session.take(call)
        return Begun(session, call, taken, session.answer(taken))
    except Exception:
        logger.exception("%s %s could not be answered", call.method, call.path)
        codec = route_of(call.method, call.path, call.headers).vendor_codec
        told = "the stand-in failed to answer; its log says why"
        return Begun(session, call, None, error_answer(codec, 500, told, headers={"x-should-retry": "false"}))
