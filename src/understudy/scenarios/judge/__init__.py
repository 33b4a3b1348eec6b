"""Judges: what models and functions say of conversations, by metrics."""

from understudy.scenarios.judge.case import Case, Finding
from understudy.scenarios.judge.error_group import group_by_label
from understudy.scenarios.judge.error_grouping import group_errors
from understudy.scenarios.judge.judge import Judge
from understudy.scenarios.judge.metrics import METRICS, Metric, label_metric, numeric_metric, python_metric
from understudy.scenarios.judge.prompts import prompts
from understudy.scenarios.judge.thresholds import below_thresholds
from understudy.scenarios.severity import SEVERITIES, Severity

__all__ = [
    "METRICS",
    "SEVERITIES",
    "Case",
    "Finding",
    "Judge",
    "Metric",
    "Severity",
    "below_thresholds",
    "group_by_label",
    "group_errors",
    "label_metric",
    "numeric_metric",
    "prompts",
    "python_metric",
]
