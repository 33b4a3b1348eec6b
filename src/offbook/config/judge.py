"""The judge that a config declares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import cast

from offbook.config.agent_calls import retrying
from offbook.config.modules import load_object
from offbook.config.schema import Config, JudgeConfig
from offbook.errors import InputError
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.providers.provider import Provider
from offbook.scenarios.judge import METRICS, Judge, Metric, python_metric
from offbook.scenarios.runner import MakeJudge
from offbook.scenarios.scenario import Scenario
from offbook.wording import did_you_mean

PLACE = "judge.metrics"


def judge_maker(config: Config, scenarios: Iterable[Scenario]) -> MakeJudge | None:
    """What judges the conversations of the scenarios; None if the config declares nothing to judge by.

    Raises:
        InputError: a metric is not known, has no model to judge by, or is held to a threshold but not judged.
    """
    declared = config.judge
    if declared is None:
        return None
    metrics = _metrics(config, declared)
    _check_thresholds(declared.thresholds, metrics, source=config.source, place="judge.thresholds")
    for scenario in scenarios:
        place = f"scenario {scenario.name!r}"
        _check_metrics(scenario, metrics, place=place)
        _check_thresholds(scenario.thresholds, _chosen(scenario, metrics), source=scenario.source, place=place)
    model = declared.model or ""

    def make(scenario: Scenario, provider: Provider) -> Judge:
        return Judge(
            retrying(provider, DEFAULT_RETRY),
            model,
            _chosen(scenario, metrics).values(),
            temperature=declared.temperature,
            max_tokens=declared.max_tokens,
        )

    return make


def _metrics(config: Config, declared: JudgeConfig) -> dict[str, Metric]:
    names = tuple(METRICS) if declared.metrics is None else declared.metrics
    metrics: dict[str, Metric] = {}
    for name in names:
        metric = _own(name, config) if ":" in name else _known(name, config)
        if metric.name in metrics:
            reason = f"there are two metrics called {metric.name!r}"
            raise InputError(reason, source=config.source, place=PLACE)
        metrics[metric.name] = metric
    asked = next((metric for metric in metrics.values() if metric.prompt), None)
    if asked is not None and (declared.model is None or declared.provider is None):
        reason = f"there is no model to judge {asked.name} by"
        raise InputError(reason, source=config.source, place="judge", hint="add provider and model")
    return metrics


def _known(name: str, config: Config) -> Metric:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS, kind="metrics") + "; your own are named as 'module:name'"
        raise InputError(f"unknown metric {name!r}", source=config.source, place=PLACE, hint=hint)
    return METRICS[name]


def _own(reference: str, config: Config) -> Metric:
    found = load_object(reference, source=config.source, place=PLACE)
    if isinstance(found, Metric):
        return found
    if callable(found):
        return python_metric(reference.partition(":")[2], cast("Callable[..., float | str | bool]", found))
    raise InputError(
        f"expected a metric or a function at {reference}, got {found!r}", source=config.source, place=PLACE
    )


def _chosen(scenario: Scenario, metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
    """The metrics that a scenario is judged by."""
    return metrics if scenario.metrics is None else {name: metrics[name] for name in scenario.metrics}


def _check_metrics(scenario: Scenario, metrics: Mapping[str, Metric], *, place: str) -> None:
    for name in scenario.metrics or ():
        if name not in metrics:
            hint = did_you_mean(name, metrics, kind="metrics of the config")
            raise InputError(f"{name!r} is not judged", source=scenario.source, place=place, hint=hint)


def _check_thresholds(
    thresholds: Mapping[str, float], metrics: Mapping[str, Metric], *, source: str, place: str
) -> None:
    for name in thresholds:
        if name not in metrics:
            hint = did_you_mean(name, metrics, kind="metrics that are judged")
            raise InputError(f"{name!r} has a threshold, but is not judged", source=source, place=place, hint=hint)
