"""What answers the calls of a test: its recording, or the real models and tools with a recorder around them."""

from __future__ import annotations

import os
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec import Struct
from msgspec.structs import replace
from typing_extensions import Unpack

from offbook.clock import run
from offbook.errors import InputError
from offbook.events import CallRecorded, Event, ReplayMissed, ReplayServed
from offbook.faults import FaultPlan
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.pytest_plugin.pending_recording import PendingRecording
from offbook.pytest_plugin.plan import RecordingPlan
from offbook.pytest_plugin.recordings import entry_names
from offbook.recording.format.keys import tool_key
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.record import RecordingProvider
from offbook.recording.record_mode import RecordMode
from offbook.recording.replay import MockProvider
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_record import RecordingTools, record_tools
from offbook.recording.tool_replay import ClosableToolbox, ReplayedTools, replay_tools
from offbook.wire.api import StandIn, StandInOptions
from offbook.wire.backend import CallInspection, WireOptions
from offbook.wire.calls import Miss
from offbook.wire.proxy.upstream import upstreams_from_environment

if TYPE_CHECKING:
    from offbook.wire.server.serving import WireServer


AnsweredCall: TypeAlias = ReplayServed | CallRecorded


class RecordingUsage(Struct, frozen=True, omit_defaults=True):
    """Calls of models and tools: served from a recording, recorded live, and missed by the recording.

    `dropped` were recorded by a test that failed, and not kept. `unused` names the entries of the recording that were
    left.
    """

    recording: str = ""
    served: int = 0
    recorded: int = 0
    missed: int = 0
    dropped: int = 0
    unused: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, object]:
        """The tally in plain values, as a report carries it."""
        told: dict[str, object] = msgspec.to_builtins(self)
        return told


class AnsweredCallLog:
    """A sink that keeps the calls of a test."""

    def __init__(self) -> None:
        self.calls: list[AnsweredCall] = []
        self.missed = 0

    def emit(self, event: Event) -> None:
        if isinstance(event, ReplayServed | CallRecorded):
            self.calls.append(event)
        if isinstance(event, ReplayMissed) or (isinstance(event, ReplayServed) and event.matched_by == "default"):
            self.missed += 1

    @property
    def served(self) -> int:
        """How many calls a recording answered."""
        return sum(isinstance(call, ReplayServed) and call.matched_by != "default" for call in self.calls)


class HttpDoubles:
    """What stands in for APIs behind HTTP in one test, opened as far as it is asked for."""

    def __init__(self, recording: str | None = None, **options: Unpack[StandInOptions]) -> None:
        self._recording, self._options = recording, options
        self._opened: list[CallInspection] = []

    @cached_property
    def stand_in(self) -> StandIn:
        """Answers clients in the test's own process."""
        stand_in = StandIn(self._recording, **self._options)
        self._opened.append(stand_in)
        return stand_in

    @contextmanager
    def serving(
        self, *, upstreams: Mapping[str, str] | None, upstream_keys: Mapping[str, str] | None
    ) -> Iterator[WireServer]:
        """Answers programs at an address, while the block runs. `upstreams` and `upstream_keys` count when recording:
        an API that is not named is asked where the environment says that it is."""
        from offbook.wire.server.serving import WireServer  # noqa: PLC0415 - few tests need a server

        options = WireOptions(recording=self._recording, **self._options)
        if options.record is not None:
            told = upstreams_from_environment(os.environ) | dict(upstreams or {})
            options = replace(options, upstreams=told, upstream_keys=upstream_keys)
        with WireServer(options) as server:
            self._opened.append(server)
            yield server

    @property
    def is_opened(self) -> bool:
        return bool(self._opened)

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for opened in self._opened for miss in opened.misses]

    def unused(self) -> list[list[UnusedEntry]]:
        """The entries of the recording that were not served, of every run over it."""
        return [session.unused() for opened in self._opened for session in opened.sessions or [opened.session("")]]

    def follow(self, plan: FaultPlan) -> None:
        """Let faults strike as this plan says, from now on. Those of tools strike where the tools are called."""
        of_models = FaultPlan([line for line in plan if line.at.tool is None], chaos=plan.chaos)
        self._options["faults"] = of_models
        for opened in self._opened:
            opened.follow(of_models)

    def close(self) -> None:
        """Let go of the recording."""
        if "stand_in" in vars(self):
            self.stand_in.close()


class RecordingBackend(ABC):
    """What answers a test, opened as far as it is asked for. `log` has the calls of models so far."""

    is_live: bool

    def __init__(self, plan: RecordingPlan) -> None:
        self.plan, self.log = plan, AnsweredCallLog()

    @property
    @abstractmethod
    def provider(self) -> Provider:
        """Answers the calls of models."""

    @property
    @abstractmethod
    def toolbox(self) -> ClosableToolbox:
        """Wraps tools; all their calls count together."""

    @property
    @abstractmethod
    def wires(self) -> HttpDoubles:
        """Stands in behind HTTP clients."""

    def unused(self) -> list[UnusedEntry]:
        """The entries of a replayed recording that were not served; of tools, under keys like `_tools.search`."""
        return []

    async def disconnect(self) -> None:
        """Close connections made on the running loop."""

    @abstractmethod
    def close(self, *, passed: bool) -> RecordingUsage:
        """Let go of everything, and tell what was done. What was recorded is kept if the test has passed."""


