"""vcrpy: a cassette below `http.client`, the cheapest client that it can stand in for."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from http import client
from pathlib import Path
from typing import Any

import orjson

from bench.contestants.contestant import Recorder, Replayer
from bench.loopback import LoopbackServer
from bench.peers import load_peer
from bench.workload import Call, fields_of

_HOST = "localhost:9"
_PATH = "/v1/chat/completions"
_HEADERS = {"content-type": "application/json", "host": _HOST}


def _body(call: Call) -> bytes:
    return orjson.dumps(fields_of(call))


def _answer(call: Call) -> bytes:
    return orjson.dumps({"choices": [{"message": {"role": "assistant", "content": call.answer}}]})


def _post(connection: client.HTTPConnection, body: bytes) -> bytes:
    connection.request("POST", _PATH, body, _HEADERS)
    return connection.getresponse().read()


def _use_cassette(path: str | Path, **options: Any) -> Any:
    vcr = load_peer("vcr")
    assert vcr is not None
    return vcr.use_cassette(str(path), **options)


def record_cassette(path: Path, calls: Sequence[Call]) -> None:
    """Make a cassette that holds `calls`, as if they had gone to one host whatever the port."""
    server = LoopbackServer({_body(call): _answer(call) for call in calls})
    with server, _use_cassette(path, before_record_request=_moved, match_on=("method",)):
        connection = client.HTTPConnection(server.address)
        for call in calls:
            _post(connection, _body(call))
        connection.close()


def _moved(request: Any) -> Any:
    request.uri = f"http://{_HOST}{_PATH}"
    return request


class VcrpyReplayer(Replayer):
    """Playback without a server, `matching` on what vcrpy calls so; without `body` it must be asked in order."""

    repeats = 5
    largest = 1_000

    def __init__(self, name: str, location: str, matching: tuple[str, ...]) -> None:
        self.name, self._location, self._matching = name, location, matching
        self.in_order = "body" not in matching
        self.calls_a_repeat = 90 if self.in_order else 9

    def open(self) -> None:
        self._stack = ExitStack()
        self._stack.enter_context(_use_cassette(self._location, record_mode="none", match_on=self._matching))
        self._connection = client.HTTPConnection(_HOST)

    def prepare(self, call: Call) -> bytes:
        return _body(call)

    async def answer(self, prepared: bytes) -> str:
        return str(orjson.loads(_post(self._connection, prepared))["choices"][0]["message"]["content"])

    async def replay(self, prepared: Sequence[bytes]) -> None:
        for body in prepared:
            orjson.loads(_post(self._connection, body))

    async def close(self) -> None:
        self._connection.close()
        self._stack.close()


class LoopbackFloor(Recorder):
    """Calls to a loopback server that nobody records: the part of vcrpy's figures that is not vcrpy."""

    name = "floor of vcrpy: the loopback call alone"
    repeats = 3
    largest = 5_000

    def open(self, folder: Path, calls: Sequence[Call], *, existing: int = 0) -> None:
        self._stack = ExitStack()
        server = self._stack.enter_context(LoopbackServer({_body(call): _answer(call) for call in calls}))
        self._enter(folder)
        self._connection = client.HTTPConnection(server.address)

    def _enter(self, folder: Path) -> None:
        """Nothing to enter."""

    async def record(self, calls: Sequence[Call]) -> None:
        for call in calls:
            _post(self._connection, _body(call))

    def end(self) -> None:
        self._connection.close()
        self._stack.close()


class VcrpyRecorder(LoopbackFloor):
    """The same calls with a cassette in between; it is written when it is closed."""

    name = "vcrpy (over loopback HTTP)"

    def _enter(self, folder: Path) -> None:
        self._cassette = ExitStack()
        self._cassette.enter_context(_use_cassette(folder / "cassette.yaml", match_on=("method", "uri")))

    async def close(self) -> None:
        self._cassette.close()
