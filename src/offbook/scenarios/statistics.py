"""Statistics over repeated runs: pass rates, confidence intervals, pass^k and the spread of metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist, fmean
from typing import Protocol

from msgspec import Struct

from offbook.errors import InputError
from offbook.scenarios.result import ConversationResult, Judgement

RUNS_IN_A_ROW = (1, 2, 3, 5, 10)


class SupportsPassed(Protocol):
    """A result that passed or failed."""

    @property
    def passed(self) -> bool: ...


class Interval(Struct, frozen=True):
    """A confidence interval of a rate, from 0 to 1."""

    low: float
    high: float


class Spread(Struct, frozen=True):
    """The values of a metric: count, mean, population standard deviation, minimum and maximum."""

    count: int
    mean: float
    deviation: float
    low: float
    high: float


def pass_rate(results: Iterable[SupportsPassed]) -> float:
    """Return the share of results that passed, from 0 to 1; 0 if there are none."""
    passed = [result.passed for result in results]
    return sum(passed) / len(passed) if passed else 0.0


def wilson(passes: int, runs: int, *, confidence: float = 0.95) -> Interval:
    """Return Wilson's score interval of the pass rate, which also holds for few runs and for 0 or all passes.

    Without runs it is 0 to 1.

    Raises:
        InputError: `passes` is negative or exceeds `runs`, or `confidence` is not between 0 and 1.
    """
    _check_counts(passes, runs)
    if not 0 < confidence < 1:
        raise InputError(f"confidence must be between 0 and 1, not {confidence!r}", source="wilson")
    if runs == 0:
        return Interval(0.0, 1.0)
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    rate, weight = passes / runs, z * z / runs
    middle = rate + weight / 2
    reach = z * math.sqrt(rate * (1 - rate) / runs + weight / (4 * runs))
    low = 0.0 if passes == 0 else max(0.0, (middle - reach) / (1 + weight))
    high = 1.0 if passes == runs else min(1.0, (middle + reach) / (1 + weight))
    return Interval(low, high)


def pass_hat_k(passes: int, runs: int, k: int) -> float:
    """Return pass^k: the unbiased estimate of the probability that k runs in a row all pass.

    Raises:
        InputError: `k` is not from 1 to `runs`, or `passes` exceeds `runs`.
    """
    _check_counts(passes, runs)
    if not 1 <= k <= runs:
        raise InputError(f"k must be from 1 to the number of runs, {runs}, not {k}", source="pass_hat_k")
    return math.comb(passes, k) / math.comb(runs, k)


def pass_hats(passes: int, runs: int) -> dict[int, float]:
    """Return pass^k for each k of 1, 2, 3, 5 and 10 that does not exceed `runs`."""
    return {k: pass_hat_k(passes, runs, k) for k in RUNS_IN_A_ROW if k <= runs}


def spread(values: Iterable[float]) -> Spread | None:
    """Return the mean and spread of the values; None if there are none."""
    found = list(values)
    if not found:
        return None
    mean = fmean(found)
    deviation = math.sqrt(fmean((value - mean) ** 2 for value in found))
    return Spread(len(found), mean, deviation, float(min(found)), float(max(found)))


def metric_spreads(conversations: Iterable[ConversationResult]) -> dict[str, Spread]:
    """Return the spread of every numeric metric by name, sorted by name.

    Labels, failed judgements and numbers that are not finite are ignored.
    """
    values: dict[str, list[float]] = {}
    for conversation in conversations:
        for judgement in conversation.judgements:
            if (value := _finite_number(judgement)) is not None:
                values.setdefault(judgement.metric, []).append(value)
    found = {metric: spread(values[metric]) for metric in sorted(values)}
    return {metric: each for metric, each in found.items() if each is not None}


def _finite_number(judgement: Judgement) -> float | None:
    value = judgement.value
    if judgement.error is None and isinstance(value, int | float) and math.isfinite(value):
        return float(value)
    return None


def _check_counts(passes: int, runs: int) -> None:
    if not 0 <= passes <= runs:
        raise InputError(f"invalid counts: {passes} passes of {runs} runs", source="statistics")
