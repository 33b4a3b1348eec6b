"""Every prompt that scenarios put to a model."""

from __future__ import annotations

from collections.abc import Mapping

from offbook.scenarios.judge.error_grouping import PROMPT as GROUPING_PROMPT
from offbook.scenarios.judge.error_grouping import STEP as GROUPING_STEP
from offbook.scenarios.judge.judge import STEP as JUDGE_STEP
from offbook.scenarios.judge.metrics import METRICS
from offbook.scenarios.user.simulated import STEP as USER_STEP
from offbook.scenarios.user.template import ANSWER_FORMAT, DEFAULT_TEMPLATE


def prompts() -> Mapping[str, str]:
    """What a model is told, by the step of its calls; the user's with the places that a scenario fills."""
    judged = {f"{JUDGE_STEP}.{name}": metric.prompt for name, metric in METRICS.items()}
    return {USER_STEP: f"{DEFAULT_TEMPLATE}\n{ANSWER_FORMAT}", **judged, GROUPING_STEP: GROUPING_PROMPT}
