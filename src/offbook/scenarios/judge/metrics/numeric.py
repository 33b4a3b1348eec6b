"""Metrics that are numbers on a scale."""

from __future__ import annotations

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.asking.fields import text_of, whole_number_of
from offbook.scenarios.judge.case import Finding
from offbook.scenarios.judge.metrics.metric import Metric, Scope
from offbook.scenarios.judge.metrics.model_metric import ModelMetric


class NumericMetric(ModelMetric):
    """A whole number from `low` to `high`."""

    def __init__(self, name: str, criterion: str, *, low: int, high: int, scope: Scope) -> None:
        if not low < high:
            raise InputError(f"low must be below high, but {low!r} is not below {high!r}", source=name, place="low")
        answer_format = f'{{"reason": "<one or two sentences>", "score": <whole number from {low} to {high}>}}'
        super().__init__(name, criterion, answer_format=answer_format, key="score", scope=scope)
        self._low, self._high = low, high

    def read(self, answer: JsonObject) -> Finding:
        score = whole_number_of(answer, "score", low=self._low, high=self._high)
        return Finding(float(score), text_of(answer, "reason"))


def numeric_metric(name: str, prompt: str, low: int = 1, high: int = 5, *, scope: Scope = "turn") -> Metric:
    """A metric that a model judges with a whole number from `low` to `high`.

    `prompt` states the criterion in full: what is judged, and what the numbers mean.

    Raises:
        InputError: there is no prompt, no such name can be given, or no number is on the scale.
    """
    return NumericMetric(name, prompt, low=low, high=high, scope=scope)
