"""The stand-in: what a server does, for clients in the same process."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

import httpx2
from typing_extensions import Unpack

from understudy.events import Sink
from understudy.faults import FaultPlan, PlannedFault
from understudy.recording.document import Document
from understudy.recording.latency import LatencyModel
from understudy.wire.answer import Answer
from understudy.wire.delivery import Delivery, Raised
from understudy.wire.encoding import error_answer
from understudy.wire.http_call import HttpCall
from understudy.wire.route import route_of
from understudy.wire.stage import Stage, StageOptions
from understudy.wire.stage_log import StageLog
from understudy.wire.transport import WireTransport

if TYPE_CHECKING:
    from understudy.wire.httpx_transport import HttpxTransport

logger = logging.getLogger("understudy.wire")


class StandInOptions(TypedDict, total=False):
    """How calls are answered: the fields of StageOptions."""

    responses: Mapping[str, Any] | Document | None
    strict: bool | None
    default_response: str | None
    faults: Iterable[str | PlannedFault] | FaultPlan
    latency_model: LatencyModel
    latency_ms: float
    seed: int
    retry_after_ms: float | None
    sink: Sink


class StandIn(StageLog):
    """Stands in for OpenAI, Anthropic, Gemini and Ollama behind HTTP clients of this process, without a socket.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; the `options` are those of StageOptions.
    Paths and headers tell what a call asks, hosts do not matter. All its clients, of whatever threads and event loops,
    share one way along the recording. It may be used after `close`, as if it were opened again.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """

    def __init__(self, recording: str | os.PathLike[str] | None = None, **options: Unpack[StandInOptions]) -> None:
        super().__init__(Stage(StageOptions(recording=recording, **options)))
        self._lock = threading.Lock()

    def http_client(self) -> httpx2.AsyncClient:
        """A client for the SDKs of OpenAI, Anthropic and Google: `AsyncOpenAI(http_client=stand_in.http_client())`."""
        return httpx2.AsyncClient(transport=self.transport())

    def sync_http_client(self) -> httpx2.Client:
        """The like for SDKs that do not await: `OpenAI(http_client=stand_in.sync_http_client())`."""
        return httpx2.Client(transport=self.transport())

    def transport(self) -> WireTransport:
        """A transport for clients of httpx2, of either kind."""
        return WireTransport(self)

    def httpx_transport(self) -> HttpxTransport:
        """A transport for clients of httpx, of either kind: `ollama.Client(transport=stand_in.httpx_transport())`."""
        from understudy.wire.httpx_transport import HttpxTransport  # noqa: PLC0415 - httpx may not be installed

        return HttpxTransport(self)

    def deliver(self, call: HttpCall, *, read_timeout_s: float | None, raised: Raised) -> Delivery:
        """The answer to a call, on its way to a client that raises what `raised` names."""
        return Delivery(self._answer(call), read_timeout_s=read_timeout_s, raised=raised)

    def close(self) -> None:
        """Let go of the recording. Safe to call twice."""
        self._stage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _answer(self, call: HttpCall) -> Answer:
        with self._lock:
            session, call = self._stage.sessions.of(call)
            try:
                answer = session.answer(session.take(call))
            except Exception:
                logger.exception("%s %s could not be answered", call.method, call.path)
                answer = _failure(call)
        assert answer is not None
        return answer


def _failure(call: HttpCall) -> Answer:
    codec = route_of(call.method, call.path, call.headers).vendor_codec
    told = "the stand-in failed to answer; its log says why"
    return error_answer(codec, 500, told, headers={"x-should-retry": "false"})
