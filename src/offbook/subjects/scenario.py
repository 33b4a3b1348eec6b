"""Explores one conversation of a scenario with mocked tools and its assertions."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from offbook.config import Config, collect_scenarios, find_config, load_config, run_rules
from offbook.config.agents import build_agent
from offbook.config.file import EndpointConfig, HandlerConfig
from offbook.config.participants import user_maker
from offbook.config.recordings import MissingRecording
from offbook.config.roles import StepNames, open_role_providers
from offbook.errors import InputError, MockError, RecordingMismatchError, TargetError
from offbook.events import Event
from offbook.explore.harness import Harness, HarnessFactory, RecoveryCounter
from offbook.explore.monitor import MonitoredFunction
from offbook.explore.replay import LazyProvider
from offbook.explore.run import Run
from offbook.explore.settings import DEFAULT_SETTINGS, ExploreSettings
from offbook.faults import FaultPlan
from offbook.messages import JsonObject, Reply, Request
from offbook.providers.provider import PrefixedProvider, Provider
from offbook.recording.format.document import Document
from offbook.recording.match.continuation import Continuation
from offbook.recording.redact.rules import add_rules_of
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.scenarios.mocks import MockedTools
from offbook.scenarios.real_tool import declared_tool
from offbook.scenarios.result import ConversationResult
from offbook.scenarios.runner import Participants, ScenarioRunner
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import AGENT_STEP, AgentAnswer, AgentDialogue, AgentEnvironment, Target
from offbook.subjects.forked_run import IsolatedSubject
from offbook.text import did_you_mean
from offbook.tools.dispatch import is_test_error


def open_conversation(recording: str | os.PathLike[str], prefix: str) -> MemoryReader:
    """Read the exchanges whose steps start with `prefix`, without the prefix. The mocks answer tool calls.

    Raises:
        InputError: the recording cannot be read, or has no entry of the conversation.
    """
    store = open_store(recording)
    if not store.exists():
        hint = f"record it: offbook test FILE --record {Path(recording).parent}/; --recording names that folder"
        raise InputError("there is no such recording", source=os.fspath(recording), hint=hint)
    whole = store.load()
    entries = {key.removeprefix(prefix): entry for key, entry in whole.entries.items() if key.startswith(prefix)}
    if not entries:
        hint = "record this scenario with this agent: offbook test FILE --record PATH"
        reason = f"it has no entry of the conversation {prefix.removesuffix('/')!r}"
        raise InputError(reason, source=os.fspath(recording), hint=hint)
    return MemoryReader(Document(whole.meta, entries, version=whole.version), source=store.location)


class ErrorCapturingTarget:
    """An agent whose errors are also added to `raised`, including caught errors of unanswered calls."""

    def __init__(self, target: Target, raised: list[Exception]) -> None:
        self.name, self._target, self._raised = target.name, target, raised

    def begin(self, environment: AgentEnvironment) -> ErrorCapturingDialogue:
        return ErrorCapturingDialogue(self._target.begin(environment), environment.tools, self._raised)


class ErrorCapturingDialogue:
    """A conversation with such an agent."""

    def __init__(self, dialogue: AgentDialogue, tools: MockedTools, raised: list[Exception]) -> None:
        self._dialogue, self._tools, self._raised = dialogue, tools, raised

    async def say(self, text: str) -> AgentAnswer:
        try:
            return await self._dialogue.say(text)
        except Exception as error:
            if error not in self._tools.unanswered:
                self._raised.append(error)
            raise
        finally:
            self._raised += self._tools.unanswered


class _RoleRouter(Provider):
    """Passes calls on without the `prefix` of their steps: the agent's to where faults fire, others to users."""

    name = "explore"

    def __init__(self, harness: Harness, prefix: str) -> None:
        self._harness, self._prefix = harness, prefix

    async def send(self, request: Request) -> Reply:
        step = (request.step_id or "").removeprefix(self._prefix)
        is_agent = step == AGENT_STEP or step.startswith(f"{AGENT_STEP}.")
        provider = self._harness.provider if is_agent else self._harness.users
        return await provider.send(replace(request, step_id=step))


EXPLORE_AS_PROGRAM = "explore it as a program: offbook explore --replay PATH -- COMMAND"


