"""The figures of a scenario (pass rate, interval, metrics, tokens, cost, time), and agents side by side."""

from __future__ import annotations

from msgspec import Struct

from offbook.report.text import rate_and_interval
from offbook.scenarios.result import ScenarioResult, SuiteResult
from offbook.scenarios.statistics import Interval, Spread, metric_spreads, pass_hats, pass_rate, wilson
from offbook.text import format_usd, pluralize


class Figures(Struct, frozen=True):
    """Figures of all conversations of a scenario with one agent. `pass_hat_k` is by k, as text."""

    runs: int
    passes: int
    pass_rate: float
    interval: Interval
    pass_hat_k: dict[str, float]
    metrics: dict[str, Spread]
    tokens: int
    cost_usd: float
    latency_s: float

    @property
    def passed_of_runs(self) -> str:
        """`2/3`"""
        return f"{self.passes}/{self.runs}"

    @property
    def rate(self) -> str:
        """The pass rate and its interval; nothing where there was one conversation, or none."""
        return rate_and_interval(self.pass_rate, self.interval) if self.runs > 1 else ""

    @property
    def taken(self) -> list[str]:
        """Tokens, cost and time, where there are any."""
        return [
            *([pluralize(self.tokens, "token")] if self.tokens else []),
            *([f"{format_usd(self.cost_usd)} $"] if self.cost_usd else []),
            *([f"{self.latency_s:.2f} s"] if self.latency_s else []),
        ]


def figures_of(scenario: ScenarioResult) -> Figures:
    """The figures of a scenario. Its `latency_s` is that of its conversations together."""
    conversations, passes = scenario.conversations, scenario.passes
    return Figures(
        runs=len(conversations),
        passes=passes,
        pass_rate=pass_rate(conversations),
        interval=wilson(passes, len(conversations)),
        pass_hat_k={str(k): value for k, value in pass_hats(passes, len(conversations)).items()},
        metrics=metric_spreads(conversations),
        tokens=sum(each.tokens for each in conversations),
        cost_usd=sum(each.cost_usd for each in conversations),
        latency_s=sum(each.latency_s for each in conversations),
    )


class ComparisonRow(Struct, frozen=True):
    """A scenario, and what became of it with each agent; None where it was not run with that one."""

    name: str
    results: tuple[ScenarioResult | None, ...]


class AgentComparison(Struct, frozen=True):
    """The agents, and a row for each scenario, in the order in which they first appear."""

    agents: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]

    @property
    def is_worth_showing(self) -> bool:
        """Whether there is a scenario that several agents did."""
        return any(sum(result is not None for result in row.results) > 1 for row in self.rows)


def compare_agents(result: SuiteResult) -> AgentComparison:
    """The comparison of all agents of a run. Scenarios of one name and different places are different ones."""
    agents = tuple(dict.fromkeys(each.agent for each in result.scenarios))
    found: dict[tuple[str, str], dict[str, ScenarioResult]] = {}
    for each in result.scenarios:
        found.setdefault((each.source, each.name), {})[each.agent] = each
    rows = (
        ComparisonRow(name, tuple(by_agent.get(agent) for agent in agents)) for (_, name), by_agent in found.items()
    )
    return AgentComparison(agents, tuple(rows))
