"""The runs that a server answers, by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from urllib.parse import quote, unquote

from msgspec.structs import replace

from offbook.faults import FaultPlan
from offbook.wire.call_count import NO_FAULTS
from offbook.wire.http_call import HttpCall
from offbook.wire.session import WireSession
from offbook.wire.totals import Totals

MAX_SESSIONS = 10_000
SESSION_HEADER = "x-offbook-session"
_PREFIX = re.compile(r"/s/([^/]{1,2000})(/.*)", re.DOTALL)


def split_path(path: str) -> tuple[str, str]:
    """The session that a path names, empty if it names none, and the path within it. Its name may be quoted."""
    prefixed = _PREFIX.fullmatch(path) if path.startswith("/s/") else None
    return ("", path) if prefixed is None else (unquote(prefixed[1]), prefixed[2])


def prefix_of(name: str) -> str:
    """What the paths of a session begin with. It is quoted twice, since servers read a quoted slash as a slash."""
    return f"/s/{quote(quote(name, safe=''), safe='')}"


class Sessions:
    """Makes a session when its name is first used; one that nobody started has the plan that the server was given.

    Beyond 10,000 the oldest is forgotten. `past` counts what became of those that are gone.
    """

    def __init__(self, make: Callable[[str, FaultPlan], WireSession], plan: FaultPlan = NO_FAULTS) -> None:
        self._make, self._plan = make, plan
        self.past = Totals()
        self._sessions: dict[str, WireSession] = {}

    def of(self, call: HttpCall) -> tuple[WireSession, HttpCall]:
        """The session that the call belongs to, by its path or header, and the call without that."""
        name, path = split_path(call.path)
        if name:
            return self.named(name), replace(call, path=path)
        return self.named(call.headers.get(SESSION_HEADER, "")), call

    def named(self, name: str) -> WireSession:
        """The session of that name, made if there is none."""
        session = self._sessions.get(name)
        return self.start(name, self._plan) if session is None else session

    def find(self, name: str) -> WireSession | None:
        """The session of that name, if there is one."""
        return self._sessions.get(name)

    def start(self, name: str, plan: FaultPlan) -> WireSession:
        """A new session of that name, in the place of the one that may be there."""
        return self.add(self._make(name, plan))

    def add(self, session: WireSession) -> WireSession:
        """The session, from now on the one of its name."""
        self.forget(session.name)
        if len(self._sessions) >= MAX_SESSIONS:
            self.forget(next(iter(self._sessions)))
        self._sessions[session.name] = session
        return session

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, in all sessions from now on."""
        self._plan = plan
        for session in self:
            session.follow(plan)

    def forget(self, name: str) -> bool:
        """Whether there was a session of that name, which is no more."""
        session = self._sessions.pop(name, None)
        if session is not None:
            self.past.add(session)
        return session is not None

    def __iter__(self) -> Iterator[WireSession]:
        return iter(list(self._sessions.values()))
