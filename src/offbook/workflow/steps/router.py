"""A step that chooses which of its targets runs."""

from __future__ import annotations

from offbook.gateway.gateway import ProviderGateway
from offbook.workflow.expression import Expression
from offbook.workflow.step_definition import RouterStep
from offbook.workflow.steps.step import Environment, Scope, Step


class Routing(Step[RouterStep]):
    """Gives the id of the target of the first condition that holds, else of the default; None if there is none."""

    def __init__(self, definition: RouterStep, environment: Environment) -> None:
        super().__init__(definition, environment)
        self._conditions = [
            (Expression.parse(condition.expression, names=environment.names), condition.target)
            for condition in definition.conditions
        ]

    async def run(self, scope: Scope, gateway: ProviderGateway) -> str | None:
        names = scope.names
        for expression, target in self._conditions:
            if expression.is_true(names):
                return target
        return self.definition.default
