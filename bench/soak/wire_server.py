"""A server of ours that prints what it holds: `python -m bench.soak.wire_server FOLDER`; a line in, a line out."""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.soak.memory import sample
from offbook import serving


class Holdings(Struct, frozen=True):
    """What a server holds: open files and sockets (None where the system does not tell), unfinished tasks, memory."""

    files: int | None
    tasks: int
    blocks: int
    resident_mb: float


def holdings() -> Holdings:
    """What this process holds now, garbage collected."""
    memory = sample(0)
    tasks = sum(isinstance(found, asyncio.Task) and not found.done() for found in gc.get_objects())
    files = Path("/proc/self/fd")
    return Holdings(len(list(files.iterdir())) if files.exists() else None, tasks, memory.blocks, memory.resident_mb)


def main() -> None:
    """Serve until the input ends."""
    with serving(recording=sys.argv[1], latency_model="replay") as server:
        print(server.url, flush=True)
        for _ in sys.stdin:
            print(msgspec.json.encode(holdings()).decode(), flush=True)


if __name__ == "__main__":
    main()
