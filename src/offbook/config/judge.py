"""Builds the judge that a config declares, and groups the errors of a run as it says."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from msgspec import Struct

from offbook.config.agents import with_retry
from offbook.config.modules import load_object
from offbook.config.schema import Config, ErrorGroupingMode, JudgeConfig
from offbook.errors import InputError, RecordingMismatchError
from offbook.gateway.gateway import DEFAULT_RETRY
from offbook.providers.provider import Provider
from offbook.scenarios.judge import METRICS, Judge, Metric, group_by_label, group_errors, python_metric
from offbook.scenarios.result import ConversationResult, ErrorGroup, SuiteResult
from offbook.scenarios.runner import MakeJudge
from offbook.scenarios.scenario import Scenario
from offbook.text import did_you_mean

METRICS_PLACE = "judge.metrics"


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
        _check_thresholds(
            scenario.thresholds, _scenario_metrics(scenario, metrics), source=scenario.source, place=place
        )
    model = declared.model or ""

    def make(scenario: Scenario, provider: Provider) -> Judge:
        return Judge(
            with_retry(provider, DEFAULT_RETRY),
            model,
            _scenario_metrics(scenario, metrics).values(),
            temperature=declared.temperature,
            max_tokens=declared.max_tokens,
        )

    return make


def _metrics(config: Config, declared: JudgeConfig) -> dict[str, Metric]:
    names = tuple(METRICS) if declared.metrics is None else declared.metrics
    metrics: dict[str, Metric] = {}
    for name in names:
        metric = _project_metric(name, config) if ":" in name else _builtin_metric(name, config)
        if metric.name in metrics:
            reason = f"there are two metrics called {metric.name!r}"
            raise InputError(reason, source=config.source, place=METRICS_PLACE)
        metrics[metric.name] = metric
    asked = next((metric for metric in metrics.values() if metric.prompt), None)
    if asked is not None and (declared.model is None or declared.provider is None):
        reason = f"there is no model to judge {asked.name} by"
        raise InputError(reason, source=config.source, place="judge", hint="add provider and model")
    return metrics


def _builtin_metric(name: str, config: Config) -> Metric:
    if name not in METRICS:
        hint = did_you_mean(name, METRICS, kind="metrics") + "; your own are named as 'module:name'"
        raise InputError(f"unknown metric {name!r}", source=config.source, place=METRICS_PLACE, hint=hint)
    return METRICS[name]


def _project_metric(reference: str, config: Config) -> Metric:
    found = load_object(reference, source=config.source, place=METRICS_PLACE)
    if isinstance(found, Metric):
        return found
    if callable(found):
        return python_metric(reference.partition(":")[2], cast("Callable[..., float | str | bool]", found))
    raise InputError(
        f"expected a metric or a function at {reference}, got {found!r}", source=config.source, place=METRICS_PLACE
    )


def _scenario_metrics(scenario: Scenario, metrics: Mapping[str, Metric]) -> Mapping[str, Metric]:
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


logger = logging.getLogger("offbook.judge")


class ErrorGrouping(Struct, frozen=True):
    """What groups the errors of a run. A run in which every conversation passed has no groups."""

    by: ErrorGroupingMode = "label"
    model: str = ""
    temperature: float | None = None

    async def groups_of(self, result: SuiteResult, provider: Provider) -> tuple[ErrorGroup, ...]:
        """The errors by cause, the gravest first. By `model`, it is asked once, with the step `judge.error_groups`.

        Groups fail nobody: where a replay has no answer for these errors, they are grouped by their labels, with a
        warning of one line.
        """
        conversations = _conversations_to_group(result)
        if self.by != "model" or not conversations:
            return self.groups_without_model(result)
        asked = with_retry(provider, DEFAULT_RETRY)
        try:
            return await group_errors(asked, self.model, conversations, temperature=self.temperature)
        except RecordingMismatchError as error:
            reason = str(error).partition("\n")[0]
            logger.warning("errors are grouped by their labels, not by their causes: %s", reason)
            return self.groups_without_model(result)

    def groups_without_model(self, result: SuiteResult) -> tuple[ErrorGroup, ...]:
        """The groups for which no model is asked: by label, if any are wanted."""
        return () if self.by == "none" else group_by_label(_conversations_to_group(result))


def error_grouping(config: Config) -> ErrorGrouping:
    """What groups the errors of a run; by label unless the config says otherwise.

    Raises:
        InputError: a model is to group them, and there is none.
    """
    judge = config.judge
    if judge is None:
        return ErrorGrouping()
    if judge.group_errors == "model" and (judge.model is None or judge.provider is None):
        reason, hint = "there is no model to group errors by", "add provider and model"
        raise InputError(reason, source=config.source, place="judge.group_errors", hint=hint)
    return ErrorGrouping(judge.group_errors, judge.model or "", judge.temperature)


def _conversations_to_group(result: SuiteResult) -> Sequence[ConversationResult]:
    """All conversations of a run in which one failed; none of a run in which all passed."""
    held = [each for scenario in result.scenarios for each in scenario.conversations]
    return () if all(each.passed for each in held) else held
