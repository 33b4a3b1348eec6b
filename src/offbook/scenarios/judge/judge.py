"""The judge: runs every metric on a conversation, checks thresholds, and lists all prompts that scenarios send."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean

from msgspec import Struct

from offbook.errors import EventLoopError, InputError, OffbookError, RecordingMismatchError
from offbook.providers.provider import Provider
from offbook.scenarios.judge.builtin_metrics import METRICS
from offbook.scenarios.judge.error_groups import GROUPING_PROMPT, GROUPING_STEP
from offbook.scenarios.judge.metric import Metric, MetricInput
from offbook.scenarios.result import Failure, Judgement, TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.structured_query import ModelQuery
from offbook.scenarios.users import ANSWER_FORMAT, DEFAULT_TEMPLATE, USER_STEP
from offbook.text import suggestion

JUDGE_STEP = "judge"


class _MetricTask(Struct, frozen=True):
    """One judgement that is to be made."""

    metric: Metric
    case: MetricInput
    turn_index: int | None


class Judge:
    """Judges conversations by metrics.

    Args:
        provider, model: what judges. Each call has the step `judge.<metric>`, after `step_prefix`.
        metrics: by name, or as values; all that come with offbook, if nothing is said.
        max_concurrent: how many judgements of one conversation are under way at once.
        temperature, max_tokens: left to the provider where None.

    Raises:
        InputError: a metric is not known, or two have the same name.
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
            raise InputError(f"expected one or more, got {max_concurrent!r}", source="Judge", place="max_concurrent")
        self._query = ModelQuery(provider, model, temperature=temperature, max_tokens=max_tokens)
        self.metrics = _named_once([_metric(each) for each in metrics])
        self._max_concurrent = max_concurrent

    async def judge(
        self, scenario: Scenario, turns: Sequence[TurnRecord], *, step_prefix: str = ""
    ) -> tuple[Judgement, ...]:
        """Turn by turn what each metric says, then what each says of the whole conversation.

        A turn is judged by what came up to it, never by what came after. Without turns there is nothing to judge.
        A judgement that failed has an `error`, and no value.

        Raises:
            RecordingMismatchError: a recording has no answer; of several, the first in order.
            EventLoopError: something was called synchronously that must be awaited.
        """
        room = asyncio.Semaphore(self._max_concurrent)
        tasks = self._tasks(scenario, tuple(turns), f"{step_prefix}{JUDGE_STEP}")
        outcomes = await asyncio.gather(*(self._judge(task, room) for task in tasks), return_exceptions=True)
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

    async def _judge(self, task: _MetricTask, room: asyncio.Semaphore) -> Judgement:
        name = task.metric.name
        async with room:
            try:
                found = await task.metric.judge(task.case, self._query)
            except (RecordingMismatchError, EventLoopError):
                raise
            except Exception as error:  # a judge that fails has found nothing, and that is all it tells
                return Judgement(name, turn_index=task.turn_index, error=_error_text(error))
        return Judgement(name, found.value, found.reason, task.turn_index, found.severity)


def _metric(given: Metric | str) -> Metric:
    if isinstance(given, Metric):
        return given
    if given not in METRICS:
        hint = suggestion(str(given), METRICS, kind="metrics")
        raise InputError(f"unknown metric {given!r}", source="Judge", place="metrics", hint=hint)
    return METRICS[given]


def _named_once(metrics: list[Metric]) -> tuple[Metric, ...]:
    names = [metric.name for metric in metrics]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"there are two metrics named {twice!r}", source="Judge", place="metrics")
    return tuple(metrics)


def _error_text(error: Exception) -> str:
    return str(error) if isinstance(error, OffbookError) else f"{type(error).__name__}: {error}"


def below_thresholds(judgements: Iterable[Judgement], thresholds: Mapping[str, float]) -> tuple[Failure, ...]:
    """A failure for each metric whose mean is below its threshold, in the order of the thresholds.

    Judgements that failed do not count. A metric that has no number at all cannot be held to its threshold, and
    so does not meet it.
    """
    made = tuple(judgements)
    failures = [
        _threshold_failure(name, least, [each for each in made if each.metric == name])
        for name, least in thresholds.items()
    ]
    return tuple(failure for failure in failures if failure is not None)


def _threshold_failure(name: str, least: float, judgements: Sequence[Judgement]) -> Failure | None:
    numbers = [(each.value, each.reason) for each in judgements if isinstance(each.value, int | float)]
    if not numbers:
        error = next((each.error for each in judgements if each.error is not None), "")
        return Failure("threshold", f"{name} has no number to hold to its threshold of {least:g}", error)
    mean = fmean(number for number, _ in numbers)
    if mean >= least:
        return None
    return Failure("threshold", f"{name} is {mean:g} on average, below its threshold of {least:g}", min(numbers)[1])


def prompts() -> Mapping[str, str]:
    """What a model is told, by the step of its calls; the user's with the places that a scenario fills."""
    judged = {f"{JUDGE_STEP}.{name}": metric.prompt for name, metric in METRICS.items()}
    return {USER_STEP: f"{DEFAULT_TEMPLATE}\n{ANSWER_FORMAT}", **judged, GROUPING_STEP: GROUPING_PROMPT}
