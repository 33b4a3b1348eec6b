"""Subject: what a call of a program's function tool costs, recorded and replayed, beside a POST to a bare server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from bench.findings import Findings, Row, Table, Target
from bench.plan import Plan

BARE, FLOOR, REPLAYED, RECORDED = "bare call", "floor: one POST", "replayed", "recorded"
CALLS, ROUNDS = (2_000, 500), (7, 3)
PROGRAM = Path(__file__).parent / "programs" / "tool_caller.py"
CONFIG = """
[tools.mail]
function = "called_tools:mail"
[tools.mail_later]
function = "called_tools:mail_later"
"""
REPLAYED_US, RECORDED_US = 60.0, 120.0
_FLOOR = """
import asyncio
HEAD = b"HTTP/1.1 200 OK\\r\\ncontent-length: 36\\r\\n\\r\\n"
class Bare(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport = transport
    def data_received(self, data):
        self.transport.write(HEAD + data[-36:])
async def serve():
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()
asyncio.run(serve())
"""


def measure(plan: Plan) -> Findings:
    """Calls one after the other in one process; bare calls, POSTs and tools take turns, and the best round counts."""
    folder = plan.library.folder / "program-tools"
    folder.mkdir(exist_ok=True)
    (folder / "offbook.toml").write_text(CONFIG)
    answers = {name: {"result": {"id": 17, "status": "sent"}} for name in ("mail", "mail_later")}
    (folder / "replayed.json").write_text(json.dumps({"_version": 2, "_tools": answers}))
    with subprocess.Popen([sys.executable, "-c", _FLOOR], stdout=subprocess.PIPE, text=True) as floor:
        assert floor.stdout is not None
        port = int(floor.stdout.readline())
        plan.tell("program_tools: replayed")
        replayed = _figures(plan, port, folder, "--replay", "replayed.json")
        plan.tell("program_tools: recorded")
        recorded = _figures(plan, port, folder, "--record", f"recorded-{os.getpid()}.json")
        floor.kill()
    kinds = ["", ", awaited"]
    rows = [
        Row(BARE, [min(replayed[f"bare{kind}"], recorded[f"bare{kind}"]) for kind in kinds]),
        Row(FLOOR, [min(replayed[f"floor{kind}"], recorded[f"floor{kind}"]) for kind in kinds]),
        Row(REPLAYED, [replayed[f"tool{kind}"] for kind in kinds]),
        Row(RECORDED, [recorded[f"tool{kind}"] for kind in kinds]),
    ]
    table = Table("tool call of a program under exec", "µs a call", ["function", "coroutine"], rows, FLOOR)
    targets = [
        target
        for row, limit_us in ((REPLAYED, REPLAYED_US), (RECORDED, RECORDED_US))
        for target in _targets(table, row, limit_us)
    ]
    notes = [
        "program_tools: calls of one program, one after the other; the best of several rounds",
        "program_tools: a replayed call is a question to the process of exec; a recorded one is also a line on disk",
    ]
    return Findings("program_tools", [table], targets, notes)


def _targets(table: Table, name: str, limit_us: float) -> list[Target]:
    """The targets of what a call costs over a bare one."""
    row, bare = table.row(name), table.row(BARE)
    found = []
    for kind, figure, least in zip(
        table.columns, row.figures if row else [], bare.figures if bare else [], strict=True
    ):
        if figure is not None and least is not None:
            claim = f"a {name} call of a {kind} costs at most {limit_us:g} µs over a bare call"
            found.append(Target(claim, f"{figure - least:.0f} µs", figure - least <= limit_us))
    return found


def _figures(plan: Plan, port: int, folder: Path, *options: str) -> dict[str, float]:
    """Run the program once, and return the best µs a call, by what was called."""
    sizes = [str(plan.repeats(*CALLS)), str(plan.repeats(*ROUNDS))]
    command = [str(Path(sys.executable).parent / "offbook"), "exec", "--quiet", *options, "--"]
    command += [sys.executable, str(PROGRAM), str(port), *sizes]
    ended = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True, timeout=600)
    figures: dict[str, float] = json.loads(ended.stdout)
    return figures
