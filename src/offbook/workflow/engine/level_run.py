"""Runs the steps of one level: schedules them by dependency, bounds concurrency and meters usage."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, time_limit
from offbook.errors import EventLoopError, MockError, RecordingMismatchError, StepError, StepTimeoutError
from offbook.events import AttemptStarted, CallEnded, Event, StepEnded, StepStarted
from offbook.recording.format.tool_exchange import json_form
from offbook.workflow.engine.result import StepResult
from offbook.workflow.engine.step import Environment, Scope, StepRunner, set_path
from offbook.workflow.file.graph import Graph

BranchState = Literal["open", "closed", "broken"]
"""What a step is for those after it: done, not taken (by a router), or failed."""


class Schedule:
    """The steps of one level, from ready to settled. Takes time in proportion to steps and dependencies.

    A step is ready when all that it depends on are settled. It is skipped if one of these failed, or if
    none of them was taken: where branches of a router meet again, one of them is enough.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._waiting = {step_id: len(before) for step_id, before in graph.dependencies.items()}
        self._open: set[str] = set()
        self._broken: dict[str, str] = {}
        self.ready = deque(step_id for step_id, count in self._waiting.items() if not count)
        self.skipped: deque[tuple[str, str]] = deque()
        """Steps that will not run, each with the reason, until somebody takes them out."""

    def settle(self, step_id: str, passage: BranchState, *, chosen: str | None = None) -> None:
        """Take note of what a step is for those after it; a router names the target that it has `chosen`."""
        settled = deque([(step_id, passage)])
        while settled:
            settled.extend(self._pass_on(*settled.popleft(), chosen))

    def _pass_on(self, step_id: str, passage: BranchState, chosen: str | None) -> Iterator[tuple[str, BranchState]]:
        """Tell the steps after a settled one; those that are settled by that, as they will not run."""
        router = self._graph.routers.get(step_id)
        for after in self._graph.dependants[step_id]:
            if passage == "broken":
                self._broken.setdefault(after, step_id)
            elif passage == "open" and (router is None or after not in router.targets or after == chosen):
                self._open.add(after)
            self._waiting[after] -= 1
            if not self._waiting[after]:
                yield from self._decide(after)

    def _decide(self, step_id: str) -> Iterator[tuple[str, BranchState]]:
        if step_id in self._broken:
            self.skipped.append((step_id, f"{self._broken[step_id]} failed"))
            yield step_id, "broken"
        elif step_id in self._open:
            self.ready.append(step_id)
        else:
            self.skipped.append((step_id, "no branch led here"))
            yield step_id, "closed"


class UsageMeter:
    """Hears the events of a step's calls and counts calls, attempts, tokens and cost."""

    def __init__(self) -> None:
        self.calls = self.attempts = self.prompt_tokens = self.completion_tokens = 0
        self.cost_usd = 0.0

    def emit(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self.attempts += 1
            case CallEnded():
                self.calls += 1
                self.prompt_tokens += event.prompt_tokens
                self.completion_tokens += event.completion_tokens
                self.cost_usd += event.cost_usd


FATAL_ERRORS = (RecordingMismatchError, MockError, EventLoopError)
"""Errors of whoever runs the workflow, not of a step: to go on would hide them."""


class RunnableLevel(Struct, frozen=True):
    """Steps that depend on one another, ready to be run on a state any number of times."""

    graph: Graph
    steps: Mapping[str, StepRunner[Any]]
    environment: Environment

    async def run(self, scope: Scope) -> None:
        """Run all steps on the scope's state.

        Raises:
            StepError: a step failed whose failure was not to be passed over.
        """
        failed = await LevelRun(self, scope).run()
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

    async def run(self) -> list[StepResult]:
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
            self._start_workers(len(ready))
            self._settle(step, await self._result(step))
        self._free_workers += 1

    def _start_workers(self, waiting: int) -> None:
        """Let further workers begin, for steps that are ready too."""
        for _ in range(min(waiting, self._free_workers)):
            self._free_workers -= 1
            self._workers.create_task(self._work())

    def _settle(self, step: StepRunner[Any], result: StepResult) -> None:
        definition = step.definition
        is_passed_over = result.status == "failed" and definition.on_failure == "continue"
        if result.status == "failed" and not is_passed_over:
            self._failed.append(result)
        if is_passed_over and definition.output is not None:
            set_path(self._scope.state, definition.output, None)
        passage: BranchState = "open" if result.status == "done" or is_passed_over else "broken"
        self._schedule.settle(definition.id, passage, chosen=result.output)
        while self._schedule.skipped:
            step_id, reason = self._schedule.skipped.popleft()
            kind = self._level.steps[step_id].definition.type
            self._keep(StepResult(step_id, kind, "skipped", error=reason))

    async def _result(self, step: StepRunner[Any]) -> StepResult:
        """What becomes of a step: as it was saved if it has run before, else by running it."""
        definition, environment = step.definition, self._environment
        result = environment.checkpoint.find(f"{self._scope.place}{definition.id}")
        if result is None:
            result = await self._run(step)
        else:
            self._scope.run.gateway.budget.spend(result.cost_usd)
        if result.status == "done" and definition.output is not None:
            set_path(self._scope.state, definition.output, result.output)
        self._keep(result)
        return result

    async def _run(self, step: StepRunner[Any]) -> StepResult:
        definition, environment = step.definition, self._environment
        started_s, meter = SYSTEM_CLOCK.monotonic_s(), UsageMeter()
        path = f"{self._scope.place}{definition.id}"
        environment.sink.emit(StepStarted(environment.workflow, path, definition.type))
        output, error = None, None
        try:
            output = await self._output(step, meter)
        except FATAL_ERRORS:
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

    async def _output(self, step: StepRunner[Any], meter: UsageMeter) -> Any:
        """What the step gives, as JSON."""
        timeout_s = step.definition.timeout
        gateway = self._scope.run.gateway.using(retry=step.retry, sink=meter)
        async with time_limit(timeout_s, lambda limit_s: StepTimeoutError(step.definition.id, timeout_s=limit_s)):
            return json_form(await step.run(self._scope, gateway)).value

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
