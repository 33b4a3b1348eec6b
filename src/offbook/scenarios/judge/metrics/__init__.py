"""Metrics: one small file each."""

from offbook.scenarios.judge.metrics.catalog import METRICS
from offbook.scenarios.judge.metrics.label import label_metric
from offbook.scenarios.judge.metrics.metric import Metric, Scope
from offbook.scenarios.judge.metrics.numeric import numeric_metric
from offbook.scenarios.judge.metrics.python_function import python_metric

__all__ = ["METRICS", "Metric", "Scope", "label_metric", "numeric_metric", "python_metric"]
