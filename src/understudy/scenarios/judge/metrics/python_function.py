"""Metrics that a Python function judges, without a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from understudy.scenarios.asking import Asker
from understudy.scenarios.judge.case import Case, Finding
from understudy.scenarios.judge.metrics.metric import Metric
from understudy.scenarios.result import TurnRecord

Judging: TypeAlias = Callable[[tuple[TurnRecord, ...]], float | str | bool]


class PythonMetric(Metric):
    """What a function says of the turns of a conversation."""

    def __init__(self, name: str, function: Judging) -> None:
        super().__init__(name, scope="conversation")
        self._function = function

    async def judge(self, case: Case, asker: Asker) -> Finding:
        value = self._function(case.turns)
        if not isinstance(value, int | float | str):
            raise TypeError(f"expected a number, a label or a bool, got {value!r}")
        return Finding(value if isinstance(value, str) else float(value))


def python_metric(name: str, function: Judging) -> Metric:
    """A metric of whole conversations: `function` takes the turns and returns a number, a label, or a bool (1 or 0).

    What it raises is told as the failure of the judgement.

    Raises:
        InputError: no such name can be given.
    """
    return PythonMetric(name, function)
