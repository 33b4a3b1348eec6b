"""`serving`: a stand-in for the vendors' APIs, for the length of a block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from offbook.errors import InputError
from offbook.events import NULL_SINK, Sink
from offbook.faults import FaultPlan, PlannedFault
from offbook.recording.document import Document
from offbook.recording.latency import LatencyModel
from offbook.recording.record_mode import RecordMode
from offbook.recording.redaction import Redactor
from offbook.wire.access import Access
from offbook.wire.app import WireApp
from offbook.wire.environment import DUMMY_KEY, addresses, keys
from offbook.wire.proxy import Proxy
from offbook.wire.server import LOOPBACK, ServerThread, bind
from offbook.wire.sessions import prefix_of
from offbook.wire.stage import Stage, StageOptions
from offbook.wire.stage_log import StageLog
from offbook.wire.upstreams import Upstreams

_LOOPBACKS = ("127.0.0.1", "::1", "localhost")


class WireServer(StageLog):
    """A server that stands in for OpenAI, Anthropic, Gemini and Ollama while its block runs.

    Raises:
        InputError: an option is wrong, a recording cannot be read, or the address cannot be listened at.
    """

    def __init__(self, options: StageOptions, *, host: str = LOOPBACK, port: int = 0, api_key: str = "") -> None:
        if host not in _LOOPBACKS and not api_key:
            hint = "everybody who reaches the address could ask; give one, and give it to the clients as their key"
            raise InputError(f"listening at {host} needs an API key", source="host", hint=hint)
        upstreams = Upstreams(options.upstreams, keys=options.upstream_keys, are_clients_keys_ours=bool(api_key))
        self._options, self._api_key = options, api_key
        super().__init__(Stage(options))
        try:
            self._listener = bind(host, port)
            self._address: tuple[str, int] = self._listener.getsockname()[:2]
            self._proxy = self._proxy_to(upstreams)
        except InputError:
            self._stage.close()
            raise
        app = WireApp(self._stage.sessions, access=Access(api_key), upstream=self._proxy)
        self._thread = ServerThread(app, self._listener, on_stop=None if self._proxy is None else self._proxy.close)

    @property
    def url(self) -> str:
        """The server's address, without a slash at its end. OpenAI's clients want `url + "/v1"`."""
        host, port = self._address
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead the vendors' SDKs here, with keys that cost nothing.

        While recording, the clients' own keys are needed: only those are told that `upstream_keys` stand in for.
        """
        if self._api_key or not self._stage.is_live:
            return addresses(self.url) | keys(self._api_key or DUMMY_KEY)
        return addresses(self.url) | keys(vendors=self._options.upstream_keys or ())

    def session_url(self, name: str) -> str:
        """The address of a session: what `url` is to the one without a name."""
        return self.url + prefix_of(name)

    def _proxy_to(self, upstreams: Upstreams) -> Proxy | None:
        if self._stage.recorder is None or not self._stage.is_live:
            return None
        vendor = upstreams.vendor_at(self._address[1])
        if vendor is not None:
            self._listener.close()
            told = f"port {self._address[1]} is where {vendor} is asked: the server would ask itself"
            raise InputError(told, source="port", hint=f"take another port, or name another in upstreams: {vendor}")
        return Proxy(upstreams, self._stage.recorder, timeout_s=self._options.upstream_timeout_s)

    def start(self) -> Self:
        self._thread.start()
        return self

    def stop(self) -> None:
        """End the server and what is under way. Safe to call twice."""
        self._thread.stop()
        self._stage.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def serving(  # noqa: PLR0913 - each is an option that tests set by name
    recording: str | os.PathLike[str] | None = None,
    *,
    responses: Mapping[str, Any] | Document | None = None,
    strict: bool | None = None,
    default_response: str | None = None,
    faults: Iterable[str | PlannedFault] | FaultPlan = (),
    latency_model: LatencyModel = "constant",
    latency_ms: float = 0.0,
    retry_after_ms: float | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    api_key: str = "",
    sink: Sink = NULL_SINK,
    record: str | os.PathLike[str] | None = None,
    record_mode: RecordMode = "append",
    upstreams: Mapping[str, str] | None = None,
    upstream_keys: Mapping[str, str] | None = None,
    upstream_timeout_s: float | None = None,
    redactor: Redactor | None = None,
) -> WireServer:
    """A server that stands in for the vendors' APIs, to be used as a context manager; see StageOptions.

    Args:
        host, port: where to listen; by default on loopback, at any port that is free.
        api_key: what clients must give as their key; other hosts than loopback need one. It does not go upstream.
        sink: told of every call.

    Raises:
        InputError: an option is wrong, a recording cannot be read, or the address cannot be listened at.
    """
    options = StageOptions(
        recording=recording,
        responses=responses,
        strict=strict,
        default_response=default_response,
        faults=faults,
        latency_model=latency_model,
        latency_ms=latency_ms,
        retry_after_ms=retry_after_ms,
        sink=sink,
        record=record,
        record_mode=record_mode,
        upstreams=upstreams,
        upstream_keys=upstream_keys,
        upstream_timeout_s=upstream_timeout_s,
        redactor=redactor,
    )
    return WireServer(options, host=host, port=port, api_key=api_key)
