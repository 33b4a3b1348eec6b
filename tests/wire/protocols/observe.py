"""What offbook does with each protocol: one function for each column of the table."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from offbook import serving
from offbook.explore.explorer import Explorer
from offbook.explore.options import WIRE_VARIANTS, ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.messages import Response, deltas_of
from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store
from offbook.subjects.program.program import ProgramSubject
from offbook.vendors import VENDORS, codec_of
from tests.servers.loopback import LoopbackServer, ServerCall
from tests.wire.http_requests import call_of, entry_of, recording_of
from tests.wire.protocols.clients import KEY, PROTOCOLS, QUESTION, Protocol
from tests.wire.websocket.upstream import gemini_live, upstream
from tests.wire.websocket.upstream import realtime as realtime_api

PLAIN = "Very well, thank you."
YES, NO = "yes", "no"
_BODIES = {
    "OpenAI embeddings": {"object": "list", "data": [{"index": 0, "embedding": [1.0]}], "model": "m"},
    "Bedrock InvokeModel, others": {"generation": PLAIN},
}


def _responses_api(socket: Any) -> None:
    for _ in socket:
        socket.send(json.dumps({"type": "response.output_text.delta", "delta": PLAIN}))
        socket.send(json.dumps({"type": "response.completed", "response": {"output": []}}))


_SOCKETS = {
    "OpenAI Realtime": realtime_api,
    "OpenAI responses over WebSocket": _responses_api,
    "Gemini Live": gemini_live,
}


@contextmanager
def _real_api(title: str, *, stream: bool) -> Iterator[str]:
    """The address of an API that answers in the protocol."""
    if title in _SOCKETS:
        with upstream(_SOCKETS[title]) as url:
            yield url
        return
    with LoopbackServer(lambda call: _answer(call, title, stream=stream)) as server:
        yield server.url


def _answer(call: ServerCall, title: str, *, stream: bool) -> None:
    protocol = PROTOCOLS[title]
    if not protocol.codec:
        return call.whole(json.dumps(_BODIES[title]).encode())
    codec, response = codec_of(protocol.codec), Response(PLAIN, "m", finish_reason="stop")
    if stream:
        return call.stream(*codec.encode_stream(response, deltas_of(response)), content_type=codec.stream_type)
    return call.whole(json.dumps(codec.encode_response(response)).encode())


class Observed:
    """The recordings of a protocol, whole and streamed, and what its client heard then."""

    def __init__(self, title: str, folder: Path) -> None:
        self.title, self.protocol = title, PROTOCOLS[title]
        self._made = dict(self._record(folder))

    def _record(self, folder: Path) -> Iterator[tuple[bool, tuple[Path, str]]]:
        for stream in (False, True) if self.protocol.can_stream else (False,):
            path = folder / f"{'streamed' if stream else 'whole'}.json"
            with _real_api(self.title, stream=stream) as url:
                address = url + VENDORS[self.protocol.vendor].root_path
                with _aws_login(), serving(record=path, upstreams={self.protocol.vendor: address}) as server:
                    yield stream, (path, self.protocol.ask(server.url, stream=stream))

    def record(self) -> str:
        """The exchange is in the recording, in its protocol, streamed as it was, and without the key."""
        for stream, (path, _) in self._made.items():
            exchanges = _exchanges(path)
            assert {each.wire.protocol for each in exchanges} == {self.protocol.recorded_as}
            assert all(each.wire.is_streamed == (stream or self.protocol.is_websocket) for each in exchanges)
            assert KEY not in path.read_text()
        return YES

    def replay(self) -> str:
        """The client hears the same when the API is gone, from every entry."""
        for stream, (path, heard) in self._made.items():
            with serving(path) as server:
                assert self.protocol.ask(server.url, stream=stream) == heard
                assert server.misses == []
                assert server.unused() == []
        return YES

    def fault(self) -> str:
        """A fault fires, over a WebSocket at the last call, and the client does not hear a whole answer."""
        for stream, (path, heard) in self._made.items():
            fault = "ws_close 1013" if self.protocol.is_websocket else "http_error 503"
            site = f"call={len(_exchanges(path))}" if self.protocol.is_websocket else "everywhere"
            with serving(path, faults=[f"{site}: {fault}"], retry_after_ms=1) as server:
                if _hears(self.protocol, server.url, stream=stream) == heard:
                    assert server.fired() == []
                    return NO
                assert [str(each.fault) for each in server.fired()] == [fault]
        return YES

    def cross_protocol(self) -> str:
        """A conversation that was recorded in another protocol answers."""
        other = "anthropic" if self.protocol.codec == "openai_chat" else "openai_chat"
        recording = recording_of(entry_of(call_of(other, QUESTION), content=PLAIN, provider=other, model="m"))
        for stream in self._made:
            with serving(responses=recording, strict=True) as server:
                if _hears(self.protocol, server.url, stream=stream) != PLAIN:
                    assert len(server.misses) == 1
                    return NO
        return YES

    def explored(self) -> str:
        """A program that asks the question is explored: the fault fires at each call, and each case has a verdict."""
        stream, (path, _) = list(self._made.items())[-1]
        faults = "ws_close" if self.protocol.is_websocket else "connection_reset"
        options = ExploreOptions(variants=select_variants(faults, WIRE_VARIANTS))
        command = [sys.executable, "-m", "tests.wire.protocols.clients", self.title, "streamed" if stream else "whole"]
        with ProgramSubject(command, replay=path, settings=ExploreSettings(declared=("1",))) as subject:
            results = Explorer(subject, options).explore().results
        assert {each.verdict for each in results} <= {"failed cleanly", "recovered"}
        assert results
        return YES


COLUMNS: dict[str, Callable[[Observed], str]] = {
    "record": Observed.record,
    "replay": Observed.replay,
    "fault": Observed.fault,
    "cross-protocol": Observed.cross_protocol,
    "explored": Observed.explored,
}


def _aws_login() -> AbstractContextManager[Any]:
    """What requests to Bedrock are signed with."""
    return mock.patch.dict(os.environ, {"AWS_ACCESS_KEY_ID": "id", "AWS_SECRET_ACCESS_KEY": "a-secret-of-aws"})


def _exchanges(path: Path) -> list[Exchange]:
    return [stored.exchange for stored in open_store(path).read()]


def _hears(protocol: Protocol, url: str, *, stream: bool) -> str | None:
    """What the client hears; None if it raises."""
    try:
        return protocol.ask(url, stream=stream)
    except Exception:
        return None
