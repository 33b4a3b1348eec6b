"""Tries programs: each records a run and replays it now, on the next day, elsewhere, as another user, broken, explored.

`python -m tests.works_with.trial [NAME …]` tries them in a network namespace without a way out, and writes what was
seen to `.scratch/works-with/NAME.json`. `--quick NAME …`, for CI, leaves out the exploration, writes nothing, and
fails if a program does.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from .catalog import BY_NAME, PROGRAMS_FOLDER, ROOT, TriedProgram
from .model import serving_model
from .namespace import run_inside

RESULTS = ROOT / ".scratch/works-with"
PLACES = Path("/var/tmp/offbook-works-with")
"""Where programs work: outside of any repository, which they would tell their models of."""
OFFBOOK = Path(sys.executable).parent / "offbook"
LIMIT_S = 180
EXPLORE_LIMIT_S = 600
WORKS, RETRIES, GIVES_UP = "yes", "it retries", "it gives up"
COLUMNS = ("record", "replay now", "next day", "other folder", "other user", "fault", "explore", "cases/s")
TOMORROW = ROOT / "tests/explore/zoo/tomorrow.c"
KEYS = {"OPENAI_API_KEY": "sk-none", "ANTHROPIC_API_KEY": "sk-ant-none", "GEMINI_API_KEY": "none"}
NEXT_DAY_ZONE = "LATER-23:59"
"""A time zone in which it is tomorrow, for programs that nothing can be preloaded into."""


class Place:
    """A folder to work in and a home, both empty at first."""

    def __init__(self, root: Path, folder: str, home: str) -> None:
        self.folder, self.home = root / folder, root / home

    def clear(self, *, keeps_home: bool) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        if not keeps_home:
            shutil.rmtree(self.home, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.home.mkdir(parents=True, exist_ok=True)

    def has_file(self) -> bool:
        return (self.folder / "hello.txt").exists()


class Trial:
    """The runs of one program."""

    def __init__(self, program: TriedProgram, root: Path) -> None:
        self._program, self._root = program, root
        self._here = Place(root, "work/project", "home/one")
        self._recording = root / "run.json"

    def cells(self, *, explores: bool) -> Iterator[tuple[str, str]]:
        """Yield what was seen, by the title of its column. Nothing is replayed that was not recorded."""
        program, here = self._program, self._here
        calls = json.loads(json.dumps(program.calls).replace("{folder}", str(here.folder)))
        with serving_model(calls, program.says) as url:
            upstream = ["--upstream", f"{program.upstream}={url}"] if program.upstream else []
            record = self._exec(here, ["--record", str(self._recording), *upstream], self._upstream(url))
        yield "record", record
        if record != WORKS:
            return
        replay = ["--replay", str(self._recording), "--strict-unused"]
        yield "replay now", self._exec(here, replay)
        yield "next day", self._exec(here, replay, self._tomorrow())
        yield "other folder", self._exec(Place(self._root, "elsewhere/copy", "home/one"), replay)
        yield "other user", self._exec(Place(self._root, "work/project", "users/two"), replay)
        yield "fault", self._fault()
        if explores:
            yield from self._explore()

    def _exec(self, place: Place, options: list[str], variables: Mapping[str, str] = {}) -> str:
        """Run the program once, and return whether it did its work, there and nowhere else; else why not."""
        self._here.clear(keeps_home=True)
        place.clear(keeps_home=place.home == self._here.home)
        ended = self._run("exec", place, options, variables)
        if ended.returncode:
            return _reason(ended)
        if self._program.writes and not place.has_file():
            return f"it wrote {'to the folder of the recording' if self._here.has_file() else 'nothing'}"
        return "it also wrote elsewhere" if place.folder != self._here.folder and self._here.has_file() else WORKS

    def _fault(self) -> str:
        """Return whether a fault at the last call fires, and nothing is asked that is not recorded."""
        entries = [each for key, each in json.loads(self._recording.read_text()).items() if not key.startswith("_")]
        call = sum(len(each) if isinstance(each, list) else 1 for each in entries)
        self._here.clear(keeps_home=True)
        report = self._root / "report.json"
        fault = ["--replay", str(self._recording), "--fault", f"call={call} attempt=1: http_error 500"]
        self._run("exec", self._here, [*fault, "-o", "retry_after_ms=1", "--report", str(report)])
        if not report.exists():
            return "it did not end"
        document = json.loads(report.read_text())
        if document["misses"]:
            return "it then asked what is not recorded"
        tries = document["counts"]["tries"] - document["counts"]["calls"]
        return (RETRIES if tries else GIVES_UP) if document["faults"]["fired"] else "the fault never fired"

    def _explore(self) -> Iterator[tuple[str, str]]:
        self._here.clear(keeps_home=True)
        report, began = self._root / "exploration.json", time.monotonic()
        template = self._root / "template"
        template.mkdir()
        options = ["--replay", str(self._recording), "--report", f"json={report}"]
        options += ["--workdir", str(template), "--budget", "20"]
        ended = self._run("explore", self._here, options, limit_s=EXPLORE_LIMIT_S)
        took_s = time.monotonic() - began
        if not report.exists():
            yield "explore", _reason(ended)
            return
        document = json.loads(report.read_text())
        tally: dict[str, int] = document["tally"]
        yield "explore", ", ".join(f"{count} {verdict}" for verdict, count in sorted(tally.items()))
        yield "cases/s", f"{sum(tally.values()) / took_s:.1f}"

    def _run(
        self,
        command: str,
        place: Place,
        options: list[str],
        variables: Mapping[str, str] = {},
        *,
        limit_s: float = LIMIT_S,
    ) -> subprocess.CompletedProcess[str]:
        program = self._program
        words = [str(OFFBOOK), command, *options, "--", str(program.executable), *program.words[1:]]
        paths = [PROGRAMS_FOLDER / "node/node_modules/.bin", *map(Path, os.environ["PATH"].split(":"))]
        environment = {
            "PATH": ":".join(map(str, paths)),
            "HOME": str(place.home),
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            **KEYS,
            **program.environment,
            **variables,
        }
        try:
            return subprocess.run(
                words,
                cwd=place.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(words, 124, "", f"it took more than {limit_s} s")

    @staticmethod
    def _upstream(url: str) -> dict[str, str]:
        return {"OPENAI_BASE_URL": f"{url}/v1", "ANTHROPIC_BASE_URL": url}

    def _tomorrow(self) -> dict[str, str]:
        if self._program.is_static:
            return {"TZ": NEXT_DAY_ZONE}
        library = self._root / "tomorrow.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, TOMORROW], check=True)
        return {"LD_PRELOAD": str(library)}


def _reason(ended: subprocess.CompletedProcess[str]) -> str:
    """Return why a run failed, in a line: what differed first, or the last that was said."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", ended.stderr)
    changed = [line.strip() for line in text.splitlines() if re.match(r"  [-+]", line)]
    if changed:
        return f"asked {changed[-1][1:].strip()[:80]}"
    lines = [line for line in text.splitlines() if line.strip()] or [f"exit {ended.returncode}"]
    return lines[-1].strip()[:120]


