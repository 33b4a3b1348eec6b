"""Numbers the calls of a run and the attempts of each call: what `call=2 attempt=1` means, everywhere."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeAlias

from msgspec import Struct

Step: TypeAlias = tuple[str, str | None]
"""The name of a workflow and of a step in it. Calls are counted by step."""


class Site(Struct, frozen=True):
    """The place of a request in a run.

    `call` counts the calls of its step and `overall` those of the run; `attempt` counts the attempts of the call. All
    count from 1.
    """

    workflow: str
    step_id: str | None
    call: int
    overall: int
    attempt: int


class CallNumbers:
    """Assigns every request of a run its site.

    A request continues a call if it carries the number of the call, if it is known to be a later attempt, or if
    nothing is known and it repeats a request that has failed. Any other request is a new call of its step.

    A later attempt belongs to the latest call of its step whose last attempt was the one before it with the same
    identity, else to the latest call of the step. A repeated request belongs to the first call that failed with it.
    """

    def __init__(self) -> None:
        self._calls: dict[Step, int] = {}
        self._overall: dict[tuple[Step, int], int] = {}
        self._last_attempts: dict[Step, dict[int, tuple[int, Hashable]]] = {}
        self._failed: dict[tuple[Step, Hashable], list[Site]] = {}

    def next_call(self, step: Step) -> int:
        """Return the number of a new call of `step`."""
        number = self._calls[step] = self._calls.get(step, 0) + 1
        return number

    def start(self, step: Step, identity: Hashable, *, call: int = 0, attempt: int | None = None) -> Site:
        """Return the site of a request that is about to be sent.

        Args:
            step: the step that makes the request.
            identity: equal for requests that ask the same.
            call: the number of its call, if the request carries one.
            attempt: which attempt it is, if that is known.
        """
        if not call:
            call, attempt = self._find_call(step, identity, attempt)
        overall = self._overall.setdefault((step, call), len(self._overall) + 1)
        return Site(*step, call, overall, attempt or 1)

    def finish(self, site: Site, identity: Hashable, *, failed: bool) -> None:
        """Note how an attempt has ended. A request that repeats one which `failed` is its next attempt.

        What was noted as failed can be noted again as not failed, when its answer has arrived after all.
        """
        step = (site.workflow, site.step_id)
        if failed:
            self._failed.setdefault((step, identity), []).append(site)
        elif self._failed:
            self._forget_failure(step, identity, site.call)

    def next_attempt(self, step: Step, identity: Hashable) -> int:
        """Return which attempt a request is if nothing but its step and identity is known."""
        failed = self._failed.get((step, identity))
        return failed[0].attempt + 1 if failed else 1

    def _find_call(self, step: Step, identity: Hashable, attempt: int | None) -> tuple[int, int]:
        last_attempts = self._last_attempts.setdefault(step, {})
        if attempt is None:
            failed = self._failed.get((step, identity))
            call, attempt = (failed[0].call, failed[0].attempt + 1) if failed else (self.next_call(step), 1)
        elif attempt == 1 or not last_attempts:
            call = self.next_call(step)
        else:
            before = (attempt - 1, identity)
            latest = reversed(last_attempts)
            call = next((call for call in latest if last_attempts[call] == before), self._calls[step])
        if attempt > 1 and self._failed:
            self._forget_failure(step, identity, call)
        last_attempts[call] = (attempt, identity)
        return call, attempt

    def _forget_failure(self, step: Step, identity: Hashable, call: int) -> None:
        failed = [site for site in self._failed.pop((step, identity), ()) if site.call != call]
        if failed:
            self._failed[step, identity] = failed
