"""Runs the steps of one level: their order, their concurrency, their values and their usage."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, time_limit
from offbook.errors import InputError, StepError, StepTimeoutError
from offbook.events import AttemptStarted, CallEnded, Event, Sink, StepEnded, StepStarted
from offbook.gateway.gateway import ProviderGateway
from offbook.gateway.retry import RetryPolicy
from offbook.messages import JsonObject
from offbook.recording.format.exchange import json_form
from offbook.text import did_you_mean
from offbook.tools import Toolbox, ToolDef
from offbook.tools.dispatch import TEST_ERRORS
from offbook.workflow.engine.result import StepCheckpoint, StepResult
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.schema import MAX_CONCURRENT_STEPS, ConfigDefinition, StepFields, ToolDefinition

OnText: TypeAlias = Callable[[str, str], object]
D = TypeVar("D", bound=StepFields)


class LoadedTools(Struct, frozen=True):
    """The tools that a file declares, without and with the run's wrappers."""

    own: Mapping[str, ToolDef]
    wrapped: Mapping[str, ToolDef]


LoadTools: TypeAlias = Callable[[Mapping[str, ToolDefinition]], LoadedTools]


class Environment(Struct, frozen=True, kw_only=True):
    """The things shared by all runs of a workflow's steps.

    `toolbox` has the tools with the run's wrappers, and `own_tools` the tools without them. `retry` is the default
    policy of steps. `on_text` is called with a step's id and each piece of its streamed answers. `load_tools` loads the
    tools that a file declares. `names` are the names that expressions may use. `prefix` precedes the ids of a
    sub-workflow's steps in recordings.
    """

    workflow: str
    config: ConfigDefinition
    toolbox: Toolbox
    own_tools: Mapping[str, ToolDef]
    sink: Sink
    checkpoint: StepCheckpoint
    on_text: OnText
    load_tools: LoadTools
    retry: RetryPolicy | None = None
    names: tuple[str, ...] = ("state",)
    prefix: str = ""


class RunContext(Struct, frozen=True):
    """The gateway and the results so far, which the steps of one run share."""

    gateway: ProviderGateway
    results: dict[str, StepResult]


class Scope(Struct, frozen=True):
    """The state, the variables of loops, and the place in the run (`loop[0].`) that a step sees when it runs."""

    run: RunContext
    state: JsonObject
    variables: Mapping[str, Any] = {}
    place: str = ""

    @property
    def names(self) -> dict[str, Any]:
        """The values that templates and expressions can name."""
        return {"state": self.state, **self.variables}


class StepRunner(ABC, Generic[D]):
    """A step that can run any number of times; a subclass for each type."""

    def __init__(self, definition: D, environment: Environment) -> None:
        self.definition, self.environment = definition, environment
        self.retry = environment.retry if definition.retry is None else definition.retry.policy()

    @abstractmethod
    async def run(self, scope: Scope, gateway: ProviderGateway) -> Any:
        """Run the step and return its output. `gateway` has the retry policy of the step, and measures its usage."""


def initial_state(declared: JsonObject, given: JsonObject, *, source: str) -> JsonObject:
    """Return a copy of the declared state with the given keys replaced.

    Raises:
        InputError: a given key is not declared.
    """
    for key in given:
        if key not in declared:
            hint = did_you_mean(key, declared, kind="declared")
            raise InputError(f"the workflow's state has no key {key!r}", source=source, place="state", hint=hint)
    return deepcopy(declared | given)


def set_path(state: JsonObject, path: str, value: Any) -> None:
    """Write a value at a dotted path; values on the way that are not mappings become mappings.

    Mappings on the way are replaced, never changed: a shallow copy of a state is safe.
    """
    *parents, last = path.split(".")
    for key in parents:
        inner = state.get(key)
        state[key] = state = dict(inner) if isinstance(inner, dict) else {}
    state[last] = value


BranchState = Literal["open", "closed", "broken"]
"""The state of a step for its dependants: done, not taken (by a router), or failed."""


class Schedule:
    """The order in which the steps of one level run. Takes linear time in steps and dependencies.

    A step is ready when all of its dependencies are settled. It is skipped if one of them failed, or if none of
    them was taken: where branches of a router meet again, one taken branch is enough.
    """

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._waiting = {step_id: len(before) for step_id, before in graph.dependencies.items()}
        self._open: set[str] = set()
        self._broken: dict[str, str] = {}
        self.ready = deque(step_id for step_id, count in self._waiting.items() if not count)
        self.skipped: deque[tuple[str, str]] = deque()
        """Steps that will not run, each with the reason; the caller removes them."""

    def settle(self, step_id: str, state: BranchState, *, chosen: str | None = None) -> None:
        """Record the state of a step; `chosen` is the target that a router chose."""
        settled = deque([(step_id, state)])
        while settled:
            settled.extend(self._update_dependants(*settled.popleft(), chosen))

    def _update_dependants(
        self, step_id: str, state: BranchState, chosen: str | None
    ) -> Iterator[tuple[str, BranchState]]:
        """Update the dependants of a settled step, and yield those that settle because they will not run."""
        router = self._graph.routers.get(step_id)
        for after in self._graph.dependants[step_id]:
            if state == "broken":
                self._broken.setdefault(after, step_id)
            elif state == "open" and (router is None or after not in router.targets or after == chosen):
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
    """A sink that adds up the calls, attempts, tokens and cost of a step."""

    def __init__(self) -> None:
        self.calls = self.attempts = 0
        self.prompt_tokens = self.completion_tokens = self.reasoning_tokens = 0
        self.cost_usd = 0.0

    def emit(self, event: Event) -> None:
        match event:
            case AttemptStarted():
                self.attempts += 1
            case CallEnded():
                self.calls += 1
                self.prompt_tokens += event.prompt_tokens
                self.completion_tokens += event.completion_tokens
                self.reasoning_tokens += event.reasoning_tokens
                self.cost_usd += event.cost_usd


