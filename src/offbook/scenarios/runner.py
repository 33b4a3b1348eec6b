"""Runs scenarios: their conversations concurrently, by the rules of the run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Protocol, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, RecordingMismatchError
from offbook.gateway.limits import PricedProvider
from offbook.providers.provider import PrefixedProvider, Provider
from offbook.scenarios.conversation import (
    LATENCY_DIGITS,
    Conversation,
    ConversationLimits,
    ConversationTranscript,
    UnansweredCapture,
    User,
    check_assertions,
    mismatch_failure,
)
from offbook.scenarios.judge import below_thresholds
from offbook.scenarios.mocks import Mocks, ToolWrapper, UnmockedPolicy, unwrapped
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
from offbook.scenarios.targets import AgentEnvironment, AgentMcpServers, Target
from offbook.scenarios.users import ScriptedUser
from offbook.text import did_you_mean


class ConversationJudge(Protocol):
    """Judges conversations that have ended."""

    async def judge(self, scenario: Scenario, turns: Sequence[TurnRecord]) -> tuple[Judgement, ...]: ...


MakeUser: TypeAlias = Callable[[Scenario, Provider], User]
"""Makes the simulated user of a scenario, with the provider for its model calls."""
MakeJudge: TypeAlias = Callable[[Scenario, Provider], ConversationJudge]
OnScenario: TypeAlias = Callable[[ScenarioResult], object]


class RunRules(Struct, frozen=True, kw_only=True):
    """The defaults of a run, which scenarios may override.

    Each scenario has `conversations` conversations, and `concurrency` of all conversations run at the same time.
    `budget_usd` limits the cost of the whole run: no conversation starts once it is spent (see `SuiteBudget`), and an
    agent calls no model whose price is unknown. A judgement of one of the `fail_on` severities fails its conversation,
    and so does a metric whose mean is below its threshold.
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
NO_USER_MODEL = "there is no model to simulate the user"


class Participants(Struct, frozen=True):
    """The participants of a run: the agents by name, the simulated user and the judge.

    `provider` serves the model calls of users, judges and agents. Each conversation has its own step ids
    (`scenario/agent/1/user`) for recording and replay. `wrap_tool` wraps each mocked tool. `mcp` has the stand-ins for
    agents' MCP servers, by agent name.
    """

    agents: Mapping[str, Target]
    provider: Provider | None = None
    make_user: MakeUser | None = None
    make_judge: MakeJudge | None = None
    wrap_tool: ToolWrapper = unwrapped
    mcp: Mapping[str, AgentMcpServers] = {}


class ConversationPlace(Struct, frozen=True):
    """A conversation of a run: the number of its scenario with its agent, the two, and its index among theirs."""

    number: int
    scenario: Scenario
    agent: str
    index: int

    @property
    def id(self) -> str:
        return conversation_id(self.scenario.name, self.agent, self.index)

    @property
    def prefix(self) -> str:
        """The beginning of the step ids of its model calls."""
        return f"{self.scenario.name}/{self.agent}/{self.index + 1}"


class ConversationExecutor(Protocol):
    """Runs conversations, here or elsewhere. Several may run at once."""

    async def run(self, place: ConversationPlace, mocks: Mocks) -> ConversationResult:
        """Run a conversation, and tell `mocks` which tools it called."""
        ...

    def elapsed_s(self, started_s: float, results: Sequence[ConversationResult]) -> float:
        """Return the duration of a run's conversations, given its start on this process's clock."""
        ...


