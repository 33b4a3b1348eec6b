"""The command: `python -m bench [--quick] [--only NAME] [--json FILE]`."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec
from rich.console import Console

from bench import (
    agent,
    cluster,
    explore,
    gateway,
    load,
    mcp,
    program_tools,
    recording,
    redis_store,
    replay,
    scenarios,
    shards,
    start,
    viewer,
    websocket,
    wire,
    workflow,
)
from bench.console import new_console, progress, show_findings, show_head, show_targets
from bench.findings import Findings
from bench.library import Library
from bench.plan import Plan

SUBJECTS: dict[str, Callable[[Plan], Findings]] = {
    "replay": replay.measure,
    "recording": recording.measure,
    "redis": redis_store.measure,
    "load": load.measure,
    "start": start.measure,
    "gateway": gateway.measure,
    "agent": agent.measure,
    "workflow": workflow.measure,
    "scenarios": scenarios.measure,
    "wire": wire.measure,
    "websocket": websocket.measure,
    "mcp": mcp.measure,
    "program_tools": program_tools.measure,
    "explore": explore.measure,
    "shards": shards.measure,
    "cluster": cluster.measure,
    "viewer": viewer.measure,
}


def main() -> None:
    """Measure, and show each subject as soon as it is done."""
    arguments = _arguments()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    console = new_console()
    show_head(console)
    found: list[Findings] = []
    with tempfile.TemporaryDirectory(prefix="offbook-bench-") as folder:
        for name in [arguments.only] if arguments.only else SUBJECTS:
            found.append(_measure_apart(name, Path(folder), console, is_quick=arguments.quick))
            show_findings(console, found[-1])
    show_targets(console, [target for findings in found for target in findings.targets])
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")


def _measure_apart(name: str, folder: Path, console: Console, *, is_quick: bool) -> Findings:
    """Measure a subject in a process of its own: what one leaves in memory would slow the forks of the next."""
    findings = folder / f"{name}.findings"
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with progress(console) as tell:
                findings.write_bytes(msgspec.json.encode(SUBJECTS[name](Plan(Library(folder), is_quick, tell))))
            code = 0
        except BaseException:
            console.print_exception()
        finally:
            os._exit(code)
    if os.waitpid(pid, 0)[1]:
        sys.exit(f"{name} could not be measured")
    return msgspec.json.decode(findings.read_bytes(), type=Findings)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure offbook beside its peers.")
    parser.add_argument("--quick", action="store_true", help="smaller recordings and fewer repeats")
    parser.add_argument("--only", choices=SUBJECTS, help="measure one subject")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE, too")
    return parser.parse_args()


if __name__ == "__main__":
    main()
