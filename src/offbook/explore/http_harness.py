"""The HTTP APIs of an in-process run: clients of SDKs get recorded answers, with faults, and are observed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from math import inf
from typing import TYPE_CHECKING

import orjson
from msgspec.structs import replace

from offbook.explore.observers.calls import ObservedCall, raise_endless
from offbook.explore.observers.inferred_tools import InferredTool, offered_tool
from offbook.explore.observers.wire import PendingAnswer, WireObserver, offered_tools
from offbook.explore.options import Divergence
from offbook.explore.sdk_warm_up import SentRequest, SentRequests, warm_up
from offbook.faults import FaultPlan
from offbook.faults.log import FaultLog
from offbook.faults.order import CallOrder
from offbook.recording.format.document import check_strict
from offbook.recording.latency import NO_LATENCY
from offbook.session.numbers import CallNumbers
from offbook.session.script import ModelScript, ScriptedModels, ScriptLine
from offbook.session.tape import Tape
from offbook.wire.api import InProcessCall, InProcessClients
from offbook.wire.backend import AcceptedCall, accept_in, split_session_path
from offbook.wire.options import DEFAULT_RESPONSE
from offbook.wire.recordings import AnswerEncoder
from offbook.wire.request import HttpRequest
from offbook.wire.session import ExploredRun, WireSession

if TYPE_CHECKING:
    from contextlib import AbstractContextManager


class HttpRecording:
    """A recording that answers HTTP clients in many runs, along the script of their models.

    Raises:
        RecordingFormatError: its format is older than version 2.
    """

    def __init__(self, tape: Tape, script: ModelScript, divergence: Divergence) -> None:
        check_strict(tape.reader.version, source=tape.reader.source)
        self._script, self._sent = script, SentRequests()
        default = divergence.default_response if divergence.policy == "default" else DEFAULT_RESPONSE
        self._encoder = AnswerEncoder(tape, latency=NO_LATENCY, default_response=default)

    @property
    def requests(self) -> tuple[SentRequest, ...]:
        """The first requests of the clean run."""
        return tuple(self._sent.requests)

    def prepare(self, lines: Sequence[ScriptLine], requests: Sequence[SentRequest]) -> None:
        """Make what the processes of all cases need, so that they need not: indexes, the tools of the requests of the
        clean run, and what SDKs build at their first request."""
        _ = self._encoder.tape.cross_protocol, self._encoder.tape.written
        for fields in {line.fields for line in lines if line.fields}:
            for name, schema in offered_tools(orjson.loads(fields).get("tools", ())).items():
                offered_tool(name, schema)
        warm_up(requests, self._encoder)

    def start_run(
        self, plan: FaultPlan, source: ScriptedModels, *, numbers: CallNumbers, fault_log: FaultLog, max_calls: int
    ) -> ExploredHttp:
        """Return the APIs of a run, whose calls count with those of its providers."""
        observer = WireObserver(max_calls=max_calls, on_endless=lambda: None, script=self._script, is_in_process=True)
        session = WireSession(
            "",
            parser=self._encoder.parser,
            source=source,
            encoder=self._encoder,
            plan=FaultPlan([line for line in plan if line.at.tool is None]),
            explored_run=ExploredRun(self._script, observer, numbers=numbers, fault_log=fault_log),
        )
        return ExploredHttp(session, observer, sent=self._sent if source.is_clean else None)


class ExploredHttp(InProcessClients):
    """The HTTP APIs of one run. All clients of the run share one session.

    `on_endless` is called with the reason when the run makes too many calls, `on_hung` when it has waited for an answer
    for `patience_s`. By default both raise an EndlessRunError. The clean run adds what it has `sent`.
    """

    def __init__(self, session: WireSession, observer: WireObserver, *, sent: SentRequests | None = None) -> None:
        self.on_endless: Callable[[str], object] = raise_endless
        self.on_hung: Callable[[str], object] = raise_endless
        self.patience_s = inf
        self._sent = sent
        self.session, self._observer, self._lock = session, observer, threading.Lock()
        observer.on_endless = lambda: self.on_endless(observer.endless)

    def accept(self, request: HttpRequest) -> InProcessCall:
        with self._lock:
            path = split_session_path(request.path)[1]
            accepted = accept_in(self.session, replace(request, path=path))
            if self._sent is not None and not self.session.misses:
                self._sent.add(request)
        return _ExploredCall(accepted, self)

    def close(self) -> None:
        """Do nothing: other clients may go on."""

    def count_effects_by(self, count: Callable[[], int]) -> None:
        """Count the effects before each answer by this function."""
        self._observer.count_effects = count

    def share_order(self, order: CallOrder) -> None:
        """Hold answers, and have others held, in the order of all calls of the run."""
        self.session.share_order(order)

    @property
    def guard(self) -> AbstractContextManager[object]:
        """What the threads of the run share."""
        return self._lock

    @property
    def observed(self) -> list[ObservedCall]:
        """The attempts of model calls so far."""
        return self._observer.observed

    @property
    def retries(self) -> int:
        """How many of them are later attempts."""
        return self._observer.retries

    @property
    def diverged(self) -> str:
        """The first model call that was never recorded; in the clean run, the first request that was not."""
        misses = self.session.misses if self._sent is not None else ()
        return misses[0].text if misses else self.session.diverged

    def inferred_tools(self, *, observed: Collection[str]) -> list[InferredTool]:
        """Return the tools that ran, as far as the conversation shows, without those that are `observed`."""
        return [each for each in self._observer.tools() if each.tool not in observed]


class _ExploredCall(InProcessCall):
    """A call of an explored run. A client that waits for too long for what a fault holds back ends the run."""

    def __init__(self, accepted: AcceptedCall, http: ExploredHttp) -> None:
        assert accepted.answer is not None, "an explored run has no real API"
        super().__init__(accepted.answer, accepted, guard=http.guard)
        self._attempt, self._http = accepted.attempt, http
        self.patience_s = http.patience_s if accepted.attempt is not None and accepted.attempt.fault else inf

    def hang(self) -> None:
        assert self._attempt is not None
        assert self._attempt.site is not None
        vendor, has_begun = self._attempt.parsed.route.vendor, self.answer.status is not None
        pending = PendingAnswer(f"call {self._attempt.site.overall}", vendor, has_begun)
        self._http.on_hung(pending.waiting_text(self.patience_s))
