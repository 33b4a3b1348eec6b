"""Subject: what starting takes, each time in a fresh process with cached bytecode."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import as_file, files
from importlib.util import find_spec
from pathlib import Path

from bench.findings import Findings, Row, Table, Target, at_most
from bench.peers import load_peer
from bench.plan import Plan
from bench.stopwatch import Stopwatch

FLOOR, IMPORT, REPLAY = "floor: python -c pass", "import offbook", "from offbook import MockProvider"
LIGHT_MS, SLOW_MS = 100.0, 300.0

COMMAND_FLOOR = 'floor: python -c "import typer, rich"'
LIMITS = {"--help": 1.3, "validate": 2.0, "recording show": 2.0, "replay": 3.0}
"""How many times the floor each command may take."""


def measure(plan: Plan) -> Findings:
    """Importing us and our peers, and our commands beside the libraries that any such command needs."""
    imports = _measure(plan, "start: imports", _import_lines())
    tables, targets, notes = [_table("imports", imports, FLOOR)], _import_targets(imports), []
    if (offbook := _command()) is None:
        notes.append("the offbook command is not installed: left out")
    else:
        with as_file(files("offbook.cli") / "demo") as demo:
            commands = _measure(plan, "start: commands", _command_lines(offbook, demo))
        tables.append(_table("commands", commands, COMMAND_FLOOR))
        targets += _command_targets(tables[-1])
    notes.append(f"best of {plan.repeats(10, 4)} fresh processes each (3 above {SLOW_MS:g} ms); they take turns")
    return Findings("start", tables, targets, notes)


def _import_lines() -> dict[str, list[str]]:
    peers = {
        "agentloom.providers.mock": "from agentloom.providers.mock import MockProvider",
        "pydantic_ai.models.function": "from pydantic_ai.models.function import FunctionModel",
        "vcr": "import vcr",
        "litellm": "import litellm",
    }
    lines = [IMPORT, REPLAY, *(line for module, line in peers.items() if load_peer(module))]
    return {FLOOR: [sys.executable, "-c", "pass"]} | {line: [sys.executable, "-c", line] for line in lines}


def _command() -> str | None:
    command = Path(sys.executable).with_name("offbook")
    return str(command) if command.exists() and find_spec("offbook.cli") else None


def _command_lines(offbook: str, demo: Path) -> dict[str, list[str]]:
    flow, recording = str(demo / "support.yaml"), str(demo / "recordings" / "support.json")
    return {
        COMMAND_FLOOR: [sys.executable, "-c", "import typer, rich"],
        "--help": [offbook, "--help"],
        "validate": [offbook, "validate", flow],
        "recording show": [offbook, "recording", "show", recording],
        "replay": [offbook, "replay", flow, "--recording", recording],
    }


def _measure(plan: Plan, title: str, lines: dict[str, list[str]]) -> dict[str, float]:
    """The best time of each command in ms."""
    times: dict[str, list[float]] = {name: [] for name in lines}
    repeats = plan.repeats(10, 4)
    for repeat in range(repeats):
        for name, line in lines.items():
            plan.tell(f"{title}, repeat {repeat + 1} of {repeats}, {name}")
            if repeat < 3 or min(times[name]) < SLOW_MS:
                times[name].append(_time_ms(line))
    return {name: min(figures) for name, figures in times.items()}


def _time_ms(line: list[str]) -> float:
    watch = Stopwatch()
    with watch.lap():
        subprocess.run(line, capture_output=True, check=True)
    return watch.total_us / 1000.0


def _table(title: str, times: dict[str, float], floor: str) -> Table:
    rows = [Row(name, [time_ms, time_ms - times[floor]]) for name, time_ms in times.items()]
    return Table(f"start: {title}", "ms", ["whole process", "above the floor"], rows, base=floor)


def _import_targets(times: dict[str, float]) -> list[Target]:
    targets = []
    for name in (IMPORT, REPLAY):
        above_ms = times[name] - times[FLOOR]
        claim = f"{name} takes at most {LIGHT_MS:g} ms"
        targets.append(Target(claim, f"{above_ms:.0f} ms", above_ms <= LIGHT_MS))
    return targets


def _command_targets(table: Table) -> list[Target]:
    claims = {name: f"offbook {name} takes at most {limit:g}x of the floor" for name, limit in LIMITS.items()}
    return [
        target
        for name, limit in LIMITS.items()
        for target in at_most(claims[name], table.ratios(name, COMMAND_FLOOR)[:1], limit)
    ]
