"""The cost and the spread of faults: runs of an exploration, compared with the clean one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from statistics import median
from typing import TYPE_CHECKING

from msgspec import Struct

from offbook.explore.effects import compare_effects
from offbook.explore.run import Run
from offbook.providers.pricing import PriceTable
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.explore.explorer import CaseResult, Exploration


class Recovery(Struct, frozen=True, kw_only=True):
    """The additional cost of a run: calls, tokens, US dollars and seconds of virtual time.

    The cost is None if a model's price is unknown.
    """

    calls: float = 0
    tokens: float = 0
    cost_usd: float | None = None
    took_s: float = 0.0

    def __str__(self) -> str:
        cost_usd, took_s = round(self.cost_usd or 0.0, 4), round(self.took_s, 1)
        parts = [
            f"{self.calls:+g} {'call' if abs(self.calls) == 1 else 'calls'}",
            f"{self.tokens:+g} tokens" if self.tokens else "",
            f"{cost_usd:+.4f}".replace("+", "+$").replace("-", "-$") if cost_usd else "",
            f"{took_s:+.1f} s" if took_s else "",
        ]
        return ", ".join(filter(None, parts))


def recovery_of(run: Run, clean: Run) -> Recovery:
    """Return what a run took more than the clean one."""
    costs = _cost_usd(run), _cost_usd(clean)
    return Recovery(
        calls=len(run.calls) - len(clean.calls),
        tokens=_tokens(run) - _tokens(clean),
        cost_usd=None if costs[0] is None or costs[1] is None else round(costs[0] - costs[1], 6),
        took_s=round(run.took_s - clean.took_s, 6),
    )


def _tokens(run: Run) -> int:
    return sum(call.usage.total_tokens for call in run.calls if call.usage)


def _cost_usd(run: Run) -> float | None:
    """Return the cost of a run's answers, or None if a price is unknown."""
    total_usd = 0.0
    for call in run.calls:
        if call.usage:
            price = PriceTable.default().find(call.model)
            if price is None:
                return None
            total_usd += price.cost_usd(call.usage)
    return total_usd


class RecoverySummary(Struct, frozen=True, kw_only=True):
    """The number of `cases` with a fired fault that `recovered`, and its cost: the median, and the most calls.

    `worst_case` is the case with the most further calls.
    """

    cases: int
    recovered: int
    median: Recovery
    worst: Recovery
    worst_case: str

    def __str__(self) -> str:
        share = f"recovery: {100 * self.recovered // self.cases} % of {pluralize(self.cases, 'case')}"
        worst = f"; worst {self.worst} ({self.worst_case})" if self.worst.calls > self.median.calls else ""
        return f"{share}; median {self.median}{worst}"


def summarize_recovery(exploration: Exploration) -> RecoverySummary | None:
    """Return the recovery of an exploration's cases, or None if no fault fired."""
    fired = [each for each in exploration.results if each.verdict != "not reached"]
    if not fired:
        return None
    recovered = [each for each in fired if each.verdict == "recovered"]
    taken = [recovery_of(each.run, exploration.clean) for each in recovered]
    worst = max(range(len(taken)), key=lambda place: taken[place].calls, default=None)
    costs = [each.cost_usd for each in taken if each.cost_usd is not None]
    return RecoverySummary(
        cases=len(fired),
        recovered=len(recovered),
        median=Recovery(
            calls=median([each.calls for each in taken] or [0]),
            tokens=median([each.tokens for each in taken] or [0]),
            cost_usd=round(median(costs), 6) if len(costs) == len(taken) > 0 else None,
            took_s=round(median([each.took_s for each in taken] or [0.0]), 6),
        ),
        worst=Recovery() if worst is None else taken[worst],
        worst_case="" if worst is None else str(recovered[worst].case),
    )


