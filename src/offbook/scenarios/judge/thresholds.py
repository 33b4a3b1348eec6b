"""Thresholds: the least that the mean of a metric must be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from offbook.scenarios.result import Failure, Judgement


def below_thresholds(judgements: Iterable[Judgement], thresholds: Mapping[str, float]) -> tuple[Failure, ...]:
    """A failure for each metric whose mean is below its threshold, in the order of the thresholds.

    Judgements that failed do not count. A metric that has no number at all cannot be held to its threshold, and
    so does not meet it.
    """
    made = tuple(judgements)
    failures = [
        _failure(name, least, [each for each in made if each.metric == name]) for name, least in thresholds.items()
    ]
    return tuple(failure for failure in failures if failure is not None)


def _failure(name: str, least: float, judgements: Sequence[Judgement]) -> Failure | None:
    numbers = [(each.value, each.reason) for each in judgements if isinstance(each.value, int | float)]
    if not numbers:
        error = next((each.error for each in judgements if each.error is not None), "")
        return Failure("threshold", f"{name} has no number to hold to its threshold of {least:g}", error)
    mean = fmean(number for number, _ in numbers)
    if mean >= least:
        return None
    return Failure("threshold", f"{name} is {mean:g} on average, below its threshold of {least:g}", min(numbers)[1])
