"""Every error that offbook raises, as one tree.

OffbookError
├── InputError                     something that a user gave is wrong: reason, source, place, hint (exit code 2)
│   ├── RecordingFormatError       a file cannot be read as a recording
│   ├── RecordingUnavailableError  the server that holds a recording cannot be reached, or has no room
│   ├── RecordingWriteError        a call was made, but could not be recorded
│   ├── RequestError               a request cannot be sent, matched or recorded
│   ├── NoProviderError            no registered provider accepts the model of a request
│   ├── ExpressionError            an expression cannot be parsed or evaluated
│   ├── TemplateError              a template cannot be parsed or filled
│   ├── RunError                   a stored run is missing, in progress, finished, changed or unreadable
│   └── WorkflowError              a file is not a valid workflow: problems
├── ProviderError                  a model call failed: provider, status_code, headers, body
│   ├── RateLimitError             the provider answered 429: retry_after_s
│   ├── ProviderTimeoutError       no response in time (also a TimeoutError)
│   │   └── DeadlineExceededError  no response before the deadline of the whole call: deadline_s, attempts
│   ├── ProviderConnectionError    no connection, or a broken one (also a ConnectionError)
│   ├── MalformedResponseError     a response violates its protocol: raw
│   ├── BreakerOpenError           the provider's circuit breaker is open
│   ├── StreamInterruptedError     a stream broke after its first event: partial
│   └── AllProvidersFailedError    every provider failed: attempts
├── AgentError                     an agent's run ended without a result: messages, completed_steps
│                                  (its subclasses are in offbook.agent.errors)
├── MockError                      a mock cannot stand in for its tool: tool
│   ├── MockDriftError             a mock returns what the real tool would not: problems
│   └── UnmockedToolError          a tool without a mock was called: arguments, suggestion
├── TargetError                    an agent under test failed
├── StepError                      a workflow step failed
│   └── StepTimeoutError           a workflow step timed out (also a TimeoutError): step_id, timeout_s
├── ToolArgumentsError             arguments do not fit the parameters of a tool: tool, problems
├── ToolFailureError               a built-in tool failed: tool, status_code
├── ToolFaultError                 an injected fault makes a tool call fail: tool
├── ToolRefusalError               a built-in tool refuses what it is not allowed to do: tool
├── ToolTimeoutError               a tool timed out (also a TimeoutError): tool, timeout_s
├── UnfitAnswerError               a model does not answer in the requested form: reason, raw
├── UserSimulationError            the model that simulates a user does not answer: reason, raw, turn_index
├── BudgetExceededError            the budget of a gateway is spent: spent_usd, limit_usd
├── ScriptError                    a scripted model was called too often or not often enough: messages
├── RecordingMismatchError         a replayed request has no recorded response: kind, key, difference, hint, fired
└── EventLoopError                 a synchronous call was made inside a running event loop

`ToolResolutionError` is not part of the tree: a tool raises it to report that nothing failed but nothing was found.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Self

MismatchKind = Literal["missing", "drifted", "exhausted", "rejected"]


class OffbookError(Exception):
    """The base of every error that offbook raises on purpose. It can be pickled."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[OffbookError], args: tuple[object, ...], attributes: dict[str, object]) -> OffbookError:
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(attributes)
    return error


class InputError(OffbookError):
    """A user gave something wrong.

    `source` names the file or argument, `place` the position in it, `reason` the problem and `hint` the next step. The
    message contains all four, each once.
    """

    def __init__(self, reason: str, *, source: str = "", place: str = "", hint: str = "") -> None:
        self.reason, self.source, self.place, self.hint = reason, source, place, hint
        where = ": ".join(part for part in (source, place) if part)
        message = f"{where}: {reason}" if where else reason
        super().__init__(f"{message}\n  hint: {hint}" if hint else message)

    @property
    def fields(self) -> dict[str, str]:
        """The fields from which another process makes the error: `InputError(**fields)`."""
        return {"reason": self.reason, "source": self.source, "place": self.place, "hint": self.hint}


class RecordingFormatError(InputError):
    """A file cannot be read as a recording."""


class RecordingUnavailableError(InputError):
    """The server of a recording cannot be reached, or is full."""


class RecordingWriteError(InputError):
    """A call was made, but could not be recorded. No agent gets it as the failure of a model or a tool."""


class RequestError(InputError):
    """A request cannot be sent, matched or recorded."""


class NoProviderError(InputError):
    """No registered provider accepts the model of a request."""