class OnDemandProvider(Provider):
    """Made by `make` when it is first asked: who asks nothing needs neither a key nor a recording."""

    def __init__(self, make: Callable[[], Provider], *, name: str) -> None:
        self.name = name
        self._make = make
        self._made: Provider | None = None

    async def send(self, request: Request) -> Reply:
        if self._made is None:
            self._made = self._make()
        return await self._made.send(request)

    async def close(self) -> None:
        if self._made is not None:
            await self._made.close()


class LiveBackend(RecordingBackend):
    """The provider that `live` makes, and the real tools, recorded into a file that is kept if the test passes.

    Raises:
        InputError: there is something at the recording's place that is none.
    """

    is_live = True

    def __init__(self, plan: RecordingPlan, record: RecordMode, live: Callable[[], Provider]) -> None:
        super().__init__(plan)
        self._live = OnDemandProvider(live, name=plan.provider or "live")
        self._staged = PendingRecording(plan.location, record, since=plan.since)
        self._mode: RecordMode = "new" if record == "new" else "append"
        self._provider: RecordingProvider | None = None
        self._toolbox: RecordingTools | None = None
        self._wires = HttpDoubles(record=self._staged.location, record_mode=self._mode, sink=self.log)

    @property
    def provider(self) -> RecordingProvider:
        if self._provider is None:
            location = self._staged.location
            self._provider = RecordingProvider(self._live, location, record=self._mode, sink=self.log)
        return self._provider

    @property
    def toolbox(self) -> RecordingTools:
        if self._toolbox is None:
            self._toolbox = record_tools((), self._staged.location, record=self._mode)
        return self._toolbox

    @property
    def wires(self) -> HttpDoubles:
        return self._wires

    async def disconnect(self) -> None:
        await self._live.close()

    def close(self, *, passed: bool) -> RecordingUsage:
        try:
            self._close_recorders()
            added = self._staged.added()
            is_kept = passed or self.plan.keeps_failed
            if self._is_opened and is_kept:
                self._staged.keep(added)
        finally:
            self._staged.remove()
        recorded, dropped = (added.size, 0) if is_kept else (0, added.size)
        return RecordingUsage(self.plan.location, self.log.served, recorded, self.log.missed, dropped)

    @property
    def _is_opened(self) -> bool:
        return self._provider is not None or self._toolbox is not None or self._wires.is_opened

    def _close_recorders(self) -> None:
        if self._provider is not None:
            run(self._provider.close())
        if self._toolbox is not None:
            self._toolbox.close()
        self._wires.close()


class ReplayBackend(RecordingBackend):
    """The recording alone, strict unless the plan says otherwise.

    Raises:
        InputError: from `provider`, `toolbox` and `wires`: there is no recording, or none that can be read.
    """

    is_live = False

    def __init__(self, plan: RecordingPlan) -> None:
        super().__init__(plan)
        self._provider: MockProvider | None = None
        self._toolbox: ReplayedTools | None = None
        self._wires: HttpDoubles | None = None

    @property
    def provider(self) -> MockProvider:
        __tracebackhide__ = True
        if self._provider is None:
            self._provider = MockProvider(self._location(), strict=self.plan.strict, sink=self.log)
        return self._provider

    @property
    def toolbox(self) -> ReplayedTools:
        __tracebackhide__ = True
        if self._toolbox is None:
            self._toolbox = replay_tools((), self._location(), strict=self.plan.strict)
        return self._toolbox

    @property
    def wires(self) -> HttpDoubles:
        __tracebackhide__ = True
        if self._wires is None:
            self._wires = HttpDoubles(self._location(), strict=self.plan.strict, sink=self.log)
        return self._wires

    def unused(self) -> list[UnusedEntry]:
        left = self._unused_calls()
        tools = [] if self._toolbox is None else self._toolbox.unused()
        return [*left, *(UnusedEntry(tool_key(each.key), each.position) for each in tools)]

    def close(self, *, passed: bool) -> RecordingUsage:
        tool_calls = [] if self._toolbox is None else self._toolbox.calls
        misfits = sum(call.mismatch is not None for call in tool_calls)
        unused = tuple(entry_names(self.unused())) if passed else ()
        if self._provider is not None:
            run(self._provider.close())
        if self._toolbox is not None:
            self._toolbox.close()
        if self._wires is not None:
            self._wires.close()
        served = self.log.served + len(tool_calls) - misfits
        return RecordingUsage(self.plan.location, served, missed=self.log.missed + misfits, unused=unused)

    def _unused_calls(self) -> list[UnusedEntry]:
        """The entries that neither the provider has served nor a run over HTTP, of those that there were."""
        runs = [] if self._provider is None else [self._provider.unused()]
        runs += [] if self._wires is None else self._wires.unused()
        return [left for left in runs[0] if all(left in others for others in runs[1:])] if runs else []

    def _location(self) -> str:
        __tracebackhide__ = True
        if open_store(self.plan.location).exists():
            return self.plan.location
        hint = f"record it: pytest {shlex.quote(self.plan.node_id)} --offbook-record=once"
        raise InputError("no such recording", source=self.plan.location, hint=hint)


def backend_for(plan: RecordingPlan, live: Callable[[], Provider]) -> RecordingBackend:
    """What answers by a plan; `live` makes the provider that is asked when recording.

    Raises:
        InputError: there is something at the recording's place that is none.
    """
    return ReplayBackend(plan) if plan.record is None else LiveBackend(plan, plan.record, live)
