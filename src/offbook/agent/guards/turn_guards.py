"""The guards that refuse a turn: validation, required steps, prerequisites and repetition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from typing import ClassVar, TypeAlias

import orjson

from offbook.agent.guards import nudges
from offbook.agent.message import MessageType
from offbook.agent.turn import Objection, Turn
from offbook.agent.workflow import Rules, ToolPrerequisite
from offbook.errors import (
    AgentError,
    PrerequisiteError,
    RepeatedCallError,
    StepEnforcementError,
    ToolArgumentsError,
    ToolCallError,
)
from offbook.messages import ToolCall
from offbook.tools import Toolbox, ToolOutcome


class Guard(ABC):
    """Refuses turns that break one rule, and gives up on a model that breaks it more than `limit` times in a row.

    A turn that gets past the guard starts the count afresh. A subclass implements `find` and `give_up`.
    """

    type: ClassVar[MessageType]
    """What kind of message tells the model about it."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refusals = 0

    def check(self, turn: Turn) -> Objection | None:
        """What is wrong with the turn, if something is."""
        told = self.find(turn, attempt=self.refusals + 1)
        if not told:
            self.refusals = 0
            return None
        self.refusals += 1
        error = self.give_up(turn, told) if self.refusals > self.limit else None
        return Objection(self.type, told, error)

    @abstractmethod
    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        """What to tell the model, by the position of the call that breaks the rule; position 0 if there are no calls.

        `attempt` is how often in a row the rule is broken if it is broken now.
        """

    @abstractmethod
    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        """The error to end the run with."""


def canonical(value: object) -> bytes:
    """The same bytes for equal values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)


class ToolProgress:
    """Which tools have succeeded, how often, and with which values of the arguments that somebody asks about.

    Args:
        watched: pairs of tool and argument whose values are to be remembered.
    """

    def __init__(self, watched: Iterable[tuple[str, str]] = ()) -> None:
        self.completed: dict[str, int] = {}
        self.hint = ""
        """What has been done, in words for the model."""
        self._values: dict[tuple[str, str], set[bytes]] = {pair: set() for pair in watched}

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Take note of what was run; what failed is no progress."""
        for outcome in outcomes:
            if outcome.error is None:
                self._count(outcome.call)

    def _count(self, call: ToolCall) -> None:
        tool = call.tool
        if tool in self.completed:
            self.completed[tool] += 1
        else:
            self.completed[tool] = 1
            self.hint = f"Tools that have succeeded so far: {', '.join(self.completed)}."
        for (watched, argument), values in self._values.items():
            if watched == tool and argument in call.args:
                values.add(canonical(call.args[argument]))

    def has_done(self, tool: str) -> bool:
        return tool in self.completed

    def has_done_with(self, tool: str, argument: str, value: object) -> bool:
        """Whether `tool` has succeeded with that value of that argument, which must be watched."""
        return canonical(value) in self._values[tool, argument]


class Prerequisites(Guard):
    """Refuses calls of a tool before what it needs has succeeded."""

    type = MessageType.PREREQUISITE_NUDGE

    def __init__(
        self, needs: Mapping[str, tuple[ToolPrerequisite, ...]], progress: ToolProgress, *, limit: int
    ) -> None:
        super().__init__(limit)
        self._needs, self._progress = needs, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        told = {}
        for position, call in enumerate(turn.calls):
            if call.tool in self._needs and (missing := self._missing(call)):
                told[position] = nudges.prerequisite(call.tool, missing, attempt=attempt)
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(told))]
        return PrerequisiteError(call.tool, attempts=self.refusals, missing=self._missing(call))

    def _missing(self, call: ToolCall) -> list[str]:
        missing = []
        for needed in self._needs[call.tool]:
            if needed.match_arg is None:
                if not self._progress.has_done(needed.tool):
                    missing.append(needed.tool)
                continue
            if needed.match_arg not in call.args:
                missing.append(f"{needed.tool} with the same {needed.match_arg}")
                continue
            value = call.args[needed.match_arg]
            if not self._progress.has_done_with(needed.tool, needed.match_arg, value):
                missing.append(f"{needed.tool}({needed.match_arg}={value!r})")
        return missing


