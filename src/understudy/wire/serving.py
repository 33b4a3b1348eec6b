"""`serving`: a stand-in for the vendors' APIs, for the length of a block."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any, Self

from understudy.errors import InputError
from understudy.events import NULL_SINK, Sink
from understudy.faults import FaultPlan, PlannedFault
from understudy.recording.cursor import Unused
from understudy.recording.document import Document
from understudy.recording.latency import LatencyModel
from understudy.wire.access import Access
from understudy.wire.app import WireApp
from understudy.wire.environment import DUMMY_KEY, addresses, keys
from understudy.wire.log import Miss, WireCall
from understudy.wire.server import LOOPBACK, ServerThread, bind
from understudy.wire.session import WireSession
from understudy.wire.stage import Stage, StageOptions, plan_of

_LOOPBACKS = ("127.0.0.1", "::1", "localhost")


class WireServer:
    """A server that stands in for OpenAI, Anthropic, Gemini and Ollama while its block runs.

    Raises:
        InputError: an option is wrong, a recording cannot be read, or the address cannot be listened at.
    """

    def __init__(self, options: StageOptions, *, host: str = LOOPBACK, port: int = 0, api_key: str = "") -> None:
        if host not in _LOOPBACKS and not api_key:
            hint = "everybody who reaches the address could ask; give one, and give it to the clients as their key"
            raise InputError(f"listening at {host} needs an API key", source="host", hint=hint)
        self._stage = Stage(options)
        self._api_key = api_key
        try:
            self._listener = bind(host, port)
        except InputError:
            self._stage.close()
            raise
        app = WireApp(self._stage.sessions, access=Access(api_key))
        self._thread = ServerThread(app, self._listener)

    @property
    def url(self) -> str:
        """The server's address, without a slash at its end. OpenAI's clients want `url + "/v1"`."""
        host, port = self._listener.getsockname()[:2]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    @property
    def env(self) -> dict[str, str]:
        """The variables that lead the vendors' SDKs here, with keys that cost nothing."""
        return addresses(self.url) | keys(self._api_key or DUMMY_KEY)

    @property
    def calls(self) -> list[WireCall]:
        """The calls of all sessions, in the order in which they were answered in each."""
        return [call for session in self._stage.sessions for call in session.calls]

    @property
    def misses(self) -> list[Miss]:
        """The calls that the recording has no answer for."""
        return [miss for session in self._stage.sessions for miss in session.misses]

    def unused(self) -> list[Unused]:
        """The entries of the recording that the session without a name was never served."""
        return self.session("").unused()

    def fired(self) -> list[PlannedFault]:
        """The faults that struck, of all sessions."""
        return [planned for session in self._stage.sessions for planned in session.fired]

    def unstruck(self) -> list[PlannedFault]:
        """The faults planned for the session without a name that have struck nothing so far."""
        return self.session("").unstruck()

    def session(self, name: str) -> WireSession:
        """The session of that name, made if there is none. Its clients ask at `session_url(name)`."""
        return self._stage.sessions.named(name)

    def start_session(self, name: str, *, faults: Iterable[str | PlannedFault] | FaultPlan = ()) -> WireSession:
        """A new session, with faults of its own, in the place of one of that name that may be there."""
        return self._stage.sessions.start(name, plan_of(faults))

    def session_url(self, name: str) -> str:
        """The address of a session: what `url` is to the one without a name."""
        return f"{self.url}/s/{name}"

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
) -> WireServer:
    """A server that stands in for the vendors' APIs, to be used as a context manager; see StageOptions.

    Args:
        host, port: where to listen; by default on loopback, at any port that is free.
        api_key: what clients must give as their key; other hosts than loopback need one.
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
    )
    return WireServer(options, host=host, port=port, api_key=api_key)
