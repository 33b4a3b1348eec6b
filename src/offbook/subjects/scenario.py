"""Explores one conversation of a scenario: tools are mocked, and its assertions must hold."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from offbook.config import Config, run_rules
from offbook.config.agents import build_agent
from offbook.config.participants import user_maker
from offbook.config.recordings import MissingRecording
from offbook.config.roles import StepNames, open_role_providers
from offbook.config.schema import EndpointConfig
from offbook.errors import InputError, MockError, RecordingMismatchError, TargetError
from offbook.events import Event
from offbook.explore.harness import Harness, HarnessFactory, SideEffectHarness
from offbook.explore.monitor import MonitoredFunction
from offbook.explore.observers import RecoveryCounter
from offbook.explore.replay import LazyProvider
from offbook.explore.run import Run
from offbook.faults import FaultPlan
from offbook.messages import JsonObject, Reply, Request
from offbook.providers.provider import PrefixedProvider, Provider
from offbook.recording.format.document import Document
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.scenarios.mocks.real_tool import declared_tool
from offbook.scenarios.result import ConversationResult
from offbook.scenarios.runner import Participants, ScenarioRunner
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import AGENT_STEP, AgentAnswer, AgentEnvironment, Dialogue, Target
from offbook.subjects.specs import DEFAULT_SETTINGS, ExploreSettings


def open_conversation(recording: str | os.PathLike[str], prefix: str) -> MemoryReader:
    """The exchanges whose steps begin with `prefix`, under what follows it. Calls of tools are left to their mocks.

    Raises:
        InputError: the recording cannot be read, or has nothing of the conversation.
    """
    store = open_store(recording)
    if not store.exists():
        hint = "record it: offbook test FILE --record PATH"
        raise InputError("there is no such recording", source=os.fspath(recording), hint=hint)
    whole = store.load()
    entries = {key.removeprefix(prefix): entry for key, entry in whole.entries.items() if key.startswith(prefix)}
    if not entries:
        hint = "record it with this scenario and agent: offbook test FILE --record PATH"
        reason = f"there is nothing of the conversation {prefix.removesuffix('/')!r} in it"
        raise InputError(reason, source=os.fspath(recording), hint=hint)
    return MemoryReader(Document(whole.meta, entries, version=whole.version), source=store.location)


OnError = Callable[[Exception], object]


class ErrorCapturingTarget:
    """The agent itself; `on_error` is told what it raises."""

    def __init__(self, target: Target, on_error: OnError) -> None:
        self.name, self._target, self._on_error = target.name, target, on_error

    def begin(self, environment: AgentEnvironment) -> ErrorCapturingDialogue:
        return ErrorCapturingDialogue(self._target.begin(environment), self._on_error)


class ErrorCapturingDialogue:
    """A conversation with it."""

    def __init__(self, dialogue: Dialogue, on_error: OnError) -> None:
        self._dialogue, self._on_error = dialogue, on_error

    async def say(self, text: str) -> AgentAnswer:
        try:
            return await self._dialogue.say(text)
        except Exception as error:
            self._on_error(error)
            raise


class _RoleRouter(Provider):
    """Passes calls on without the conversation's `prefix` before their steps: the agent's to where faults strike."""

    name = "explore"

    def __init__(self, harness: Harness, prefix: str) -> None:
        self._harness, self._prefix = harness, prefix

    async def send(self, request: Request) -> Reply:
        step = (request.step_id or "").removeprefix(self._prefix)
        is_agent = step == AGENT_STEP or step.startswith(f"{AGENT_STEP}.")
        provider = self._harness.provider if is_agent else self._harness.unobserved
        return await provider.send(replace(request, step_id=step))


EXPLORE_AS_PROGRAM = "explore it as a program: offbook explore --replay PATH -- COMMAND"


class ScenarioSubject:
    """A conversation of a scenario with an agent of the config, run on a recording.

    Faults strike the model calls of the agent and its mocked tools, and not those of a simulated user; judges are not
    asked. Assertions that do not hold are broken, unless the agent has said that it failed.

    Raises:
        InputError: the recording cannot be read or has nothing of the conversation, the agent is an endpoint, or
            something that the config names is missing; from `run`, if the agent asks no model here.
    """

    def __init__(
        self,
        config: Config,
        scenario: Scenario,
        agent: str,
        recording: str | os.PathLike[str],
        *,
        settings: ExploreSettings = DEFAULT_SETTINGS,
    ) -> None:
        if isinstance(config.agents[agent], EndpointConfig):
            reason = "it asks its models elsewhere, where no fault can strike"
            raise InputError(reason, source=config.source, place=f"agent {agent}", hint=EXPLORE_AS_PROGRAM)
        self.name = f"{scenario.name}, with {agent}"
        self._config, self._agent, self._settings = config, agent, settings
        schemas = {tool: declared_tool(given, name=tool) for tool, given in scenario.schemas.items()}
        self._scenario = replace(scenario, conversations=1, schemas=schemas)
        self._prefix = f"{scenario.name}/{agent}/1/"
        self._rules = replace(run_rules(config), answer_timeout_s=None, budget_usd=None, thresholds={})
        self._paths = _RecoveryEvents()
        nobody = MissingRecording(Path(recording))
        self._target = build_agent(config, agent, nobody, sink=self._paths)
        self._make_user = user_maker(config, [] if scenario.is_scripted else [scenario])
        shelf = open_conversation(recording, self._prefix)
        self._harnesses = HarnessFactory(
            shelf, settings.divergence(PrefixedProvider(LazyProvider(self._live), self._prefix))
        )
        self._is_clean = True

    def run(self, plan: FaultPlan) -> Run:
        held: list[ConversationResult] = []
        monitored = MonitoredFunction(
            partial(self._play, held.append), declared=self._settings.declared, deadlines=self._settings.deadlines
        )
        run = monitored.run(self._harnesses.create(plan))
        if self._is_clean and not run.calls and run.error is None:
            reason = "the agent asks no model by what it is given, so that none can fail"
            hint = f"let it ask ctx.provider, or {EXPLORE_AS_PROGRAM}"
            raise InputError(reason, source=self._config.source, place=f"agent {self._agent}", hint=hint)
        self._is_clean = False
        return self._told(run, held)

    def close(self) -> None:
        self._harnesses.close()

    async def _play(self, note: Callable[[ConversationResult], object], harness: Harness) -> JsonObject:
        self._paths.to = harness.recovery_counter
        raised: list[Exception] = []
        participants = Participants(
            {self._agent: ErrorCapturingTarget(self._target, raised.append)},
            _RoleRouter(harness, self._prefix),
            self._make_user,
            wrap_tool=SideEffectHarness(harness, self._settings.side_effects).wrap,
        )
        result = await ScenarioRunner(participants, self._rules).run([self._scenario], agents=[self._agent])
        held = result.scenarios[0].conversations[0]
        note(held)
        for error in raised:
            raise _cause(error)
        for failure in held.failures:
            if failure.kind == "error":
                raise TargetError(failure.reason)
        return {"ending": held.ending, "turns": [{"user": turn.user, "agent": turn.agent} for turn in held.turns]}

    def _told(self, run: Run, held: list[ConversationResult]) -> Run:
        """The run with what is known of its conversation: what is broken, and what nobody has an answer for."""
        failures = [failure for each in held for failure in each.failures]
        missed = next((failure.reason for failure in failures if failure.kind == "mismatch"), "")
        if run.error is not None and run.error.type in _MISMATCH_ERRORS:
            missed = run.error.message
        broken = [failure.reason for failure in failures if failure.kind == "assertion"] if run.error is None else []
        return replace(run, broken=tuple(broken), diverged=run.diverged or missed)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Provider]:
        names = StepNames([(self._scenario.name, self._agent)])
        async with open_role_providers(self._config, names, [("user", ""), ("agent", self._agent)]) as parts:
            yield parts


_MISMATCH_ERRORS = {kind.__name__ for kind in (RecordingMismatchError, MockError, *MockError.__subclasses__())}
"""The errors by which a test says that it has no answer."""


class _RecoveryEvents:
    """Counts what the agent does to recover, for the run under way."""

    def __init__(self) -> None:
        self.to = RecoveryCounter()

    def emit(self, event: Event) -> None:
        self.to.emit(event)


def _cause(error: Exception) -> Exception:
    """What made an agent fail, where that is known."""
    return error.__cause__ if isinstance(error, TargetError) and isinstance(error.__cause__, Exception) else error
