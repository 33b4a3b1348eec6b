"""Which steps may run next, given what became of those before them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Literal

from offbook.workflow.graph import Graph

Passage = Literal["open", "closed", "broken"]
"""What a step is for those after it: done, not taken (by a router), or failed."""


class Schedule:
    """The steps of one level, from ready to settled. Takes time in proportion to steps and dependencies.

    A step is ready when all that it depends on are settled. It is skipped if one of these failed, or if
    none of them was taken: where branches of a router meet again, one of them is enough.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._waiting = {step_id: len(before) for step_id, before in graph.dependencies.items()}
        self._open: set[str] = set()
        self._broken: dict[str, str] = {}
        self.ready = deque(step_id for step_id, count in self._waiting.items() if not count)
        self.skipped: deque[tuple[str, str]] = deque()
        """Steps that will not run, each with the reason, until somebody takes them out."""

    def settle(self, step_id: str, passage: Passage, *, chosen: str | None = None) -> None:
        """Take note of what a step is for those after it; a router names the target that it has `chosen`."""
        settled = deque([(step_id, passage)])
        while settled:
            settled.extend(self._pass_on(*settled.popleft(), chosen))

    def _pass_on(self, step_id: str, passage: Passage, chosen: str | None) -> Iterator[tuple[str, Passage]]:
        """Tell the steps after a settled one; those that are settled by that, as they will not run."""
        router = self._graph.routers.get(step_id)
        for after in self._graph.dependants[step_id]:
            if passage == "broken":
                self._broken.setdefault(after, step_id)
            elif passage == "open" and (router is None or after not in router.targets or after == chosen):
                self._open.add(after)
            self._waiting[after] -= 1
            if not self._waiting[after]:
                yield from self._decide(after)

    def _decide(self, step_id: str) -> Iterator[tuple[str, Passage]]:
        if step_id in self._broken:
            self.skipped.append((step_id, f"{self._broken[step_id]} failed"))
            yield step_id, "broken"
        elif step_id in self._open:
            self.ready.append(step_id)
        else:
            self.skipped.append((step_id, "no branch led here"))
            yield step_id, "closed"
