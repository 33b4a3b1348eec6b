"""Programs that ask a model, and what they ask it with."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from offbook.clock import SYSTEM_CLOCK
from offbook.explore.settings import ExploreSettings
from offbook.subjects.program.program import ProgramSubject
from tests.explore.runs import write_recording

ASKS = """
import json, os, sys, urllib.request

def ask(*messages, **fields):
    body = json.dumps({"model": "m", "messages": messages, **fields}).encode()
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    asked = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(asked))["choices"][0]["message"]

def said(text, role="user"):
    return {"role": role, "content": text}
"""
"""What the programs begin with."""


def python(code: str) -> list[str]:
    return [sys.executable, "-c", ASKS + code]


def subject(
    code: str, folder: Path, *answers: object, env: dict[str, str] | None = None, **settings: object
) -> ProgramSubject:
    """A program on a recording with these answers."""
    path = write_recording(folder / "run.json", {"any": list(answers)})
    explore_settings = ExploreSettings(**{"deadline_s": 30.0, "on_divergence": "stop", **settings})
    return ProgramSubject(python(code), replay=path, env=env, settings=explore_settings)


def wait_until(is_true: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Wait for another process."""
    until_s = SYSTEM_CLOCK.monotonic_s() + limit_s
    while not is_true():
        assert SYSTEM_CLOCK.monotonic_s() < until_s
        subprocess.run([str(shutil.which("sleep")), "0.02"], check=True)
