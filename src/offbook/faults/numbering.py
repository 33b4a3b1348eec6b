"""Counting calls: where each request stands among all that pass."""

from __future__ import annotations

from offbook.faults.site import Site
from offbook.messages import Request


class Numbering:
    """Gives every request its site, by the number of its call if it carries one, else by counting.

    A first attempt is a new call of its step. A later one belongs to the latest call that made the
    attempt before it with the same messages, else to the latest call at all.
    """

    def __init__(self) -> None:
        self._last_tries: dict[tuple[str, str | None], list[tuple[int, int]]] = {}
        self._overall: dict[tuple[str, str | None, int], int] = {}

    def site(self, request: Request) -> Site:
        call = request.call or self._counted(request)
        key = (request.workflow, request.step_id, call)
        overall = self._overall.setdefault(key, len(self._overall) + 1)
        return Site(*key, overall, request.attempt)

    def _counted(self, request: Request) -> int:
        tries = self._last_tries.setdefault((request.workflow, request.step_id), [])
        messages = hash(repr(request.messages))
        if request.attempt == 1 or not tries:
            tries.append((request.attempt, messages))
            return len(tries)
        before = (request.attempt - 1, messages)
        place = next((place for place in reversed(range(len(tries))) if tries[place] == before), len(tries) - 1)
        tries[place] = (request.attempt, messages)
        return place + 1
