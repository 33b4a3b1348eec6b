"""All metrics that come with offbook, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from offbook.scenarios.judge.metrics.agent_behavior_failure import AGENT_BEHAVIOR_FAILURE
from offbook.scenarios.judge.metrics.coherence import COHERENCE
from offbook.scenarios.judge.metrics.faithfulness import FAITHFULNESS
from offbook.scenarios.judge.metrics.goal_completion import GOAL_COMPLETION
from offbook.scenarios.judge.metrics.helpfulness import HELPFULNESS
from offbook.scenarios.judge.metrics.metric import Metric
from offbook.scenarios.judge.metrics.relevance import RELEVANCE
from offbook.scenarios.judge.metrics.tool_call_behavior_failure import TOOL_CALL_BEHAVIOR_FAILURE
from offbook.scenarios.judge.metrics.verbosity import VERBOSITY

_ALL: tuple[Metric, ...] = (
    HELPFULNESS,
    COHERENCE,
    RELEVANCE,
    FAITHFULNESS,
    VERBOSITY,
    GOAL_COMPLETION,
    AGENT_BEHAVIOR_FAILURE,
    TOOL_CALL_BEHAVIOR_FAILURE,
)
METRICS: Mapping[str, Metric] = MappingProxyType({metric.name: metric for metric in _ALL})