class ScenarioRunner:
    """Runs scenarios. Conversations share no state, and a failed one does not stop the others.

    Args:
        executor: runs the conversations; in this process by default.
        on_scenario: called with the result of each scenario as soon as all its conversations have ended.
    """

    def __init__(
        self,
        participants: Participants,
        rules: RunRules = DEFAULT_RULES,
        *,
        executor: ConversationExecutor | None = None,
        on_scenario: OnScenario = lambda _: None,
    ) -> None:
        self._agents, self._rules, self._on_scenario = participants.agents, rules, on_scenario
        self._executor = executor or ConversationRunner(participants, rules)
        self._slots = asyncio.Semaphore(rules.concurrency)
        self._budget = SuiteBudget(rules.budget_usd, concurrency=rules.concurrency)
        self._done: dict[int, ScenarioResult] = {}

    async def run(
        self, scenarios: Sequence[Scenario], *, agents: str | Iterable[str] = (), repeat: int = 1
    ) -> SuiteResult:
        """Run every conversation of every scenario.

        Args:
            agents: test these agents, each with all scenarios, instead of those that the scenarios name.
            repeat: how many times to run each conversation, to measure how often it passes.

        Raises:
            InputError: a scenario names an unknown agent, or there is no model to simulate its user.
        """
        requested = (agents,) if isinstance(agents, str) else tuple(agents)
        plan = [(scenario, name) for scenario in scenarios for name in self._agent_names(scenario, requested)]
        return await self.run_pairs(plan, repeat=repeat)

    async def run_pairs(self, pairs: Sequence[tuple[Scenario, str]], *, repeat: int = 1) -> SuiteResult:
        """Run every conversation of these scenarios, each with an agent by its name."""
        started_s = SYSTEM_CLOCK.monotonic_s()
        counts = [(scenario.conversations or self._rules.conversations) * repeat for scenario, _ in pairs]
        firsts = accumulate(counts, initial=0)
        try:
            async with asyncio.TaskGroup() as group:
                for number, ((scenario, name), count, first) in enumerate(zip(pairs, counts, firsts, strict=False)):
                    places = [ConversationPlace(number, scenario, name, index) for index in range(count)]
                    group.create_task(self._scenario(places, first))
        except ExceptionGroup as errors:
            raise _first_error(errors) from None
        results = tuple(self._done[number] for number in sorted(self._done))
        elapsed_s = self._executor.elapsed_s(started_s, [each for result in results for each in result.conversations])
        return SuiteResult(results, round(elapsed_s, LATENCY_DIGITS))

    def so_far(self) -> SuiteResult:
        """Return the scenarios that have ended, for a run that ends early."""
        return SuiteResult(tuple(self._done[number] for number in sorted(self._done)), is_complete=False)

    def _agent_names(self, scenario: Scenario, requested: tuple[str, ...]) -> tuple[str, ...]:
        known = self._agents
        names = requested or ((scenario.agent,) if scenario.agent else tuple(known)[:1])
        for name in names:
            check_agent(name, known, source=scenario.source, place=f"scenario {scenario.name!r}")
        return names

    async def _scenario(self, places: Sequence[ConversationPlace], first: int) -> None:
        """Run a scenario's conversations with an agent. The first one is conversation `first` of the run."""
        number, scenario, agent = places[0].number, places[0].scenario, places[0].agent
        mocks = mocks_of(scenario, self._rules)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._conversation(at, place, mocks)) for at, place in enumerate(places, first)]
        conversations = tuple(task.result() for task in tasks)
        result = ScenarioResult(scenario.name, agent, scenario.source, conversations, never_called=mocks.never_called())
        self._done[number] = result
        self._on_scenario(result)

    async def _conversation(self, at: int, place: ConversationPlace, mocks: Mocks) -> ConversationResult:
        """Run conversation `at` of the run once there is a free slot, unless the budget is spent."""
        async with self._slots:
            if await self._budget.is_spent(at):
                result = _not_started(place, f"the budget of {self._budget} was spent before the conversation started")
            else:
                result = await self._executor.run(place, mocks)
            self._budget.note(at, result.cost_usd)
            return result


def _not_started(place: ConversationPlace, reason: str) -> ConversationResult:
    return ConversationResult(
        id=place.id,
        scenario=place.scenario.name,
        agent=place.agent,
        index=place.index,
        ending="error",
        failures=(Failure("error", reason),),
    )


