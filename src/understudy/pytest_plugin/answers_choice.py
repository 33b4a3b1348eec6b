"""Whether a test is recorded or replayed."""

from __future__ import annotations

from collections.abc import Callable

from understudy.providers.provider import Provider
from understudy.pytest_plugin.answers import Answers
from understudy.pytest_plugin.plan import RecordingPlan
from understudy.pytest_plugin.recorded_answers import RecordedAnswers
from understudy.pytest_plugin.replayed_answers import ReplayedAnswers


def answers_of(plan: RecordingPlan, live: Callable[[], Provider]) -> Answers:
    """What answers by a plan; `live` makes the provider that is asked when recording.

    Raises:
        InputError: there is something at the recording's place that is none.
    """
    return ReplayedAnswers(plan) if plan.record is None else RecordedAnswers(plan, plan.record, live)
