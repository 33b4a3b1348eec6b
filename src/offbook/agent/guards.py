"""The guards that refuse a turn, and Guardrails: all guards of one run with its limits, for any loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from math import isfinite
from typing import ClassVar, TypeAlias

import orjson
from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.clients import LLMResponse, response_of
from offbook.agent.definition import Rules, ToolPrerequisite
from offbook.agent.errors import (
    AgentBudgetError,
    PrerequisiteError,
    RepeatedCallError,
    StepEnforcementError,
    ToolCallError,
    ToolExecutionError,
)
from offbook.agent.message import MessageType
from offbook.agent.rescue import rescue
from offbook.agent.turn import (
    ModelTurn,
    Objection,
    TurnVerdict,
    invalid_arguments_nudge,
    no_call_nudge,
    premature_nudge,
    prerequisite_nudge,
    repetition_nudge,
    unknown_tool_nudge,
    unreadable_arguments_nudge,
)
from offbook.errors import AgentError, InputError, ToolArgumentsError, ToolResolutionError
from offbook.messages import JsonObject, Response, ToolCall
from offbook.providers.provider import run_sync
from offbook.schema_errors import check_int, check_number, check_type, describe_type
from offbook.tools import GivenTools, Toolbox, ToolOutcome, run_tools


class Guard(ABC):
    """Refuses turns that break one rule, and gives up on a model that breaks it more than `limit` times in a row.

    A turn that passes resets the count. A subclass implements `find` and `give_up`.
    """

    type: ClassVar[MessageType]
    """The type of its nudges."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.refusals = 0

    def check(self, turn: ModelTurn) -> Objection | None:
        """Return the objection to the turn, if there is one."""
        nudges_by_position = self.find(turn, attempt=self.refusals + 1)
        if not nudges_by_position:
            self.refusals = 0
            return None
        self.refusals += 1
        error = self.give_up(turn, nudges_by_position) if self.refusals > self.limit else None
        return Objection(self.type, nudges_by_position, error)

    @abstractmethod
    def find(self, turn: ModelTurn, *, attempt: int) -> dict[int, str]:
        """Return a nudge for each call that breaks the rule, by its position; position 0 if there are no calls.

        `attempt` is how many turns in a row have broken the rule, this one included.
        """

    @abstractmethod
    def give_up(self, turn: ModelTurn, nudges_by_position: dict[int, str]) -> AgentError:
        """Return the error that ends the run."""


def canonical(value: object) -> bytes:
    """Encode a value as bytes; equal values have equal bytes."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS, default=repr)


class ToolProgress:
    """Counts the successful calls of each tool, and keeps their values of the watched arguments.

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

    def find(self, turn: ModelTurn, *, attempt: int) -> dict[int, str]:
        by_position = {}
        for position, call in enumerate(turn.calls):
            if call.tool in self._needs and (missing := self._missing(call)):
                by_position[position] = prerequisite_nudge(call.tool, missing, attempt=attempt)
        return by_position

    def give_up(self, turn: ModelTurn, nudges_by_position: dict[int, str]) -> AgentError:
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

    def find(self, turn: ModelTurn, *, attempt: int) -> dict[int, str]:
        by_position = {}
        for position, call in enumerate(turn.calls):
            if (times := self._times(call)) >= self._max_same_calls:
                by_position[position] = repetition_nudge(call.tool, times)
        return by_position

    def give_up(self, turn: ModelTurn, nudges_by_position: dict[int, str]) -> AgentError:
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

    def find(self, turn: ModelTurn, *, attempt: int) -> dict[int, str]:
        ending = self._ending(turn)
        if not ending or not (pending := self.pending()):
            return {}
        return {
            position: premature_nudge(f"call {tool}" if turn.calls else tool, pending, attempt=attempt)
            for position, tool in ending.items()
        }

    def give_up(self, turn: ModelTurn, nudges_by_position: dict[int, str]) -> AgentError:
        tool = next(iter(self._ending(turn).values()))
        return StepEnforcementError(tool, attempts=self.refusals, pending_steps=self.pending())

    def pending(self) -> list[str]:
        """Return the required steps that have not succeeded, in order."""
        return [step for step in self._required if not self._progress.has_done(step)]

    def _ending(self, turn: ModelTurn) -> dict[int, str]:
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

    def find(self, turn: ModelTurn, *, attempt: int) -> dict[int, str]:
        if not turn.calls:
            is_answer = self._text_ends and turn.text.strip()
            return {} if is_answer else {0: self._retry_nudge(turn.text)}
        by_position = {}
        for position, call in enumerate(turn.calls):
            nudge = self._nudge_for(call)
            if nudge is not None:
                by_position[position] = nudge
        return by_position

    def give_up(self, turn: ModelTurn, nudges_by_position: dict[int, str]) -> AgentError:
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


