"""The dependency graph of the steps of one level."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from offbook.workflow.file.schema import AnyStep, RouterStep


class Graph:
    """The steps of one level and their dependencies.

    A router's targets depend on it, declared or not. References to unknown steps, and steps with a duplicate id,
    are ignored: an invalid workflow has a graph as well.
    """

    def __init__(self, steps: Iterable[AnyStep]) -> None:
        self.steps: dict[str, AnyStep] = {}
        for step in steps:
            self.steps.setdefault(step.id, step)
        self.routers = {step.id: step for step in self.steps.values() if isinstance(step, RouterStep)}
        self._routed: dict[str, list[str]] = {}
        for router in self.routers.values():
            for target in router.targets:
                self._routed.setdefault(target, []).append(router.id)
        self.dependencies = {step_id: self._before(step) for step_id, step in self.steps.items()}

    @cached_property
    def dependants(self) -> dict[str, tuple[str, ...]]:
        """The steps that depend on each step, in file order."""
        after: dict[str, list[str]] = {step_id: [] for step_id in self.steps}
        for step_id, before in self.dependencies.items():
            for other in before:
                after[other].append(step_id)
        return {step_id: tuple(others) for step_id, others in after.items()}

    @cached_property
    def levels(self) -> tuple[tuple[str, ...], ...]:
        """The steps by the length of the longest chain of dependencies before them, each level in file order.

        Steps in a cycle, and all steps after them, are in no level.
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
        levels: list[list[str]] = [[] for _ in range(1 + max(level_of.values(), default=-1))]
        for step_id in self.steps:
            if step_id in level_of:
                levels[level_of[step_id]].append(step_id)
        return tuple(tuple(level) for level in levels)

    @property
    def order(self) -> tuple[str, ...]:
        """The steps, each after its dependencies, otherwise in file order."""
        return tuple(step_id for level in self.levels for step_id in level)

    @cached_property
    def _bits(self) -> dict[str, int]:
        """A bit for each step: a set of steps is then an int, and a union costs one operation."""
        return {step_id: 1 << index for index, step_id in enumerate(self.steps)}

    @cached_property
    def _before_each(self) -> dict[str, int]:
        before: dict[str, int] = {}
        for step_id in self.order:
            before[step_id] = 0
            for other in self.dependencies[step_id]:
                before[step_id] |= before[other] | self._bits[other]
        return before

    def comes_before(self, one: str, other: str) -> bool:
        """Whether `one` always runs before `other`; False if `other` is in a cycle or after one."""
        return bool(self._before_each.get(other, 0) & self._bits[one])

    @cached_property
    def is_whole(self) -> bool:
        """Whether every referenced step exists, and there is no cycle."""
        referenced = {name for step in self.steps.values() for name in step.depends_on}
        targets = {target for router in self.routers.values() for target in router.targets}
        return referenced | targets <= self.steps.keys() and not self.cycle

    @cached_property
    def cycle(self) -> tuple[str, ...]:
        """The steps of a dependency cycle, ending with the first one again; empty without a cycle."""
        ordered = set(self.order)
        left = [step_id for step_id in self.steps if step_id not in ordered]
        if not left:
            return ()
        walked: list[str] = []
        step_id = left[0]
        while step_id not in walked:
            walked.append(step_id)
            step_id = next(other for other in self.dependencies[step_id] if other in left)
        cycle = walked[walked.index(step_id) :]
        first = min(range(len(cycle)), key=lambda index: left.index(cycle[index]))
        return (*cycle[first:], *cycle[:first], cycle[first])

    def are_exclusive(self, one: str, other: str) -> bool:
        """Whether at most one of two steps runs, because they are on different branches of a router."""
        for router in self.routers.values():
            branches, others = self._branches(router, one), self._branches(router, other)
            if branches and others and not branches & others:
                return True
        return False

    def are_parallel(self, one: str, other: str) -> bool:
        """Whether two steps may run at the same time, or in either order."""
        is_ordered = self.comes_before(one, other) or self.comes_before(other, one)
        return not is_ordered and not self.are_exclusive(one, other)

    def _branches(self, router: RouterStep, step_id: str) -> set[str]:
        """Return the targets of a router that lead to a step."""
        return {target for target in router.targets if target == step_id or self.comes_before(target, step_id)}

    def _before(self, step: AnyStep) -> tuple[str, ...]:
        declared = [step_id for step_id in step.depends_on if step_id in self.steps]
        return tuple(dict.fromkeys([*declared, *self._routed.get(step.id, ())]))
