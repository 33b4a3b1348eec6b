"""Starts aimock, a mock server of several vendors' protocols that nobody here wrote."""

from __future__ import annotations

import re
import shutil
from contextlib import AbstractContextManager
from pathlib import Path

from .foreign import announcing, skip_or_fail

ROOT = Path(__file__).parents[2]
CLI = ROOT / ".scratch/aimock/node_modules/@copilotkit/aimock/dist/cli.js"
ANSWERS = Path(__file__).with_name("aimock_answers.json")


def reason_to_skip() -> str:
    """Why aimock cannot run here, or nothing if it can."""
    if shutil.which("node") is None:
        return "node is not installed"
    return "" if CLI.exists() else "aimock is not installed: run `make aimock`"


def require() -> None:
    """Skip the test where aimock cannot run, or fail it if it is required."""
    skip_or_fail(reason_to_skip(), "NODE")


def serve() -> AbstractContextManager[str]:
    """The URL of a fresh aimock that knows the answers in `aimock_answers.json` and refuses other questions."""
    command = ["node", str(CLI), "--port", "0", "--fixtures", str(ANSWERS), "--strict", "--validate-on-load"]
    return announcing(command, _announced_url)


def _announced_url(said: str) -> str | None:
    found = re.search(r"listening on (http://\S+)\s", said)
    return found and found[1]
