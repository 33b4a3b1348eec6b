"""Explores a workflow, run by the engine with the retries and fallbacks of its config."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from offbook import errors
from offbook.config.recordings import MissingRecording
from offbook.errors import InputError
from offbook.explore.harness import Harness, HarnessFactory, SideEffectHarness
from offbook.explore.monitor import MonitoredFunction
from offbook.explore.replay import LazyProvider
from offbook.explore.run import Run, RunFailure
from offbook.faults import FaultPlan
from offbook.messages import JsonObject
from offbook.pipeline import Harnessed, Live, open_pipeline
from offbook.providers.provider import Provider
from offbook.recording.stores.locate import open_store
from offbook.subjects.specs import DEFAULT_SETTINGS, ExploreSettings
from offbook.tools import ToolDef
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.engine.result import WorkflowResult
from offbook.workflow.file.schema import WorkflowDefinition
from offbook.workflow.file.tree import endpoints_of


class WorkflowSubject:
    """A workflow, run on a recording. Its result is the final state and what each step gave.

    A workflow that fails has failed cleanly if an error of ours ended it, and crashed if one of a tool's did.

    Args:
        state: in place of what the workflow declares.
        folder: what paths in the workflow are relative to.

    Raises:
        InputError: the recording or a tool cannot be read, or a tool would do harm: it has a side effect, and would
            run for real, as no calls of tools are recorded.
    """

    def __init__(
        self,
        definition: WorkflowDefinition,
        recording: str | os.PathLike[str],
        *,
        state: Mapping[str, Any] | None = None,
        folder: str | os.PathLike[str] = ".",
        settings: ExploreSettings = DEFAULT_SETTINGS,
    ) -> None:
        self.name = definition.name
        self._definition, self._state, self._folder, self._settings = definition, dict(state or {}), folder, settings
        self._models = endpoints_of(definition)
        shelf = open_store(recording).read()
        self._harnesses = HarnessFactory(shelf, settings.divergence(LazyProvider(self._live)))
        harmless = dict if len(shelf.tools) or settings.runs_tools else self._harmless
        try:
            WorkflowEngine(definition, MissingRecording(Path(recording)), wrap_tools=harmless, folder=folder)
        except InputError:
            self.close()
            raise

    def run(self, plan: FaultPlan) -> Run:
        ended: list[WorkflowResult] = []
        monitored = MonitoredFunction(
            partial(self._play, ended.append), declared=self._settings.declared, deadlines=self._settings.deadlines
        )
        run = monitored.run(self._harnesses.create(plan))
        failures = [failure for result in ended for failure in self._failures(result)]
        return replace(run, result=None, error=failures[0]) if failures else run

    def close(self) -> None:
        self._harnesses.close()

    def _harmless(self, tools: Mapping[str, ToolDef]) -> Mapping[str, ToolDef]:
        """The tools, if none of them does harm when it runs again and again."""
        for tool in tools.values():
            if tool.side_effect or tool.name in self._settings.side_effects:
                reason = "it has a side effect, and would run for real in every case: no calls of tools are recorded"
                hint = "record a run with its tools: offbook run FLOW --record PATH; or let them run: --run-tools"
                raise InputError(reason, source=f"tools.{tool.name}", hint=hint)
        return tools

    async def _play(self, note: Callable[[WorkflowResult], object], harness: Harness) -> JsonObject:
        staged = Harnessed(SideEffectHarness(harness, self._settings.side_effects))
        config, sink = self._definition.config, harness.recovery_counter
        async with open_pipeline(config, staged, folder=self._folder, models=self._models, sink=sink) as session:
            engine = WorkflowEngine(
                self._definition, session.gateway, wrap_tools=session.wrap_tools, folder=self._folder
            )
            result = await engine.run(deepcopy(self._state))
        note(result)
        return {"state": result.state, "outputs": {path: step.output for path, step in result.steps.items()}}

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Provider]:
        config = self._definition.config
        async with open_pipeline(config, Live(), folder=self._folder, models=self._models) as session:
            yield session.gateway

    def _failures(self, result: WorkflowResult) -> Iterator[RunFailure]:
        """What ended the workflow, if it has failed: the innermost of the steps that did."""
        counting = [step.id for step in self._definition.steps if step.on_failure != "continue"]
        outer = [result.steps[step_id] for step_id in counting if _has_failed(result, step_id)]
        for failed in outer[:1]:
            inner = next(step for step in result.failures if (failed.error or "").endswith(step.error or ""))
            kind = inner.error_type or ""
            is_declared = kind in self._settings.declared or _is_offbook_error(kind)
            yield RunFailure("declared" if is_declared else "undeclared", kind, inner.error or "")


def _has_failed(result: WorkflowResult, step_id: str) -> bool:
    return step_id in result.steps and result.steps[step_id].status == "failed"


def _is_offbook_error(name: str) -> bool:
    """Whether an error of that name is in our tree."""
    kind = vars(errors).get(name)
    return isinstance(kind, type) and issubclass(kind, errors.OffbookError)
