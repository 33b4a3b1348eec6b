"""Every error that understudy raises, as one tree.

UnderstudyError
├── InputError                     something given to us is wrong: where, why, and what to do (exit code 2)
│   ├── RecordingFormatError       a file that cannot be read as a recording
│   └── RequestError               a request that cannot be sent, matched or recorded
├── ProviderError                  a model call failed: status_code, headers, body
│   ├── RateLimitError             429, with retry_after_s when the provider said so
│   ├── ProviderTimeoutError       no answer in time (also a TimeoutError)
│   ├── ProviderConnectionError    no connection, or one that broke (also a ConnectionError)
│   └── MalformedResponseError     an answer that is not what its protocol says: raw
├── RecordingMismatchError         a replayed request has no answer: kind, key, nearest, difference
└── EventLoopError                 a synchronous call made where an event loop is already running
"""

from collections.abc import Mapping
from typing import Literal

MismatchKind = Literal["missing", "drifted", "exhausted"]


class UnderstudyError(Exception):
    """Whatever understudy raises on purpose."""


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
