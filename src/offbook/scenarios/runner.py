"""Runs scenarios: holds their conversations concurrently and applies the rules of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, RecordingMismatchError
from offbook.providers.provider import PrefixedProvider, Provider
from offbook.scenarios.conversation import (
    Conversation,
    ConversationLimits,
    ConversationTranscript,
    User,
    check_assertions,
    mismatch_failure,
)
from offbook.scenarios.judge import below_thresholds
from offbook.scenarios.mocks import Mocks
from offbook.scenarios.mocks.mocked_tools import ToolWrapper, UnmockedPolicy, unwrapped
from offbook.scenarios.result import (
    AssertionOutcome,
    ConversationResult,
    Failure,
    Judgement,
    ScenarioResult,
    SuiteResult,
    TurnRecord,
)
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import AgentEnvironment, Target
from offbook.scenarios.users import ScriptedUser


class ConversationJudge(Protocol):
    """Judges conversations that have ended."""

    async def judge(self, scenario: Scenario, turns: Sequence[TurnRecord]) -> tuple[Judgement, ...]: ...


MakeUser: TypeAlias = Callable[[Scenario, Provider], User]
"""Makes the simulated user of a scenario, who thinks by a provider."""
MakeJudge: TypeAlias = Callable[[Scenario, Provider], ConversationJudge]
OnScenario: TypeAlias = Callable[[ScenarioResult], object]


class RunRules(Struct, frozen=True):
    """How scenarios are run, where they do not say otherwise.

    `conversations` is how many each scenario has, `concurrency` how many are held at once. `budget_usd` is what all
    of them together may cost: no conversation begins after that is spent. A finding of one of `fail_on` severities
    fails its conversation, and so does a metric whose mean is below its threshold.
    """

    conversations: int = 1
    max_turns: int = 10
    answer_timeout_s: float | None = 120.0
    concurrency: int = 8
    unmocked: UnmockedPolicy = "error"
    budget_usd: float | None = None
    fail_on: tuple[str, ...] = ("high", "critical")
    thresholds: Mapping[str, float] = {}


DEFAULT_RULES = RunRules()


class Participants(Struct, frozen=True):
    """Who takes part: the agents by name, what stands for their models, the user's and the judge's.

    `provider` is where simulated users and judges think, and agents that are given one; each conversation asks it
    under step ids of its own (`scenario/1/user`), so that it can be recorded and replayed. `around_tools` puts
    something around each tool that is mocked.
    """

    agents: Mapping[str, Target]
    provider: Provider | None = None
    make_user: MakeUser | None = None
    make_judge: MakeJudge | None = None
    wrap_tool: ToolWrapper = unwrapped


class ScenarioRunner:
    """Runs scenarios. Conversations share nothing, and one that fails keeps no other from going on.

    Args:
        on_scenario: told of each scenario as soon as all its conversations have ended.
    """

    def __init__(
        self, cast: Participants, rules: RunRules = DEFAULT_RULES, *, on_scenario: OnScenario = lambda _: None
    ) -> None:
        self._participants, self._rules, self._on_scenario = cast, rules, on_scenario
        self._places = asyncio.Semaphore(rules.concurrency)
        self._spent_usd = 0.0
        self._done: dict[int, ScenarioResult] = {}

    async def run(self, scenarios: Sequence[Scenario], *, agents: Iterable[str] = (), repeat: int = 1) -> SuiteResult:
        """Hold every conversation of every scenario.

        Args:
            agents: test these agents, each with all scenarios, instead of those that the scenarios name.
            repeat: how often each conversation is held, to see how often it passes.

        Raises:
            InputError: a scenario names an agent that there is not, or nobody can take part in it.
        """
        started_s = SYSTEM_CLOCK.monotonic_s()
        asked = tuple(agents)
        plan = [(scenario, name) for scenario in scenarios for name in self._agents_of(scenario, asked)]
        try:
            async with asyncio.TaskGroup() as group:
                for place, (scenario, name) in enumerate(plan):
                    group.create_task(self._scenario(place, scenario, self._participants.agents[name], repeat))
        except ExceptionGroup as errors:
            raise _first_error(errors) from None
        results = tuple(self._done[place] for place in sorted(self._done))
        return SuiteResult(results, SYSTEM_CLOCK.monotonic_s() - started_s)

    def so_far(self) -> SuiteResult:
        """What has ended by now, of a run that was cut off."""
        return SuiteResult(tuple(self._done[place] for place in sorted(self._done)), is_complete=False)

    def _agents_of(self, scenario: Scenario, asked: tuple[str, ...]) -> tuple[str, ...]:
        names = asked or ((scenario.agent,) if scenario.agent else tuple(self._participants.agents)[:1])
        for name in names:
            if name not in self._participants.agents:
                known = ", ".join(self._participants.agents) or "none"
                place = f"scenario {scenario.name!r}"
                raise InputError(
                    f"there is no agent {name!r}", source=scenario.source, place=place, hint=f"agents: {known}"
                )
        return names

    async def _scenario(self, place: int, scenario: Scenario, agent: Target, repeat: int) -> None:
        unmocked = scenario.unmocked or self._rules.unmocked
        effects = scenario.side_effects
        mocks = Mocks(scenario.mocks, unmocked=unmocked, schemas=scenario.schemas, side_effects=effects)
        count = (scenario.conversations or self._rules.conversations) * repeat
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._held(index, scenario, agent, mocks)) for index in range(count)]
        conversations = tuple(task.result() for task in tasks)
        result = ScenarioResult(
            scenario.name, agent.name, scenario.source, conversations, never_called=mocks.never_called()
        )
        self._done[place] = result
        self._on_scenario(result)

    async def _held(self, index: int, scenario: Scenario, agent: Target, mocks: Mocks) -> ConversationResult:
        async with self._places:
            identity = conversation_id(scenario.name, agent.name, index)
            if self._rules.budget_usd is not None and self._spent_usd >= self._rules.budget_usd:
                failure = Failure("error", f"the budget of {self._rules.budget_usd:g} $ was spent before it began")
                return ConversationResult(identity, scenario.name, agent.name, index, "error", failures=(failure,))
            result = await self._hold(index, identity, scenario, agent, mocks)
            self._spent_usd += result.cost_usd
            return result

    async def _hold(
        self, index: int, identity: str, scenario: Scenario, agent: Target, mocks: Mocks
    ) -> ConversationResult:
        started_s = SYSTEM_CLOCK.monotonic_s()
        tools = mocks.conversation(identity, around=self._participants.wrap_tool)
        provider = self._provider(scenario, agent, index)
        user = self._user(scenario, provider)
        limits = ConversationLimits(self._turns(scenario), self._rules.answer_timeout_s)
        held = await Conversation(user, agent.begin(AgentEnvironment(tools, provider)), tools, limits).run()
        if scenario.is_scripted and held.failure is None:
            held = replace(held, ending="script_done")
        outcomes = check_assertions(scenario, held.turns)
        judgements, mismatches = await self._judgements(scenario, held, provider)
        return ConversationResult(
            identity,
            scenario.name,
            agent.name,
            index,
            held.ending,
            held.turns,
            outcomes,
            judgements,
            (*mismatches, *self._failures(scenario, held, outcomes, judgements)),
            held.tokens,
            held.cost_usd,
            SYSTEM_CLOCK.monotonic_s() - started_s,
        )

    def _turns(self, scenario: Scenario) -> int:
        return max(scenario.max_turns or self._rules.max_turns, len(scenario.turns))

    def _provider(self, scenario: Scenario, agent: Target, index: int) -> Provider | None:
        shared = self._participants.provider
        if shared is None:
            return None
        return PrefixedProvider(shared, f"{scenario.name}/{agent.name}/{index + 1}/")

    def _user(self, scenario: Scenario, provider: Provider | None) -> User:
        if scenario.is_scripted:
            return ScriptedUser(scenario.turns)
        if provider is None or self._participants.make_user is None:
            hint = "give the scenario turns, or the config a [user] with a model"
            raise InputError("there is no model to simulate the user", source=scenario.source, hint=hint)
        return self._participants.make_user(scenario, provider)

    async def _judgements(
        self, scenario: Scenario, held: ConversationTranscript, provider: Provider | None
    ) -> tuple[tuple[Judgement, ...], tuple[Failure, ...]]:
        """What the judge says, and that a replay had no answer for it."""
        if provider is None or self._participants.make_judge is None or held.failure is not None:
            return (), ()
        try:
            return await self._participants.make_judge(scenario, provider).judge(scenario, held.turns), ()
        except RecordingMismatchError as error:
            return (), (mismatch_failure(error),)

    def _failures(
        self,
        scenario: Scenario,
        held: ConversationTranscript,
        outcomes: Iterable[AssertionOutcome],
        judgements: Sequence[Judgement],
    ) -> tuple[Failure, ...]:
        """Everything that a conversation does not pass for, in order of weight."""
        failures = [] if held.failure is None else [held.failure]
        failures += [
            Failure("assertion", _assertion_text(each), each.difference) for each in outcomes if not each.matched
        ]
        failures += [
            Failure("severity", f"{each.metric}: {each.value} ({each.severity})", each.reason)
            for each in judgements
            if each.severity in self._rules.fail_on
        ]
        if held.failure is None:
            failures += [*_ending_failures(scenario, held), *below_thresholds(judgements, self._thresholds(scenario))]
        return tuple(failures)

    def _thresholds(self, scenario: Scenario) -> dict[str, float]:
        """What the scenario is held to: its own thresholds, and those of all for what it is judged by."""
        judged = scenario.metrics
        common = {name: least for name, least in self._rules.thresholds.items() if judged is None or name in judged}
        return {**common, **scenario.thresholds}


def _ending_failures(scenario: Scenario, held: ConversationTranscript) -> list[Failure]:
    if not scenario.ends or held.ending in scenario.ends:
        return []
    wanted = " or ".join(ending.replace("_", " ") for ending in scenario.ends)
    return [Failure("assertion", f"the conversation ended by {held.ending.replace('_', ' ')}, not by {wanted}")]


def _first_error(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, ExceptionGroup) else first


def _assertion_text(outcome: AssertionOutcome) -> str:
    return outcome.reason if outcome.turn_index is None else f"turn {outcome.turn_index + 1}: {outcome.reason}"


def conversation_id(scenario: str, agent: str, index: int) -> str:
    """An id like `conv-1-3fa9c2`, the same in every run."""
    digest = blake2b(f"{scenario}\n{agent}\n{index}".encode(), digest_size=3).hexdigest()
    return f"conv-{index + 1}-{digest}"
