"""Every error that offbook raises, as one tree.

OffbookError
├── InputError                     something given to us is wrong: where, why, and what to do (exit code 2)
│   ├── RecordingFormatError       a file that cannot be read as a recording
│   ├── RequestError               a request that cannot be sent, matched or recorded
│   ├── NoProviderError            a request for a model that no registered provider takes
│   ├── ExpressionError            an expression that cannot be read, or gives no answer
│   ├── TemplateError              a template that cannot be read or filled
│   ├── RunError                   a kept run that is not there, under way, over, changed or unreadable
│   └── WorkflowError              a file that is no workflow: problems, all of them
├── ProviderError                  a model call failed: status_code, headers, body
│   ├── RateLimitError             429, with retry_after_s when the provider said so
│   ├── ProviderTimeoutError       no answer in time (also a TimeoutError)
│   │   └── DeadlineExceededError  no answer before the deadline of the whole call: attempts
│   ├── ProviderConnectionError    no connection, or one that broke (also a ConnectionError)
│   ├── MalformedResponseError     an answer that is not what its protocol says: raw
│   ├── BreakerOpenError           the provider failed too often to be asked now
│   ├── StreamInterruptedError     a stream broke after its first event: partial
│   └── AllProvidersFailedError    no provider answered: attempts
├── AgentError                     an agent's run ended without a result: messages, completed_steps
│   ├── MaxIterationsError         it asked the model as often as it may: iterations, pending_steps
│   ├── ToolCallError              the model would not make a valid tool call: raw_response
│   ├── StepEnforcementError       required steps were not done: terminal_tool, attempts, pending_steps
│   ├── PrerequisiteError          the model would not call what a tool needs before it: tool_name, attempts, missing
│   ├── RepeatedCallError          the model made the same call over and over: tool_name, arguments, times
│   ├── ToolExecutionError         tools failed too often in a row: tool_name, cause
│   ├── AgentBudgetError           the run has used up what it may: spent, limit, unit
│   ├── StreamError                a client's stream had no FINAL chunk
│   └── WorkflowCancelledError     the run was cancelled: iteration
├── MockError                      a mock that cannot stand in for its tool: tool
│   ├── MockDriftError             it answers what the real tool would not: problems
│   └── UnmockedToolError          a tool was called that has no mock: arguments, suggestion
├── TargetError                    an agent under test failed
├── StepError                      a step of a workflow could not do its work
│   └── StepTimeoutError           it took longer than it may (also a TimeoutError): step_id, timeout_s
├── ToolArgumentsError             arguments that are not what a tool takes: tool, problems
├── ToolFailureError               a built-in tool could not do what it was asked: tool, status_code
├── ToolFaultError                 a tool call that a fault makes fail: tool
├── ToolRefusalError               a built-in tool was asked for what it may not do: tool
├── ToolTimeoutError               a tool took longer than it may (also a TimeoutError): tool, timeout_s
├── UnfitAnswerError               a model would not answer in the form that was asked for: reason, raw
├── UserSimulationError            the model that plays a user would not: reason, raw, turn_index
├── BudgetExceededError            the calls so far have cost what they may: spent_usd, limit_usd
├── ScriptError                    a scripted model was asked too often, or too seldom: messages
├── RecordedToolError              what a tool raised when it was recorded, where its class is not known: type, message
├── RecordingMismatchError         a replayed request has no answer: kind, key, difference, hint, fired
└── EventLoopError                 a synchronous call made where an event loop is already running

Outside the tree stands `ToolResolutionError`: a tool raises it to say that nothing failed, but there is no such thing.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Self

MismatchKind = Literal["missing", "drifted", "exhausted"]


class OffbookError(Exception):
    """Whatever offbook raises on purpose. It can be pickled, and so cross to another process."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[OffbookError], args: tuple[object, ...], attributes: dict[str, object]) -> OffbookError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InputError(OffbookError):
    """Something given to us is wrong.

    `source` names the file (or argument), `place` the spot in it, `reason` what is wrong there and
    `hint` what to do next. The message holds all four, each once.
    """

    def __init__(self, reason: str, *, source: str = "", place: str = "", hint: str = "") -> None:
        self.reason, self.source, self.place, self.hint = reason, source, place, hint
        where = ": ".join(part for part in (source, place) if part)
        message = f"{where}: {reason}" if where else reason
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)


class RecordingFormatError(InputError):
    """A file that cannot be read as a recording."""


class RequestError(InputError):
    """A request that cannot be sent, matched or recorded."""


class NoProviderError(InputError):
    """A request for a model that no registered provider takes."""


class ExpressionError(InputError):
    """An expression that cannot be read, or that gives no answer for what it was given."""


class TemplateError(InputError):
    """A template that cannot be read, or that names what is not there."""


