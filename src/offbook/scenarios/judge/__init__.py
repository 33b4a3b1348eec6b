"""Judges: rate conversations by metrics, with a model or a function."""

from offbook.scenarios.judge.builtin_metrics import METRICS
from offbook.scenarios.judge.error_groups import group_by_label, group_errors
from offbook.scenarios.judge.judge import Judge, below_thresholds, prompts
from offbook.scenarios.judge.metric import (
    Metric,
    MetricInput,
    MetricResult,
    label_metric,
    numeric_metric,
    python_metric,
)
from offbook.scenarios.result import SEVERITIES, Severity

__all__ = [
    "METRICS",
    "SEVERITIES",
    "Judge",
    "Metric",
    "MetricInput",
    "MetricResult",
    "Severity",
    "below_thresholds",
    "group_by_label",
    "group_errors",
    "label_metric",
    "numeric_metric",
    "prompts",
    "python_metric",
]
