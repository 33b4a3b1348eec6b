"""Which step runs after which."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from understudy.workflow.schema import AnyStep
from understudy.workflow.step_definition import RouterStep


class Graph:
    """The steps of one level and their dependencies.

    A router's targets depend on it whether or not they say so. Names of steps that are not there, and steps
    whose id was there before, are left out, so that a faulty workflow has a graph too.
    """

    def __init__(self, steps: Iterable[AnyStep]) -> None:
        self.steps: dict[str, AnyStep] = {}
        for step in steps:
            self.steps.setdefault(step.id, step)
        self.routers = {step.id: step for step in self.steps.values() if isinstance(step, RouterStep)}
        self.dependencies = {step_id: self._before(step) for step_id, step in self.steps.items()}

    @cached_property
    def dependants(self) -> dict[str, tuple[str, ...]]:
        """The steps that run after each step, in the order of the file."""
        after: dict[str, list[str]] = {step_id: [] for step_id in self.steps}
        for step_id, before in self.dependencies.items():
            for other in before:
                after[other].append(step_id)
        return {step_id: tuple(others) for step_id, others in after.items()}

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The steps by how many must run before them at least, each level in the order of the file.

        Steps in a cycle, and all that come after them, are in no level.
        """
        level_of: dict[str, int] = {}
        waiting = {step_id: len(before) for step_id, before in self.dependencies.items()}
        ready = [step_id for step_id, count in waiting.items() if not count]
        while ready:
            step_id = ready.pop()
            level_of[step_id] = 1 + max((level_of[other] for other in self.dependencies[step_id]), default=-1)
            for other in self.dependants[step_id]:
                waiting[other] -= 1
                if not waiting[other]:
                    ready.append(other)
        depth = 1 + max(level_of.values(), default=-1)
        return tuple(
            tuple(step_id for step_id in self.steps if level_of.get(step_id) == level) for level in range(depth)
        )

    @property
    def order(self) -> tuple[str, ...]:
        """The steps, each after all that it depends on; else in the order of the file."""
        return tuple(step_id for level in self.levels for step_id in level)

    @cached_property
    def _ancestors(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for step_id in self.order:
            before = self.dependencies[step_id]
            found[step_id] = frozenset(before).union(*(found[other] for other in before))
        return found

    def ancestors(self, step_id: str) -> frozenset[str]:
        """All steps that run before `step_id`; none for a step that is in a cycle or after one."""
        return self._ancestors.get(step_id, frozenset())

    @cached_property
    def is_whole(self) -> bool:
        """Whether every step that is named is there, and none waits for itself."""
        named = {name for step in self.steps.values() for name in step.depends_on}
        routed = {target for router in self.routers.values() for target in router.targets}
        return named | routed <= self.steps.keys() and not self.cycle

    @cached_property
    def cycle(self) -> tuple[str, ...]:
        """Steps that wait for one another in a circle, the first again at the end; empty if there are none."""
        left = [step_id for step_id in self.steps if step_id not in set(self.order)]
        if not left:
            return ()
        walked: list[str] = []
        step_id = left[0]
        while step_id not in walked:
            walked.append(step_id)
            step_id = next(other for other in self.dependencies[step_id] if other in left)
        circle = walked[walked.index(step_id) :]
        first = min(range(len(circle)), key=lambda at: left.index(circle[at]))
        return (*circle[first:], *circle[:first], circle[first])

    def are_exclusive(self, one: str, other: str) -> bool:
        """Whether at most one of two steps runs, as they are on different branches of a router."""
        for router in self.routers.values():
            branches, others = self._branches(router, one), self._branches(router, other)
            if branches and others and not branches & others:
                return True
        return False

    def are_parallel(self, one: str, other: str) -> bool:
        """Whether two steps may run at the same time, or one after the other in any order."""
        is_ordered = one in self.ancestors(other) or other in self.ancestors(one)
        return not is_ordered and not self.are_exclusive(one, other)

    def _branches(self, router: RouterStep, step_id: str) -> set[str]:
        """The targets of a router through which it leads to a step."""
        return {target for target in router.targets if target == step_id or target in self.ancestors(step_id)}

    def _before(self, step: AnyStep) -> tuple[str, ...]:
        declared = [step_id for step_id in step.depends_on if step_id in self.steps]
        implied = [router.id for router in self.routers.values() if step.id in router.targets and step is not router]
        return tuple(dict.fromkeys([*declared, *implied]))
