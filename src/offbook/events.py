"""The events that offbook emits, as frozen values, and the sinks that receive them."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, Protocol, Self, TypeAlias, cast

from msgspec import Struct

if TYPE_CHECKING:
    from offbook.messages import Request, Response

MatchedBy: TypeAlias = Literal["step_id", "prompt_hash", "default"]
CacheOutcome: TypeAlias = Literal["hit", "miss", "wait", "unreached"]
DURATION_BOUNDS_S = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""The buckets of durations in histograms, as OpenTelemetry's conventions advise for models."""


class ReplayServed(Struct, frozen=True, gc=False):
    """A call was replayed: from the entry `key`, or with the default response if nothing matched.

    Calls over HTTP have the recorded provider, tokens and cost; others leave them to the gateway's CallEnded. Fields
    can also be read as items (`call["step_id"]`).
    """

    step_id: str | None
    model: str
    matched_by: MatchedBy
    key: str | None
    request_hash: str
    fault_type: str | None = None
    workflow: str = ""
    call: int = 0
    attempt: int = 1
    provider: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0

    def __getitem__(self, name: str) -> object:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)


class ReplayMissed(Struct, frozen=True, gc=False):
    """A strict replay had no response for a call."""

    step_id: str | None
    model: str
    kind: str
    workflow: str = ""
    call: int = 0
    attempt: int = 1


class CallRecorded(Struct, frozen=True, gc=False):
    """A call was recorded. `latency_s` is the real provider's latency. Tokens and cost are those of ReplayServed."""

    step_id: str | None
    provider: str
    model: str
    latency_s: float
    fault_type: str | None = None
    workflow: str = ""
    call: int = 0
    attempt: int = 1
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0


class CacheUsed(Struct, frozen=True, gc=False):
    """A call was looked up in a shared recording, where `gone` exchanges had expired or were evicted.

    `outcome` is `hit` (answered from there), `miss` (made live and recorded) or `unreached` (made live because the
    server cannot be reached). A `wait` of `waited_s` for another process's call comes before its hit or miss.
    """

    outcome: CacheOutcome
    waited_s: float = 0.0
    gone: int = 0


class FaultFired(Struct, frozen=True, gc=False):
    """A planned fault fired at a model call, or at a call of `tool`.

    For a tool, `call` counts the tool's calls, `model` is empty, and step and workflow are unknown.
    """

    step_id: str | None
    model: str
    fault_type: str
    workflow: str = ""
    call: int = 0
    attempt: int = 1
    tool: str | None = None


class ToolCalled(Struct, frozen=True, gc=False):
    """A tool was called, and returned or raised `error`, the name of a class. `call` counts the calls of this tool."""

    tool: str
    latency_s: float
    error: str | None = None
    call: int = 0


class CallStarted(Struct, frozen=True, gc=False):
    """A call entered the gateway. `call` counts the calls of its step, from 1."""

    step_id: str | None
    model: str
    workflow: str = ""
    call: int = 0


class AttemptStarted(Struct, frozen=True, gc=False):
    """A provider is about to be called."""

    step_id: str | None
    provider: str
    model: str
    workflow: str = ""
    call: int = 0
    attempt: int = 1


class AttemptEnded(Struct, frozen=True, gc=False):
    """A provider has answered, or has failed: `error` is the error's class."""

    step_id: str | None
    provider: str
    model: str
    latency_s: float
    error: str | None = None
    status_code: int | None = None
    workflow: str = ""
    call: int = 0
    attempt: int = 1


class RetryScheduled(Struct, frozen=True, gc=False):
    """A failed attempt will be repeated after `wait_s`."""

    step_id: str | None
    provider: str
    wait_s: float
    error: str
    workflow: str = ""
    call: int = 0
    attempt: int = 1


class FallbackTaken(Struct, frozen=True, gc=False):
    """The gateway moved on from a provider to the next."""

    step_id: str | None
    provider: str
    to: str
    workflow: str = ""
    call: int = 0


class CallEnded(Struct, frozen=True, gc=False):
    """A call left the gateway: with a response of `provider`, or with `error`, the error's class."""

    step_id: str | None
    provider: str
    model: str
    latency_s: float
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    finish_reason: str | None = None
    error: str | None = None
    workflow: str = ""
    call: int = 0
    reasoning_tokens: int = 0


class BreakerChanged(Struct, frozen=True, gc=False):
    """A provider's circuit breaker is now `closed`, `open` or `half_open`."""

    provider: str
    state: str


class ContextCompacted(Struct, frozen=True, gc=False):
    """A transcript was compacted. `phase` is the last phase of the strategy, from 1."""

    step_index: int
    strategy: str
    phase: int
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    budget_tokens: int


class ContextWarned(Struct, frozen=True, gc=False):
    """A transcript has reached a share of its budget, or exceeds the budget even after compaction."""

    step_index: int
    tokens: int
    budget_tokens: int
    threshold: float
    is_after_compaction: bool = False


class WorkflowStarted(Struct, frozen=True, gc=False):
    """A workflow started."""

    workflow: str


