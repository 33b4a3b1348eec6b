"""Answers the calls of a test: from its recording, or by the real models and tools with a recorder around them."""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from offbook.clock import run
from offbook.errors import InputError, RecordingMismatchError
from offbook.events import CallRecorded, Event, ReplayMissed, ReplayServed
from offbook.messages import Reply, Request
from offbook.private_folder import PrivateFolder
from offbook.providers.provider import Provider
from offbook.pytest_plugin.http_doubles import HttpDoubles, marker_advice
from offbook.pytest_plugin.markers import RecordingPlan
from offbook.pytest_plugin.recordings import entry_names
from offbook.recording.format.document import PROGRAM_TOOLS, Document
from offbook.recording.format.keys import is_function_tool
from offbook.recording.match.cursor import Cursor
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.store import RecordingReader
from offbook.recording.transaction import FoundExchanges, Transaction
from offbook.session.log import Log, LoggedCursor, Served
from offbook.session.provider import MockProvider
from offbook.session.recorder import RecordMode
from offbook.session.recording_provider import RecordingProvider
from offbook.session.recording_tools import RecordingTools, record_tools
from offbook.session.replayed_tools import ClosableToolbox, ReplayedTools, replay_tools
from offbook.text import did_you_mean_file

AnsweredCall: TypeAlias = ReplayServed | CallRecorded