def try_program(program: TriedProgram, root: Path, *, explores: bool) -> dict[str, str]:
    """Try a program in the folder `root`, and return and print what was seen."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    cells = {}
    for title, cell in Trial(program, root).cells(explores=explores):
        sys.stdout.write(f"{program.name}: {title}: {cell}\n")
        sys.stdout.flush()
        cells[title] = cell
    return cells


def is_fine(cell: str) -> bool:
    """Return whether a cell shows no failure."""
    return cell in (WORKS, RETRIES, GIVES_UP, "") or cell[0].isdigit()


if __name__ == "__main__":
    run_inside(__spec__.name)
    is_quick, names = "--quick" in sys.argv, [word for word in sys.argv[1:] if not word.startswith("-")]
    if is_quick:
        seen = [try_program(BY_NAME[name], PLACES / f"quick-{name}", explores=False) for name in names]
        sys.exit(
            not all(len(cells) == COLUMNS.index("explore") and all(map(is_fine, cells.values())) for cells in seen)
        )
    RESULTS.mkdir(parents=True, exist_ok=True)
    for name in names or BY_NAME:
        found = {"version": BY_NAME[name].version, "cells": try_program(BY_NAME[name], PLACES / name, explores=True)}
        (RESULTS / f"{name}.json").write_text(json.dumps(found, indent=2))
