"""Programs that ask a model, and what they ask it with."""

import sys
from pathlib import Path

from offbook.subjects.program import ProgramSubject
from offbook.subjects.specs import ExploreSettings
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
