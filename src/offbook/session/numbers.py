"""Numbers all calls of a run: requests, model calls and their attempts, tool calls, reported effects."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Hashable, Iterator
from hashlib import blake2b
from itertools import count

from msgspec import Struct

from offbook.faults.site import Site, Step, ToolSite
from offbook.messages import JsonObject
from offbook.recording.format.exchange import hash_arguments

MAX_REMEMBERED_CALLS = 10_000
"""The number of remembered calls of a step, latest first, to which a later attempt may belong."""


class _KnownCall(Struct):
    """A model call: its number in the run, and its latest attempt."""

    overall: int
    attempt: int
    identity: Hashable


class CallNumbers:
    """Assigns every call of a run its site.

    A model request continues a call if it carries the number of the call, if it is known to be a later attempt, or if
    nothing is known and it repeats a failed request. Any other request is a new call of its step.

    A later attempt belongs to its step's latest call whose last attempt was the one before it with the same identity,
    else to the step's latest call. A repeated request belongs to the first call that failed with it.

    `total` counts all requests of the run.
    """

    def __init__(self) -> None:
        self.total = self._model_calls = 0
        self._calls: dict[Step, int] = {}
        self._known: dict[Step, dict[int, _KnownCall]] = {}
        self._failed: dict[tuple[Step, Hashable], list[Site]] = {}
        self._failed_others: dict[Hashable, int] = {}
        self._tools: dict[str, Iterator[int]] = {}
        self._effects: dict[str, Iterator[int]] = {}

    def next_request(self) -> int:
        """Count a request of any kind, and return its number."""
        self.total += 1
        return self.total

    def next_call(self, step: Step) -> int:
        """Return the number of a new model call of `step`."""
        number = self._calls[step] = self._calls.get(step, 0) + 1
        return number

    def start(self, step: Step, identity: Hashable, *, call: int = 0, attempt: int | None = None) -> Site:
        """Return the site of a model request about to be sent.

        Args:
            step: the step that makes the request.
            identity: equal for equal requests.
            call: the number of its call, if the request carries one.
            attempt: the number of its attempt, if known.
        """
        known = self._known.setdefault(step, {})
        if not call:
            call, attempt = self._find_call(step, known, identity, attempt)
        attempt = attempt or 1
        found = known.get(call)
        if found is not None:
            found.attempt, found.identity = attempt, identity
            return Site(*step, call, found.overall, attempt)
        self._model_calls += 1
        known[call] = _KnownCall(self._model_calls, attempt, identity)
        if len(known) > MAX_REMEMBERED_CALLS:
            del known[next(iter(known))]
        return Site(*step, call, self._model_calls, attempt)

    def start_received(self, step: Step, identity: Hashable, client_attempt: int | None) -> Site:
        """Return the site of a client's model request, with the client's own attempt number, if any.

        A repeated request whose last answer failed is the next attempt, even if its client restarts its numbers at 1:
        an agent may retry after its SDK has given up.
        """
        is_repeated = (client_attempt or 0) <= self._next_attempt(step, identity)
        return self.start(step, identity, attempt=None if is_repeated else client_attempt)

    def finish(self, site: Site, identity: Hashable, *, failed: bool) -> None:
        """Note the end of an attempt. A request that repeats one which `failed` is its next attempt.

        A failure can be revoked, when the answer arrives after all.
        """
        step = (site.workflow, site.step_id)
        if failed:
            self._failed.setdefault((step, identity), []).append(site)
        elif self._failed:
            self._forget_failure(step, identity, site.call)

    def start_other(self, identity: Hashable, client_attempt: int | None) -> int:
        """Return the attempt of a request that is neither a model call nor a tool call."""
        return max(client_attempt or 0, self._failed_others.get(identity, 0) + 1)

    def finish_other(self, identity: Hashable, attempt: int, *, failed: bool) -> None:
        """Note the end of such a request."""
        if failed:
            self._failed_others[identity] = attempt
        elif self._failed_others:
            self._failed_others.pop(identity, None)

    def start_tool(self, tool: str) -> ToolSite:
        """Return the site of a tool call. Threads may call this concurrently."""
        return ToolSite(tool, next(self._tools.setdefault(tool, count(1))))

    def start_effect(self, tool: str) -> ToolSite:
        """Return the site of a program's reported effect, counted by tool like calls."""
        return ToolSite(tool, next(self._effects.setdefault(tool, count(1))))

    def _next_attempt(self, step: Step, identity: Hashable) -> int:
        """Return the attempt number of a request, by its step and identity."""
        failed = self._failed.get((step, identity))
        return failed[0].attempt + 1 if failed else 1

    def _find_call(
        self, step: Step, known: dict[int, _KnownCall], identity: Hashable, attempt: int | None
    ) -> tuple[int, int]:
        if attempt is None:
            failed = self._failed.get((step, identity))
            call, attempt = (failed[0].call, failed[0].attempt + 1) if failed else (self.next_call(step), 1)
        elif attempt == 1 or not known:
            call = self.next_call(step)
        else:
            before = (attempt - 1, identity)
            latest = ((number, each) for number, each in reversed(known.items()))
            same = (number for number, each in latest if (each.attempt, each.identity) == before)
            call = next(same, self._calls[step])
        if attempt > 1 and self._failed:
            self._forget_failure(step, identity, call)
        return call, attempt

    def _forget_failure(self, step: Step, identity: Hashable, call: int) -> None:
        failed = [site for site in self._failed.pop((step, identity), ()) if site.call != call]
        if failed:
            self._failed[step, identity] = failed


def call_name(step_id: str | None, fingerprint: str) -> str:
    """Name a call, equally in all processes, without revealing its content."""
    return blake2b(f"{step_id or ''}\0{fingerprint}".encode(), digest_size=16).hexdigest()


class ToolCallNames:
    """Names tool calls, equal ones by number, so that processes of the same program use the same names."""

    def __init__(self) -> None:
        self._lock, self._counts = threading.Lock(), Counter[tuple[str, str]]()

    def start(self, tool: str, arguments: JsonObject) -> str:
        """Count a call, and return its name."""
        fingerprint = hash_arguments(arguments)
        with self._lock:
            name = self.next(tool, fingerprint)
            self.count(tool, fingerprint)
        return name

    def undo(self, tool: str, arguments: JsonObject) -> None:
        """Give the number of an unrecorded call to the next one."""
        with self._lock:
            self._counts[tool, hash_arguments(arguments)] -= 1

    def next(self, key: str, fingerprint: str, *, is_numbered: bool = True) -> str:
        """Return the name of the next call with these arguments. Equal unnumbered calls share a name."""
        return call_name(key, f"{fingerprint} {self._counts[key, fingerprint] if is_numbered else 0}")

    def count(self, key: str, fingerprint: str) -> None:
        """Count a call whose name was already requested."""
        self._counts[key, fingerprint] += 1
