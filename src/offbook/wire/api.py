"""The in-process API: StandIn, and HTTP clients that are answered without a socket."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypedDict

from typing_extensions import Unpack

from offbook.errors import InputError
from offbook.events import Sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.recording.format.document import Document
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.recording.latency import LatencyModel
from offbook.recording.record_mode import RecordMode
from offbook.recording.redact.redactor import Redactor
from offbook.wire.backend import AcceptedCall, CallInspection, WireBackend, WireOptions, accept
from offbook.wire.proxy.forwarding import InProcessForwarder
from offbook.wire.request import HttpRequest
from offbook.wire.response import HttpResponse

if TYPE_CHECKING:
    import httpx
    import httpx2

    from offbook.wire.transport.httpx2_transport import Httpx2Transport
    from offbook.wire.transport.httpx_transport import HttpxTransport


class StandInOptions(TypedDict, total=False):
    """How calls are answered, and recorded: fields of StageOptions."""

    responses: Mapping[str, Any] | Document | None
    strict: bool | None
    default_response: str | None
    faults: Iterable[str | PlannedFault] | FaultPlan
    latency_model: LatencyModel
    latency_ms: float
    seed: int
    retry_after_ms: float | None
    sink: Sink
    record: str | os.PathLike[str] | None
    record_mode: RecordMode
    redactor: Redactor | None


class StandIn(CallInspection):
    """Stands in for OpenAI, Anthropic, Gemini and Ollama behind HTTP clients of this process, without a socket.

    `recording` is a path, a folder of recordings, or `sqlite:///path.db`; the `options` are those of StageOptions.
    Paths and headers tell what a call asks, hosts do not matter. With `record`, what the recording cannot answer is
    asked where the client wants it asked, and recorded. All its clients, of whatever threads and event loops, share one
    way along the recording. It may be used after `close`, as if it were opened again.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """

    def __init__(self, recording: str | os.PathLike[str] | None = None, **options: Unpack[StandInOptions]) -> None:
        super().__init__(WireBackend(WireOptions(recording=recording, **options)))
        self._lock = threading.Lock()

    def http_client(self, transport: httpx2.AsyncBaseTransport | None = None) -> httpx2.AsyncClient:
        """A client for the SDKs of OpenAI, Anthropic and Google: `AsyncOpenAI(http_client=stand_in.http_client())`.

        What is to be recorded is asked through `transport`, by default over the network.
        """
        import httpx2  # noqa: PLC0415 - loading it takes longer than the rest of offbook

        return httpx2.AsyncClient(transport=self.transport(live_async=transport))

    def sync_http_client(self, transport: httpx2.BaseTransport | None = None) -> httpx2.Client:
        """The like for SDKs that do not await: `OpenAI(http_client=stand_in.sync_http_client())`."""
        import httpx2  # noqa: PLC0415

        return httpx2.Client(transport=self.transport(live=transport))

    def transport(
        self, *, live: httpx2.BaseTransport | None = None, live_async: httpx2.AsyncBaseTransport | None = None
    ) -> Httpx2Transport:
        """A transport for clients of httpx2, of either kind."""
        from offbook.wire.transport.httpx2_transport import Httpx2Transport  # noqa: PLC0415

        return Httpx2Transport(self, live=live, live_async=live_async)

    def httpx_transport(
        self, *, live: httpx.BaseTransport | None = None, live_async: httpx.AsyncBaseTransport | None = None
    ) -> HttpxTransport:
        """A transport for clients of httpx, of either kind: `ollama.Client(transport=stand_in.httpx_transport())`."""
        from offbook.wire.transport.httpx_transport import HttpxTransport  # noqa: PLC0415 - httpx may not be installed

        return HttpxTransport(self, live=live, live_async=live_async)

    def answer(self, call: HttpRequest) -> HttpResponse | InProcessForwarder:
        """The answer to a call, or what is to hear it where only the real API can tell it.

        Raises:
            InputError: the call is to be recorded under a key that cannot be one.
        """
        with self._lock:
            begun = accept(self._stage.sessions, call)
        return self._relay(begun) if begun.answer is None else begun.answer

    def close(self) -> None:
        """Let go of the recording. Safe to call twice."""
        with self._lock:
            self._stage.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _relay(self, begun: AcceptedCall) -> InProcessForwarder:
        taken, recorder = begun.taken, self._stage.recorder
        assert taken is not None
        assert recorder is not None
        if taken.step_id is not None and (reason := unfit_reason(taken.step_id)):
            raise InputError(f"{quote_name(taken.step_id)} {reason}", source="step", hint=KEY_HINT)
        return InProcessForwarder(begun.session, taken, recorder, guard=self._lock)


def http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.AsyncBaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.AsyncClient:
    """A client of a stand-in, for `AsyncOpenAI(http_client=…)` and the like. Make a StandIn to look at its calls.

    What is to be recorded is asked through `transport`, by default over the network.

    Raises:
        InputError: an option is wrong, or a recording cannot be read.
    """
    return StandIn(recording, **options).http_client(transport)


def sync_http_client(
    recording: str | os.PathLike[str] | None = None,
    *,
    transport: httpx2.BaseTransport | None = None,
    **options: Unpack[StandInOptions],
) -> httpx2.Client:
    """The like for `OpenAI(http_client=…)`."""
    return StandIn(recording, **options).sync_http_client(transport)