class ExpressionError(InputError):
    """An expression cannot be parsed, or not evaluated with the given values."""


class TemplateError(InputError):
    """A template cannot be parsed, or uses an undefined name."""


class RunError(InputError):
    """A stored run is missing, in progress elsewhere, finished, changed or unreadable."""


class Problem(NamedTuple):
    """One problem of a workflow. `line` and `column` count from 1; 0 means unknown."""

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
    """A file is not a valid workflow. `problems` lists everything found; the other fields are those of the first."""

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
        """Set the provider's name, also in front of the message, unless the error has one, and return the error."""
        if provider and not self.provider:
            self.provider = provider
            self.args = (f"{provider}: {self}",)
        return self


class RateLimitError(ProviderError):
    """The provider answered 429. `retry_after_s` is None if it named no wait."""

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
    """No response arrived in time."""


class ProviderConnectionError(ProviderError, ConnectionError):
    """No connection could be made, or it broke before the response was complete."""


class MalformedResponseError(ProviderError):
    """A response violates its protocol. `raw` is the received text."""

    def __init__(self, message: str, *, provider: str = "", raw: str = "") -> None:
        self.raw = raw
        super().__init__(message, provider=provider, body=raw)


class BreakerOpenError(ProviderError):
    """The provider's circuit breaker is open: it failed too often to be called now."""


class Attempt(NamedTuple):
    """A failed attempt: its provider, its number there from 1, its error, and the wait after it.

    `note` is the reason for the last attempt at that provider, if the error alone does not explain it.
    """

    provider: str
    attempt: int
    error: ProviderError
    wait_s: float = 0.0
    note: str = ""

    def __str__(self) -> str:
        message = str(self.error).removeprefix(f"{self.provider}: ")
        return f"{self.provider}, attempt {self.attempt}: {message}{self.note and f'; {self.note}'}"


class AllProvidersFailedError(ProviderError):
    """Every provider failed. `attempts` lists them in order; status, headers and body are the last one's."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = tuple(attempts)
        last = self.attempts[-1].error
        lines = "\n".join(f"  {attempt}" for attempt in self.attempts)
        tries = "1 attempt" if len(self.attempts) == 1 else f"{len(self.attempts)} attempts"
        message = f"no provider answered, in {tries}:\n{lines}"
        super().__init__(message, status_code=last.status_code, headers=last.headers, body=last.body)


class DeadlineExceededError(ProviderTimeoutError):
    """The whole call exceeded its deadline. `attempts` lists the attempts that had failed by then."""

    def __init__(self, deadline_s: float, attempts: Sequence[Attempt]) -> None:
        self.deadline_s, self.attempts = deadline_s, tuple(attempts)
        super().__init__(f"no answer within {deadline_s:g} s, after {len(self.attempts)} failed attempts")


class StreamInterruptedError(ProviderError):
    """A stream broke after its first event. `partial` is the Response up to there."""

    def __init__(self, error: ProviderError, *, partial: object) -> None:
        self.partial = partial
        super().__init__(
            f"the stream broke: {error}", status_code=error.status_code, headers=error.headers, body=error.body
        )


class AgentError(OffbookError):
    """An agent's run ended without a result.

    `messages` is the transcript up to there, `completed_steps` how often each tool succeeded.
    """

    messages: Sequence[object] = ()
    completed_steps: Mapping[str, int] = {}


class MockError(OffbookError):
    """A mock cannot stand in for its tool: an error of the test, which is never shown to the agent."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class MockDriftError(MockError):
    """A mock returns a value that the real tool would not. `problems` describes it, a line each."""

    def __init__(self, problems: Sequence[str], *, tool: str) -> None:
        self.problems = tuple(problems)
        lines = "\n".join(f"  {problem}" for problem in self.problems)
        super().__init__(f"the mock of {tool!r} returns what the real tool would not:\n{lines}", tool=tool)


class UnmockedToolError(MockError):
    """A tool without a mock was called.

    `arguments` are the call's; `suggestion` is the missing entry of the mocks, in Python. `declared_by` is the function
    that declares them.
    """

    def __init__(
        self,
        *,
        tool: str,
        arguments: Mapping[str, object],
        suggestion: str,
        hint: str = "",
        declared_by: str = "Mocks",
    ) -> None:
        self.arguments, self.suggestion = dict(arguments), suggestion
        entry = "\n".join(f"        {line}" for line in suggestion.splitlines())
        lines = (
            f"tool {tool!r} was called, but no mock is defined for it.{hint and f' {hint}'}",
            f"Add one:\n\n    mocks = {{\n{entry}\n    }}\n",
            f'Or let every tool without a mock return None: {declared_by}(…, unmocked="passthrough")',
        )
        super().__init__("\n".join(lines), tool=tool)


