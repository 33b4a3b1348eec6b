"""Programs that nobody here wrote: tests are skipped without them, and wait until they listen."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

START_TIMEOUT_S = 60.0
POLL_S = 0.05


def is_required(what: str) -> bool:
    """Whether tests fail where a program cannot run: with `OFFBOOK_REQUIRE_NODE=1`, all that need Node do."""
    return os.environ.get(f"OFFBOOK_REQUIRE_{what}") == "1"


def skip_or_fail(reason: str, what: str) -> None:
    """Skip the test if there is a reason to; fail it instead if the program is required."""
    if reason:
        (pytest.fail if is_required(what) else pytest.skip)(reason)


@contextmanager
def announcing(command: Sequence[str], find_url: Callable[[str], str | None]) -> Iterator[str]:
    """Run a server, and give the URL that `find_url` finds in all that it has printed so far."""
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            url = _announced_url(process, find_url)
            drain = threading.Thread(target=process.stdout.read)
            drain.start()
            yield url
        finally:
            process.kill()
        drain.join()


def _announced_url(process: subprocess.Popen[str], find_url: Callable[[str], str | None]) -> str:
    """Read until there is a URL. A process that prints none in time is killed: its output ends."""
    alarm = threading.Timer(START_TIMEOUT_S, process.kill)
    alarm.start()
    try:
        said = ""
        for line in process.stdout or ():
            said += line
            if url := find_url(said):
                return url
        raise RuntimeError(f"{process.args} did not start:\n{said}")
    finally:
        alarm.cancel()


def wait_for(port: int) -> None:
    """Wait until another process listens at a port of this machine."""
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline_s:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            time.sleep(POLL_S)  # another process, on the clock of the machine
        else:
            return
    pytest.fail(f"nothing listens at port {port}")