def mocks_of(scenario: Scenario, rules: RunRules) -> Mocks:
    """Return the mocks that a scenario declares.

    Raises:
        InputError: one of them is invalid.
    """
    unmocked = scenario.unmocked or rules.unmocked
    effects = scenario.side_effects
    return Mocks(scenario.mocks, unmocked=unmocked, schemas=scenario.schemas, side_effects=effects)


class ConversationRunner:
    """Runs conversations in this process."""

    def __init__(self, participants: Participants, rules: RunRules = DEFAULT_RULES) -> None:
        self._participants, self._rules = participants, rules

    def elapsed_s(self, started_s: float, results: Sequence[ConversationResult]) -> float:
        return SYSTEM_CLOCK.monotonic_s() - started_s

    async def run(self, place: ConversationPlace, mocks: Mocks) -> ConversationResult:
        started_s = SYSTEM_CLOCK.monotonic_s()
        scenario, agent = place.scenario, self._participants.agents[place.agent]
        tools = mocks.conversation(place.id, wrap_tool=self._participants.wrap_tool, declared_by="scenario")
        shared = self._participants.provider
        provider = None if shared is None else PrefixedProvider(shared, f"{place.prefix}/")
        asked = None if provider is None else UnansweredCapture(self._priced(provider), tools.note_unanswered)
        user = self._user(scenario, provider)
        max_turns = max(scenario.max_turns or self._rules.max_turns, len(scenario.turns))
        limits = ConversationLimits(max_turns, self._rules.answer_timeout_s)
        servers = self._participants.mcp.get(place.agent)
        environment = AgentEnvironment(tools, asked, {} if servers is None else servers.begin(place.prefix, tools))
        transcript = await Conversation(user, agent.begin(environment), tools, limits).run()
        if scenario.is_scripted and not transcript.failures:
            transcript = replace(transcript, ending="script_done")
        outcomes = check_assertions(scenario, transcript.turns)
        judgements, mismatches = await self._judgements(scenario, transcript, provider)
        return ConversationResult(
            id=place.id,
            scenario=scenario.name,
            agent=place.agent,
            index=place.index,
            ending=transcript.ending,
            turns=transcript.turns,
            assertions=outcomes,
            judgements=judgements,
            failures=(*mismatches, *self._failures(scenario, transcript, outcomes, judgements)),
            tokens=transcript.tokens,
            cost_usd=transcript.cost_usd,
            latency_s=round(SYSTEM_CLOCK.monotonic_s() - started_s, LATENCY_DIGITS),
        )

    def _priced(self, provider: Provider) -> Provider:
        """Return the provider of an agent. With a budget, it refuses calls of unknown cost."""
        return provider if self._rules.budget_usd is None else PricedProvider(provider)

    def _user(self, scenario: Scenario, provider: Provider | None) -> User:
        if scenario.is_scripted:
            return ScriptedUser(scenario.turns)
        if provider is None or self._participants.make_user is None:
            hint = "add turns to the scenario, or a [user] with provider and model to the config"
            raise InputError(NO_USER_MODEL, source=scenario.source, hint=hint)
        return self._participants.make_user(scenario, provider)

    async def _judgements(
        self, scenario: Scenario, transcript: ConversationTranscript, provider: Provider | None
    ) -> tuple[tuple[Judgement, ...], tuple[Failure, ...]]:
        """Return the judgements, or the failure of a replay that has no matching exchange for them."""
        if provider is None or self._participants.make_judge is None or transcript.failures:
            return (), ()
        try:
            return await self._participants.make_judge(scenario, provider).judge(scenario, transcript.turns), ()
        except RecordingMismatchError as error:
            return (), (mismatch_failure(error),)

    def _failures(
        self,
        scenario: Scenario,
        transcript: ConversationTranscript,
        outcomes: Iterable[AssertionOutcome],
        judgements: Sequence[Judgement],
    ) -> tuple[Failure, ...]:
        """Return all reasons why a conversation does not pass, the most important first."""
        failures = list(transcript.failures)
        failures += [
            Failure("assertion", _assertion_text(each), each.difference) for each in outcomes if not each.matched
        ]
        failures += [
            Failure("severity", f"{each.metric}: {each.value} ({each.severity})", each.reason)
            for each in judgements
            if each.severity in self._rules.fail_on
        ]
        if not transcript.failures:
            metrics = scenario.metrics  # a threshold of the run holds for the metrics that judge this scenario
            common = {
                name: least for name, least in self._rules.thresholds.items() if metrics is None or name in metrics
            }
            failures += [
                *_ending_failures(scenario, transcript),
                *below_thresholds(judgements, {**common, **scenario.thresholds}),
            ]
        return tuple(failures)


