"""The options of servers and in-process clients: the source of answers, the faults, and recording."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from math import inf
from typing import TYPE_CHECKING, Any, Self, TypedDict

from msgspec import Struct

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.faults import Crash, FaultPlan, PlannedFault, parse_fault
from offbook.faults.order import Cancelled
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.match.folders import SAME_FOLDERS, FolderMap
from offbook.session.session import NO_FAULTS

if TYPE_CHECKING:
    from offbook.recording.format.document import Document
    from offbook.recording.latency import LatencyModel
    from offbook.recording.redact.redactor import Redactor
    from offbook.session.recorder import RecordMode
    from offbook.settings import ToolSettings
    from offbook.wire.session import WireCall

DEFAULT_RESPONSE = "Mock response"
LOOPBACK = "127.0.0.1"
END_WAIT_S = 2.0


class StandInOptions(TypedDict, total=False):
    """The fields of WireOptions that `StandIn` and `http_client` take by keyword."""

    responses: Mapping[str, Any] | Document | None
    strict: bool | None
    default_response: str | None
    lenient_requests: bool
    exact: bool
    faults: Iterable[str | PlannedFault] | FaultPlan
    latency_model: LatencyModel
    latency_ms: float
    seed: int
    retry_after_ms: float | None
    sink: Sink
    record: str | os.PathLike[str] | None
    record_mode: RecordMode
    redactor: Redactor | None


class ServingOptions(StandInOptions, total=False):
    """The fields of WireOptions that `serving` takes by keyword."""

    live_from: int | None
    live_model: str
    upstreams: Mapping[str, str] | None
    upstream_keys: Mapping[str, str] | None
    upstream_timeout_s: float | None
    upstream_end_wait_s: float
    allow_hosts: Iterable[str]
    allow_origins: Iterable[str]


class ProgramToolOptions(Struct, frozen=True, kw_only=True):
    """The handling of a program's function tools: all run for real if `run_all`, else those in `run`.

    Tools in `effects` change something. They are refused where others run because their results cannot be rebuilt.
    `functions` has the places of those that no framework announces.
    """

    run_all: bool = False
    run: frozenset[str] = frozenset()
    effects: frozenset[str] = frozenset()
    functions: Mapping[str, str] = {}

    @classmethod
    def of(cls, tools: Mapping[str, ToolSettings], *, run_all: bool) -> Self:
        """Return the options of declared tools."""
        return cls(
            run_all=run_all,
            run=frozenset(name for name, tool in tools.items() if tool.run),
            effects=frozenset(name for name, tool in tools.items() if tool.effect),
            functions={name: tool.function for name, tool in tools.items() if tool.function},
        )

    def runs(self, tool: str) -> bool:
        """Return whether a tool runs for real, even if it is recorded."""
        return self.run_all or tool in self.run


class WireOptions(Struct, frozen=True, kw_only=True):
    """The sources of answers, and their options.

    Attributes:
        recording: a path, a folder of recordings, or `sqlite:///path.db`.
        responses: a recording as a dict, instead of `recording`.
        strict: whether an unrecorded call is refused; otherwise it gets `default_response`. By default a
            recording is strict unless a default response is given, and responses are not.
        faults: a plan, or lines like `call=3: http_error 500`.
        latency_model, latency_ms, seed: the latency of answers, as in MockProvider.
        retry_after_ms: added to injected errors without a wait; SDKs then retry at once.
        sink: gets an event for each call.
        on_call: called with each answered call, on the server's thread.
        record: where to record the answers of the real APIs: a path, or `sqlite:///path.db`.
        record_mode: as in RecordingProvider: `append`, `once`, `new`, `all` or `fresh`.
        normalise: what the fingerprints of a recording without exchanges ignore.
        live_from: the number of the first model call that the real APIs answer instead of the `recording`. The whole
            run is recorded at `record`.
        live_model: the model to call then, instead of the requests' own.
        upstreams: base URLs of the real APIs by vendor (`openai`, `anthropic`, `google`, `ollama`), as in the SDKs'
            variables; by default the vendors' own.
        upstream_keys: API keys by vendor, sent upstream instead of the clients'.
        upstream_timeout_s: the longest wait for more data from a real API; None waits forever.
        upstream_end_wait_s: how long a frame that clients treat as the last, like `[DONE]`, waits for what the real API
            sends behind it, and for the end of its response, so that all of that is recorded.
        redactor: removes secrets from the recording.
        allow_hosts: names of this server besides loopback and its own host that requests may have as
            their Host: `agent.test`, `*.agent.test`, or `*`.
        allow_origins: origins besides loopback whose pages may use this server: `https://app.test`, or `*`.
        has_tools: whether the server also stands in for MCP servers, whose tool faults can fire.
        can_crash: whether programs can be killed and restarted.
        tools: the handling of a program's function tools, if it asks about each call; else None.
        lenient_requests: whether requests that the vendor refuses are answered.
        exact: whether only equal requests are answered, and none that differs in who asks, when and where.
        folders: the folders of the program, and what a recording calls them that names none.
    """

    recording: str | os.PathLike[str] | None = None
    responses: Mapping[str, Any] | Document | None = None
    strict: bool | None = None
    default_response: str | None = None
    faults: Iterable[str | PlannedFault] | FaultPlan = ()
    latency_model: LatencyModel = "constant"
    latency_ms: float = 0.0
    seed: int = 0
    retry_after_ms: float | None = None
    sink: Sink = NULL_SINK
    on_call: Callable[[WireCall], None] | None = None
    record: str | os.PathLike[str] | None = None
    record_mode: RecordMode = "append"
    normalise: NormaliseRules = NO_RULES
    live_from: int | None = None
    live_model: str = ""
    upstreams: Mapping[str, str] | None = None
    upstream_keys: Mapping[str, str] | None = None
    upstream_timeout_s: float | None = None
    upstream_end_wait_s: float = END_WAIT_S
    redactor: Redactor | None = None
    allow_hosts: Iterable[str] = ()
    allow_origins: Iterable[str] = ()
    has_tools: bool = False
    can_crash: bool = False
    tools: ProgramToolOptions | None = None
    lenient_requests: bool = False
    exact: bool = False
    folders: FolderMap = SAME_FOLDERS

    @property
    def is_strict(self) -> bool:
        """Whether an unrecorded call is refused."""
        if self.strict is not None:
            return self.strict
        return self.recording is not None and self.default_response is None

    def check(self) -> None:
        """Check that the options are compatible.

        Raises:
            InputError: there is nothing to answer with, or two options exclude each other.
        """
        if self.live_from is not None or self.live_model:
            self._check_fork()
        elif self.record is not None:
            self._check_record()
        elif self.upstreams or self.upstream_keys:
            raise InputError("no call goes upstream", source="upstreams", hint="give record=, a path to record to")
        elif self.recording is None and self.responses is None and self.default_response is None:
            hint = "give a recording, responses, a default_response, or record, a path to record to"
            raise InputError("there is nothing to answer with", hint=hint)

    def _check_fork(self) -> None:
        if self.live_from is None or self.recording is None or self.record is None:
            hint = "give a recording, live_from, and record, a path for the new recording"
            raise InputError("a fork needs a recording to leave and one to write", source="live_from", hint=hint)
        if self.live_from < 1:
            raise InputError(f"{self.live_from} is not the number of a call", source="live_from", hint="use 1 or more")
        if self.record_mode not in ("append", "fresh"):
            hint = "leave it out, or use fresh to replace a recording"
            raise InputError(f"a fork cannot record in mode {self.record_mode!r}", source="record_mode", hint=hint)
        if self.strict is False or self.default_response is not None:
            raise InputError("a fork replays strictly: leave out strict and default_response")

    def _check_record(self) -> None:
        if not 0.0 <= self.upstream_end_wait_s < inf:
            reason = f"{self.upstream_end_wait_s:g} is not a number of seconds"
            raise InputError(reason, source="upstream_end_wait_s", hint="use 0 or more")
        if self.recording is not None or self.responses is not None:
            hint = "record_mode='new' answers from what the recording has, and records the rest"
            raise InputError("give record, or else a recording or responses", source="record", hint=hint)
        if self.strict is not None or self.default_response is not None:
            raise InputError("calls that are not recorded go upstream: leave out strict and default_response")


def parse_fault_plan(
    faults: Iterable[str | PlannedFault] | FaultPlan, *, has_tools: bool = False, can_crash: bool = False
) -> FaultPlan:
    """Return `faults` as a plan, or NO_FAULTS.

    Raises:
        InputError: a line cannot be parsed, is for a tool of a server without tools, or is a crash and nothing would
            restart the program.
    """
    if isinstance(faults, str):
        raise InputError("expected a list of faults, got a str", source="faults", hint=f"[{faults!r}]")
    if not isinstance(faults, FaultPlan):
        lines = [parse_fault(fault) if isinstance(fault, str) else fault for fault in faults]
        faults = FaultPlan(lines) if lines else NO_FAULTS
    for line in faults:
        is_crash = isinstance(line.fault, Crash)
        if is_crash and not can_crash:
            hint = "offbook explore --crash kills a program, or a workflow, and starts it again"
            raise InputError("only explore can let a program crash", source=repr(str(line)), hint=hint)
        if isinstance(line.fault, Cancelled):
            hint = "explore a workflow, a scenario or a function"
            raise InputError("only what runs in this process can be cancelled", source=repr(str(line)), hint=hint)
        if line.at.tool is not None and not has_tools and not is_crash:
            hint = "inject them there: inject_tools(tools, plan), or tool_call_fault for a call that the model requests"
            hint += "; tools of MCP servers need --mcp"
            raise InputError(
                "faults of tools cannot fire over HTTP: tools run in the program under test",
                source=repr(str(line)),
                place="tool",
                hint=hint,
            )
    return faults
