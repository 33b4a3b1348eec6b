"""Subject: what starting takes, each time in a fresh process."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from bench.findings import Findings, Row, Table, Target
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch

FLOOR, IMPORT, HELP = "floor: python -c pass", "import offbook", "offbook --help"
REPLAY = "from offbook import MockProvider"
LIGHT_MS, SLOW_MS = 100.0, 300.0


def measure(plan: Plan) -> Findings:
    """Importing us and our peers, and our command."""
    commands = _commands()
    times: dict[str, list[float]] = {name: [] for name in commands}
    repeats = plan.repeats(10, 4)
    for repeat in range(repeats):
        for name, command in commands.items():
            plan.tell(f"start: repeat {repeat + 1} of {repeats}, {name}")
            if repeat < 3 or min(times[name]) < SLOW_MS:
                times[name].append(_time_ms(command))
    rows = [Row(name, [min(figures), min(figures) - min(times[FLOOR])]) for name, figures in times.items()]
    table = Table("start", "ms", ["whole process", "above the floor"], rows, base=IMPORT)
    notes = [f"best of {repeats} fresh processes each (3 for what takes over {SLOW_MS:g} ms); they take turns"]
    if HELP not in commands:
        notes.append("the offbook command is not installed: left out")
    return Findings("start", [table], _targets(table), notes)


def _commands() -> dict[str, list[str]]:
    found = {name: [sys.executable, "-c", name] for name in (IMPORT, REPLAY)}
    command = Path(sys.executable).with_name("offbook")
    if command.exists() and find_spec("offbook.cli"):
        found[HELP] = [str(command), "--help"]
    peers = {
        "agentloom.providers.mock": "from agentloom.providers.mock import MockProvider",
        "pydantic_ai.models.function": "from pydantic_ai.models.function import FunctionModel",
        "vcr": "import vcr",
        "litellm": "import litellm",
    }
    found |= {line: [sys.executable, "-c", line] for module, line in peers.items() if load_peer(module)}
    return {FLOOR: [sys.executable, "-c", "pass"], **found}


def _time_ms(command: list[str]) -> float:
    watch = Stopwatch()
    with watch.lap():
        subprocess.run(command, capture_output=True, check=True)
    return watch.total_us / 1000.0


def _targets(table: Table) -> list[Target]:
    found = []
    for name in (IMPORT, REPLAY):
        row = table.row(name)
        above_ms = row.figures[1] if row else None
        if above_ms is not None:
            claim = f"{name} takes at most {LIGHT_MS:g} ms"
            found.append(Target(claim, f"{above_ms:.0f} ms, {above_ms / LIGHT_MS:.2f}x", above_ms <= LIGHT_MS))
    return found
