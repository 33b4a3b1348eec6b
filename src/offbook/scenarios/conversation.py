"""Runs one conversation between a user and an agent, turn by turn, and checks its assertions."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK, time_limit
from offbook.errors import EventLoopError, InputError, OffbookError, RecordingMismatchError, RequestError, TargetError
from offbook.messages import Reply, Request, ToolCall
from offbook.providers.provider import Provider, WrappedProvider
from offbook.scenarios.mocks import MockedCall, MockedTools
from offbook.scenarios.result import AssertionOutcome, ConversationEnding, Failure, TurnRecord
from offbook.scenarios.scenario import Scenario
from offbook.scenarios.targets import AgentAnswer, AgentDialogue
from offbook.scenarios.trajectory import Trajectory, match_trajectory
from offbook.scenarios.users import UserMove
from offbook.text import shown_path


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
LATENCY_DIGITS = 6
"""The decimal digits of latencies in seconds. Rounding makes virtual latencies independent of the start time."""


class ConversationTranscript(Struct, frozen=True, kw_only=True):
    """A conversation that has ended. With `failures`, it ended with an error."""

    turns: tuple[TurnRecord, ...]
    ending: ConversationEnding
    failures: tuple[Failure, ...] = ()
    tokens: int = 0
    cost_usd: float = 0.0


class UnansweredCapture(WrappedProvider):
    """Passes requests on to `provider`, and reports errors of the test to `on_unanswered` before it raises them.

    These are requests without an answer in a replay, or without a declared provider. An invalid request is the agent's
    own mistake.
    """

    def __init__(self, provider: Provider, on_unanswered: Callable[[Exception], object]) -> None:
        super().__init__(provider)
        self._on_unanswered = on_unanswered

    async def send(self, request: Request) -> Reply:
        try:
            return await super().send(request)
        except (RecordingMismatchError, InputError) as error:
            if not isinstance(error, RequestError):
                self._on_unanswered(error)
            raise


class Conversation:
    """A running conversation. It fails if `tools` have unanswered calls, even if the agent caught their errors."""

    def __init__(
        self, user: User, agent: AgentDialogue, tools: MockedTools, limits: ConversationLimits = DEFAULT_LIMITS
    ) -> None:
        self._user, self._agent, self._tools, self._limits = user, agent, tools, limits
        self._turns: list[TurnRecord] = []
        self._tokens, self._cost_usd = 0, 0.0

    async def run(self) -> ConversationTranscript:
        """Run the conversation. Errors in it become the `failures` of the transcript."""
        try:
            ending, raised = await self._run_turns(), None
        except EventLoopError:
            raise
        except OffbookError as error:
            ending, raised = "error", error
        failures = tuple(_failures(self._tools.unanswered, raised))
        return ConversationTranscript(
            turns=tuple(self._turns),
            ending="error" if failures else ending,
            failures=failures,
            tokens=self._tokens,
            cost_usd=self._cost_usd,
        )

    async def _run_turns(self) -> ConversationEnding:
        for _ in range(self._limits.max_turns):
            move = await self._user.next(tuple(self._turns))
            if move.says is None:
                return _user_ending(move)
            await self._take_turn(move.says)
            if self._tools.unanswered:
                return "error"
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
            latency_s = round(SYSTEM_CLOCK.monotonic_s() - started_s, LATENCY_DIGITS)
            self._turns.append(TurnRecord(index, text, answer.text, calls, latency_s))
            self._tokens += answer.usage.total_tokens
            self._cost_usd += answer.cost_usd

    async def _answer(self, text: str) -> AgentAnswer:
        limit_s = self._limits.answer_timeout_s
        try:
            async with time_limit(limit_s, lambda s: TargetError(f"the agent did not answer within {s:g} s")):
                return await self._agent.say(text)
        except OffbookError:
            raise
        except Exception as error:  # every error of the agent is a finding about it
            raise TargetError(f"the agent raised {type(error).__name__}: {error}") from error


SHOWN_UNANSWERED = 3


def _failures(unanswered: Iterable[Exception], raised: Exception | None) -> Iterator[Failure]:
    """Yield the failures of unanswered calls, each once, and the failure that ended the conversation."""
    errors = [each for error in unanswered for each in _flatten(error)]
    failures = list(dict.fromkeys(map(_failure, errors)))
    yield from failures[:SHOWN_UNANSWERED]
    if len(failures) > SHOWN_UNANSWERED:
        yield Failure("error", f"{len(failures) - SHOWN_UNANSWERED} more calls have no answer")
    if raised is not None and raised not in errors:
        yield _failure(raised)


def _flatten(error: Exception) -> Iterator[Exception]:
    """Yield an error, or the errors of a group."""
    if isinstance(error, ExceptionGroup):
        for each in error.exceptions:
            yield from _flatten(each)
    else:
        yield error


def _failure(error: Exception) -> Failure:
    if isinstance(error, RecordingMismatchError):
        return mismatch_failure(error)
    reason, _, detail = str(error).partition("\n")
    frames = _own_frames(error.__cause__) if isinstance(error, TargetError) else []
    return Failure("error", reason, "\n".join(filter(None, [detail, *frames])))


_FOREIGN = (os.path.dirname(os.__file__), os.path.dirname(os.path.dirname(__file__)))  # noqa: PTH120 - as in a frame
"""The folders of the standard library and of offbook."""
MAX_FRAMES = 8


def _own_frames(error: BaseException | None) -> list[str]:
    """Return the latest frames of the agent's own code in an error, without those of libraries."""
    frames = traceback.extract_tb(None if error is None else error.__traceback__)
    own = [
        frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith(_FOREIGN)
    ]
    return [
        f"{shown_path(Path(frame.filename))}:{frame.lineno} in {frame.name}: {frame.line}"
        for frame in own[-MAX_FRAMES:]
    ]


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