_COUNTS = (
    "max_retries_per_step",
    "max_premature_ends",
    "max_prerequisite_refusals",
    "max_repetition_refusals",
    "max_tool_errors",
)


class GuardPolicy(Struct, frozen=True):
    """Limits of a run: how often in a row a model may break each rule, and how much the run may spend.

    Args:
        max_retries_per_step: answers without a valid tool call.
        max_premature_ends: attempts to end the run before its required steps.
        max_prerequisite_refusals: calls of a tool before its prerequisites.
        max_same_calls: how often the same call may have the same outcome before it is refused.
        max_repetition_refusals: calls that are refused for repetition.
        max_tool_errors: turns in which a tool failed.
        budget_usd, budget_tokens: the limits on the model calls of one run; None for no limit.
        tool_timeout_s: the timeout of tools that have none of their own; None for no limit.
        rescue: whether to run calls that a model wrote as text.

    Raises:
        InputError: a field is not a number, or out of range.
    """

    max_retries_per_step: int = 3
    max_premature_ends: int = 3
    max_prerequisite_refusals: int = 3
    max_same_calls: int = 5
    max_repetition_refusals: int = 3
    max_tool_errors: int = 2
    budget_usd: float | None = None
    budget_tokens: int | None = None
    tool_timeout_s: float | None = None
    rescue: bool = True

    def __post_init__(self) -> None:
        for name in (*_COUNTS, "max_same_calls"):
            check_int(getattr(self, name), source=name)
        for name in _COUNTS:
            if not getattr(self, name) >= 0:
                raise InputError(f"expected at least 0, got {getattr(self, name)!r}", source=name)
        for name in ("max_same_calls", "budget_usd", "budget_tokens", "tool_timeout_s"):
            value = getattr(self, name)
            if value is None:
                continue
            check_number(value, source=name)
            if not value > 0:
                raise InputError(f"expected more than 0, got {value!r}", source=name)


class RunBudget:
    """Adds up the cost of the model calls of one run, in US dollars and in tokens.

    A spent budget prevents the next model call, never a tool call that has been paid for.
    """

    def __init__(self, limit_usd: float | None = None, limit_tokens: int | None = None) -> None:
        self._limit_usd, self._limit_tokens = limit_usd, limit_tokens
        self.spent_usd, self.spent_tokens = 0.0, 0

    def spend(self, response: Response) -> None:
        """Add the cost of a model call. A cost that is not finite counts as 0: NaN would disable the budget."""
        self.spent_usd += response.cost_usd if isfinite(response.cost_usd) else 0.0
        self.spent_tokens += response.usage.total_tokens

    def check(self) -> AgentBudgetError | None:
        """Return the error that ends the run, if the budget is spent."""
        if self._limit_usd is not None and self.spent_usd >= self._limit_usd:
            return AgentBudgetError(spent=self.spent_usd, limit=self._limit_usd, unit="USD")
        if self._limit_tokens is not None and self.spent_tokens >= self._limit_tokens:
            return AgentBudgetError(spent=self.spent_tokens, limit=self._limit_tokens, unit="tokens")
        return None


