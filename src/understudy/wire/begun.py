"""A call that its session has taken on, before anything of its answer is sent."""

from __future__ import annotations

from msgspec import Struct

from understudy.wire.answer import Answer
from understudy.wire.http_call import HttpCall
from understudy.wire.session import WireSession
from understudy.wire.taken import Taken

BEGUN = "understudy.begun"
"""Where a scope has the call, if it was begun."""


class Begun(Struct, frozen=True, gc=False):
    """A call with its answer. Without one, only upstream can tell it. One that could not be taken is not `taken`."""

    session: WireSession
    call: HttpCall
    taken: Taken | None
    answer: Answer | None
