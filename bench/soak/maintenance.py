"""Maintenance beside live recorders: edits recordings while other processes append to them, and counts what is lost."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from itertools import count, cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

from bench.soak.front import Outcome
from offbook.cli.commands.recording.edit import OnConflict, merge, prune, redact
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.tool_exchange import ToolExchange
from offbook.recording.stores.locate import open_store

LOCATIONS = ("{}/run.json", "sqlite:///{}/run.db")
WRITERS = 2
CALLS_A_CLOSE = 25
SPOILED = Exchange(content="sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")


def attack(*, seconds: float, seed: int) -> Outcome:
    """Attack each kind of store for an equal part of the time. The seed decides which is first."""
    outcome = Outcome(unit="calls")
    for location in LOCATIONS if seed % 2 else LOCATIONS[::-1]:
        with TemporaryDirectory(prefix="offbook-soak-") as folder:
            recorded, lost = _attack(location.format(folder), seconds / len(LOCATIONS))
        outcome.trials += recorded
        if lost:
            outcome.lose(f"{location}: {lost:,} of {recorded:,} calls are not in the recording", times=lost)
    return outcome


def _attack(location: str, seconds: float) -> tuple[int, int]:
    open_store(location).write().close()
    writers = [_start_writer(location, name) for name in range(WRITERS)]
    _maintain(location, time.monotonic() + seconds)
    counts = [int(writer.communicate(b"")[0]) for writer in writers]
    document = open_store(location).load()
    names = [f"{writer}-{number}" for writer, total in enumerate(counts) for number in range(total)]
    lost = sum((name not in document.entries) + (name not in document.tools) for name in names)
    return 2 * len(names), lost


def _maintain(location: str, until_s: float) -> None:
    """Run one maintenance command after another."""
    commands: tuple[Callable[[], None], ...] = (
        lambda: prune([location], key=["doomed"]),
        lambda: redact([location]),
        lambda: merge([location], location, on_conflict=OnConflict.append, force=True),
    )
    with redirect_stdout(StringIO()):
        for command in cycle(commands):
            _spoil(location)
            command()
            if time.monotonic() > until_s:
                return


def _spoil(location: str) -> None:
    """Add something for each command to change."""
    writer = open_store(location).write()
    writer.append("doomed", SPOILED)
    writer.append("spoiled", SPOILED)
    writer.close()


def _start_writer(location: str, name: int) -> subprocess.Popen[bytes]:
    call = "import sys; from bench.soak.maintenance import write_until_stopped as write; write(*sys.argv[1:])"
    command = [sys.executable, "-c", call, location, str(name)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


def write_until_stopped(location: str, name: str) -> None:
    """Append a model call and a tool call under each next number until stdin ends, and print how many."""
    stopped = Event()
    Thread(target=_set_at_end_of_input, args=(stopped,), daemon=True).start()
    store = open_store(location)
    writer = store.write()
    for number in count(1):
        writer.append(f"{name}-{number - 1}", Exchange(content="kept"))
        writer.append_tool(f"{name}-{number - 1}", ToolExchange(result="kept"))
        if number % CALLS_A_CLOSE == 0:
            writer.close()
        if stopped.is_set():
            break
    writer.close()
    Path("/dev/stdout").write_text(str(number), encoding="utf-8")


def _set_at_end_of_input(stopped: Event) -> None:
    sys.stdin.read()
    stopped.set()