class ToolErrors:
    """Counts turns in a row in which a tool failed; a turn without a failure resets the count.

    A ToolResolutionError does not count: the tool works, and the model may try other arguments.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.failures = 0

    def record(self, outcomes: Iterable[ToolOutcome]) -> ToolExecutionError | None:
        """Record the outcomes of a turn, and return the error that ends the run, if too many turns failed."""
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, ToolResolutionError):
                self.failures += 1
                is_last = self.failures > self.limit
                return ToolExecutionError(outcome.call.tool, outcome.error) if is_last else None
        self.failures = 0
        return None


DEFAULT_POLICY = GuardPolicy()


class Guardrails:
    """Checks a model's answers before their tool calls run, for one run of any loop.

    Pass every answer to `check`, run the calls of its verdict with `run`, and pass the outcomes to `record`.

    Args:
        tools: the tools that the model may call, as for Toolbox, or Rules, which include all other rules.
        required_steps: tools that must succeed before the run may end.
        terminal_tool: the tool, or tools, that end the run; without one, text ends it.
        policy: how often the model may break each rule, and what a run may spend.
        retry_nudge: the reply to an answer without a tool call: a string, or a function of the answer.

    Raises:
        InputError: a required step, terminal tool or prerequisite is unknown, or `policy` is not a GuardPolicy.
    """

    def __init__(
        self,
        tools: GivenTools | Rules,
        *,
        required_steps: Iterable[str] = (),
        terminal_tool: str | Iterable[str] = (),
        policy: GuardPolicy = DEFAULT_POLICY,
        retry_nudge: str | RetryNudge | None = None,
    ) -> None:
        check_type(policy, GuardPolicy, source="policy", hint="policy=GuardPolicy(max_same_calls=2)")
        if not isinstance(tools, Rules):
            tools = Rules.of(tools, required_steps=required_steps, terminal_tool=terminal_tool)
        rules = tools if policy.tool_timeout_s is None else _with_timeout(tools, policy.tool_timeout_s)
        self.rules = rules
        self.progress = ToolProgress(rules.watched)
        self.budget = RunBudget(policy.budget_usd, policy.budget_tokens)
        self._rescues, self._call_ids = policy.rescue, _CallIds()
        self._steps = RequiredSteps(rules, self.progress, limit=policy.max_premature_ends)
        self._repetition = Repetition(rules.repeatable, policy.max_same_calls, limit=policy.max_repetition_refusals)
        self._tool_errors = ToolErrors(policy.max_tool_errors)
        text_ends = not rules.terminal_tools
        nudge = nudge_function(retry_nudge)
        self._guards: list[Guard] = [
            Validation(rules.toolbox, policy.max_retries_per_step, text_ends=text_ends, retry_nudge=nudge),
            self._steps,
            Prerequisites(rules.needs, self.progress, limit=policy.max_prerequisite_refusals),
            self._repetition,
        ]

    @property
    def functions(self) -> list[JsonObject]:
        """The tools in the OpenAI chat format."""
        return list(self.rules.toolbox.functions)

    def check(self, response: LLMResponse) -> TurnVerdict:
        """Return the verdict on a model's answer.

        Raises:
            AgentError: the model broke a rule too often, or the budget is spent.
            InputError: `response` has none of the types of LLMResponse; `read_response` converts an SDK's answer.
        """
        verdict = self.judge(response)
        if verdict.error is not None:
            raise verdict.error
        return verdict

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
        """Run the calls of a verdict concurrently, each with converted arguments and within its tool's timeout.

        An exception of a tool is in its outcome; the outcome's `text` is the message to the model.

        Raises:
            RecordingMismatchError, MockError, EventLoopError: as for `run_tools`.
            InputError: `calls` is not a list of calls.
        """
        check_type(calls, Sequence, source="calls", hint="run(verdict.calls)")
        return await run_tools(self.rules.toolbox, calls)

    def run_sync(self, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
        """Run the calls like `run`, from code without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `run` there.
        """
        return run_sync(self.run(calls))

    def record(self, executed: Iterable[ToolOutcome | ToolCall]) -> bool:
        """Record the outcomes of calls, or calls that succeeded.

        Returns whether a terminal tool succeeded and no required step is pending, which ends the run.

        Raises:
            AgentError: tools failed too often, or the budget is spent.
            InputError: an element is neither an outcome nor a call.
        """
        if not isinstance(executed, Iterable):
            raise _not_executed(executed)
        outcomes = [_outcome(item) for item in executed]
        error = self.note(outcomes)
        if error is not None:
            raise error
        return self.ending(outcomes) is not None

    def judge(self, response: LLMResponse) -> TurnVerdict:
        """Return the verdict on a model's answer. An error that ends the run is in the verdict, not raised."""
        answer = response_of(response)
        self.budget.spend(answer)
        turn = self._read(answer)
        for guard in self._guards:
            objection = guard.check(turn)
            if objection is not None:
                return TurnVerdict(turn, objection, objection.error or self.budget.check())
        return TurnVerdict(turn)

    def note(self, outcomes: Sequence[ToolOutcome]) -> AgentError | None:
        """Record outcomes, and return the error that ends the run, if there is one."""
        self.progress.record(outcomes)
        self._repetition.record(outcomes)
        error = self._tool_errors.record(outcomes)
        if error is not None:
            return error
        return self.budget.check() if self.ending(outcomes) is None else None

    def ending(self, outcomes: Iterable[ToolOutcome]) -> ToolOutcome | None:
        """Return the first outcome that ends the run, if there is one: none does while a required step is pending."""
        terminal = self.rules.terminal_tools
        for outcome in outcomes:
            if outcome.call.tool in terminal and outcome.error is None:
                return None if self.pending_steps() else outcome
        return None

    def reserve_ids(self, call_ids: Iterable[str]) -> None:
        """Never give these ids to a call: the conversation already has them."""
        self._call_ids.reserve(call_ids)

    def pending_steps(self) -> list[str]:
        """Return the required steps that have not succeeded, in order."""
        return self._steps.pending()

    def _read(self, answer: Response) -> ModelTurn:
        calls, text, reasoning = answer.tool_calls, answer.content, answer.reasoning
        if not calls and self._rescues and answer.finish_reason != "length":
            rescued = rescue(text, self.rules.toolbox)
            calls, text = rescued.calls, rescued.text
        if calls and not reasoning:
            reasoning = calls[0].reasoning
        return ModelTurn(self._call_ids.assign(calls), text, reasoning or "")


