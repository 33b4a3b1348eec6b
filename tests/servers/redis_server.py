"""Starts real Redis servers on loopback: one for all tests of a process, and others with settings of their own."""

from __future__ import annotations

import atexit
import itertools
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

from .foreign import is_required, skip_or_fail

START_TIMEOUT_S = 30.0
POLL_S = 0.005
_numbers = itertools.count(1)


def require_redis() -> None:
    """Skip the test where there is no Redis, or fail it if there must be one."""
    skip_or_fail("" if shutil.which("redis-server") else "redis-server is not installed", "REDIS")


class RedisServer:
    """A running Redis, which keeps nothing on disk."""

    def __init__(self, port: int, folder: str, *settings: str) -> None:
        self.port, self.tls_port = port, _free_port()
        settings = tuple(each.replace("{tls_port}", str(self.tls_port)) for each in settings)
        self._command = _command(port, folder, settings)
        self.process = subprocess.Popen(self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        import redis  # noqa: PLC0415 - large, as trustme below: tests that fork need not have it

        self.client = redis.Redis(port=port, decode_responses=False)

    def wait(self) -> None:
        """Wait until it answers."""
        deadline_s, never = time.monotonic() + START_TIMEOUT_S, threading.Event()
        while time.monotonic() < deadline_s and self.process.poll() is None:
            with suppress(OSError), closing(socket.create_connection(("127.0.0.1", self.port))) as client:
                client.sendall(b"PING\r\n")
                if client.recv(1) in b"+-":
                    return
            never.wait(POLL_S)
        output = self.process.communicate(timeout=START_TIMEOUT_S)[0] if self.process.poll() is not None else ""
        raise RuntimeError(f"redis-server did not start:\n{output}")

    def url(self, prefix: str = "", **parameters: str) -> str:
        """The URL of a recording that no other test has, or of the prefix."""
        query = "&".join(f"{name}={value}" for name, value in parameters.items())
        return f"redis://127.0.0.1:{self.port}/0?prefix={prefix or f'test{next(_numbers)}.'}{query and f'&{query}'}"

    def keys(self, url: str) -> list[str]:
        """The keys of a recording, and of those beside it."""
        prefix = url.partition("prefix=")[2].partition("&")[0]
        return sorted(key.decode() for key in self.client.keys(f"{{{prefix}*"))

    def stop(self) -> None:
        """Kill it. Everything in it is lost."""
        self.client.close()
        self.process.kill()
        self.process.communicate()


def _command(port: int, folder: str, settings: tuple[str, ...]) -> list[str]:
    fixed = ["--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", folder, "--loglevel", "warning"]
    return ["redis-server", "--port", str(port), *fixed, *settings]


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def running(*settings: str) -> Iterator[RedisServer]:
    """A server of its own, with these settings."""
    require_redis()
    with tempfile.TemporaryDirectory() as folder:
        server = _start(folder, *settings)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def running_with_tls(folder: Path) -> Iterator[str]:
    """The URL of a server that wants certificates, with `ca.pem`, `me.pem` and `me.key` in the folder for its clients.

    Tests are skipped where Redis is built without TLS.
    """
    import trustme  # noqa: PLC0415

    ca = trustme.CA()
    ca.cert_pem.write_to_path(folder / "ca.pem")
    for name, identity in (("server", "127.0.0.1"), ("me", "me@client.test")):
        issued = ca.issue_cert(identity)
        issued.private_key_pem.write_to_path(folder / f"{name}.key")
        issued.cert_chain_pems[0].write_to_path(folder / f"{name}.pem")
    files = {"cert-file": "server.pem", "key-file": "server.key", "ca-cert-file": "ca.pem"}
    settings = [word for name, file in files.items() for word in (f"--tls-{name}", str(folder / file))]
    try:
        with running("--tls-port", "{tls_port}", *settings) as server:
            yield f"rediss://127.0.0.1:{server.tls_port}/0"
    except RuntimeError as error:
        if "--tls-port" not in str(error) or is_required("REDIS"):
            raise
        pytest.skip("redis-server is built without TLS")


def _start(folder: str, *settings: str) -> RedisServer:
    """Start a server. Another process may take the free port first; then there is another one."""
    for attempt in range(5):
        server = RedisServer(_free_port(), folder, *settings)
        try:
            server.wait()
        except RuntimeError:
            server.stop()
            if attempt == 4:
                raise
        else:
            return server
    raise AssertionError


@cache
def shared() -> RedisServer:
    """The server of all tests of this process."""
    require_redis()
    folder = tempfile.mkdtemp()
    server = _start(folder)
    atexit.register(lambda: (server.stop(), Path(folder).rmdir()))
    return server