def check_agent(name: str, known: Iterable[str], *, source: str, place: str = "") -> None:
    """Raise InputError if there is no agent `name`; `source` and `place` say where it is named."""
    if name not in known:
        hint = did_you_mean(name, known, kind="agents")
        raise InputError(f"there is no agent {name!r}", source=source, place=place, hint=hint)


def _ending_failures(scenario: Scenario, transcript: ConversationTranscript) -> list[Failure]:
    if not scenario.ends or transcript.ending in scenario.ends:
        return []
    wanted = " or ".join(scenario.ends)
    return [Failure("assertion", f"the conversation ended with {transcript.ending}, not with {wanted}")]


def _first_error(errors: ExceptionGroup[Exception]) -> Exception:
    first = errors.exceptions[0]
    return _first_error(first) if isinstance(first, ExceptionGroup) else first


def _assertion_text(outcome: AssertionOutcome) -> str:
    return outcome.reason if outcome.turn_index is None else f"turn {outcome.turn_index + 1}: {outcome.reason}"


def conversation_id(scenario: str, agent: str, index: int) -> str:
    """Return an id such as `conv-1-3fa9c2`, which is the same in every run."""
    digest = blake2b(f"{scenario}\n{agent}\n{index}".encode(), digest_size=3).hexdigest()
    return f"conv-{index + 1}-{digest}"


class SuiteBudget:
    """A limit on the cost of a run, or None.

    With a limit, conversations start in order, each when all but the last `concurrency` - 1 before it have ended; the
    costs of the ended ones then decide whether it starts. Every run therefore starts the same conversations, in any
    number of processes, and exceeds the limit by the cost of at most `concurrency` conversations.
    """

    def __init__(self, limit_usd: float | None, *, concurrency: int) -> None:
        self._limit_usd, self._concurrency = limit_usd, concurrency
        self._costs: dict[int, float] = {}
        self._spent_usd = [0.0]
        self._waiting: dict[int, asyncio.Future[None]] = {}

    def __str__(self) -> str:
        return f"${self._limit_usd or 0.0:g}"

    async def is_spent(self, at: int) -> bool:
        """Return whether the budget is spent for conversation `at`, as soon as it may start."""
        if self._limit_usd is None:
            return False
        ended = max(at + 1 - self._concurrency, 0)
        if len(self._spent_usd) <= ended:
            self._waiting[ended] = asyncio.get_running_loop().create_future()
            await self._waiting[ended]
        return self._spent_usd[ended] >= self._limit_usd

    def note(self, at: int, cost_usd: float) -> None:
        """Note that conversation `at` has ended."""
        self._costs[at] = cost_usd
        while (ended := len(self._spent_usd)) - 1 in self._costs:
            self._spent_usd.append(self._spent_usd[-1] + self._costs[ended - 1])
            waiting = self._waiting.pop(ended, None)
            if waiting is not None and not waiting.done():
                waiting.set_result(None)
