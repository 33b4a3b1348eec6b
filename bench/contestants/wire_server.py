"""The seam of the servers: something that stands in for OpenAI's API, in a process of its own."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

import orjson
from msgspec import Struct

from bench.cores import SERVER, on_core
from bench.workload import Call, call_at, fields_of

PATH = "/v1/chat/completions"
FRAMES = 200
PIECE = "word "
PIECES = FRAMES - 3
"""The pieces of text in a stream; before them comes the role, behind them the finish reason and the end."""


class Case(Struct, frozen=True):
    """What a server is asked: the last of its entries, whole or as a stream of 200 frames; or all in turn."""

    size: int
    is_stream: bool = False
    is_mixed: bool = False

    def call(self, index: int) -> Call:
        """What the entry `index` answers."""
        call = call_at(index, by="fingerprint")
        return Call(call.messages, None, PIECE * PIECES) if self.is_stream else call

    def body(self, index: int) -> bytes:
        return orjson.dumps(fields_of(self.call(index)) | ({"stream": True} if self.is_stream else {}))

    def requests(self) -> list[bytes]:
        """The requests, as they go over the wire. Mixed ones are so many that they are hardly asked before."""
        indexes = range(0, self.size, 2) if self.is_mixed else [self.size - 1]
        return [_request(self.body(index)) for index in indexes]


class WireContestant(ABC):
    """Starts servers. One that is `absent` says why it cannot be measured here."""

    name: str
    absent = ""

    @abstractmethod
    def command(self, case: Case) -> list[str]:
        """The command of a server that prints where it listens once it does."""


class RunningServer:
    """A server that has answered once, rightly. `answer` is that.

    `started_ms` is how long it took from nothing, `first_cpu_s` the processor time of that, `first_mb` the memory that
    it held then.
    """

    def __init__(self, contestant: WireContestant, case: Case) -> None:
        started_s = time.perf_counter()
        with on_core(SERVER):
            self._process = subprocess.Popen(contestant.command(case), stdout=subprocess.PIPE, text=True)
        try:
            self.port = self._announced_port()
            self.content_type, self.answer = self._ask(case)
        except BaseException:
            self.stop()
            raise
        self.started_ms = (time.perf_counter() - started_s) * 1000.0
        self.first_cpu_s = self.cpu_s or 0.0
        self.first_mb = self._resident_mb()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()

    @property
    def cpu_s(self) -> float | None:
        """The time that the server and its processes have had a processor; None where the system does not tell."""
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children")
        if not children.exists():
            return None
        return sum(_cpu_s(pid) for pid in [str(self._process.pid), *children.read_text().split()])

    def _resident_mb(self) -> float:
        """The memory that it holds; nothing where the system does not tell."""
        status = Path(f"/proc/{self._process.pid}/status")
        found = re.search(r"VmRSS:\s+(\d+) kB", status.read_text()) if status.exists() else None
        return 0.0 if found is None else int(found[1]) / 1024.0

    def _announced_port(self) -> int:
        output = self._process.stdout
        assert output is not None
        for line in output:
            if found := re.search(r"http://127\.0\.0\.1:(\d+)", line):
                threading.Thread(target=output.read, daemon=True).start()
                return int(found[1])
        raise RuntimeError(f"{self._process.args!r} did not start")

    def _ask(self, case: Case) -> tuple[str, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request("POST", PATH, case.body(case.size - 1), {"content-type": "application/json"})
        response = connection.getresponse()
        body = response.read()
        connection.close()
        text = case.call(case.size - 1).answer
        is_right = body.count(b"data: ") == FRAMES if case.is_stream else text.encode() in body
        if response.status != 200 or not is_right:
            raise AssertionError(f"{self._process.args!r} answered {response.status} {body[:500]!r}")
        return response.headers["content-type"], body


def _cpu_s(pid: str) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _request(body: bytes) -> bytes:
    head = (
        f"POST {PATH} HTTP/1.1",
        "host: 127.0.0.1",
        "accept: application/json",
        "content-type: application/json",
        "authorization: Bearer sk-none",
        "user-agent: bench",
        f"content-length: {len(body)}",
    )
    return "\r\n".join([*head, "", ""]).encode() + body