class Repetition(Guard):
    """Refuses a call that was made `max_same_calls` times with the same outcome, unless its tool is repeatable.

    Other calls in between do not help; another outcome does: polling goes on while something changes.
    """

    type = MessageType.REPETITION_NUDGE

    def __init__(self, repeatable: Container[str], max_same_calls: int, *, limit: int) -> None:
        super().__init__(limit)
        self._repeatable, self._max_same_calls = repeatable, max_same_calls
        self._outcomes: dict[tuple[str, bytes], tuple[str, int]] = {}

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        told = {}
        for position, call in enumerate(turn.calls):
            if (times := self._times(call)) >= self._max_same_calls:
                told[position] = nudges.repetition(call.tool, times)
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(told))]
        return RepeatedCallError(call.tool, arguments=call.args, times=self._times(call))

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Take note of what came of the calls that were made."""
        for outcome in outcomes:
            key = outcome.call.tool, canonical(outcome.call.args)
            last, times = self._outcomes.get(key, ("", 0))
            self._outcomes[key] = outcome.text, times + 1 if outcome.text == last else 1

    def _times(self, call: ToolCall) -> int:
        if call.tool in self._repeatable:
            return 0
        return self._outcomes.get((call.tool, canonical(call.args)), ("", 0))[1]


TEXT_ENDING = "answer"
"""What ending by text is called, where it takes a terminal tool's place."""


class RequiredSteps(Guard):
    """Refuses to end the run, by a terminal tool or by text, while a required step has not succeeded."""

    type = MessageType.STEP_NUDGE

    def __init__(self, rules: Rules, progress: ToolProgress, *, limit: int) -> None:
        super().__init__(limit)
        self._required, self._terminal, self._progress = rules.required_steps, rules.terminal_tools, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        ending = self._ending(turn)
        if not ending or not (pending := self.pending()):
            return {}
        return {
            position: nudges.premature(f"call {tool}" if turn.calls else tool, pending, attempt=attempt)
            for position, tool in ending.items()
        }

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        tool = next(iter(self._ending(turn).values()))
        return StepEnforcementError(tool, attempts=self.refusals, pending_steps=self.pending())

    def pending(self) -> list[str]:
        """The required steps that have not succeeded, in order."""
        return [step for step in self._required if not self._progress.has_done(step)]

    def _ending(self, turn: Turn) -> dict[int, str]:
        """What would end the run, by its position."""
        if not turn.calls:
            return {0: TEXT_ENDING}
        return {position: call.tool for position, call in enumerate(turn.calls) if call.tool in self._terminal}


RetryNudge: TypeAlias = Callable[[str], str]


class Validation(Guard):
    """Refuses text, tools that do not exist, and arguments that do not fit their tool.

    A call that a fault makes fail is let through whatever its arguments, to fail when it is run.

    Args:
        text_ends: whether text is an answer, rather than a call that went wrong.
        retry_nudge: what to say to text, given that text.
    """

    type = MessageType.RETRY_NUDGE

    def __init__(
        self, toolbox: Toolbox, limit: int, *, text_ends: bool = False, retry_nudge: RetryNudge | None = None
    ) -> None:
        super().__init__(limit)
        self._toolbox, self._text_ends = toolbox, text_ends
        self._retry_nudge = retry_nudge or (lambda _: nudges.retry(toolbox))

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        if not turn.calls:
            is_answer = self._text_ends and turn.text.strip()
            return {} if is_answer else {0: self._retry_nudge(turn.text)}
        told = {}
        for position, call in enumerate(turn.calls):
            wrong = self._wrong_with(call)
            if wrong is not None:
                told[position] = wrong
        return told

    def give_up(self, turn: Turn, told: dict[int, str]) -> AgentError:
        raw = "\n".join(f"{call.tool}({call.arguments})" for call in turn.calls)
        reason = next(iter(told.values())) if turn.calls else "the model keeps answering in text"
        return ToolCallError(reason, raw_response=raw or turn.text)

    def _wrong_with(self, call: ToolCall) -> str | None:
        tool = self._toolbox.get(call.tool)
        if tool is None:
            return nudges.unknown_tool(call.tool, self._toolbox)
        if call.raw_arguments is not None:
            return nudges.unreadable_arguments(call)
        if call.error is not None:
            return None
        try:
            tool.spec.check(call.args)
        except ToolArgumentsError as error:
            return nudges.invalid_arguments(call, error.problems)
        return None
