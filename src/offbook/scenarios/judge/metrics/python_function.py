"""Metrics that a Python function judges, without a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from offbook.scenarios.asking import Asker
from offbook.scenarios.judge.case import Case, Finding
from offbook.scenarios.judge.metrics.metric import Metric
from offbook.scenarios.result import TurnRecord

Value: TypeAlias = float | str | bool
Judging: TypeAlias = Callable[[tuple[TurnRecord, ...]], Value | tuple[Value, str]]


class PythonMetric(Metric):
    """What a function says of the turns of a conversation."""

    def __init__(self, name: str, function: Judging) -> None:
        super().__init__(name, scope="conversation")
        self._function = function

    async def judge(self, case: Case, asker: Asker) -> Finding:
        found = self._function(case.turns)
        value, reason = found if isinstance(found, tuple) else (found, "")
        if not isinstance(value, int | float | str) or not isinstance(reason, str):
            raise TypeError(f"expected a number, a label or a bool, alone or with a reason, got {found!r}")
        return Finding(value if isinstance(value, str) else float(value), reason)


def python_metric(name: str, function: Judging) -> Metric:
    """A metric of whole conversations: `function` takes the turns and returns a number, a label, or a bool (1 or 0).

    It may return a reason too, as `(value, reason)`.

    What it raises is told as the failure of the judgement.

    Raises:
        InputError: no such name can be given.
    """
    return PythonMetric(name, function)
