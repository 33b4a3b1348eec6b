"""The floor of the servers: uvicorn, and an application that reads the body and answers the same bytes to all.

`python -m bench.contestants.wire_floor FILE CONTENT_TYPE`, where FILE holds the bytes.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

from bench.contestants.wire_server import Case, RunningServer, WireContestant
from bench.peers import import_peer

BACKLOG = 2048


class FloorServer(WireContestant):
    """Answers what the server that is `like` it has answered."""

    name = "floor: bare uvicorn"

    def __init__(self, folder: Path, like: RunningServer) -> None:
        self._path, self._content_type = folder / "wire-floor.bin", like.content_type
        self._path.write_bytes(like.answer)

    def command(self, case: Case) -> list[str]:
        return [sys.executable, "-m", "bench.contestants.wire_floor", str(self._path), self._content_type]


class SameBytes:
    """Answers `body` to everybody, with its length, or as one chunk if it is a stream."""

    def __init__(self, body: bytes, content_type: str) -> None:
        self._body = body
        self._headers = [(b"content-type", content_type.encode())]
        if content_type == "application/json":
            self._headers.append((b"content-length", b"%d" % len(body)))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["more_body"]:
            pass
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        await send({"type": "http.response.body", "body": self._body})


def main() -> None:
    """Serve until the process is ended."""
    uvicorn = import_peer("uvicorn")
    config = uvicorn.Config(
        SameBytes(Path(sys.argv[1]).read_bytes(), sys.argv[2]),
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
    )
    listener = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    asyncio.run(uvicorn.Server(config).serve([listener]))


if __name__ == "__main__":
    main()
