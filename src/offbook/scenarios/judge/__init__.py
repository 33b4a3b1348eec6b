"""Judges: what models and functions say of conversations, by metrics."""

from offbook.scenarios.judge.case import Case, Finding
from offbook.scenarios.judge.error_group import group_by_label
from offbook.scenarios.judge.error_grouping import group_errors
from offbook.scenarios.judge.judge import Judge
from offbook.scenarios.judge.metrics import METRICS, Metric, label_metric, numeric_metric, python_metric
from offbook.scenarios.judge.prompts import prompts
from offbook.scenarios.judge.thresholds import below_thresholds
from offbook.scenarios.severity import SEVERITIES, Severity

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
