"""What happened, as frozen values, and the sinks they are sent to."""

from typing import Literal, Protocol, TypeAlias

from msgspec import Struct

MatchedBy: TypeAlias = Literal["step_id", "prompt_hash", "default"]


class ReplayServed(Struct, frozen=True, gc=False):
    """A replayed call was answered: from the entry `key`, or from the default if nothing matched.

    Fields can be read as items too (`call["step_id"]`).
    """

    step_id: str | None
    model: str
    matched_by: MatchedBy
    key: str | None
    request_hash: str
    fault_type: str | None = None

    def __getitem__(self, name: str) -> object:
        if name not in self.__struct_fields__:
            raise KeyError(name)
        return getattr(self, name)


class ReplayMissed(Struct, frozen=True, gc=False):
    """A strict replay refused a call."""

    step_id: str | None
    model: str
    kind: str


class CallRecorded(Struct, frozen=True, gc=False):
    """A call was captured. `latency_s` is how long the real provider took."""

    step_id: str | None
    provider: str
    model: str
    latency_s: float
    fault_type: str | None = None


Event: TypeAlias = ReplayServed | ReplayMissed | CallRecorded


class Sink(Protocol):
    """Takes events as they happen. Must be quick, and must not raise."""

    def emit(self, event: Event) -> None: ...


class NullSink:
    """Takes events and does nothing."""

    def emit(self, event: Event) -> None:
        return None


class MemorySink:
    """Keeps events in a list, for tests."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)


NULL_SINK = NullSink()
