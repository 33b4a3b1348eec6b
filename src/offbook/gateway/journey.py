"""What a call through the gateway tells of itself, as events."""

from __future__ import annotations

from offbook.clock import Clock
from offbook.errors import ProviderError
from offbook.events import (
    AttemptEnded,
    AttemptStarted,
    CallEnded,
    CallStarted,
    FallbackTaken,
    RetryScheduled,
    Sink,
)
from offbook.messages import Request, Response


class Journey:
    """Emits the events of one call, in order. An attempt that is under way when the call ends, ends with it."""

    def __init__(self, request: Request, *, sink: Sink, clock: Clock) -> None:
        self._request, self._sink, self._clock = request, sink, clock
        self._started_s = clock.monotonic_s()
        self._attempt: AttemptStarted | None = None
        self._attempt_started_s = 0.0
        self._provider = ""
        sink.emit(CallStarted(request.step_id, request.model, request.workflow, request.call))

    def attempt_started(self, provider: str, request: Request) -> None:
        self._provider = provider
        self._attempt_started_s = self._clock.monotonic_s()
        self._attempt = AttemptStarted(
            request.step_id, provider, request.model, request.workflow, request.call, request.attempt
        )
        self._sink.emit(self._attempt)

    def attempt_ended(self, error: BaseException | None) -> None:
        started, self._attempt = self._attempt, None
        if started is None:
            return
        self._sink.emit(
            AttemptEnded(
                started.step_id,
                started.provider,
                started.model,
                self._clock.monotonic_s() - self._attempt_started_s,
                None if error is None else type(error).__name__,
                error.status_code if isinstance(error, ProviderError) else None,
                started.workflow,
                started.call,
                started.attempt,
            )
        )

    def retrying(self, error: ProviderError, wait_s: float, attempt: int) -> None:
        asked = self._request
        told = type(error).__name__
        self._sink.emit(
            RetryScheduled(asked.step_id, self._provider, wait_s, told, asked.workflow, asked.call, attempt)
        )

    def falling_back(self, provider: str) -> None:
        asked = self._request
        self._sink.emit(FallbackTaken(asked.step_id, self._provider, provider, asked.workflow, asked.call))

    def ended(self, outcome: Response | BaseException) -> None:
        """The end of the call: its response, or what it failed with (a caller that left included)."""
        error = outcome if isinstance(outcome, BaseException) else None
        response = outcome if isinstance(outcome, Response) else Response(finish_reason=None)
        self.attempt_ended(error)
        asked = self._request
        self._sink.emit(
            CallEnded(
                asked.step_id,
                self._provider,
                response.model or asked.model,
                self._clock.monotonic_s() - self._started_s,
                response.usage.prompt_tokens,
                response.usage.completion_tokens,
                response.cost_usd,
                response.finish_reason,
                None if error is None else type(error).__name__,
                asked.workflow,
                asked.call,
            )
        )
