"""The composition of the wire: from options to the sessions that answer calls, over a socket or in-process."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from understudy.errors import InputError
from understudy.events import NULL_SINK, Sink, guarded
from understudy.faults import FaultPlan, PlannedFault, parse_fault
from understudy.recording.document import Document
from understudy.recording.latency import Latency, LatencyModel
from understudy.wire.library import Library
from understudy.wire.log import WireCall, unheard
from understudy.wire.replay import WireReplay
from understudy.wire.session import WireSession
from understudy.wire.sessions import Sessions

DEFAULT_RESPONSE = "Mock response"


class StageOptions(Struct, frozen=True, kw_only=True):
    """What answers calls, and how.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; `responses` is the same as a dict, instead.
    What neither has is refused if `strict`, else answered with `default_response`. By default a recording is strict,
    unless a default response is given, and responses are not. `faults` are lines like `call=3: http_error 500`, or a
    plan. `retry_after_ms` goes with injected errors that do not say how long to wait, so that SDKs try again at once.
    `on_call` is told of each call as it is answered, on the server's thread.
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


class Stage:
    """The sessions of a set of options.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """

    def __init__(self, options: StageOptions) -> None:
        self._options = options
        plan = plan_of(options.faults)
        latency = Latency(options.latency_model, latency_ms=options.latency_ms, seed=options.seed)
        self._library = Library(
            options.recording, responses=options.responses, latency=latency, strict=_is_strict(options)
        )
        self.sessions = Sessions(self._session, plan)

    def close(self) -> None:
        """Close the recording."""
        self._library.close()

    def _session(self, name: str, plan: FaultPlan) -> WireSession:
        stock, options = self._library.stock(name), self._options
        default = DEFAULT_RESPONSE if options.default_response is None else options.default_response
        return WireSession(
            name,
            reader=stock.reader,
            replay=WireReplay(stock, default_response=default),
            plan=plan,
            retry_after_ms=options.retry_after_ms,
            sink=guarded(options.sink),
            on_call=options.on_call,
        )


def plan_of(faults: Iterable[str | PlannedFault] | FaultPlan) -> FaultPlan:
    """The plan that is given, or that the lines make.

    Raises:
        InputError: a line cannot be read.
    """
    if isinstance(faults, FaultPlan):
        return faults
    if isinstance(faults, str):
        raise InputError("expected a list of faults, got a text", source="faults", hint=f"[{faults!r}]")
    return FaultPlan([parse_fault(fault) if isinstance(fault, str) else fault for fault in faults])


def _is_strict(options: StageOptions) -> bool:
    if options.strict is not None:
        return options.strict
    return options.recording is not None and options.default_response is None
