"""All metrics that come with understudy, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from understudy.scenarios.judge.metrics.agent_behavior_failure import AGENT_BEHAVIOR_FAILURE
from understudy.scenarios.judge.metrics.coherence import COHERENCE
from understudy.scenarios.judge.metrics.faithfulness import FAITHFULNESS
from understudy.scenarios.judge.metrics.goal_completion import GOAL_COMPLETION
from understudy.scenarios.judge.metrics.helpfulness import HELPFULNESS
from understudy.scenarios.judge.metrics.metric import Metric
from understudy.scenarios.judge.metrics.relevance import RELEVANCE
from understudy.scenarios.judge.metrics.tool_call_behavior_failure import TOOL_CALL_BEHAVIOR_FAILURE
from understudy.scenarios.judge.metrics.verbosity import VERBOSITY

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
