"""The guards that refuse a turn: validation, required steps, prerequisites and repetition."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping
from typing import ClassVar, TypeAlias

import orjson

from offbook.agent.errors import PrerequisiteError, RepeatedCallError, StepEnforcementError, ToolCallError
from offbook.agent.message import MessageType
from offbook.agent.turn import (
    Objection,
    Turn,
    invalid_arguments_nudge,
    no_call_nudge,
    premature_nudge,
    prerequisite_nudge,
    repetition_nudge,
    unknown_tool_nudge,
    unreadable_arguments_nudge,
)
from offbook.agent.workflow import Rules, ToolPrerequisite
from offbook.errors import AgentError, ToolArgumentsError
from offbook.messages import ToolCall
from offbook.tools import Toolbox, ToolOutcome


class Guard(ABC):
    """Refuses turns that break one rule, and gives up on a model that breaks it more than `limit` times in a row.

    A turn that passes resets the count. A subclass implements `find` and `give_up`.
    """

    type: ClassVar[MessageType]
    """The type of its nudges."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refusals = 0

    def check(self, turn: Turn) -> Objection | None:
        """Return the objection to the turn, if there is one."""
        nudges_by_position = self.find(turn, attempt=self.refusals + 1)
        if not nudges_by_position:
            self.refusals = 0
            return None
        self.refusals += 1
        error = self.give_up(turn, nudges_by_position) if self.refusals > self.limit else None
        return Objection(self.type, nudges_by_position, error)

    @abstractmethod
    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        """Return a nudge for each call that breaks the rule, by its position; position 0 if there are no calls.

        `attempt` is how many turns in a row have broken the rule, this one included.
        """

    @abstractmethod
    def give_up(self, turn: Turn, nudges_by_position: dict[int, str]) -> AgentError:
        """Return the error that ends the run."""


def canonical(value: object) -> bytes:
    """Return the same bytes for equal values."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)


class ToolProgress:
    """Which tools have succeeded, how often, and with which values of the watched arguments.

    Args:
        watched: pairs of tool and argument whose values are recorded.
    """

    def __init__(self, watched: Iterable[tuple[str, str]] = ()) -> None:
        self.completed: dict[str, int] = {}
        self.hint = ""
        """The tools that have succeeded, as a sentence for the model."""
        self._values: dict[tuple[str, str], set[bytes]] = {pair: set() for pair in watched}

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Record the outcomes that succeeded."""
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
        """Whether `tool` has succeeded with that value of a watched argument."""
        return canonical(value) in self._values[tool, argument]