class RunnableLevel(Struct, frozen=True):
    """The runners of the steps of one level, which can run any number of times."""

    graph: Graph
    steps: Mapping[str, StepRunner[Any]]
    environment: Environment

    async def run(self, scope: Scope) -> None:
        """Run all steps on the scope's state.

        Raises:
            StepError: a step without `on_failure: continue` failed.
        """
        failed = await LevelRun(self, scope).run()
        if failed:
            names = ", ".join(f"{scope.place}{result.id}" for result in failed)
            raise StepError(f"{names} failed: {failed[0].error}")


class LevelRun:
    """One run of a level. Workers run the ready steps in order, as many at once as the config allows."""

    def __init__(self, level: RunnableLevel, scope: Scope) -> None:
        self._level, self._scope, self._environment = level, scope, level.environment
        self._schedule = Schedule(level.graph)
        self._failed: list[StepResult] = []
        self._free_workers = level.environment.config.max_concurrent_steps or MAX_CONCURRENT_STEPS

    async def run(self) -> list[StepResult]:
        """Run all steps, and return the failed ones, without those that have `on_failure: continue`.

        Raises:
            RecordingMismatchError: a replay has no answer; the running steps are cancelled.
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
        """Run steps while some are ready."""
        ready = self._schedule.ready
        while ready:
            step = self._level.steps[ready.popleft()]
            for _ in range(min(len(ready), self._free_workers)):
                self._free_workers -= 1
                self._workers.create_task(self._work())
            self._settle(step, await self._result(step))
        self._free_workers += 1

    def _settle(self, step: StepRunner[Any], result: StepResult) -> None:
        definition = step.definition
        is_ignored = result.status == "failed" and definition.on_failure == "continue"
        if result.status == "failed" and not is_ignored:
            self._failed.append(result)
        if is_ignored and definition.output is not None:
            set_path(self._scope.state, definition.output, None)
        state: BranchState = "open" if result.status == "done" or is_ignored else "broken"
        self._schedule.settle(definition.id, state, chosen=result.output)
        while self._schedule.skipped:
            step_id, reason = self._schedule.skipped.popleft()
            kind = self._level.steps[step_id].definition.type
            self._publish(StepResult(id=step_id, type=kind, status="skipped", error=reason))

    async def _result(self, step: StepRunner[Any]) -> StepResult:
        """Return the stored result of a step, or run it."""
        definition, environment = step.definition, self._environment
        result = environment.checkpoint.find(f"{self._scope.place}{definition.id}")
        if result is None:
            result = await self._run(step)
        else:
            self._scope.run.gateway.budget.spend(result.cost_usd)
        if result.status == "done" and definition.output is not None:
            set_path(self._scope.state, definition.output, result.output)
        self._publish(result)
        return result

    async def _run(self, step: StepRunner[Any]) -> StepResult:
        definition, environment = step.definition, self._environment
        started_s, meter = SYSTEM_CLOCK.monotonic_s(), UsageMeter()
        path = f"{self._scope.place}{definition.id}"
        environment.sink.emit(StepStarted(environment.workflow, path, definition.type))
        output, error = None, None
        try:
            output = await self._output(step, meter)
        except TEST_ERRORS:  # they end the run: a result would hide them
            raise
        except Exception as failure:  # whatever a step raises is in its result
            error = failure
        return StepResult(
            id=definition.id,
            type=definition.type,
            status="done" if error is None else "failed",
            output=output,
            error=None if error is None else str(error) or type(error).__name__,
            error_type=None if error is None else type(error).__name__,
            calls=meter.calls,
            attempts=meter.attempts,
            prompt_tokens=meter.prompt_tokens,
            completion_tokens=meter.completion_tokens,
            reasoning_tokens=meter.reasoning_tokens,
            cost_usd=meter.cost_usd,
            latency_s=SYSTEM_CLOCK.monotonic_s() - started_s,
        )

    async def _output(self, step: StepRunner[Any], meter: UsageMeter) -> Any:
        """Run the step, and return its output as JSON values."""
        timeout_s, restart = step.definition.timeout, self._environment.config.restart_streams
        gateway = self._scope.run.gateway.using(retry=step.retry, restart_streams=restart, sink=meter)
        async with time_limit(timeout_s, lambda limit_s: StepTimeoutError(step.definition.id, timeout_s=limit_s)):
            return json_form(await step.run(self._scope, gateway)).value

    def _publish(self, result: StepResult) -> None:
        """Add a result to the run, store it in the checkpoint and emit its event."""
        environment, path = self._environment, f"{self._scope.place}{result.id}"
        self._scope.run.results[path] = result
        environment.checkpoint.save(path, result)
        environment.sink.emit(
            StepEnded(
                workflow=environment.workflow,
                step=path,
                type=result.type,
                status=result.status,
                latency_s=result.latency_s,
                calls=result.calls,
                attempts=result.attempts,
                prompt_tokens=result.prompt_tokens,
                completion_tokens=result.completion_tokens,
                reasoning_tokens=result.reasoning_tokens,
                cost_usd=result.cost_usd,
                error=result.error_type,
            )
        )
