"""Runs one conversation between a user and an agent, turn by turn, and checks its assertions."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, time_limit
from offbook.errors import EventLoopError, OffbookError, RecordingMismatchError, TargetError
from offbook.messages import ToolCall
from offbook.scenarios.mocks import MockedCall, MockedTools
from offbook.scenarios.result import AssertionOutcome, ConversationEnding, Failure, TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import AgentAnswer, Dialogue
from offbook.scenarios.trajectory import Trajectory, match_trajectory
from offbook.scenarios.users import UserMove


class User(Protocol):
    """A user who talks to an agent."""

    async def next(self, turns: tuple[TurnRecord, ...]) -> UserMove:
        """Return the next message, given the turns so far, or the end of the conversation."""
        ...


class ConversationLimits(Struct, frozen=True):
    """The limits of a conversation: turns, and seconds for each answer of the agent."""

    max_turns: int = 10
    answer_timeout_s: float | None = 120.0


DEFAULT_LIMITS = ConversationLimits()


class ConversationTranscript(Struct, frozen=True, kw_only=True):
    """A conversation that has ended."""

    turns: tuple[TurnRecord, ...]
    ending: ConversationEnding
    failure: Failure | None = None
    tokens: int = 0
    cost_usd: float = 0.0


class Conversation:
    """A running conversation."""

    def __init__(
        self, user: User, agent: Dialogue, tools: MockedTools, limits: ConversationLimits = DEFAULT_LIMITS
    ) -> None:
        self._user, self._agent, self._tools, self._limits = user, agent, tools, limits
        self._turns: list[TurnRecord] = []
        self._tokens, self._cost_usd = 0, 0.0

    async def run(self) -> ConversationTranscript:
        """Run the conversation. Errors in it become the `failure` of the transcript."""
        try:
            return self._transcript(await self._run_turns())
        except RecordingMismatchError as error:
            return self._transcript("error", mismatch_failure(error))
        except EventLoopError:
            raise
        except OffbookError as error:
            reason, _, detail = str(error).partition("\n")
            return self._transcript("error", Failure("error", reason, detail))

    async def _run_turns(self) -> ConversationEnding:
        for _ in range(self._limits.max_turns):
            move = await self._user.next(tuple(self._turns))
            if move.says is None:
                return _user_ending(move)
            await self._take_turn(move.says)
            if move.is_done:
                return _user_ending(move)
        return "max_turns"

    async def _take_turn(self, text: str) -> None:
        index, before, started_s = len(self._turns), len(self._tools.calls), SYSTEM_CLOCK.monotonic_s()
        self._tools.turn_index = index
        answer = AgentAnswer("")
        try:
            answer = await self._answer(text)
        finally:
            calls = self._tools.calls[before:]
            latency_s = SYSTEM_CLOCK.monotonic_s() - started_s
            self._turns.append(TurnRecord(index, text, answer.text, calls, latency_s))
            self._tokens += answer.usage.total_tokens
            self._cost_usd += answer.cost_usd

    async def _answer(self, text: str) -> AgentAnswer:
        limit_s = self._limits.answer_timeout_s
        async with time_limit(limit_s, lambda s: TargetError(f"the agent did not answer within {s:g} s")):
            return await self._agent.say(text)

    def _transcript(self, ending: ConversationEnding, failure: Failure | None = None) -> ConversationTranscript:
        return ConversationTranscript(
            turns=tuple(self._turns),
            ending=ending,
            failure=failure,
            tokens=self._tokens,
            cost_usd=self._cost_usd,
        )


def mismatch_failure(error: RecordingMismatchError) -> Failure:
    """Return the failure of a replay that has no matching exchange, with the difference."""
    return Failure("mismatch", str(error).partition("\n")[0], error.difference)


def _user_ending(move: UserMove) -> ConversationEnding:
    return "goal_reached" if move.goal_reached else "gave_up"


def check_assertions(scenario: Scenario, turns: tuple[TurnRecord, ...]) -> tuple[AssertionOutcome, ...]:
    """Check the assertions of a scenario: those of each scripted turn, then those of the whole conversation."""
    outcomes = []
    for index, scripted in enumerate(scenario.turns):
        calls = turns[index].calls if index < len(turns) else ()
        outcomes += [_outcome(calls, trajectory, index) for trajectory in scripted.assertions]
    all_calls = tuple(call for turn in turns for call in turn.calls)
    return (*outcomes, *[_outcome(all_calls, trajectory, None) for trajectory in scenario.assertions])


def _outcome(calls: Iterable[MockedCall], trajectory: Trajectory, turn_index: int | None) -> AssertionOutcome:
    match = match_trajectory([ToolCall(call.tool, call.args) for call in calls], trajectory)
    return AssertionOutcome(match.matched, match.reason, match.difference, turn_index)
