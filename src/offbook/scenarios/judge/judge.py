"""The judge: every metric of a conversation, asked for at once and told in a fixed order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from msgspec import Struct

from offbook.errors import EventLoopError, InputError, OffbookError, RecordingMismatchError
from offbook.providers.provider import Provider
from offbook.scenarios.asking import Asker
from offbook.scenarios.judge.case import Case
from offbook.scenarios.judge.metrics import METRICS, Metric
from offbook.scenarios.result import Judgement, TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.wording import suggestion

STEP = "judge"


class _Task(Struct, frozen=True):
    """One judgement that is to be made."""

    metric: Metric
    case: Case
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
        self._asker = Asker(provider, model, temperature=temperature, max_tokens=max_tokens)
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
        tasks = self._tasks(scenario, tuple(turns), f"{step_prefix}{STEP}")
        outcomes = await asyncio.gather(*(self._judge(task, room) for task in tasks), return_exceptions=True)
        judgements = []
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
            judgements.append(outcome)
        return tuple(judgements)

    def _tasks(self, scenario: Scenario, turns: tuple[TurnRecord, ...], step: str) -> list[_Task]:
        tasks = [
            _Task(metric, Case(scenario, turns[:number], f"{step}.{metric.name}"), turn.index)
            for number, turn in enumerate(turns, start=1)
            for metric in self.metrics
            if metric.scope == "turn"
        ]
        whole = [metric for metric in self.metrics if metric.scope == "conversation" and turns]
        return tasks + [_Task(metric, Case(scenario, turns, f"{step}.{metric.name}"), None) for metric in whole]

    async def _judge(self, task: _Task, room: asyncio.Semaphore) -> Judgement:
        name = task.metric.name
        async with room:
            try:
                found = await task.metric.judge(task.case, self._asker)
            except (RecordingMismatchError, EventLoopError):
                raise
            except Exception as error:  # a judge that fails has found nothing, and that is all it tells
                return Judgement(name, turn_index=task.turn_index, error=_told(error))
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


def _told(error: Exception) -> str:
    return str(error) if isinstance(error, OffbookError) else f"{type(error).__name__}: {error}"
