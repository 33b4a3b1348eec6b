"""All guards of one run behind one object, for the runner here and for other loops."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from offbook.agent.clients import LLMResponse, response_of
from offbook.agent.guards.policy import GuardPolicy, RunBudget, ToolErrors
from offbook.agent.guards.turn_guards import (
    Guard,
    Prerequisites,
    Repetition,
    RequiredSteps,
    RetryNudge,
    ToolProgress,
    Validation,
)
from offbook.agent.rescue import rescue
from offbook.agent.turn import Objection, Turn, TurnVerdict
from offbook.agent.workflow import Rules
from offbook.errors import AgentError, InputError
from offbook.messages import JsonObject, Response, ToolCall
from offbook.providers.provider import run_sync
from offbook.schema_errors import check_type, describe_type
from offbook.tools import GivenTools, Toolbox, ToolOutcome, run_tools

DEFAULT_POLICY = GuardPolicy()


class Guardrails:
    """Stands between a model's answers and the tools, for one run of any loop.

    Ask `check` about every answer before anything is run, let `run` run what passed, and tell `record`
    what came of it.

    Args:
        tools: what the model may call, as for Toolbox, or Rules that say the rest too.
        required_steps: tools that must succeed before the run may end.
        terminal_tool: the tool, or tools, that end the run; where there is none, text does.
        policy: how patient to be.
        retry_nudge: what to say to an answer without a tool call: a text, or a function of the answer.

    Raises:
        InputError: a step, terminal tool or prerequisite is not among the tools, or `policy` is none.
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
        """The tools in the OpenAI chat shape."""
        return list(self.rules.toolbox.functions)

    def check(self, response: LLMResponse) -> TurnVerdict:
        """What to do with a model's answer.

        Raises:
            AgentError: the model broke a rule once too often, or the budget is spent.
            InputError: it is no answer; `read_response` makes one of what an SDK gives.
        """
        verdict = self.judge(response)
        if verdict.error is not None:
            raise verdict.error
        return verdict

    async def run(self, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
        """Run the calls of a verdict, side by side: each tool gets what its hints say, and has its timeout.

        What a tool raises is in its outcome, whose `text` is what to tell the model.

        Raises:
            RecordingMismatchError, MockError, EventLoopError: as `run_tools` does.
            InputError: it is no list of calls.
        """
        check_type(calls, Sequence, source="calls", hint="run(verdict.calls)")
        return await run_tools(self.rules.toolbox, calls)

    def run_sync(self, calls: Sequence[ToolCall]) -> tuple[ToolOutcome, ...]:
        """`run` for scripts without an event loop.

        Raises:
            EventLoopError: called inside a running event loop; await `run` there.
        """
        return run_sync(self.run(calls))

    def record(self, executed: Iterable[ToolOutcome | ToolCall]) -> bool:
        """Take note of what was run: outcomes, or the calls themselves where all went well.

        Gives back whether a terminal tool has succeeded, so that the run is over.

        Raises:
            AgentError: tools failed once too often, or the budget is spent.
            InputError: it is something else than outcomes and calls.
        """
        outcomes = _outcomes(executed)
        error = self.note(outcomes)
        if error is not None:
            raise error
        return self.ending(outcomes) is not None

    def judge(self, response: LLMResponse) -> TurnVerdict:
        """What to do with a model's answer; an error to end the run with is in the verdict, not raised."""
        answer = response_of(response)
        self.budget.spend(answer)
        turn = self._read(answer)
        for guard in self._guards:
            objection = guard.check(turn)
            if objection is not None:
                return self._refused(turn, objection)
        return TurnVerdict(turn)

    def note(self, outcomes: Sequence[ToolOutcome]) -> AgentError | None:
        """Take note of what was run; the error to end the run with, if there is one."""
        self.progress.record(outcomes)
        self._repetition.record(outcomes)
        error = self._tool_errors.record(outcomes)
        if error is not None:
            return error
        return self.budget.check() if self.ending(outcomes) is None else None

    def ending(self, outcomes: Iterable[ToolOutcome]) -> ToolOutcome | None:
        """The first outcome that ends the run."""
        terminal = self.rules.terminal_tools
        for outcome in outcomes:
            if outcome.call.tool in terminal and outcome.error is None:
                return outcome
        return None

    def reserve_ids(self, call_ids: Iterable[str]) -> None:
        """Give these ids to no call: they are in the conversation already."""
        self._call_ids.reserve(call_ids)

    def pending_steps(self) -> list[str]:
        """The required steps that have not succeeded, in order."""
        return self._steps.pending()

    def _refused(self, turn: Turn, objection: Objection) -> TurnVerdict:
        return TurnVerdict(turn, objection, objection.error or self.budget.check())

    def _read(self, answer: Response) -> Turn:
        calls, text, reasoning = answer.tool_calls, answer.content, answer.reasoning
        if not calls and self._rescues and answer.finish_reason != "length":
            found = rescue(text, self.rules.toolbox)
            calls, text = found.calls, found.text
        if calls and not reasoning:
            reasoning = calls[0].reasoning
        return Turn(self._call_ids.settle(calls), text, reasoning or "")


def _outcomes(executed: Iterable[ToolOutcome | ToolCall]) -> list[ToolOutcome]:
    if not isinstance(executed, Iterable):
        raise _not_executed(executed)
    return [_outcome(done) for done in executed]


def _outcome(done: ToolOutcome | ToolCall) -> ToolOutcome:
    if isinstance(done, ToolOutcome):
        return done
    if isinstance(done, ToolCall):
        return ToolOutcome.of_value(done, None)
    raise _not_executed(done)


def _not_executed(given: object) -> InputError:
    hint = "record(outcomes) with what run() gave, or record(verdict.calls)"
    return InputError(f"expected a list of outcomes or calls, got {describe_type(given)}", source="executed", hint=hint)


def nudge_function(nudge: str | RetryNudge | None) -> RetryNudge | None:
    """A nudge as users give it, as a function of the model's answer."""
    return (lambda _: nudge) if isinstance(nudge, str) else nudge


def _with_timeout(rules: Rules, timeout_s: float) -> Rules:
    """The rules with a timeout on every tool that has none."""
    tools = [
        tool if tool.timeout_s is not None else replace(tool, timeout_s=timeout_s) for tool in rules.toolbox.values()
    ]
    return replace(rules, toolbox=Toolbox(tools))


class _CallIds:
    """Gives an id to calls that have none, or one that was there before: some protocols number each answer afresh."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def reserve(self, call_ids: Iterable[str]) -> None:
        self._taken.update(call_ids)

    def settle(self, calls: tuple[ToolCall, ...]) -> tuple[ToolCall, ...]:
        settled = []
        for call in calls:
            if not call.id or call.id in self._taken:
                call = replace(call, id=self._next())  # noqa: PLW2901 - the same call, with an id
            self._taken.add(call.id or "")
            settled.append(call)
        return tuple(settled)

    def _next(self) -> str:
        number = len(self._taken)
        while f"call_{number}" in self._taken:
            number += 1
        return f"call_{number}"
