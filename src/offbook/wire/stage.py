"""The composition of the wire: from options to the sessions that answer calls, over a socket or in-process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink, guarded
from offbook.faults import FaultPlan, PlannedFault, parse_fault
from offbook.recording.document import Document
from offbook.recording.latency import Latency, LatencyModel
from offbook.recording.normalise import NO_RULES
from offbook.recording.record_mode import RecordMode
from offbook.recording.redaction import Redactor
from offbook.recording.stores.locate import open_store
from offbook.wire.asked import Reader
from offbook.wire.call_count import NO_FAULTS
from offbook.wire.leftover import Leftover, leftovers
from offbook.wire.library import Library
from offbook.wire.log import WireCall, unheard
from offbook.wire.recorder import WireRecorder
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.rehearsed_replay import RehearsedReplay
from offbook.wire.replay import WireReplay
from offbook.wire.session import WireSession
from offbook.wire.sessions import Sessions
from offbook.wire.stock import Stock
from offbook.wire.totals import Totals, Use

DEFAULT_RESPONSE = "Mock response"


class StageOptions(Struct, frozen=True, kw_only=True):
    """What answers calls, and how.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; `responses` is the same as a dict, instead.
    What neither has is refused if `strict`, else answered with `default_response`. By default a recording is strict,
    unless a default response is given, and responses are not. `faults` are lines like `call=3: http_error 500`, or a
    plan. `retry_after_ms` goes with injected errors that do not say how long to wait, so that SDKs try again at once.
    `on_call` is told of each call as it is answered, on the server's thread.

    `record` is the recording to be made of what the real APIs answer, instead of one to answer from. `record_mode` is
    that of RecordingProvider: `append`, `once`, `new`, `all` or `fresh`. `upstreams` says where the APIs are, by vendor
    (`openai`, `anthropic`, `google`, `ollama`), as the SDKs' variables would; by default at the vendors'.
    `upstream_keys` are keys by vendor, which go there in the place of what clients give as their key.
    `upstream_timeout_s` is the longest wait for an API to go on; None waits for ever. `redactor` says what counts as a
    secret.
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
    on_call: Callable[[WireCall], None] = unheard
    record: str | os.PathLike[str] | None = None
    record_mode: RecordMode = "append"
    upstreams: Mapping[str, str] | None = None
    upstream_keys: Mapping[str, str] | None = None
    upstream_timeout_s: float | None = None
    redactor: Redactor | None = None


class Stage:
    """The sessions of a set of options, and the recorder if there is something to record.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """

    def __init__(self, options: StageOptions) -> None:
        _check_source(options)
        self._options = options
        plan = plan_of(options.faults)
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=options.seed)
        self.recorder = _recorder(options)
        self._library: Library | None = None
        try:
            self._library = _library(options, self.recorder, latency)
        except InputError:
            self.close()
            raise
        self._reader = Reader(NO_RULES if self.recorder is None else self.recorder.rules)
        self.sessions = Sessions(self._session, plan)

    @property
    def is_live(self) -> bool:
        """Whether what there is no answer for is asked upstream."""
        return self.recorder is not None and self.recorder.is_live

    def close(self) -> None:
        """Close the recording."""
        if self._library is not None:
            self._library.close()
        if self.recorder is not None:
            self.recorder.close()

    def leftovers(self, totals: Totals) -> list[Leftover]:
        """The exchanges that no session was served, of the recordings that answered one; else of the whole."""
        if self._library is None:
            return []
        uses = totals.uses or {self._library.stock(""): Use(set(), set())}
        return leftovers(uses, self._library.file_of)

    def start(self, name: str, plan: FaultPlan, rehearsal: Rehearsal | None = None) -> WireSession:
        """A new session of that name, in the place of the one that may be there."""
        return self.sessions.add(self._session(name, plan, rehearsal))

    def _session(self, name: str, plan: FaultPlan, rehearsal: Rehearsal | None = None) -> WireSession:
        options = self._options
        stock = None if self._library is None else self._library.stock(name)
        return WireSession(
            name,
            reader=self._reader if stock is None else stock.reader,
            replay=None if stock is None else self._replay(stock, rehearsal),
            plan=plan,
            is_live=self.is_live,
            retry_after_ms=options.retry_after_ms,
            sink=guarded(options.sink),
            on_call=options.on_call,
            rehearsal=rehearsal,
        )

    def _replay(self, stock: Stock, rehearsal: Rehearsal | None) -> WireReplay:
        default = DEFAULT_RESPONSE if self._options.default_response is None else self._options.default_response
        if rehearsal is None:
            return WireReplay(stock, default_response=default)
        return RehearsedReplay(stock, default_response=default, rehearsal=rehearsal)


def plan_of(faults: Iterable[str | PlannedFault] | FaultPlan) -> FaultPlan:
    """The plan that is given, or that the lines make; NO_FAULTS if there are none.

    Raises:
        InputError: a line cannot be read, or is about a tool.
    """
    if isinstance(faults, str):
        raise InputError("expected a list of faults, got a text", source="faults", hint=f"[{faults!r}]")
    if not isinstance(faults, FaultPlan):
        lines = [parse_fault(fault) if isinstance(fault, str) else fault for fault in faults]
        faults = FaultPlan(lines) if lines else NO_FAULTS
    for line in faults:
        if line.at.tool is not None:
            hint = "strike them there: inject_tools(tools, plan), or tool_call_fault for a tool that the model asks for"
            raise InputError("tools run in the program under test", source=repr(str(line)), place="tool", hint=hint)
    return faults


def _check_source(options: StageOptions) -> None:
    given = (options.recording, options.responses, options.default_response, options.record)
    if all(each is None for each in given):
        hint = "give a recording, responses, a default_response, or record, a path to record to"
        raise InputError("there is nothing to answer with", hint=hint)


def _recorder(options: StageOptions) -> WireRecorder | None:
    if options.record is None:
        if options.upstreams or options.upstream_keys:
            raise InputError("nothing is asked upstream", source="upstreams", hint="give record=, a path to record to")
        return None
    if options.recording is not None or options.responses is not None:
        hint = "record_mode='new' answers from what the recording has, and records what it lacks"
        raise InputError("give record, or else a recording or responses", source="record", hint=hint)
    if options.strict is not None or options.default_response is not None:
        raise InputError("what is not recorded yet is asked upstream: leave out strict and default_response")
    return WireRecorder(options.record, mode=options.record_mode, redactor=options.redactor, sink=options.sink)


def _library(options: StageOptions, recorder: WireRecorder | None, latency: Latency) -> Library | None:
    """What answers before upstream is asked, or instead; None if nothing does."""
    if recorder is None or options.record is None:
        return Library(options.recording, responses=options.responses, latency=latency, strict=_is_strict(options))
    if not recorder.has_answers:
        return None
    if not recorder.is_live:
        return Library(options.record, latency=latency, strict=True)
    return Library(responses=open_store(options.record).load(), latency=latency, strict=True)


def _is_strict(options: StageOptions) -> bool:
    if options.strict is not None:
        return options.strict
    return options.recording is not None and options.default_response is None
