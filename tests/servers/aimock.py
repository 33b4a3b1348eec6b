"""Starts aimock, a mock server of several vendors' protocols that nobody here wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

ROOT = Path(__file__).parents[2]
CLI = ROOT / ".scratch/aimock/node_modules/@copilotkit/aimock/dist/cli.js"
ANSWERS = Path(__file__).with_name("aimock_answers.json")
START_TIMEOUT_S = 60.0


def reason_to_skip() -> str:
    """Why aimock cannot run here, or nothing if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if CLI.exists() else "aimock is not installed: run `make aimock`"


def is_required() -> bool:
    """Whether to fail where aimock cannot run, instead of skipping."""
    return os.environ.get("OFFBOOK_REQUIRE_NODE") == "1"


@contextmanager
def serve() -> Iterator[str]:
    """The URL of a fresh aimock that knows the answers in `aimock_answers.json` and refuses other questions."""
    command = ["node", str(CLI), "--port", "0", "--fixtures", str(ANSWERS), "--strict", "--validate-on-load"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            url = _announced_url(process, process.stdout)
            drain = threading.Thread(target=process.stdout.read)
            drain.start()
            yield url
        finally:
            process.kill()
        drain.join()


def _announced_url(process: subprocess.Popen[str], output: IO[str]) -> str:
    """The URL that aimock prints once it listens. A process that prints none in time is killed: its output ends."""
    alarm = threading.Timer(START_TIMEOUT_S, process.kill)
    alarm.start()
    try:
        said = ""
        for line in output:
            said += line
            if found := re.search(r"listening on (http://\S+)", line):
                return found[1]
        raise RuntimeError(f"aimock did not start:\n{said}")
    finally:
        alarm.cancel()
