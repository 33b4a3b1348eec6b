"""Running the steps of one level: as their dependencies allow, and not too many at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import EventLoopError, MockError, RecordingMismatchError, StepError, StepTimeoutError
from offbook.events import StepEnded, StepStarted
from offbook.recording.json_form import json_form
from offbook.workflow.graph import Graph
from offbook.workflow.meter import Meter
from offbook.workflow.result import StepResult
from offbook.workflow.schedule import Passage, Schedule
from offbook.workflow.state import put
from offbook.workflow.steps.step import Environment, Scope, Step

ENDS_THE_RUN = (RecordingMismatchError, MockError, EventLoopError)
"""Errors of whoever runs the workflow, not of a step: to go on would hide them."""


class RunnableLevel(Struct, frozen=True):
    """Steps that depend on one another, ready to be run on a state any number of times."""

    graph: Graph
    steps: Mapping[str, Step[Any]]
    environment: Environment

    async def run(self, scope: Scope) -> None:
        """Run all steps on the scope's state.

        Raises:
            StepError: a step failed whose failure was not to be passed over.
        """
        failed = await LevelRun(self, scope).to_its_end()
        if failed:
            names = ", ".join(f"{scope.place}{result.id}" for result in failed)
            raise StepError(f"{names} failed: {failed[0].error}")


class LevelRun:
    """One run of a level. Workers take steps that are ready, in order, as many at once as the config allows."""

    def __init__(self, level: RunnableLevel, scope: Scope) -> None:
        self._level, self._scope, self._environment = level, scope, level.environment
        self._schedule = Schedule(level.graph)
        self._failed: list[StepResult] = []
        self._free_workers = level.environment.config.max_concurrent_steps

    async def to_its_end(self) -> list[StepResult]:
        """Run all steps; gives back those that failed and whose failure counts.

        Raises:
            RecordingMismatchError: a replay has no answer; steps under way are cancelled.
        """
        try:
            async with asyncio.TaskGroup() as self._workers:
                self._free_workers -= 1
                await self._work()
        except ExceptionGroup as group:
            first = group.exceptions[0]
        else:
            return self._failed
        raise first

    async def _work(self) -> None:
        """Run steps for as long as there are some that are ready."""
        ready = self._schedule.ready
        while ready:
            step = self._level.steps[ready.popleft()]
            self._call_in(len(ready))
            self._settle(step, await self._result(step))
        self._free_workers += 1

    def _call_in(self, waiting: int) -> None:
        """Let further workers begin, for steps that are ready too."""
        for _ in range(min(waiting, self._free_workers)):
            self._free_workers -= 1
            self._workers.create_task(self._work())

    def _settle(self, step: Step[Any], result: StepResult) -> None:
        definition = step.definition
        is_passed_over = result.status == "failed" and definition.on_failure == "continue"
        if result.status == "failed" and not is_passed_over:
            self._failed.append(result)
        if is_passed_over and definition.output is not None:
            put(self._scope.state, definition.output, None)
        passage: Passage = "open" if result.status == "done" or is_passed_over else "broken"
        self._schedule.settle(definition.id, passage, chosen=result.output)
        while self._schedule.skipped:
            step_id, reason = self._schedule.skipped.popleft()
            kind = self._level.steps[step_id].definition.type
            self._keep(StepResult(step_id, kind, "skipped", error=reason))

    async def _result(self, step: Step[Any]) -> StepResult:
        """What becomes of a step: as it was saved if it has run before, else by running it."""
        definition, environment = step.definition, self._environment
        result = environment.checkpoint.find(f"{self._scope.place}{definition.id}")
        if result is None:
            result = await self._run(step)
        else:
            self._scope.run.gateway.budget.spend(result.cost_usd)
        if result.status == "done" and definition.output is not None:
            put(self._scope.state, definition.output, result.output)
        self._keep(result)
        return result

    async def _run(self, step: Step[Any]) -> StepResult:
        definition, environment = step.definition, self._environment
        started_s, meter = SYSTEM_CLOCK.monotonic_s(), Meter()
        path = f"{self._scope.place}{definition.id}"
        environment.sink.emit(StepStarted(environment.workflow, path, definition.type))
        output, error = None, None
        try:
            output = await self._output(step, meter)
        except ENDS_THE_RUN:
            raise
        except Exception as failure:  # whatever a step does wrong is told in its result
            error = failure
        return StepResult(
            definition.id,
            definition.type,
            "done" if error is None else "failed",
            output,
            None if error is None else str(error) or type(error).__name__,
            None if error is None else type(error).__name__,
            meter.calls,
            meter.attempts,
            meter.prompt_tokens,
            meter.completion_tokens,
            meter.cost_usd,
            SYSTEM_CLOCK.monotonic_s() - started_s,
        )

    async def _output(self, step: Step[Any], meter: Meter) -> Any:
        """What the step gives, as JSON."""
        timeout_s = step.definition.timeout
        gateway = self._scope.run.gateway.using(retry=step.retry, sink=meter)
        if timeout_s is None:
            return json_form(await step.run(self._scope, gateway)).value
        try:
            async with asyncio.timeout(timeout_s) as limit:
                return json_form(await step.run(self._scope, gateway)).value
        except TimeoutError:
            if not limit.expired():
                raise
            raise StepTimeoutError(step.definition.id, timeout_s=timeout_s) from None

    def _keep(self, result: StepResult) -> None:
        environment, path = self._environment, f"{self._scope.place}{result.id}"
        self._scope.run.results[path] = result
        environment.checkpoint.save(path, result)
        environment.sink.emit(
            StepEnded(
                environment.workflow,
                path,
                result.type,
                result.status,
                result.latency_s,
                result.calls,
                result.attempts,
                result.prompt_tokens,
                result.completion_tokens,
                result.cost_usd,
                result.error_type,
            )
        )