class RecordingUsage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A test's use of its recording: the calls that were served, recorded live, and missing.

    `failed` counts the recorded calls without a good answer. `dropped` calls were recorded by a failed test, and not
    saved. `unused` names the unused entries, and `not_taken` the tools of a program that `exec` recorded and the test
    does not wrap. `left_out` counts the cases that an explored test's budget left out, by fault; `approved` counts the
    golden trajectories written. `but_for` counts the calls that matched despite a harmless difference.
    """

    recording: str = ""
    served: int = 0
    recorded: int = 0
    failed: int = 0
    missed: int = 0
    dropped: int = 0
    unused: tuple[str, ...] = ()
    not_taken: tuple[str, ...] = ()
    left_out: dict[str, int] = {}
    but_for: dict[str, int] = {}
    approved: int = 0

    def to_dict(self) -> dict[str, object]:
        """Return it as plain values, for a report."""
        fields: dict[str, object] = msgspec.to_builtins(self)
        return fields


class AnsweredCallLog:
    """A sink that collects the calls of a test."""

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
        """The number of calls that the recording answered."""
        return sum(isinstance(call, ReplayServed) and call.matched_by != "default" for call in self.calls)


class RecordingBackend(Served):
    """Answers one test, opened on first use. `answered` has the model calls so far."""

    is_live: bool

    def __init__(self, plan: RecordingPlan) -> None:
        self.plan, self.answered = plan, AnsweredCallLog()

    @property
    @abstractmethod
    def provider(self) -> Provider:
        """Answers model calls."""

    @property
    @abstractmethod
    def toolbox(self) -> ClosableToolbox:
        """Wraps tools. All their calls are numbered together."""

    @property
    @abstractmethod
    def http(self) -> HttpDoubles:
        """Answers HTTP clients."""

    @property
    @abstractmethod
    def http_without_recording(self) -> HttpDoubles:
        """Like `http`, but works without a recording: mocked MCP servers answer, and other requests are misses."""

    def tool_misses(self) -> list[RecordingMismatchError]:
        """Return the errors of tool calls that the recording has no answer for."""
        return []

    async def disconnect(self) -> None:
        """Close the connections of the running loop."""

    @abstractmethod
    def close(self, *, passed: bool) -> RecordingUsage:
        """Close everything and return the usage. The new recording is saved if the test passed."""


class OnDemandProvider(Provider):
    """A provider that `make` creates on the first request: without one, no key and no recording is needed."""

    def __init__(self, make: Callable[[], Provider], *, name: str) -> None:
        self.name = name
        self._make = make
        self._created: Provider | None = None

    async def send(self, request: Request) -> Reply:
        return await self._provider.send(request)

    def check_price(self, request: Request) -> None:
        self._provider.check_price(request)

    @property
    def _provider(self) -> Provider:
        if self._created is None:
            self._created = self._make()
        return self._created

    async def close(self) -> None:
        if self._created is not None:
            await self._created.close()


class PendingRecording(Transaction):
    """A temporary recording at `location`, which is committed to the real one if the test passes.

    In the mode `new` it starts with the entries of the real recording, in other modes empty. `found` is the contents to
    be replaced.

    Raises:
        InputError: the real recording cannot be read.
    """

    def __init__(self, real: str, record: RecordMode, *, found: FoundExchanges | None) -> None:
        store = open_store(real)
        start = store.load() if store.exists() else Document()
        if record != "new":
            start.entries, start.tools = {}, {}
        self._folder = PrivateFolder()
        self.location = str(Path(self._folder.name) / "recording.json")
        super().__init__(store, open_store(self.location), start=start, mode=record, found=found)

    def remove(self) -> None:
        """Delete the temporary file. Safe to call twice."""
        self._folder.cleanup()


class LiveBackend(RecordingBackend):
    """Calls the provider that `live` creates and the real tools, and records them. The recording is saved if the test
    passes.

    Raises:
        InputError: the file of the recording is not a recording.
    """

    is_live = True

    def __init__(self, plan: RecordingPlan, record: RecordMode, live: Callable[[], Provider]) -> None:
        super().__init__(plan)
        self._live = OnDemandProvider(live, name=plan.provider or "live")
        self._pending = PendingRecording(plan.location, record, found=plan.found)
        self._mode: RecordMode = "new" if record == "new" else "append"
        self._provider: RecordingProvider | None = None
        self._toolbox: RecordingTools | None = None
        self._http = HttpDoubles(record=self._pending.location, record_mode=self._mode, sink=self.answered)

    @property
    def provider(self) -> RecordingProvider:
        if self._provider is None:
            location = self._pending.location
            self._provider = RecordingProvider(self._live, location, record=self._mode, sink=self.answered)
        return self._provider

    @property
    def toolbox(self) -> RecordingTools:
        if self._toolbox is None:
            self._toolbox = record_tools((), self._pending.location, record=self._mode)
        return self._toolbox

    @property
    def http(self) -> HttpDoubles:
        return self._http

    @property
    def http_without_recording(self) -> HttpDoubles:
        return self._http

    async def disconnect(self) -> None:
        await self._live.close()

    def close(self, *, passed: bool) -> RecordingUsage:
        try:
            if self._provider is not None:
                run(self._provider.close())
            if self._toolbox is not None:
                self._toolbox.close()
            self._http.close()
            added = self._pending.recorded()
            is_saved = passed or self.plan.keeps_failed
            is_opened = self._provider is not None or self._toolbox is not None or self._http.is_opened
            if (is_opened or added.call_count) and is_saved:
                self._pending.commit(added, keeps_functions=self._toolbox is None)
        finally:
            self._pending.remove()
        return RecordingUsage(
            recording=self.plan.location,
            served=self.answered.served + self._http.served_by_mcp()[0],
            recorded=added.call_count if is_saved else 0,
            failed=added.failure_count if is_saved else 0,
            missed=self.answered.missed,
            dropped=0 if is_saved else added.call_count,
        )

    @property
    def log(self) -> Log:
        """An empty log: nothing counts as unused while recording."""
        return Log()


def record_again_hint(node_id: str) -> str:
    """Return the hint for a test with changed requests."""
    return f"record the test again, or undo the change: pytest {shlex.quote(node_id)} --offbook-record=fresh"


def record_first_hint(plan: RecordingPlan) -> str:
    """Return the hint for a test without a recording."""
    hint = f"record it: pytest {shlex.quote(plan.node_id)} --offbook-record=once"
    return did_you_mean_file(plan.location, hint) if plan.is_named else hint


class ReplayBackend(RecordingBackend):
    """Answers from the recording alone, strictly unless the plan says otherwise.

    Raises:
        InputError: from `provider`, `toolbox` and `http`: there is no recording, or it cannot be read.
    """

    is_live = False

    def __init__(self, plan: RecordingPlan) -> None:
        super().__init__(plan)
        self._provider: MockProvider | None = None
        self._toolbox: ReplayedTools | None = None
        self._http: HttpDoubles | None = None

    @property
    def provider(self) -> MockProvider:
        __tracebackhide__ = True
        if self._provider is None:
            with marker_advice():
                self._provider = MockProvider(self._location(), strict=self.plan.strict, sink=self.answered)
        return self._provider

    @property
    def toolbox(self) -> ReplayedTools:
        __tracebackhide__ = True
        if self._toolbox is None:
            with marker_advice():
                self._toolbox = replay_tools((), self._location(), strict=self.plan.strict)
            self._toolbox.hint = record_again_hint(self.plan.node_id)
        return self._toolbox

    @property
    def http(self) -> HttpDoubles:
        __tracebackhide__ = True
        self._location()
        return self.http_without_recording

    @property
    def http_without_recording(self) -> HttpDoubles:
        if self._http is None:
            lenient, sink = self.plan.lenient_requests, self.answered
            if open_store(self.plan.location).exists():
                strict, location = self.plan.strict, self.plan.location
                self._http = HttpDoubles(location, strict=strict, lenient_requests=lenient, sink=sink)
            else:
                self._http = HttpDoubles(responses={}, strict=True, lenient_requests=lenient, sink=sink)
        return self._http

    def tool_misses(self) -> list[RecordingMismatchError]:
        return [] if self._toolbox is None else self._toolbox.misses

    @property
    def log(self) -> Log:
        """The log of the recording for all clients. Parts that the test does not touch are unused."""
        logs = [] if self._provider is None else [self._provider.log]
        logs += [] if self._toolbox is None else [self._toolbox.log.placed(of_tools=True)]
        logs += [] if self._http is None else [self._http.log]
        return Log.of([Log(self._untouched()), *logs])

    def _untouched(self) -> list[LoggedCursor]:
        """The whole recording as unused."""
        if (reader := self._whole) is None:
            return []
        return [
            LoggedCursor(Cursor(reader)),
            LoggedCursor(Cursor(reader.tools), of_tools=True, has_functions=not self._is_of_program),
        ]

    @cached_property
    def _whole(self) -> RecordingReader | None:
        store = open_store(self.plan.location)
        return store.read() if store.exists() else None

    @property
    def _is_of_program(self) -> bool:
        """Whether the recording's function tools are a program's, and the test wraps none."""
        return self._toolbox is None and self._whole is not None and PROGRAM_TOOLS in self._whole.meta

    def _not_taken(self) -> tuple[str, ...]:
        if self._whole is None or not self._is_of_program:
            return ()
        return tuple(dict.fromkeys(each.key for each in self._whole.tools if is_function_tool(each.key)))

    def close(self, *, passed: bool) -> RecordingUsage:
        tool_calls = [] if self._toolbox is None else self._toolbox.calls
        mismatches = sum(call.mismatch is not None for call in tool_calls)
        mcp_served, mcp_missed = (0, 0) if self._http is None else self._http.served_by_mcp()
        missed = self.answered.missed + mismatches + len(self.tool_misses()) + mcp_missed
        unused = tuple(entry_names(self.unused())) if passed else ()
        but_for = dict(self.but_for) if passed else {}
        not_taken = self._not_taken() if passed else ()
        if self._provider is not None:
            run(self._provider.close())
        if self._toolbox is not None:
            self._toolbox.close()
        if self._http is not None:
            self._http.close()
        if self.__dict__.get("_whole") is not None:
            self.__dict__["_whole"].close()
        served = self.answered.served + len(tool_calls) - mismatches + mcp_served
        return RecordingUsage(
            recording=self.plan.location,
            served=served,
            missed=missed,
            unused=unused,
            not_taken=not_taken,
            but_for=but_for,
        )

    def _location(self) -> str:
        __tracebackhide__ = True
        if open_store(self.plan.location).exists():
            return self.plan.location
        raise InputError("no such recording", source=self.plan.location, hint=record_first_hint(self.plan))


def backend_for(plan: RecordingPlan, live: Callable[[], Provider]) -> RecordingBackend:
    """Return the backend for a plan. `live` creates the provider to record from.

    Raises:
        InputError: the file of the recording is not a recording.
    """
    return ReplayBackend(plan) if plan.record is None else LiveBackend(plan, plan.record, live)
