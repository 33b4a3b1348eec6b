"""Every error that understudy raises, as one tree.

UnderstudyError
├── InputError                     something given to us is wrong: where, why, and what to do (exit code 2)
│   ├── RecordingFormatError       a file that cannot be read as a recording
│   ├── RequestError               a request that cannot be sent, matched or recorded
│   └── NoProviderError            a request for a model that no registered provider takes
├── ProviderError                  a model call failed: status_code, headers, body
│   ├── RateLimitError             429, with retry_after_s when the provider said so
│   ├── ProviderTimeoutError       no answer in time (also a TimeoutError)
│   │   └── DeadlineExceededError  no answer before the deadline of the whole call: attempts
│   ├── ProviderConnectionError    no connection, or one that broke (also a ConnectionError)
│   ├── MalformedResponseError     an answer that is not what its protocol says: raw
│   ├── BreakerOpenError           the provider failed too often to be asked now
│   ├── StreamInterruptedError     a stream broke after its first event: partial
│   └── AllProvidersFailedError    no provider answered: attempts
├── ToolFaultError                 a tool call that a fault makes fail: tool
├── BudgetExceededError            the calls so far have cost what they may: spent_usd, limit_usd
├── RecordingMismatchError         a replayed request has no answer: kind, key, nearest, difference
└── EventLoopError                 a synchronous call made where an event loop is already running
"""

from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, Self

MismatchKind = Literal["missing", "drifted", "exhausted"]


class UnderstudyError(Exception):
    """Whatever understudy raises on purpose. It can be pickled, and so cross to another process."""

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self.args, self.__dict__)


def _rebuilt(kind: type[UnderstudyError], args: tuple[object, ...], attributes: dict[str, object]) -> UnderstudyError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(attributes)
    return error


class InputError(UnderstudyError):
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


class ProviderError(UnderstudyError):
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
    """A try that failed: of which provider, which try there, how, and how long was waited after it."""

    provider: str
    attempt: int
    error: ProviderError
    wait_s: float = 0.0


class AllProvidersFailedError(ProviderError):
    """No provider answered. `attempts` tells every try in order; status, headers and body are those of the last."""

    def __init__(self, attempts: Sequence[Attempt]) -> None:
        self.attempts = tuple(attempts)
        last = self.attempts[-1].error
        told = "\n".join(
            f"  {a.provider}, attempt {a.attempt}: {str(a.error).removeprefix(f'{a.provider}: ')}"
            for a in self.attempts
        )
        message = f"no provider answered, in {len(self.attempts)} attempts:\n{told}"
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


class ToolFaultError(UnderstudyError):
    """A tool call that a fault makes fail; the message is the one that the fault declares."""

    def __init__(self, message: str, *, tool: str) -> None:
        self.tool = tool
        super().__init__(message)


class BudgetExceededError(UnderstudyError):
    """The calls so far have cost what they may."""

    def __init__(self, *, spent_usd: float, limit_usd: float) -> None:
        self.spent_usd, self.limit_usd = spent_usd, limit_usd
        super().__init__(f"the budget of {limit_usd:g} $ is spent ({spent_usd:g} $ so far)")


class RecordingMismatchError(UnderstudyError):
    """A replayed request has no recorded answer.

    `kind` is `missing` (nothing fits), `drifted` (the step is there, its request was another) or
    `exhausted` (everything that fits was served already). `key` names the entry concerned, or the
    nearest one; `difference` is the message-level diff against it. Never worth a retry.
    """

    def __init__(self, message: str, *, kind: MismatchKind, key: str | None = None, difference: str = "") -> None:
        self.kind, self.key, self.difference = kind, key, difference
        super().__init__(f"{message}\n{difference}" if difference else message)


class EventLoopError(UnderstudyError):
    """A synchronous call was made inside a running event loop."""