class ScenarioSubject(IsolatedSubject):
    """A conversation of a scenario with an agent of the config, run on a recording.

    Faults fire at the agent's model calls and mocked tools, not at a simulated user's calls. Judges are not asked.
    Violated assertions are broken invariants, unless the agent raised an error.

    Raises:
        InputError: the recording cannot be read or has no entry of the conversation, the agent is an endpoint, or
            something that the config names is missing; from `run`, if the agent makes no calls here.
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
            reason = "its models are called elsewhere, where no fault can fire"
            raise InputError(reason, source=config.source, place=f"agent {agent}", hint=EXPLORE_AS_PROGRAM)
        declared = config.agents[agent]
        if isinstance(declared, HandlerConfig) and declared.mcp is not None:
            reason = "its MCP servers are not part of an explored scenario"
            raise InputError(reason, source=config.source, place=f"agent {agent}", hint=EXPLORE_AS_PROGRAM)
        self.name = f"{scenario.name}, with {agent}"
        self._config, self._agent, self._settings = config, agent, settings
        schemas = {tool: declared_tool(given, name=tool) for tool, given in scenario.schemas.items()}
        self._scenario = replace(scenario, conversations=1, schemas=schemas)
        self._prefix = f"{scenario.name}/{agent}/1/"
        self._rules = replace(run_rules(config), answer_timeout_s=None, budget_usd=None, thresholds={})
        self._recovery = _RecoveryEvents()
        self._target = build_agent(config, agent, MissingRecording(Path(recording)), sink=self._recovery)
        self._make_user = user_maker(config, [] if scenario.is_scripted else [scenario])
        reader = open_conversation(recording, self._prefix)
        divergence = settings.divergence(PrefixedProvider(LazyProvider(self._live), self._prefix))
        super().__init__(HarnessFactory(reader, divergence, declarations=settings.declarations), settings.deadlines)

    def run_here(self, plan: FaultPlan, continuation: Continuation) -> Run:
        is_clean = not self._harnesses.has_script
        results: list[ConversationResult] = []
        monitored = MonitoredFunction(
            partial(self._hold_conversation, results.append),
            declared=self._settings.declared,
            deadlines=self._settings.deadlines,
        )
        run = monitored.run(self._harnesses, plan, continuation)
        if is_clean and not run.calls and not run.tools and run.error is None:
            reason = (
                "the agent makes no model calls by the provider that it is given, and no tool is mocked: none can fail"
            )
            hint = f"let it call ctx.provider or mocked tools, or {EXPLORE_AS_PROGRAM}"
            raise InputError(reason, source=self._config.source, place=f"agent {self._agent}", hint=hint)
        return self._with_conversation(run, results)

    async def _hold_conversation(self, note: Callable[[ConversationResult], object], harness: Harness) -> JsonObject:
        self._recovery.counter = harness.recovery_counter
        raised: list[Exception] = []
        participants = Participants(
            {self._agent: ErrorCapturingTarget(self._target, raised)},
            _RoleRouter(harness, self._prefix),
            self._make_user,
            wrap_tool=harness.wrap,
        )
        result = await ScenarioRunner(participants, self._rules).run([self._scenario], agents=[self._agent])
        conversation = result.scenarios[0].conversations[0]
        note(conversation)
        for error in sorted(raised, key=lambda error: not is_test_error(error)):
            cause = error.__cause__
            raise cause if isinstance(error, TargetError) and isinstance(cause, Exception) else error
        for failure in conversation.failures:
            if failure.kind == "error":
                raise TargetError(failure.reason)
        turns = [{"user": turn.user, "agent": turn.agent} for turn in conversation.turns]
        return {"ending": conversation.ending, "turns": turns}

    def _with_conversation(self, run: Run, results: list[ConversationResult]) -> Run:
        """Return the run with its conversation's broken assertions and unanswered calls.

        No continuation answers for a mock, so nothing after an unanswered mock call can be judged.
        """
        if run.error is not None and run.error.type in _MISMATCH_ERRORS:
            return replace(run, diverged=run.error.message, continuation="")
        failures = [failure for each in results for failure in each.failures]
        missed = next((failure.reason for failure in failures if failure.kind == "mismatch"), "")
        broken = [failure.reason for failure in failures if failure.kind == "assertion"] if run.error is None else []
        return replace(run, broken=tuple(broken), diverged=run.diverged or missed)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Provider]:
        names = StepNames([(self._scenario.name, self._agent)])
        async with open_role_providers(self._config, names, [("user", ""), ("agent", self._agent)]) as parts:
            yield parts


_MISMATCH_ERRORS = {kind.__name__ for kind in (RecordingMismatchError, MockError, *MockError.__subclasses__())}
"""The errors of a replay or a mock that has no answer."""


class _RecoveryEvents:
    """Counts the agent's recoveries in the current run."""

    def __init__(self) -> None:
        self.counter = RecoveryCounter()

    def emit(self, event: Event) -> None:
        self.counter.emit(event)


def config_of(file: str, config: str | None) -> Config:
    """Load the named config, or the one nearest to a file of scenarios.

    Raises:
        InputError: no config was found, or it is invalid.
    """
    found = find_config(Path(file).resolve().parent) if config is None else load_config(config)
    add_rules_of(found.source)
    return found


def scenario_of(file: Path, name: str | None) -> Scenario:
    """Load a scenario from a file: by its name, by a unique part of its name, or the only one.

    Raises:
        InputError: the file cannot be imported, there is no such scenario, or there are several.
    """
    scenarios = {scenario.name: scenario for scenario in collect_scenarios([file])}
    if name in scenarios:
        return scenarios[name]
    chosen = [scenario for scenario in scenarios.values() if (name or "").lower() in scenario.name.lower()]
    if len(chosen) == 1:
        return chosen[0]
    names = ", ".join(repr(scenario.name) for scenario in chosen) or "none"
    if name is None:
        reason, hint = f"it declares {len(scenarios)} scenarios", f"choose one with -o scenario=NAME: {names}"
    elif chosen:
        reason, hint = f"{len(chosen)} scenarios have {name!r} in their names", f"choose one: {names}"
    else:
        reason, hint = f"there is no scenario {name!r}", did_you_mean(name, scenarios, kind="scenarios")
    raise InputError(reason, source=str(file), hint=hint)
