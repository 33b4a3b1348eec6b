"""Makes the environments of the frameworks, and keeps those whose requirements are the same: `make works-with`."""

from __future__ import annotations

import subprocess
import sys
import venv

from .catalog import ENVIRONMENTS, FRAMEWORKS, Framework

STAMP = "requirements.txt"


def make(framework: Framework) -> None:
    """Make the environment of a framework, unless it is there as required."""
    folder = ENVIRONMENTS / framework.name
    required = "\n".join(framework.requirements)
    stamp = folder / STAMP
    if stamp.exists() and stamp.read_text() == required:
        return
    sys.stderr.write(f"Making {folder}; this takes a moment, once.\n")
    venv.create(folder, with_pip=True, clear=True)
    install = [folder / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*install, *framework.requirements], check=True)
    stamp.write_text(required)


if __name__ == "__main__":
    for each in FRAMEWORKS:
        make(each)