class StepStarted(Struct, frozen=True, gc=False):
    """A workflow step started. `step` is its path in the run, like `loop[0].classify`."""

    workflow: str
    step: str
    type: str


class StepEnded(Struct, frozen=True, gc=False):
    """A workflow step is `done`, `failed` (with `error`, the error's class) or `skipped`."""

    workflow: str
    step: str
    type: str
    status: str
    latency_s: float = 0.0
    calls: int = 0
    attempts: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    error: str | None = None
    reasoning_tokens: int = 0


class WorkflowEnded(Struct, frozen=True, gc=False):
    """A workflow has `succeeded` or `failed`, or a strict replay has `refused` one of its calls."""

    workflow: str
    status: str
    latency_s: float


Event: TypeAlias = (
    ReplayServed
    | ReplayMissed
    | CallRecorded
    | CacheUsed
    | FaultFired
    | ToolCalled
    | CallStarted
    | AttemptStarted
    | AttemptEnded
    | RetryScheduled
    | FallbackTaken
    | CallEnded
    | BreakerChanged
    | WorkflowStarted
    | StepStarted
    | StepEnded
    | WorkflowEnded
    | ContextCompacted
    | ContextWarned
)


class Sink(Protocol):
    """Receives events as they happen. It should be quick. Its first error is logged; errors do not propagate."""

    def emit(self, event: Event) -> None: ...


class NullSink:
    """Ignores events."""

    def emit(self, event: Event) -> None:
        return None


class MemorySink:
    """Stores events in a list, for tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


NULL_SINK = NullSink()


class CallContent(Struct, frozen=True):
    """The messages of a model call, for sinks that ask for them. No event, and no other sink, has them.

    `attempt` is the following event's, or 0 at the end of a call through a gateway. A failed call has no response.
    """

    request: "Request"
    response: "Response | None"
    step_id: str | None
    workflow: str = ""
    call: int = 0
    attempt: int = 0


class ContentSink(Sink, Protocol):
    """A sink that may ask for messages by `captures_content`. It gets them before the event of their call."""

    @property
    def captures_content(self) -> bool: ...

    def capture(self, content: CallContent) -> None: ...


def capture_content(sink: Sink, content: Callable[[], CallContent | None]) -> None:
    """Pass the messages of a call to the sink, made only if it asks for them."""
    if isinstance(sink, Sinks) and sink.captures_content:
        found = content()
        if found is not None:
            sink.capture(found)


class RecordedCallCounter:
    """A sink that counts recorded calls: `outcomes` has their numbers by fault type, `""` for none.

    `has_replayed` says whether a recording has answered a call.
    """

    def __init__(self) -> None:
        self.outcomes = Counter[str]()
        self.has_replayed = False

    def emit(self, event: Event) -> None:
        if isinstance(event, CallRecorded):
            self.outcomes[event.fault_type or ""] += 1
        elif isinstance(event, ReplayServed):
            self.has_replayed |= event.key is not None

    def describe_failure(self) -> str:
        """Return how all calls failed, or "" if one got an answer, or none was made."""
        if not self.outcomes or self.outcomes[""]:
            return ""
        faults = ", ".join(sorted(+self.outcomes))
        return f"no recorded call got an answer ({faults}), so there is nothing to replay"


class Sinks:
    """Passes every event to all `sinks`, in order.

    A sink that raises affects neither the others nor the run: its first failure is logged with a traceback, later ones
    are ignored, and it still receives events.
    """

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks
        self._reported: set[int] = set()
        self.captures_content = any(getattr(sink, "captures_content", False) for sink in sinks)

    def emit(self, event: Event) -> None:
        for place, sink in enumerate(self._sinks):
            try:
                sink.emit(event)
            except Exception:  # a failing sink must not affect the run
                self._report(place, event)

    def capture(self, content: CallContent) -> None:
        """Pass the messages of a call to the sinks that ask for them."""
        for place, sink in enumerate(self._sinks):
            try:
                if getattr(sink, "captures_content", False):
                    cast("ContentSink", sink).capture(content)
            except Exception:  # as above
                self._report(place, content)

    def _report(self, place: int, event: Event | CallContent) -> None:
        if place in self._reported:
            return
        import logging  # noqa: PLC0415 - only a failing sink needs it

        logger = logging.getLogger("offbook.events")
        self._reported.add(place)
        sink, event_name = type(self._sinks[place]).__name__, type(event).__name__
        logger.exception("%s failed on %s; the run continues, and further failures are not reported", sink, event_name)


class ClosingSink(ABC):
    """A sink with resources: `close` releases them, and is called at the end of a `with` block."""

    @abstractmethod
    def close(self) -> None:
        """Release the sink's resources. Safe to call twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def guard_sink(sink: Sink) -> Sink:
    """Return the sink, wrapped so that its failures do not propagate, unless it is already or does nothing."""
    return sink if sink is NULL_SINK or isinstance(sink, Sinks) else Sinks(sink)