def _outcome(item: ToolOutcome | ToolCall) -> ToolOutcome:
    if isinstance(item, ToolOutcome):
        return item
    if isinstance(item, ToolCall):
        return ToolOutcome.of_value(item, None)
    raise _not_executed(item)


def _not_executed(given: object) -> InputError:
    hint = "record(outcomes) with the outcomes of run(), or record(verdict.calls)"
    return InputError(f"expected a list of outcomes or calls, got {describe_type(given)}", source="executed", hint=hint)


def nudge_function(nudge: str | RetryNudge | None) -> RetryNudge | None:
    """Return a user's nudge as a function of the model's answer."""
    return (lambda _: nudge) if isinstance(nudge, str) else nudge


def _with_timeout(rules: Rules, timeout_s: float) -> Rules:
    """Return the rules with a timeout on every tool that has none."""
    tools = [
        tool if tool.timeout_s is not None else replace(tool, timeout_s=timeout_s) for tool in rules.toolbox.values()
    ]
    return replace(rules, toolbox=Toolbox(tools))


class _CallIds:
    """Gives a new id to calls without one, or with a used one: some protocols restart the numbers in each answer."""

    def __init__(self) -> None:
        self._used: set[str] = set()

    def reserve(self, call_ids: Iterable[str]) -> None:
        self._used.update(call_ids)

    def assign(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        identified = []
        for call in calls:
            if not call.id or call.id in self._used:
                number = len(self._used)
                while f"call_{number}" in self._used:
                    number += 1
                call = replace(call, id=f"call_{number}")  # noqa: PLW2901 - the same call, with an id
            self._used.add(call.id or "")
            identified.append(call)
        return tuple(identified)