class TargetError(OffbookError):
    """An agent under test failed, or its answer cannot be used."""


class StepError(OffbookError):
    """A workflow step failed."""


class StepTimeoutError(StepError, TimeoutError):
    """A workflow step timed out."""

    def __init__(self, step_id: str, *, timeout_s: float) -> None:
        self.step_id, self.timeout_s = step_id, timeout_s
        super().__init__(f"{step_id} took longer than {timeout_s:g} s")


class ToolArgumentsError(OffbookError):
    """Arguments do not fit the parameters of a tool. `problems` describes them for a model, a line each."""

    def __init__(self, problems: Sequence[str], *, tool: str) -> None:
        self.problems, self.tool = tuple(problems), tool
        super().__init__("\n".join([f"wrong arguments for {tool}:", *self.problems]))


class ToolFailureError(OffbookError):
    """A built-in tool failed. `status_code` is the HTTP response's, if there was one."""

    def __init__(self, message: str, *, tool: str, status_code: int | None = None) -> None:
        self.tool, self.status_code = tool, status_code
        super().__init__(message)


class ToolFaultError(OffbookError):
    """An injected fault makes a tool call fail, with the fault's message."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class ToolRefusalError(OffbookError):
    """A built-in tool refuses a forbidden call. The message says what is allowed."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class ToolTimeoutError(OffbookError, TimeoutError):
    """A tool timed out."""

    def __init__(self, *, tool: str, timeout_s: float) -> None:
        self.tool, self.timeout_s = tool, timeout_s
        super().__init__(f"{tool} took longer than {timeout_s:g} s")


class ToolResolutionError(Exception):
    """Raised by a tool to report that nothing was found, and that the model should call it differently.

    Nothing failed: the model gets the message, and the agent's error budget does not change.
    """


class UnfitAnswerError(OffbookError):
    """A model does not answer in the requested form. `raw` is its last answer."""

    def __init__(self, reason: str, *, raw: str) -> None:
        self.reason, self.raw = reason, raw
        super().__init__(f"the model's answer cannot be used: {reason}; it was {raw[:200]!r}")


class UserSimulationError(OffbookError):
    """The model that simulates a user does not answer in the requested form. `turn_index` counts from 0."""

    def __init__(self, reason: str, *, raw: str, turn_index: int) -> None:
        self.reason, self.raw, self.turn_index = reason, raw, turn_index
        super().__init__(f"the simulated user made no move in turn {turn_index}: {reason}; it was {raw[:200]!r}")


class BudgetExceededError(OffbookError):
    """The calls so far have spent the budget."""

    def __init__(self, *, spent_usd: float, limit_usd: float) -> None:
        self.spent_usd, self.limit_usd = spent_usd, limit_usd
        super().__init__(f"the budget of {limit_usd:g} $ is spent ({spent_usd:g} $ so far)")


class ScriptError(OffbookError):
    """A scripted model was called more often than it has responses, or has unused responses at the end.

    `messages` are those of the call without a response.
    """

    def __init__(self, message: str, *, messages: Sequence[Mapping[str, object]] = ()) -> None:
        self.messages = tuple(messages)
        super().__init__(message)


class RecordingMismatchError(OffbookError):
    """A replayed request has no recorded response. A retry never helps.

    `kind` is `missing` (nothing matches), `drifted` (the step was recorded with another request), `exhausted`
    (everything that matches has been served) or `rejected` (the API would refuse it). `key` names the entry, or the
    nearest one; `difference` is the message-level diff against it. `hint` is the next step, `fired` are the faults
    fired by then. Nothing after a fault is recorded, so the message then explains how to continue after a fault,
    instead of the hint.
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
        super().__init__()
        self.reason, self.kind, self.key, self.difference, self.hint = message, kind, key, difference, hint
        self.attribute(fired)

    def attribute(self, fired: Sequence[str]) -> Self:
        """Set the faults that had fired by then, also in the message, and return the error."""
        self.fired = tuple(fired)
        advice = _describe_fired_faults(self.fired) or self.hint
        self.args = ("\n".join(filter(None, [self.reason, self.difference, advice and f"  hint: {advice}"])),)
        return self

    def replace(self, *, hint: str | None = None, fired: Sequence[str] | None = None) -> "RecordingMismatchError":
        """Return the error with another hint, or with fired faults."""
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
