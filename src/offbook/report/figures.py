"""The figures of a scenario: how often it passed, how sure that is, what was measured, and what it took."""

from __future__ import annotations

from msgspec import Struct

from offbook.report.wording import rate_and_interval
from offbook.scenarios.result import ScenarioResult
from offbook.scenarios.statistics import Interval, Spread, metric_spreads, pass_hats, pass_rate, wilson
from offbook.wording import counted, dollars


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
            *([counted(self.tokens, "token")] if self.tokens else []),
            *([f"{dollars(self.cost_usd)} $"] if self.cost_usd else []),
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
