"""Asks with the vendors' SDKs for Node, all of them in one process."""

from __future__ import annotations

import shutil
import subprocess
import threading
from concurrent.futures import Future
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec
from msgspec import Struct, field

from tests.servers.foreign import skip_or_fail

ROOT = Path(__file__).parents[3]
SDKS = ROOT / ".scratch/node_sdks"
PROGRAM = Path(__file__).with_name("driver.mjs")
PATIENCE_S = 30.0


def reason_to_skip() -> str:
    """Why the SDKs cannot run here, or nothing if they can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if list(SDKS.glob(".ready-*")) else "the SDKs for Node are not installed: run `make node-sdks`"


def require() -> None:
    """Skip the test where the SDKs cannot run, or fail it if they are required."""
    skip_or_fail(reason_to_skip(), "NODE")


class Raised(Struct, frozen=True):
    """What an SDK threw."""

    name: str
    message: str
    status: int | None = None


class Result(Struct, frozen=True):
    """What came of a case: a `value` or an error, after the `pieces` of a stream; or nothing, where it `hangs`."""

    id: int
    value: Any = None
    pieces: list[Any] = field(default_factory=list)
    error: Raised | None = None
    hangs: bool = False


class Driver:
    """A running `driver.mjs`, which says what a case has."""

    def __init__(self) -> None:
        self._numbers = count(1)
        self._waiting: dict[int, Future[Result]] = {}
        self._process = subprocess.Popen(
            ["node", str(PROGRAM), str(SDKS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._reading = threading.Thread(target=self._read)
        self._reading.start()

    def submit(self, **case: Any) -> Future[Result]:
        """Let a case run beside others."""
        number = next(self._numbers)
        future = self._waiting[number] = Future[Result]()
        assert self._process.stdin is not None
        self._process.stdin.write(msgspec.json.encode({"id": number, **case}) + b"\n")
        return future

    def ask(self, **case: Any) -> Result:
        """Run a case and wait for its result."""
        return self.submit(**case).result(PATIENCE_S)

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as output:
            for line in output:
                result = msgspec.json.decode(line, type=Result)
                self._waiting.pop(result.id).set_result(result)
        for future in self._waiting.values():
            future.set_exception(RuntimeError("node has ended"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._process:
            self._process.kill()
            self._reading.join()
