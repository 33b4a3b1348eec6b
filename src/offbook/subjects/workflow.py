"""Explores a workflow, run by the engine with the retries and fallbacks of its config."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from copy import deepcopy
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from offbook.errors import InputError, OffbookError
from offbook.explore.harness import Harness, HarnessFactory
from offbook.explore.monitor import ONLY_LIFE, Life, MonitoredFunction, gives_up
from offbook.explore.options import CRASH_VARIANTS, VARIANTS, FaultVariant
from offbook.explore.replay import LazyProvider
from offbook.explore.run import ErrorKind, Run, RunFailure, normalize_text
from offbook.explore.settings import DEFAULT_SETTINGS, ExploreSettings
from offbook.faults import FaultPlan
from offbook.messages import JsonObject
from offbook.pipeline import Harnessed, Live, open_pipeline
from offbook.private_folder import PrivateFolder
from offbook.providers.provider import Provider
from offbook.recording.match.continuation import Continuation
from offbook.recording.stores.locate import open_store
from offbook.subjects.crash import SecondLife, run_until_crash
from offbook.subjects.forked_run import IsolatedSubject
from offbook.tools import ToolDef
from offbook.tools.effects import UNDECLARED
from offbook.workflow.engine.engine import WorkflowEngine
from offbook.workflow.engine.result import NO_CHECKPOINT, StepStatus, WorkflowResult
from offbook.workflow.file.schema import AnyStep, RouterStep, WorkflowDefinition
from offbook.workflow.file.tree import endpoints_of, writes_of
from offbook.workflow.runs.resumable_run import ResumableRun
from offbook.workflow.runs.store import LATEST, RunStore


class WorkflowSubject(IsolatedSubject):
    """A workflow, run on a recording.

    Its result is the output of its last steps. The output of a step that others follow, or that may fail (`on_failure:
    continue`), does not count directly.

    A workflow fails cleanly if an error of offbook ended it, and crashes if an error of a tool did.

    Args:
        state: replaces the state that the workflow declares.
        folder: the base of relative paths in the workflow.
        settings: the settings of its runs.

    Raises:
        InputError: the recording or a tool cannot be loaded, or a tool with a side effect would run for real in every
            case, because the recording has no tool calls.
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
        self.name, self._tools = definition.name, set[str]()
        self._definition, self._state, self._folder, self._settings = definition, dict(state or {}), folder, settings
        self._models = endpoints_of(definition)
        reader = open_store(recording).read()
        live = LazyProvider(self._live)
        divergence = settings.divergence(live)
        super().__init__(HarnessFactory(reader, divergence, declarations=settings.declarations), settings.deadlines)
        self._runs_tools = bool(len(reader.tools)) or settings.runs_tools
        try:
            self._engine = WorkflowEngine(
                definition, live, wrap_tools=self._check_tools, folder=folder, declarations=settings.declarations
            )
            settings.check_tools(recording, self._tools)
        except InputError:
            self.close()
            raise

    @property
    def variants(self) -> Sequence[FaultVariant]:
        """The faults that can fire: those of models and tools, and crashes, after which the run is resumed."""
        return (*VARIANTS, *CRASH_VARIANTS)

    def run_here(self, plan: FaultPlan, continuation: Continuation) -> Run:
        if not plan.can_crash:
            return self._run_life(plan, continuation)
        with PrivateFolder() as folder:
            store = RunStore(folder)
            first, has_crashed = run_until_crash(partial(self._run_first_life, plan, continuation, store))
            if not has_crashed:
                return first
            with store.resume(LATEST, force=True) as stored:
                return self._run_life(plan.without_crashes(), continuation, stored, life=SecondLife(first))

    def _run_first_life(self, plan: FaultPlan, continuation: Continuation, store: RunStore, life: Life) -> Run:
        with store.start(self._definition, Path(self._folder) / self.name, state=self._state) as stored:
            return self._run_life(plan, continuation, stored, life=life)

    def _run_life(
        self,
        plan: FaultPlan,
        continuation: Continuation,
        stored: ResumableRun | None = None,
        *,
        life: Life = ONLY_LIFE,
    ) -> Run:
        """Run the workflow on a harness: all of it, or the rest of a stored run."""
        results: list[WorkflowResult] = []
        monitored = MonitoredFunction(
            partial(self._run_workflow, results.append, stored),
            declared=self._settings.declared,
            deadlines=self._settings.deadlines,
        )
        run = monitored.run(self._harnesses, plan, continuation, life=life)
        failures = [failure for result in results for failure in self._failures(result)]
        return replace(run, result=None, error=failures[0]) if failures else run

    def _check_tools(self, tools: Mapping[str, ToolDef]) -> Mapping[str, ToolDef]:
        """Return the tools, or raise InputError if one would run for real with an effect."""
        self._tools.update(tools)
        for tool in () if self._runs_tools else tools.values():
            declared = self._settings.declarations.get(tool.name, UNDECLARED)
            if tool.declaration.has_effect or declared.has_effect:
                raise _would_run(tool.name, "it has a side effect", "allow it: --run-tools")
            if not tool.declaration.read_only and not declared.read_only:
                remedy = f"-o read_only={tool.name}, if it only reads; or allow it: --run-tools"
                raise _would_run(tool.name, "it may have a side effect", remedy)
        return tools

    async def _run_workflow(
        self, note: Callable[[WorkflowResult], object], stored: ResumableRun | None, harness: Harness
    ) -> JsonObject:
        config, sink, calls = (
            self._definition.config,
            harness.recovery_counter,
            None if stored is None else stored.calls,
        )
        async with open_pipeline(
            config, Harnessed(harness), folder=self._folder, models=self._models, sink=sink, calls=calls
        ) as pipeline:
            checkpoint = NO_CHECKPOINT if stored is None else stored.checkpoint
            engine = self._engine.using(pipeline.gateway, wrap_tools=pipeline.wrap_tools, checkpoint=checkpoint)
            result = await engine.run(deepcopy(self._state))
        note(result)
        last = self._last_steps(result)
        final = {key for step in last for key in _written_by(step)}
        passing = {key for step in self._definition.steps for key in _written_by(step)} - final
        return {
            "state": {key: value for key, value in result.state.items() if key not in passing},
            "outputs": {step.id: result.steps[step.id].output for step in last if not _written_by(step)},
        }

    def _last_steps(self, result: WorkflowResult) -> list[AnyStep]:
        """Return the done steps that no other step followed, ignoring routers."""
        ran = [step for step in self._definition.steps if _status(result, step.id) in ("done", "failed")]
        followed = {name for step in ran if not _is_dead_end(step, result) for name in step.depends_on}
        done = [step for step in ran if _status(result, step.id) == "done"]
        last = [step for step in done if step.id not in followed and not isinstance(step, RouterStep)]
        return [step for step in last if step.on_failure != "continue"]

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Provider]:
        config = self._definition.config
        async with open_pipeline(config, Live(), folder=self._folder, models=self._models) as pipeline:
            yield pipeline.gateway

    def _failures(self, result: WorkflowResult) -> Iterator[RunFailure]:
        """Yield the failure of the innermost step that ended a failed workflow."""
        counting = [step.id for step in self._definition.steps if step.on_failure != "continue"]
        outer = [result.steps[step_id] for step_id in counting if _status(result, step_id) == "failed"]
        for failed in outer[:1]:
            inner = next(step for step in result.failures if (failed.error or "").endswith(step.error or ""))
            name, declared = inner.error_type or "", self._settings.declared
            classes = [each for each in _subclasses(BaseException) if each.__name__ == name]
            bases = [name, *(base.__name__ for each in classes for base in each.__mro__)]
            declared_as = next((each for each in bases if each in declared), "")
            is_declared = declared_as or any(issubclass(each, OffbookError) for each in classes)
            gave_up = any(gives_up(each, declared) for each in classes)
            kind: ErrorKind = "declared" if is_declared else "gave up" if gave_up else "undeclared"
            yield RunFailure(kind, name, normalize_text(inner.error or ""), declared_as)


def _status(result: WorkflowResult, step_id: str) -> StepStatus | None:
    return result.steps[step_id].status if step_id in result.steps else None


def _is_dead_end(step: AnyStep, result: WorkflowResult) -> bool:
    """Return whether a step is a router that chose nothing."""
    return isinstance(step, RouterStep) and result.steps[step.id].output is None


def _written_by(step: AnyStep) -> set[str]:
    """Return the keys of the state that a step writes."""
    return {reference.text.partition(".")[0] for reference in writes_of(step)}


def _subclasses(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    for each in kind.__subclasses__():
        yield each
        yield from _subclasses(each)


def _would_run(tool: str, why: str, remedy: str) -> InputError:
    reason = f"{why} and would run for real in every case: the recording has no calls of tools"
    hint = f"record a run with its tools: offbook run FLOW --record PATH; or {remedy}"
    return InputError(reason, source=f"tools.{tool}", hint=hint)