class RunError(InputError):
    """A kept run that is not there, is under way elsewhere, is over, has changed or cannot be read."""


class Problem(NamedTuple):
    """What is wrong with a workflow at one place. `line` and `column` count from 1; 0 is not known."""

    reason: str
    place: str = ""
    line: int = 0
    column: int = 0
    hint: str = ""
    source: str = ""

    def __str__(self) -> str:
        spot = f"{self.line}:{self.column}" if self.line else ""
        where = ": ".join(part for part in (":".join(filter(None, (self.source, spot))), self.place) if part)
        message = f"{where}: {self.reason}" if where else self.reason
        return f"{message}\n  hint: {self.hint}" if self.hint else message


class WorkflowError(InputError):
    """A file that is no workflow. `problems` are all that were found; the other fields are those of the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        first = self.problems[0]
        super().__init__(first.reason, source=first.source, place=first.place, hint=first.hint)
        self.args = ("\n".join(str(problem) for problem in self.problems),)


class ProviderError(OffbookError):
    """A model call failed. `status_code` is None when no HTTP status was received."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        status_code: int | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> None:
        self.provider, self.status_code, self.body = provider, status_code, body
        self.headers = dict(headers or {})
        super().__init__(f"{provider}: {message}" if provider else message)

    def attribute(self, provider: str) -> Self:
        """This error with the provider's name on it, and before its message, unless it has one already."""
        if provider and not self.provider:
            self.provider = provider
            self.args = (f"{provider}: {self}",)
        return self


class RateLimitError(ProviderError):
    """The provider answered 429. `retry_after_s` is None when it did not say how long to wait."""

    def __init__(
        self,
        message: str,
        *,
        provider: str = "",
        headers: Mapping[str, str] | None = None,
        body: str = "",
        retry_after_s: float | None = None,
    ) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message, provider=provider, status_code=429, headers=headers, body=body)


class ProviderTimeoutError(ProviderError, TimeoutError):
    """No answer arrived in time."""


class ProviderConnectionError(ProviderError, ConnectionError):
    """No connection could be made, or it broke before the answer was complete."""


class MalformedResponseError(ProviderError):
    """The answer arrived but is not what its protocol says. `raw` is what arrived."""

    def __init__(self, message: str, *, provider: str = "", raw: str = "") -> None:
        self.raw = raw
        super().__init__(message, provider=provider, body=raw)


class BreakerOpenError(ProviderError):
    """The provider failed too often to be asked now."""


class Attempt(NamedTuple):
    """A try that failed: of which provider, which try there, how, and how long was waited after it.

    `note` says why it was the last there, where the error alone does not.
    """

    provider: str
    attempt: int
    error: ProviderError
    wait_s: float = 0.0
    note: str = ""

    def __str__(self) -> str:
        told = str(self.error).removeprefix(f"{self.provider}: ")
        return f"{self.provider}, attempt {self.attempt}: {told}{self.note and f'; {self.note}'}"