class FaultSpread(Struct, frozen=True, kw_only=True):
    """The spread of the faults at one call: to a number of the `later` model calls, and of effects, at most.

    `call` is its heatmap name, and `agent` its caller, if the run has several agents. A later call is `changed` if its
    request differs or is never made. Of the `cases` that fired, `spreading` changed a later call or an effect.
    """

    call: str
    agent: str = ""
    cases: int
    spreading: int
    changed: int
    later: int
    effects: int

    def __str__(self) -> str:
        name = f"call {self.call}" if self.call[:1].isdigit() else self.call
        name += f" ({self.agent})" if self.agent and self.agent not in self.call else ""
        parts = [
            f"{self.changed} of {pluralize(self.later, 'later call')}" if self.changed else "",
            pluralize(self.effects, "effect") if self.effects else "",
        ]
        return f"{name} reaches {' and '.join(filter(None, parts)) or 'nothing'}"


def spread_of(exploration: Exploration) -> list[FaultSpread]:
    """Return how far the single faults at each call spread, in the order of the calls; only calls with faults."""
    clean = exploration.clean
    agents = {call.row: call.agent for call in clean.calls}
    has_several = len({agent for agent in agents.values() if agent}) > 1
    spreads = []
    for row in exploration.rows:
        later = len(clean.calls) - _place_after(row, clean)
        fired = [each for each in exploration.results if row in each.case.rows and each.verdict != "not reached"]
        reach = [(min(later, _changed_calls(each, clean)), _changed_effects(each, clean)) for each in fired]
        if reach:
            spreads.append(
                FaultSpread(
                    call=row,
                    agent=agents.get(row, "") if has_several else "",
                    cases=len(reach),
                    spreading=sum(calls > 0 or effects > 0 for calls, effects in reach),
                    changed=max(calls for calls, _ in reach),
                    later=later,
                    effects=max(effects for _, effects in reach),
                )
            )
    return spreads


def _changed_calls(result: CaseResult, clean: Run) -> int:
    """Return how many requests of the clean run the run of a case did not make.

    Reports of earlier versions do not tell requests apart.
    """
    wanted = Counter(call.identity for call in clean.calls if call.attempt == 1 and call.identity)
    return sum((wanted - Counter(call.identity for call in result.run.calls)).values())


def _changed_effects(result: CaseResult, clean: Run) -> int:
    """Return how many effects differ from those of the clean run."""
    declarations = clean.declarations | result.run.declarations
    found = compare_effects(result.run.effects, clean.effects, declarations, stable=clean.requested_values)
    return len(found.repeated) + len(found.other) + len(found.missing)


def _place_after(row: str, clean: Run) -> int:
    """Return the place of the first model call after a call, or after the model call that asks for a call of a tool."""
    tool, _, number = row.rpartition(" ")
    asked = 0
    for place, call in enumerate(clean.calls, 1):
        asked += sum(name == tool for name, _ in call.asks_for)
        if call.row == row or (asked and number.isdigit() and asked >= int(number)):
            return place
    return 0


FEW_CALLS = 3
"""The number of calls of a run that is too small for a distribution."""


def describe_recovery(exploration: Exploration) -> Iterator[str]:
    """Yield a line about what recovery took, if any case recovered."""
    summary = summarize_recovery(exploration)
    if summary is not None and summary.recovered:
        yield str(summary)


def describe_spread(exploration: Exploration) -> Iterator[str]:
    """Yield a line about the call whose faults reach farthest, if not all reach as far, and about the others."""
    spreads = spread_of(exploration)
    reaches = {(each.effects, each.changed) for each in spreads}
    if len(exploration.clean.calls) > FEW_CALLS and len(reaches) > 1:
        farthest = max(spreads, key=lambda each: (each.effects, each.changed))
        none = sum(not each.spreading for each in spreads)
        others = len(spreads) - 1 - none
        rest = [f"{pluralize(others, 'other')} less far" if others else "", f"{none} nothing" if none else ""]
        yield f"spread: {farthest}; {', '.join(filter(None, rest))}"
