"""Makes the environments of the programs, or `--kept` those of CI, and keeps those with the same requirements."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

from tests.wire.tools_of.catalog import Framework
from tests.wire.tools_of.environments import make as make_framework

from .catalog import BY_NAME, KEPT, NODE, PROGRAMS_FOLDER, TriedProgram

STAMP = "requirements.txt"
NODE_FOLDER = PROGRAMS_FOLDER / "node"


def make(program: TriedProgram) -> None:
    """Make the environment of a program, unless it is there as required."""
    required = "\n".join(program.requirements)
    stamp = program.folder / STAMP
    if stamp.exists() and stamp.read_text() == required:
        return
    sys.stderr.write(f"Making {program.folder}; this takes a moment, once.\n")
    if program.source == "npm":
        _npm(program.folder, *program.requirements)
    else:
        venv.create(program.folder, with_pip=True, clear=True)
        install = [program.folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *program.requirements], check=True)
    stamp.write_text(required)


def _npm(folder: Path, *packages: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["npm", "install", "--prefix", folder, "--no-audit", "--no-fund", "--silent", *packages], check=True)


if __name__ == "__main__":
    if not (NODE_FOLDER / "node_modules/.bin/node").exists():
        _npm(NODE_FOLDER, f"node@{NODE}")
    for name in KEPT if "--kept" in sys.argv else BY_NAME:
        make(BY_NAME[name])
    if "--kept" not in sys.argv:
        make_framework(Framework("magentic", "magentic", ("magentic==0.41.1",)))
