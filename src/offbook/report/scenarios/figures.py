"""The figures of a scenario (pass rate, interval, metrics, tokens, cost, time), its failures, agents side by side."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from offbook.report.reporter import cut_lines, one_line
from offbook.scenarios.result import Failure, ScenarioResult, SuiteResult
from offbook.scenarios.statistics import Interval, Spread, metric_spreads, pass_hats, pass_rate, wilson
from offbook.text import format_usd, pluralize


class Figures(Struct, frozen=True):
    """The figures of all conversations of a scenario with one agent. The keys of `pass_hat_k` are k, as text."""

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
        """`67 % (30–90 %)`: the pass rate and its 95 % interval; empty for fewer than two conversations."""
        if self.runs < 2:
            return ""
        low, high = self.interval.low * 100, self.interval.high
        return f"{self.pass_rate:.0%} ({low:.0f}–{high:.0%})".replace("%", " %")

    @property
    def usage(self) -> list[str]:
        """Tokens, cost and time, without those that are zero."""
        return [
            *([pluralize(self.tokens, "token")] if self.tokens else []),
            *([f"{format_usd(self.cost_usd)} $"] if self.cost_usd else []),
            *([f"{self.latency_s:.2f} s"] if self.latency_s else []),
        ]


def figures_of(scenario: ScenarioResult) -> Figures:
    """Return the figures of a scenario. `latency_s` is the sum over its conversations."""
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


def scenario_title(scenario: ScenarioResult, limit: int) -> str:
    """Return `books a room (billing)`, on one line and cut to `limit` characters."""
    agent = f" ({scenario.agent})" if scenario.agent else ""
    return one_line(f"{scenario.name}{agent}", limit)


class ComparisonRow(Struct, frozen=True):
    """A scenario, and its result with each agent; None for an agent that did not run it."""

    name: str
    results: tuple[ScenarioResult | None, ...]


class AgentComparison(Struct, frozen=True):
    """The agents, and a row for each scenario, in the order in which they first appear."""

    agents: tuple[str, ...]
    rows: tuple[ComparisonRow, ...]

    @property
    def is_worth_showing(self) -> bool:
        """Whether several agents ran the same scenario."""
        return any(sum(result is not None for result in row.results) > 1 for row in self.rows)


def compare_agents(result: SuiteResult) -> AgentComparison:
    """Compare all agents of a run. Scenarios with the same name and different sources are different scenarios."""
    agents = tuple(dict.fromkeys(each.agent for each in result.scenarios))
    found: dict[tuple[str, str], dict[str, ScenarioResult]] = {}
    for each in result.scenarios:
        found.setdefault((each.source, each.name), {})[each.agent] = each
    rows = (
        ComparisonRow(name, tuple(by_agent.get(agent) for agent in agents)) for (_, name), by_agent in found.items()
    )
    return AgentComparison(agents, tuple(rows))


def suite_totals(result: SuiteResult) -> str:
    """Return how many scenarios and conversations passed, and the tokens, cost and time of the run."""
    scenarios, conversations = result.scenarios, [each for one in result.scenarios for each in one.conversations]
    parts = [
        f"{sum(each.passed for each in scenarios):,} of {pluralize(len(scenarios), 'scenario')} passed",
        f"{sum(each.passed for each in conversations):,} of {pluralize(len(conversations), 'conversation')}",
        *([pluralize(result.tokens, "token")] if result.tokens else []),
        *([f"{format_usd(result.cost_usd)} $"] if result.cost_usd else []),
        f"{result.latency_s:.2f} s",
    ]
    return ", ".join(parts)


MAX_REASON_CHARS = 300
MAX_DETAIL_LINES = 60
MAX_DETAIL_COLUMNS = 240
MAX_IDS = 3
ERROR_KINDS = ("error", "mismatch")


class FailureNote(Struct, frozen=True):
    """A failure and its place: `conversation 2`, or "" for a single conversation or all of them."""

    where: str
    failure: Failure

    @property
    def is_error(self) -> bool:
        """Whether something broke, as opposed to an agent's mistake."""
        return self.failure.kind in ERROR_KINDS

    @property
    def headline(self) -> str:
        """The failure on one line of printable text."""
        reason = one_line(self.failure.reason, MAX_REASON_CHARS)
        return ": ".join(part for part in (self.where, self.failure.kind, reason) if part)

    @property
    def detail(self) -> list[str]:
        """Further lines of printable text about the failure, limited in number and length."""
        text = self.failure.detail.strip("\n")
        return cut_lines(text, lines=MAX_DETAIL_LINES, columns=MAX_DETAIL_COLUMNS) if text else []


def failure_notes(scenario: ScenarioResult) -> Iterator[FailureNote]:
    """Return all failures of a scenario: first its own, then those of each conversation."""
    yield from (FailureNote("", failure) for failure in scenario.failures)
    for conversation in scenario.conversations:
        where = f"conversation {conversation.index + 1}" if len(scenario.conversations) > 1 else ""
        yield from (FailureNote(where, failure) for failure in conversation.failures)


def grouped_failures(scenario: ScenarioResult) -> Iterator[FailureNote]:
    """Return failures like `failure_notes`, those once that differ only in the number of their conversation."""
    alike: dict[tuple[str, ...], list[FailureNote]] = {}
    for note in failure_notes(scenario):
        number = note.where.rpartition(" ")[2] or "1"
        texts = (text.replace(f"/{number}/", "/…/") for text in (note.failure.reason, note.failure.detail))
        alike.setdefault((note.failure.kind, *texts), []).append(note)
    for first, *others in alike.values():
        numbers = dict.fromkeys(note.where.rpartition(" ")[2] for note in (first, *others))
        shown = ", ".join([*list(numbers)[:MAX_IDS], *(["…"] if len(numbers) > MAX_IDS else [])])
        yield first if len(numbers) == 1 else FailureNote(f"{len(numbers):,} conversations ({shown})", first.failure)


MAX_CAUSE_CHARS = 120
MAX_ID_CHARS = 24


class Cause(Struct, frozen=True):
    """A cause, its severity, and its places: `4 conversations: a, b, c, …`. All on one printable line."""

    severity: str
    title: str
    where: str


def causes_of(result: SuiteResult) -> Iterator[Cause]:
    """Return the causes of failures, the most severe first."""
    for group in result.groups:
        ids = [one_line(each, MAX_ID_CHARS) for each in group.conversations[:MAX_IDS]]
        more = ["…"] if len(group.conversations) > MAX_IDS else []
        where = f"{pluralize(len(group.conversations), 'conversation')}: {', '.join([*ids, *more])}"
        yield Cause(group.severity, one_line(group.title, MAX_CAUSE_CHARS), where)


class SourceLocation(Struct, frozen=True):
    """A file and a line of it, from 1; 0 is not known."""

    file: str
    line: int = 0


def parse_location(source: str) -> SourceLocation:
    """The place that a source like `tests/refunds.py:12` names."""
    file, _, line = source.rpartition(":")
    return SourceLocation(file, int(line)) if file and line.isdecimal() else SourceLocation(source)
