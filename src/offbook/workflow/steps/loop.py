"""A step that runs its own steps again and again."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from offbook.errors import StepError
from offbook.gateway.gateway import ProviderGateway
from offbook.workflow.expression import Expression
from offbook.workflow.schema import LoopStep
from offbook.workflow.steps.runnable_level import RunnableLevel
from offbook.workflow.steps.step import Environment, Scope, Step
from offbook.workflow.template import value_at


def in_loop(environment: Environment, definition: LoopStep) -> Environment:
    """What the steps of a loop have in common: its variables can be named."""
    variables = ("index",) if definition.over is None else (definition.variable, "index")
    return replace(environment, names=tuple(dict.fromkeys((*environment.names, *variables))))


class Loop(Step[LoopStep]):
    """Gives what was collected of each round, in order; of a loop that collects nothing, how many rounds there were.

    Each round's calls are kept in recordings under the ids of the steps, one after another.
    """

    def __init__(self, definition: LoopStep, environment: Environment, level: RunnableLevel) -> None:
        super().__init__(definition, environment)
        self._level = level
        inner = level.environment.names
        self._over = None if definition.over is None else Expression.parse(definition.over, names=environment.names)
        self._until = None if definition.until is None else Expression.parse(definition.until, names=inner)

    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        if self._over is not None:
            return await self._over_elements(self._over.elements(scope.names), scope)
        return await self._until_true(scope)

    async def _over_elements(self, elements: list[Any], scope: Scope) -> Any:
        collected = []
        for index, element in enumerate(elements):
            state = dict(scope.state)
            variables = {**scope.variables, self.definition.variable: element, "index": index}
            await self._level.run(Scope(scope.run, state, variables, self._place(scope, index)))
            collected.append(self._collected(state))
        return len(collected) if self.definition.collect is None else collected

    async def _until_true(self, scope: Scope) -> Any:
        collected = []
        for index in range(self.definition.max_iterations):
            variables = {**scope.variables, "index": index}
            inner = Scope(scope.run, scope.state, variables, self._place(scope, index))
            await self._level.run(inner)
            collected.append(self._collected(scope.state))
            if self._until is not None and self._until.is_true(inner.names):
                return len(collected) if self.definition.collect is None else collected
        raise StepError(f"{self.definition.until!r} was still not true after {self.definition.max_iterations} rounds")

    def _place(self, scope: Scope, index: int) -> str:
        return f"{scope.place}{self.definition.id}[{index}]."

    def _collected(self, state: dict[str, Any]) -> Any:
        path = self.definition.collect
        return None if path is None else value_at(("state", *path.split(".")), {"state": state}, "collect")
