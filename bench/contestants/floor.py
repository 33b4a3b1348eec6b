"""The floors: the least that could be done."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from hashlib import sha256
from itertools import islice
from pathlib import Path

import msgspec
import orjson

from bench.contestants.contestant import Recorder, Replayer
from bench.workload import Call, fields_of
from offbook.messages import JsonObject

HASH_FLOOR = "floor: orjson.dumps(sorted) + sha256"
APPEND_FLOOR = "floor: flock + write + unlock"


class HashFloor(Replayer):
    """Serialises and hashes the request, and answers nothing."""

    name = HASH_FLOOR
    is_floor = True

    def open(self) -> None:
        """Nothing to open."""

    def prepare(self, call: Call) -> JsonObject:
        return fields_of(call)

    async def answer(self, prepared: JsonObject) -> str:
        return sha256(orjson.dumps(prepared, option=orjson.OPT_SORT_KEYS)).hexdigest()

    async def replay(self, prepared: Sequence[JsonObject]) -> None:
        option = orjson.OPT_SORT_KEYS
        for fields in prepared:
            sha256(orjson.dumps(fields, option=option)).hexdigest()


class AppendFloor(Recorder):
    """Appends a line of request and answer to a file, under the file's lock."""

    name = APPEND_FLOOR

    def open(self, folder: Path, calls: Sequence[Call], *, existing: int = 0) -> None:
        self._fd = os.open(folder / "floor", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._lines = iter([msgspec.json.encode([fields_of(call), call.answer]) + b"\n" for call in calls])

    async def record(self, calls: Sequence[Call]) -> None:
        fd = self._fd
        for line in islice(self._lines, len(calls)):
            fcntl.flock(fd, fcntl.LOCK_EX)
            os.write(fd, line)
            fcntl.flock(fd, fcntl.LOCK_UN)

    def end(self) -> None:
        os.close(self._fd)
