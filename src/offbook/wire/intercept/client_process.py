"""Which process is at the other end of a connection on this machine: the proof of clients that send no credentials."""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path

_ESTABLISHED = "01"
_TABLES = {"tcp": False, "tcp6": True}
"""The tables of connections, and whether their addresses are those of IPv6."""


def proxy_user(token: str, *, client: tuple[str, int], server: tuple[str, int]) -> str | None:
    """Return the user, before `token` in a URL of its environment, of the process at the `client` end of a connection.

    None if it has no such URL. Only what we start has it, with its children, and nobody else can know the token. Only
    Linux shows this.
    """
    if sys.platform != "linux":
        return None
    link = _socket_link(client, server)
    users = (user for process, user in _started_with(token) if link is not None and _has_open(process, link))
    return next(users, None)


def _socket_link(client: tuple[str, int], server: tuple[str, int]) -> str | None:
    """Return what a process that holds the socket has in its `fd` folder."""
    for table, is_v6 in _TABLES.items():
        ends = [_hex_address(address, is_v6=is_v6) for address in (client, server)]
        with suppress(OSError):
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1:3] == ends and fields[3] == _ESTABLISHED:
                    return f"socket:[{fields[9]}]"
    return None


def _hex_address(address: tuple[str, int], *, is_v6: bool) -> str:
    """Return an address as the kernel writes it: words of four bytes in the order of this machine.

    A socket for both families, like Java's, has addresses of the older one in the form of the newer.
    """
    host = ip_address(address[0]).packed
    if is_v6 and len(host) == 4:
        host = b"\0" * 10 + b"\xff\xff" + host
    words = struct.unpack(f"={len(host) // 4}I", host)
    return "".join(f"{word:08X}" for word in words) + f":{address[1]:04X}"


def _started_with(token: str) -> Iterator[tuple[Path, str]]:
    """Yield the processes of this user whose environment has the token, and the user before it."""
    pattern = re.compile(rb"//([^:/@\0]+):%b@" % re.escape(token.encode()))
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            with suppress(OSError):
                if found := pattern.search((process / "environ").read_bytes()):
                    yield process, found[1].decode()


def _has_open(process: Path, socket_link: str) -> bool:
    with suppress(OSError):
        return any(_link_of(file) == socket_link for file in (process / "fd").iterdir())
    return False


def _link_of(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""
