"""Whether a test is recorded or replayed."""

from __future__ import annotations

from collections.abc import Callable

from offbook.providers.provider import Provider
from offbook.pytest_plugin.answers import Answers
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.recorded_answers import RecordedAnswers
from offbook.pytest_plugin.replayed_answers import ReplayedAnswers


def answers_of(plan: RecordingPlan, live: Callable[[], Provider]) -> Answers:
    """What answers by a plan; `live` makes the provider that is asked when recording.

    Raises:
        InputError: there is something at the recording's place that is none.
    """
    return ReplayedAnswers(plan) if plan.record is None else RecordedAnswers(plan, plan.record, live)
