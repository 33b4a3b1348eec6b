"""A suite whose agent computes, run in so many processes, or its computing alone; prints the seconds that it took, and
those of processors. It is a process of its own, as the command is: forks of a large one are slow."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import offbook.workers.suite  # noqa: F401 - loading is not what is measured
from offbook.cli.runners.scenarios import ScenarioOptions, run_scenarios
from offbook.pipeline import Replay

ROUNDS = 20_000
"""How often an answer is hashed before it is given."""


async def handle(messages: list[Any], ctx: Any) -> str:
    digest = messages[-1]["content"].encode()
    for _ in range(ROUNDS):
        digest = hashlib.sha256(digest).digest()
    return str((await ctx.provider.complete(messages, "m", step_id="answer")).content)


def write_suite(folder: Path, conversations: int) -> Path:
    """Write the suite of so many conversations to a folder, which is created."""
    folder.mkdir()
    handler = "bench.programs.computing_suite:handle"
    (folder / "offbook.toml").write_text(f'[agent]\nhandler = "{handler}"\nprovider = "openai"\n')
    declared = f"for index in range({conversations}):\n    scenario(f'computes {{index}}', turns=['a'])\n"
    (folder / "sim_computing.py").write_text(f"from offbook import scenario\n{declared}")
    entry = {"content": "done", "model": "m"}
    entries = {f"computes {index}/agent/1/agent.answer": entry for index in range(conversations)}
    (folder / "recording.json").write_text(json.dumps({"_version": 2, **entries}))
    return folder


def run_suite(folder: str, processes: int) -> None:
    mode = Replay(f"{folder}/recording.json")
    options = ScenarioOptions(mode=mode, config=f"{folder}/offbook.toml", workers=processes)
    with redirect_stdout(io.StringIO()):
        assert run_scenarios(options) == 0


def compute(conversations: int, processes: int) -> None:
    pids = []
    for _ in range(processes):
        pids.append(os.fork())
        if not pids[-1]:
            for _ in range(conversations // processes * ROUNDS):
                hashlib.sha256(b"a").digest()
            os._exit(0)
    for pid in pids:
        os.waitpid(pid, 0)


def print_time(work: Callable[[], None]) -> None:
    before, started_s = sum(os.times()[:4]), time.perf_counter()
    work()
    print(time.perf_counter() - started_s, sum(os.times()[:4]) - before)


if __name__ == "__main__":
    _, what, place, processes = sys.argv
    if what == "suite":
        print_time(lambda: run_suite(place, int(processes)))
    else:
        print_time(lambda: compute(int(place), int(processes)))
