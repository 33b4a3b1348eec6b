"""Exploring a scenario: one conversation on a stage, its tools mocked, its assertions held."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from offbook.config import Config, rules_of
from offbook.config.agents import agent_of
from offbook.config.parts import open_parts
from offbook.config.recordings import NotRecorded
from offbook.config.schema import EndpointConfig
from offbook.config.step_names import StepNames
from offbook.config.user import user_maker
from offbook.errors import InputError, MockError, RecordingMismatchError, TargetError
from offbook.events import Event
from offbook.explore.path_count import PathCount
from offbook.explore.performance import Performance
from offbook.explore.run import Run
from offbook.explore.stage import Stage
from offbook.explore.theatre import Theatre
from offbook.faults import FaultPlan
from offbook.messages import JsonObject
from offbook.providers.prefixed import PrefixedProvider
from offbook.providers.provider import Provider
from offbook.scenarios.mocks.real_tool import tool_described
from offbook.scenarios.result import ConversationResult
from offbook.scenarios.runner import Cast, ScenarioRunner
from offbook.scenarios.scenario import Scenario
from offbook.subjects.conversation_shelf import conversation_shelf
from offbook.subjects.late_session import LateSession
from offbook.subjects.marked_stage import MarkedStage
from offbook.subjects.overheard_agent import OverheardAgent
from offbook.subjects.staged_parts import StagedParts
from offbook.subjects.terms import USUAL_TERMS, Terms

OVER_THE_WIRE = "explore it as a program: offbook explore --replay PATH -- COMMAND"


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
        terms: Terms = USUAL_TERMS,
    ) -> None:
        if isinstance(config.agents[agent], EndpointConfig):
            reason = "it asks its models elsewhere, where no fault can strike"
            raise InputError(reason, source=config.source, place=f"agent {agent}", hint=OVER_THE_WIRE)
        self.name = f"{scenario.name}, with {agent}"
        self._config, self._agent, self._terms = config, agent, terms
        schemas = {tool: tool_described(given, name=tool) for tool, given in scenario.schemas.items()}
        self._scenario = replace(scenario, conversations=1, schemas=schemas)
        self._prefix = f"{scenario.name}/{agent}/1/"
        self._rules = replace(rules_of(config), answer_timeout_s=None, budget_usd=None, thresholds={})
        self._paths = _Paths()
        nobody = NotRecorded(Path(recording))
        self._target = agent_of(config, agent, nobody, sink=self._paths)
        self._make_user = user_maker(config, [] if scenario.is_scripted else [scenario])
        shelf = conversation_shelf(recording, self._prefix)
        self._theatre = Theatre(shelf, terms.divergence(PrefixedProvider(LateSession(self._live), self._prefix)))
        self._is_clean = True

    def run(self, plan: FaultPlan) -> Run:
        held: list[ConversationResult] = []
        performance = Performance(
            partial(self._play, held.append), declared=self._terms.declared, deadlines=self._terms.deadlines
        )
        run = performance.run(self._theatre.stage(plan))
        if self._is_clean and not run.calls and run.error is None:
            reason = "the agent asks no model by what it is given, so that none can fail"
            hint = f"let it ask ctx.provider, or {OVER_THE_WIRE}"
            raise InputError(reason, source=self._config.source, place=f"agent {self._agent}", hint=hint)
        self._is_clean = False
        return self._told(run, held)

    def close(self) -> None:
        self._theatre.close()

    async def _play(self, note: Callable[[ConversationResult], object], stage: Stage) -> JsonObject:
        self._paths.to = stage.path_count
        raised: list[Exception] = []
        cast = Cast(
            {self._agent: OverheardAgent(self._target, raised.append)},
            StagedParts(stage, self._prefix),
            self._make_user,
            around_tools=MarkedStage(stage, self._terms.side_effects).wrap,
        )
        result = await ScenarioRunner(cast, self._rules).run([self._scenario], agents=[self._agent])
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
        if run.error is not None and run.error.type in _MISSES:
            missed = run.error.message
        broken = [failure.reason for failure in failures if failure.kind == "assertion"] if run.error is None else []
        return replace(run, broken=tuple(broken), diverged=run.diverged or missed)

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[Provider]:
        names = StepNames([(self._scenario.name, self._agent)])
        async with open_parts(self._config, names, [("user", ""), ("agent", self._agent)]) as parts:
            yield parts


_MISSES = {kind.__name__ for kind in (RecordingMismatchError, MockError, *MockError.__subclasses__())}
"""The errors by which a test says that it has no answer."""


class _Paths:
    """Counts what the agent does to recover, for the run under way."""

    def __init__(self) -> None:
        self.to = PathCount()

    def emit(self, event: Event) -> None:
        self.to.emit(event)


def _cause(error: Exception) -> Exception:
    """What made an agent fail, where that is known."""
    return error.__cause__ if isinstance(error, TargetError) and isinstance(error.__cause__, Exception) else error
