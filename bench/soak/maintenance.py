"""Maintenance beside live recorders: edits recordings while other processes append to them, and counts what is lost."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from itertools import count
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Event, Thread

from bench.soak.front import Outcome, rounds
from offbook.cli.commands.recording.edit import OnConflict, merge, prune, redact
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import ReplaceOnCloseWriter

LOCATIONS = ("{}/run.json", "sqlite:///{}/run.db")
WRITERS = 2
CALLS_A_CLOSE = 25
SPOILED = Exchange(content="sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGH")


def attack(*, seconds: float, seed: int) -> Outcome:
    """Attack each kind of store for an equal part of the time."""
    outcome, random = Outcome(unit="calls"), Random(seed)
    for location in LOCATIONS:
        with TemporaryDirectory(prefix="offbook-soak-") as folder:
            outcome.add(_attack(location.format(folder), seconds / len(LOCATIONS), random))
    return outcome


def _attack(location: str, seconds: float, random: Random) -> Outcome:
    outcome = Outcome(unit="calls")
    open_store(location).write().close()
    writers = [_start_writer(location, name) for name in range(WRITERS)]
    _maintain(location, seconds, random)
    counts = [int(writer.communicate(b"")[0]) for writer in writers]
    document = open_store(location).load()
    for name in (f"{writer}-{number}" for writer, total in enumerate(counts) for number in range(total)):
        outcome.trials += 2
        for kind, entries in (("model", document.entries), ("tool", document.tools)):
            if name not in entries:
                outcome.lose(f"{location}: the {kind} call {name} is gone")
    return outcome


def _maintain(location: str, seconds: float, random: Random) -> None:
    """Run one maintenance command after another."""
    commands: tuple[Callable[[], None], ...] = (
        lambda: prune([location], key=["doomed"]),
        lambda: redact([location]),
        lambda: merge([location], location, on_conflict=OnConflict.append, force=True),
        lambda: _record_again(location),
    )
    with redirect_stdout(StringIO()):
        for _ in rounds(seconds):
            _spoil(location)
            random.choice(commands)()


def _record_again(location: str) -> None:
    """Replace what was spoiled, in the mode `all`."""
    writer = ReplaceOnCloseWriter(open_store(location), "models", "all")
    writer.append("spoiled", Exchange(content="again"))
    writer.close()


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
