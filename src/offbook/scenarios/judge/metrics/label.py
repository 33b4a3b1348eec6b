"""Metrics that are labels, of which some tell of failures."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.asking.fields import choice_of, text_of
from offbook.scenarios.judge.case import Finding
from offbook.scenarios.judge.metrics.metric import Metric, Scope
from offbook.scenarios.judge.metrics.model_metric import ModelMetric
from offbook.scenarios.severity import SEVERITIES

_SEVERITIES = """\
A failure has a severity:
- low: a blemish; the user gets what they came for all the same.
- medium: it costs the user time or effort.
- high: the user does not get what they came for, or is misled.
- critical: it does harm, such as a wrong payment, a loss of data, or private data given away."""


class LabelMetric(ModelMetric):
    """One of `labels`. Those of `failures` have a severity too."""

    def __init__(
        self, name: str, criterion: str, *, labels: Iterable[str], failures: Iterable[str], scope: Scope
    ) -> None:
        self._labels, self._failures = _names(labels, name), frozenset(failures)
        _check_labels(name, self._labels, self._failures)
        super().__init__(name, self._stated(criterion), answer_format=self._answer_format(), key="label", scope=scope)

    def read(self, answer: JsonObject) -> Finding:
        label, reason = choice_of(answer, "label", self._labels), text_of(answer, "reason")
        if label not in self._failures:
            return Finding(label, reason)
        return Finding(label, reason, choice_of(answer, "severity", SEVERITIES))

    def _stated(self, criterion: str) -> str:
        return f"{criterion.strip()}\n\n{_SEVERITIES}" if self._failures and criterion.strip() else criterion

    def _answer_format(self) -> str:
        label = f'{{"reason": "<one or two sentences>", "label": "<one of: {", ".join(self._labels)}>"'
        if not self._failures:
            return f"{label}}}"
        others = ", ".join(each for each in self._labels if each not in self._failures)
        without = f'\n"severity" is null where the label is one of: {others}' if others else ""
        return f'{label}, "severity": "<one of: {", ".join(SEVERITIES)}>"}}{without}'


def label_metric(
    name: str, prompt: str, labels: Iterable[str], *, failures: Iterable[str] = (), scope: Scope = "turn"
) -> Metric:
    """A metric that a model judges with one of `labels`; for those of `failures` it also tells the severity.

    `prompt` states the criterion in full: what is judged, and when which label is right.

    Raises:
        InputError: there is no prompt, no such name can be given, there are fewer than two labels, or a failure
            is no label.
    """
    return LabelMetric(name, prompt, labels=labels, failures=failures, scope=scope)


def _names(labels: Iterable[str], metric: str) -> tuple[str, ...]:
    if isinstance(labels, str):
        raise InputError(f"expected a list, got {labels!r}", source=metric, place="labels")
    return tuple(labels)


def _check_labels(metric: str, labels: tuple[str, ...], failures: frozenset[str]) -> None:
    if len(labels) < 2 or len(set(labels)) < len(labels):
        raise InputError("there must be two labels or more, none of them twice", source=metric, place="labels")
    if not failures <= set(labels):
        unknown = ", ".join(sorted(failures - set(labels)))
        raise InputError(f"no label: {unknown}", source=metric, place="failures", hint=f"labels: {', '.join(labels)}")
