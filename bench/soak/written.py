"""What explorations write: secrets in all that a program says and does, sought in every file, on stdout and stderr."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from html import unescape
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tests.recording.redact.fake_secrets import fake_secrets, letters

from bench.soak.front import Outcome, rounds
from bench.soak.leaks import surrounded

SECRETS_A_PLACE = 10
PLACES = ("answer", "reasoning", "argument", "effect", "result", "stderr", "error", "model", "command")
AGENT = """
import json, os, sys, urllib.request
from offbook import effect

said = json.load(open("said.json"))

def refund(order, note):
    effect("refund", order=order, note=said["effect"])
    return said["result"]

def ask(messages):
    body = json.dumps({"model": said["model"], "messages": messages}).encode()
    headers = {"authorization": "Bearer " + said["key"]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return json.load(answer)["choices"][0]["message"]
    except OSError:
        sys.stderr.write(said["stderr"])
        raise RuntimeError(said["error"])

messages = [{"role": "user", "content": said["effect"]}]
while calls := (message := ask(messages)).get("tool_calls"):
    messages.append(message)
    for call in calls:
        for _ in range(2):
            result = refund(**json.loads(call["function"]["arguments"]))
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
print(message["content"], said["result"])
"""
EXPLORE = """explore --replay answers.json --run-tools --crash
--faults http_error,invalid_tool_args,crash -o side_effects=refund -o regress=regress
--report page.html --report json=report.json --report junit=report.xml
--report github"""
INPUTS = ("answers.json", "said.json", "agent.py")


def attack(*, seconds: float, seed: int) -> Outcome:
    """Explore a program that has other secrets each time. A trial is a secret."""
    outcome = Outcome(unit="secrets")
    for number in rounds(seconds):
        random = Random(f"{seed}:{number}")
        kinds = list(fake_secrets(random).items())
        planted = {place: random.sample(kinds, SECRETS_A_PLACE) for place in PLACES}
        key = letters(random, 40)
        planted["key"] = [("the opaque key of the calls", (key, key))]
        said = {place: " ".join(surrounded(text, random) for _, (text, _) in found) for place, found in planted.items()}
        said = {place: text if place == "key" else f"{text} {key}" for place, text in said.items()} | {"key": key}
        outcome.trials += SECRETS_A_PLACE * len(PLACES) + 1
        for name, written in _written(said).items():
            for place, found in planted.items():
                for kind, (_, part) in found:
                    if part in written or json.dumps(part)[1:-1] in written:
                        outcome.lose(f"seed {seed}, round {number}: {kind} of the {place} is in {name}")
    return outcome


def _written(said: dict[str, str]) -> dict[str, str]:
    """Return all that an exploration has written, by file."""
    arguments = {"order": 42, "note": said["argument"]}
    asks = {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": arguments}], "reasoning": said["reasoning"]}
    with TemporaryDirectory(prefix="offbook-soak-") as name:
        folder = Path(name)
        answers = {"_version": 2, "any": [asks, {"content": said["answer"]}]}
        for file, text in zip(INPUTS, (json.dumps(answers), json.dumps(said), AGENT), strict=True):
            (folder / file).write_text(text)
        own = dict.fromkeys(("TMPDIR", "HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"), name)
        command = [
            str(Path(sys.executable).parent / "offbook"),
            *EXPLORE.split(),
            "--",
            sys.executable,
            "agent.py",
            said["command"],
        ]
        done = subprocess.run(
            command,
            cwd=folder,
            env=os.environ | own | {"GITHUB_STEP_SUMMARY": f"{name}/summary.md"},
            capture_output=True,
            check=False,
        )
        written = {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    written |= {"stdout": done.stdout, "stderr": done.stderr}
    if done.returncode != 1 or not any(name.startswith("regress") for name in written):
        raise AssertionError(f"the exploration ended with {done.returncode} and wrote {list(written)}: {done.stderr!r}")
    return {each: unescape(text.decode(errors="replace")) for each, text in written.items() if each not in INPUTS}
