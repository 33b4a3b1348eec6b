"""The server that a client starts in place of a real one over stdio. It joins the session of `offbook exec`.

Run as `python -m offbook.mcp.connect`, with the address, the token and the server's name in the variable
OFFBOOK_MCP_JOIN, and the real server's command as arguments. It copies bytes and imports nothing else: the joined
session does the work, and starts the real server, if necessary, with these arguments, folder and environment. Its
replies are framed: a letter, the size in four bytes, and the data. `O` is for stdout, `E` for stderr, `X` is the exit
code.
"""

import json
import os
import socket
import struct
import sys
import threading

JOIN_VARIABLE = "OFFBOOK_MCP_JOIN"
FRAME_HEAD = struct.Struct(">cI")
READ_BYTES = 64 * 1024
NOT_JOINED = 1


def join(address: str, command: list[str], environment: dict[str, str]) -> int:
    """Serve stdin and stdout by the session at `address`, which is like `127.0.0.1:4010/TOKEN/SESSION/github`."""
    place, token, session, server = address.split("/", 3)
    host, _, port = place.rpartition(":")
    try:
        connection = socket.create_connection((host, int(port)))
    except OSError as error:
        print(f"offbook: {server}: the session at {place} cannot be joined: {error.strerror}", file=sys.stderr)  # noqa: T201
        return NOT_JOINED
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    hello = {
        "token": token,
        "session": session,
        "server": server,
        "command": command,
        "folder": os.getcwd(),  # noqa: PTH109 - imports nothing
        "environment": environment,
    }
    connection.sendall(json.dumps(hello).encode() + b"\n")
    threading.Thread(target=_copy_input, args=(connection,), daemon=True).start()
    return _copy_output(connection)


def _copy_input(connection: socket.socket) -> None:
    try:
        while data := os.read(sys.stdin.fileno(), READ_BYTES):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        return


def _copy_output(connection: socket.socket) -> int:
    """Write the replies to stdout, and return the exit code."""
    with connection.makefile("rb") as frames:
        while head := frames.read(FRAME_HEAD.size):
            if len(head) < FRAME_HEAD.size:
                break
            kind, size = FRAME_HEAD.unpack(head)
            data = frames.read(size)
            if kind == b"X":
                return int(data)
            try:
                _write_all(sys.stderr.fileno() if kind == b"E" else sys.stdout.fileno(), data)
            except BrokenPipeError:
                return 0
    return NOT_JOINED


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def main() -> int:
    environment = dict(os.environ)
    address = environment.pop(JOIN_VARIABLE, "")
    if address.count("/") < 3:
        print(f"offbook: {JOIN_VARIABLE} is not set: this is started by a config of offbook exec", file=sys.stderr)  # noqa: T201
        return NOT_JOINED
    return join(address, sys.argv[1:], environment)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # the thread that waits for input would keep us from ending
