"""Scenarios beside each other, as several agents did them."""

from __future__ import annotations

from msgspec import Struct

from offbook.scenarios.result import ScenarioResult, SuiteResult


class Row(Struct, frozen=True):
    """A scenario, and what became of it with each agent; None where it was not run with that one."""

    name: str
    results: tuple[ScenarioResult | None, ...]


class Comparison(Struct, frozen=True):
    """The agents, and a row for each scenario, in the order in which they first appear."""

    agents: tuple[str, ...]
    rows: tuple[Row, ...]

    @property
    def is_worth_showing(self) -> bool:
        """Whether there is a scenario that several agents did."""
        return any(sum(result is not None for result in row.results) > 1 for row in self.rows)


def comparison_of(result: SuiteResult) -> Comparison:
    """The comparison of all agents of a run. Scenarios of one name and different places are different ones."""
    agents = tuple(dict.fromkeys(each.agent for each in result.scenarios))
    found: dict[tuple[str, str], dict[str, ScenarioResult]] = {}
    for each in result.scenarios:
        found.setdefault((each.source, each.name), {})[each.agent] = each
    rows = (Row(name, tuple(by_agent.get(agent) for agent in agents)) for (_, name), by_agent in found.items())
    return Comparison(agents, tuple(rows))