class AllProvidersFailedError(ProviderError):
    """No provider answered. `attempts` tells every try in order; status, headers and body are those of the last."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = tuple(attempts)
        last = self.attempts[-1].error
        told = "\n".join(f"  {attempt}" for attempt in self.attempts)
        tries = "1 attempt" if len(self.attempts) == 1 else f"{len(self.attempts)} attempts"
        message = f"no provider answered, in {tries}:\n{told}"
        super().__init__(message, status_code=last.status_code, headers=last.headers, body=last.body)


class DeadlineExceededError(ProviderTimeoutError):
    """The whole call took longer than it may. `attempts` tells the tries that had failed by then."""

    def __init__(self, deadline_s: float, attempts: Sequence[Attempt]) -> None:
        self.deadline_s, self.attempts = deadline_s, tuple(attempts)
        super().__init__(f"no answer within {deadline_s:g} s, after {len(self.attempts)} failed attempts")


class StreamInterruptedError(ProviderError):
    """A stream broke after its first event. `partial` is the Response as far as it came."""

    def __init__(self, error: ProviderError, *, partial: object) -> None:
        self.partial = partial
        super().__init__(
            f"the stream broke: {error}", status_code=error.status_code, headers=error.headers, body=error.body
        )


class AgentError(OffbookError):
    """An agent's run ended without a result.

    `messages` is the transcript as far as it came, `completed_steps` how often each tool succeeded.
    """

    messages: Sequence[object] = ()
    completed_steps: Mapping[str, int] = {}


class MaxIterationsError(AgentError):
    """The model was asked as often as it may be."""

    def __init__(self, iterations: int, *, pending_steps: Sequence[str] = ()) -> None:
        self.iterations, self.pending_steps = iterations, list(pending_steps)
        missing = f"; required steps not done: {', '.join(pending_steps)}" if pending_steps else ""
        super().__init__(f"no terminal tool was called within {iterations} iterations{missing}")


class ToolCallError(AgentError):
    """The model would not make a valid tool call. `raw_response` is what it said last."""

    def __init__(self, reason: str, *, raw_response: str) -> None:
        self.raw_response = raw_response
        super().__init__(f"Retries exhausted: {reason}")


class StepEnforcementError(AgentError):
    """The model called a terminal tool before its required steps, once too often."""

    def __init__(self, terminal_tool: str, *, attempts: int, pending_steps: Sequence[str]) -> None:
        self.terminal_tool, self.attempts, self.pending_steps = terminal_tool, attempts, list(pending_steps)
        super().__init__(f"{terminal_tool} was called {attempts} times before {', '.join(pending_steps)}")


class PrerequisiteError(AgentError):
    """The model called a tool before what that tool needs, once too often."""

    def __init__(self, tool_name: str, *, attempts: int, missing: Sequence[str]) -> None:
        self.tool_name, self.attempts, self.missing = tool_name, attempts, list(missing)
        super().__init__(f"{tool_name} was called {attempts} times before {', '.join(missing)}")


class RepeatedCallError(AgentError):
    """The model made the same call, with the same outcome, once too often."""

    def __init__(self, tool_name: str, *, arguments: Mapping[str, object], times: int) -> None:
        self.tool_name, self.arguments, self.times = tool_name, dict(arguments), times
        super().__init__(f"{tool_name} was called {times} times with the same arguments and the same outcome")


class ToolExecutionError(AgentError):
    """Tools failed in more turns in a row than they may. `cause` is what the last one raised."""

    def __init__(self, tool_name: str, cause: Exception) -> None:
        self.tool_name, self.cause = tool_name, cause
        super().__init__(f"{tool_name} failed: {type(cause).__name__}: {cause}")


class AgentBudgetError(AgentError):
    """The run has used up the dollars or tokens that it may. `unit` is `USD` or `tokens`."""

    def __init__(self, *, spent: float, limit: float, unit: str) -> None:
        self.spent, self.limit, self.unit = spent, limit, unit
        super().__init__(f"the run's budget of {limit:g} {unit} is spent ({spent:g} so far)")


class StreamError(AgentError):
    """A client's stream ended without its FINAL chunk."""


class WorkflowCancelledError(AgentError):
    """The run was cancelled, before the iteration of that number or while its model call was under way."""

    def __init__(self, iteration: int) -> None:
        self.iteration = iteration
        super().__init__(f"the run was cancelled at iteration {iteration}")


