"""The judge: runs the metrics on a conversation, checks thresholds, and lists all prompts of scenarios."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from offbook.errors import EventLoopError, InputError, OffbookError, RecordingMismatchError, RecordingWriteError
from offbook.providers.provider import Provider
from offbook.scenarios.judge.builtin_metrics import METRICS, builtin_metric, metrics_by_name
from offbook.scenarios.judge.error_groups import GROUPING_PROMPT, GROUPING_STEP
from offbook.scenarios.judge.metric import Metric, MetricInput
from offbook.scenarios.result import Failure, Judgement, TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.structured_query import ModelQuery
from offbook.scenarios.users import ANSWER_FORMAT, DEFAULT_TEMPLATE, USER_STEP

JUDGE_STEP = "judge"


class _MetricTask(Struct, frozen=True):
    """One judgement to make."""

    metric: Metric
    input: MetricInput
    turn_index: int | None


class Judge:
    """Judges conversations by metrics.

    Args:
        provider, model: the model that judges. Each call has the step id `judge.<metric>`, after `step_prefix`.
        metrics: names or Metric values; by default all built-in metrics.
        max_concurrent: how many judgements of one conversation run at the same time.
        temperature, max_tokens: options of the model; the provider's defaults apply where None.

    Raises:
        InputError: a metric is unknown, or two have the same name.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        metrics: Iterable[Metric | str] = tuple(METRICS),
        *,
        max_concurrent: int = 8,
        temperature: float | None = None,
        max_tokens: int | None = None,
    ) -> None:
        if max_concurrent < 1:
            raise InputError(f"expected at least 1, got {max_concurrent!r}", source="Judge", place="max_concurrent")
        self._query = ModelQuery(provider, model, temperature=temperature, max_tokens=max_tokens)
        chosen = (each if isinstance(each, Metric) else builtin_metric(each, source="Judge") for each in metrics)
        self.metrics = tuple(metrics_by_name(chosen, source="Judge").values())
        self._max_concurrent = max_concurrent

    async def judge(
        self, scenario: Scenario, turns: Sequence[TurnRecord], *, step_prefix: str = ""
    ) -> tuple[Judgement, ...]:
        """Return the judgements of each turn, then those of the whole conversation.

        A turn is judged with the turns up to it, never with later ones. Without turns there are no judgements. A
        judgement that failed has an `error` and no value.

        Raises:
            RecordingMismatchError: a recording has no matching exchange; of several errors, the first in order.
            EventLoopError: a metric made a synchronous call inside the event loop.
        """
        slots = asyncio.Semaphore(self._max_concurrent)
        tasks = self._tasks(scenario, tuple(turns), f"{step_prefix}{JUDGE_STEP}")
        outcomes = await asyncio.gather(*(self._judge(task, slots) for task in tasks), return_exceptions=True)
        judgements = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            judgements.append(outcome)
        return tuple(judgements)

    def _tasks(self, scenario: Scenario, turns: tuple[TurnRecord, ...], step: str) -> list[_MetricTask]:
        tasks = [
            _MetricTask(metric, MetricInput(scenario, turns[:number], f"{step}.{metric.name}"), turn.index)
            for number, turn in enumerate(turns, start=1)
            for metric in self.metrics
            if metric.scope == "turn"
        ]
        whole = [metric for metric in self.metrics if metric.scope == "conversation" and turns]
        return tasks + [
            _MetricTask(metric, MetricInput(scenario, turns, f"{step}.{metric.name}"), None) for metric in whole
        ]

    async def _judge(self, task: _MetricTask, slots: asyncio.Semaphore) -> Judgement:
        name = task.metric.name
        async with slots:
            try:
                result = await task.metric.judge(task.input, self._query)
            except (RecordingMismatchError, RecordingWriteError, EventLoopError):
                raise
            except Exception as error:  # a metric that fails is one failed judgement
                return Judgement(name, turn_index=task.turn_index, error=_error_text(error))
        return Judgement(name, result.value, result.reason, task.turn_index, result.severity)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, OffbookError) else f"{type(error).__name__}: {error}"


def below_thresholds(judgements: Iterable[Judgement], thresholds: Mapping[str, float]) -> tuple[Failure, ...]:
    """Return a failure for each metric whose mean is below its threshold, in the order of the thresholds.

    Failed judgements do not count. A metric without any number fails too.
    """
    judged = tuple(judgements)
    failures = [
        _threshold_failure(name, least, [each for each in judged if each.metric == name])
        for name, least in thresholds.items()
    ]
    return tuple(failure for failure in failures if failure is not None)


def _threshold_failure(name: str, least: float, judgements: Sequence[Judgement]) -> Failure | None:
    numbers = [(each.value, each.reason) for each in judgements if isinstance(each.value, int | float)]
    if not numbers:
        error = next((each.error for each in judgements if each.error is not None), "")
        return Failure("threshold", f"{name} has no number to compare with its threshold of {least:g}", error)
    mean = fmean(number for number, _ in numbers)
    if mean >= least:
        return None
    return Failure("threshold", f"{name} is {mean:g} on average, below its threshold of {least:g}", min(numbers)[1])


def prompts() -> Mapping[str, str]:
    """Return the system prompts by step id; the user's with the placeholders that a scenario fills."""
    metrics = {f"{JUDGE_STEP}.{name}": metric.prompt for name, metric in METRICS.items()}
    return {USER_STEP: f"{DEFAULT_TEMPLATE}\n{ANSWER_FORMAT}", **metrics, GROUPING_STEP: GROUPING_PROMPT}