class Prerequisites(Guard):
    """Refuses calls of a tool before its prerequisites have succeeded."""

    type = MessageType.PREREQUISITE_NUDGE

    def __init__(
        self, needs: Mapping[str, tuple[ToolPrerequisite, ...]], progress: ToolProgress, *, limit: int
    ) -> None:
        super().__init__(limit)
        self._needs, self._progress = needs, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        by_position = {}
        for position, call in enumerate(turn.calls):
            if call.tool in self._needs and (missing := self._missing(call)):
                by_position[position] = prerequisite_nudge(call.tool, missing, attempt=attempt)
        return by_position

    def give_up(self, turn: Turn, nudges_by_position: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(nudges_by_position))]
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

    Other calls in between do not reset the count; another outcome does, so polling works while something changes.
    """

    type = MessageType.REPETITION_NUDGE

    def __init__(self, repeatable: Container[str], max_same_calls: int, *, limit: int) -> None:
        super().__init__(limit)
        self._repeatable, self._max_same_calls = repeatable, max_same_calls
        self._outcomes: dict[tuple[str, bytes], tuple[str, int]] = {}

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        by_position = {}
        for position, call in enumerate(turn.calls):
            if (times := self._times(call)) >= self._max_same_calls:
                by_position[position] = repetition_nudge(call.tool, times)
        return by_position

    def give_up(self, turn: Turn, nudges_by_position: dict[int, str]) -> AgentError:
        call = turn.calls[next(iter(nudges_by_position))]
        return RepeatedCallError(call.tool, arguments=call.args, times=self._times(call))

    def record(self, outcomes: Iterable[ToolOutcome]) -> None:
        """Record the outcomes of calls."""
        for outcome in outcomes:
            key = outcome.call.tool, canonical(outcome.call.args)
            last, times = self._outcomes.get(key, ("", 0))
            self._outcomes[key] = outcome.text, times + 1 if outcome.text == last else 1

    def _times(self, call: ToolCall) -> int:
        if call.tool in self._repeatable:
            return 0
        return self._outcomes.get((call.tool, canonical(call.args)), ("", 0))[1]


TEXT_ENDING = "answer"
"""The ending by text, in messages that otherwise name a terminal tool."""


class RequiredSteps(Guard):
    """Refuses turns that end the run, by a terminal tool or by text, before all required steps have succeeded."""

    type = MessageType.STEP_NUDGE

    def __init__(self, rules: Rules, progress: ToolProgress, *, limit: int) -> None:
        super().__init__(limit)
        self._required, self._terminal, self._progress = rules.required_steps, rules.terminal_tools, progress

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        ending = self._ending(turn)
        if not ending or not (pending := self.pending()):
            return {}
        return {
            position: premature_nudge(f"call {tool}" if turn.calls else tool, pending, attempt=attempt)
            for position, tool in ending.items()
        }

    def give_up(self, turn: Turn, nudges_by_position: dict[int, str]) -> AgentError:
        tool = next(iter(self._ending(turn).values()))
        return StepEnforcementError(tool, attempts=self.refusals, pending_steps=self.pending())

    def pending(self) -> list[str]:
        """Return the required steps that have not succeeded, in order."""
        return [step for step in self._required if not self._progress.has_done(step)]

    def _ending(self, turn: Turn) -> dict[int, str]:
        """Return the tools of the turn that would end the run, by position."""
        if not turn.calls:
            return {0: TEXT_ENDING}
        return {position: call.tool for position, call in enumerate(turn.calls) if call.tool in self._terminal}


RetryNudge: TypeAlias = Callable[[str], str]


class Validation(Guard):
    """Refuses text, unknown tools, and arguments that do not match their tool's schema.

    A call with an injected fault passes whatever its arguments are, and fails when it runs.

    Args:
        text_ends: whether text is a valid answer.
        retry_nudge: returns the nudge for an answer that is text.
    """

    type = MessageType.RETRY_NUDGE

    def __init__(
        self, toolbox: Toolbox, limit: int, *, text_ends: bool = False, retry_nudge: RetryNudge | None = None
    ) -> None:
        super().__init__(limit)
        self._toolbox, self._text_ends = toolbox, text_ends
        self._retry_nudge = retry_nudge or (lambda _: no_call_nudge(toolbox))

    def find(self, turn: Turn, *, attempt: int) -> dict[int, str]:
        if not turn.calls:
            is_answer = self._text_ends and turn.text.strip()
            return {} if is_answer else {0: self._retry_nudge(turn.text)}
        by_position = {}
        for position, call in enumerate(turn.calls):
            nudge = self._nudge_for(call)
            if nudge is not None:
                by_position[position] = nudge
        return by_position

    def give_up(self, turn: Turn, nudges_by_position: dict[int, str]) -> AgentError:
        raw = "\n".join(f"{call.tool}({call.arguments})" for call in turn.calls)
        reason = next(iter(nudges_by_position.values())) if turn.calls else "the model keeps answering in text"
        return ToolCallError(reason, raw_response=raw or turn.text)

    def _nudge_for(self, call: ToolCall) -> str | None:
        tool = self._toolbox.get(call.tool)
        if tool is None:
            return unknown_tool_nudge(call.tool, self._toolbox)
        if call.raw_arguments is not None:
            return unreadable_arguments_nudge(call)
        if call.error is not None:
            return None
        try:
            tool.spec.check(call.args)
        except ToolArgumentsError as error:
            return invalid_arguments_nudge(call, error.problems)
        return None