class MockError(OffbookError):
    """A mock that cannot stand in for its tool: an error of the test, which no agent is told."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class MockDriftError(MockError):
    """A mock that answers what the real tool would not. `problems` says what is wrong with the answer, a line each."""

    def __init__(self, problems: Sequence[str], *, tool: str) -> None:
        self.problems = tuple(problems)
        told = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the mock of {tool!r} answers what the real tool would not:\n{told}", tool=tool)


class UnmockedToolError(MockError):
    """A tool was called that has no mock.

    `arguments` are those it was called with, `suggestion` is the entry that the mocks lack, in Python.
    """

    def __init__(self, *, tool: str, arguments: Mapping[str, object], suggestion: str, hint: str = "") -> None:
        self.arguments, self.suggestion = dict(arguments), suggestion
        entry = "\n".join(f"        {line}" for line in suggestion.splitlines())
        lines = (
            f"tool {tool!r} was called, but no mock is defined for it.{hint and f' {hint}'}",
            f"Add one:\n\n    mocks = {{\n{entry}\n    }}\n",
            'Or let every tool without a mock answer None: Mocks(…, unmocked="passthrough")',
        )
        super().__init__("\n".join(lines), tool=tool)


class TargetError(OffbookError):
    """An agent under test failed, or answered what is no answer."""


class StepError(OffbookError):
    """A step of a workflow could not do its work."""


class StepTimeoutError(StepError, TimeoutError):
    """A step of a workflow took longer than it may."""

    def __init__(self, step_id: str, *, timeout_s: float) -> None:
        self.step_id, self.timeout_s = step_id, timeout_s
        super().__init__(f"{step_id} took longer than {timeout_s:g} s")


class ToolArgumentsError(OffbookError):
    """Arguments that are not what a tool takes. `problems` says what is wrong, a line each, for a model to mend."""

    def __init__(self, problems: Sequence[str], *, tool: str) -> None:
        self.problems, self.tool = tuple(problems), tool
        super().__init__("\n".join([f"wrong arguments for {tool}:", *self.problems]))


class ToolFailureError(OffbookError):
    """A built-in tool could not do what it was asked. `status_code` is that of an HTTP answer, if there was one."""

    def __init__(self, message: str, *, tool: str, status_code: int | None = None) -> None:
        self.tool, self.status_code = tool, status_code
        super().__init__(message)


class ToolFaultError(OffbookError):
    """A tool call that a fault makes fail; the message is the one that the fault declares."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class ToolRefusalError(OffbookError):
    """A built-in tool was asked for what it may not do. The message says what it may."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class ToolTimeoutError(OffbookError, TimeoutError):
    """A tool took longer than it may."""

    def __init__(self, *, tool: str, timeout_s: float) -> None:
        self.tool, self.timeout_s = tool, timeout_s
        super().__init__(f"{tool} took longer than {timeout_s:g} s")


class ToolResolutionError(Exception):
    """What a tool raises to say that there is no such thing: ask differently.

    Nothing failed, so it is told to the model and costs the agent nothing of its error budget.
    """


class UnfitAnswerError(OffbookError):
    """A model would not answer in the form that was asked for. `raw` is what it answered last."""

    def __init__(self, reason: str, *, raw: str) -> None:
        self.reason, self.raw = reason, raw
        super().__init__(f"the model's answer cannot be used: {reason}; it was {raw[:200]!r}")


class UserSimulationError(OffbookError):
    """The model that plays a user would not make a move. `turn_index` counts from 0."""

    def __init__(self, reason: str, *, raw: str, turn_index: int) -> None:
        self.reason, self.raw, self.turn_index = reason, raw, turn_index
        super().__init__(f"the simulated user made no move in turn {turn_index}: {reason}; it was {raw[:200]!r}")


class BudgetExceededError(OffbookError):
    """The calls so far have cost what they may."""

    def __init__(self, *, spent_usd: float, limit_usd: float) -> None:
        self.spent_usd, self.limit_usd = spent_usd, limit_usd
        super().__init__(f"the budget of {limit_usd:g} $ is spent ({spent_usd:g} $ so far)")


class ScriptError(OffbookError):
    """A scripted model was asked more often than it has lines, or was left with lines that nobody asked for.

    `messages` are those that it was asked with once too often.
    """

    def __init__(self, message: str, *, messages: Sequence[Mapping[str, object]] = ()) -> None:
        self.messages = tuple(messages)
        super().__init__(message)


class RecordedToolError(OffbookError):
    """What a tool raised when it was recorded, where its class is not one that replay knows.

    `type` is the name of that class, and where it can be one, of this error's own class too: whoever
    is told of the error is told the same as then. `message` is what it said.
    """

    def __init__(self, message: str, *, type: str) -> None:
        self.type, self.message = type, message
        super().__init__(message if self.__class__.__name__ == type else f"{type}: {message}")

    @classmethod
    def of(cls, name: str, message: str) -> "RecordedToolError":
        """The error for a class of that name."""
        kind = type(name, (RecordedToolError,), {}) if name.isidentifier() else RecordedToolError
        error: RecordedToolError = kind(message, type=name)
        return error

    def __reduce__(self) -> tuple[object, ...]:
        return RecordedToolError.of, (self.type, self.message)


class RecordingMismatchError(OffbookError):
    """A replayed request has no recorded answer.

    `kind` is `missing` (nothing fits), `drifted` (the step is there, its request was another) or
    `exhausted` (everything that fits was served already). `key` names the entry concerned, or the
    nearest one; `difference` is the message-level diff against it. `hint` says what to do, `fired` which
    faults had fired by then. Never worth a retry.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: MismatchKind,
        key: str | None = None,
        difference: str = "",
        hint: str = "",
        fired: Sequence[str] = (),
    ) -> None:
        self.reason, self.kind, self.key, self.difference = message, kind, key, difference
        self.hint, self.fired = hint, tuple(fired)
        hints = [f"  hint: {told}" for told in (_describe_fired_faults(self.fired), hint) if told]
        super().__init__("\n".join([message, *filter(None, [difference]), *hints]))

    def but(self, *, hint: str | None = None, fired: Sequence[str] | None = None) -> "RecordingMismatchError":
        """The same with another hint, or with faults that had fired by then."""
        return RecordingMismatchError(
            self.reason,
            kind=self.kind,
            key=self.key,
            difference=self.difference,
            hint=self.hint if hint is None else hint,
            fired=self.fired if fired is None else fired,
        )


def _describe_fired_faults(fired: Sequence[str]) -> str:
    if not fired:
        return ""
    more = f" and {len(fired) - 1} more" if len(fired) > 1 else ""
    what = f"a fault fired before this ({fired[-1]}{more}): the recording has no answer for what follows"
    return f"{what}; write one by hand, or use a fault that the retry hides"


class EventLoopError(OffbookError):
    """A synchronous call was made inside a running event loop."""
