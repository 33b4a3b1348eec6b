"""The process of an explored program: its deadline, its ending, and its reported errors and effects."""

from __future__ import annotations

import builtins
import os
import re
import shutil
import sys
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from math import inf
from pathlib import Path
from threading import Lock

from msgspec import Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError
from offbook.explore.monitor import is_own_file
from offbook.explore.observer import RunObserver
from offbook.explore.options import ANSWER_WAIT_S
from offbook.explore.run import is_api_error
from offbook.tools.child_process import ChildProcess, program_hint
from offbook.tools.effects import Effect, parse_effects, read_effect_lines, split_reached

MAX_OUTPUT_BYTES = 1024 * 1024
"""The number of kept bytes of each output, from its start."""


class ProgramExit(Struct, frozen=True):
    """The end of a program: its exit code, -N if signal N ended it, None if it was killed from here."""

    code: int | None
    stdout: str
    stderr: str


class ProgramProcess:
    """A run of a program that can be killed from another thread, even before it has started.

    It inherits further open `files`, by their numbers, and works in `folder`, by default here.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        files: Sequence[int] = (),
        *,
        folder: Path | None = None,
    ) -> None:
        self._command, self._environment, self._files, self._folder = command, environment, files, folder
        self._child: ChildProcess | None = None
        self._is_killed = False

    def run(self, left_s: Callable[[], float]) -> ProgramExit:
        """Run it until it ends, at most as long as `left_s` returns more than 0: how long it may go on from now.

        Raises:
            InputError: it cannot be started.
        """
        child = self._child = self._start()
        if self._is_killed:
            child.kill()
        while (more_s := left_s()) > 0 and not child.has_ended_within(more_s):
            pass
        code = child.end()
        return ProgramExit(None if self._is_killed else code, child.stdout.text, child.stderr.text)

    def kill(self) -> None:
        """Kill it now, or as soon as it starts. May be called from any thread, and after it has ended."""
        self._is_killed = True
        if self._child is not None:
            self._child.kill()

    def _start(self) -> ChildProcess:
        try:
            return ChildProcess(
                self._command,
                environment=self._environment,
                limit_bytes=MAX_OUTPUT_BYTES,
                folder=self._folder,
                files=self._files,
            )
        except OSError as error:
            reason = "there is no such program" if isinstance(error, FileNotFoundError) else error.strerror
            name = self._command[0]
            raise InputError(f"it cannot be started: {reason}", source=name, hint=program_hint(name)) from None


def check_command(command: Sequence[str]) -> None:
    """Raise InputError if the program does not exist, without starting it."""
    if command and shutil.which(command[0]) is None and not Path(command[0]).exists():
        reason, hint = "it cannot be started: there is no such program", program_hint(command[0])
        raise InputError(reason, source=command[0], hint=hint)


CLEAN_RUN_S = 60.0
"""The minimum of seconds that the clean run may go without a call, when the program's pace is unknown."""

START_S = 300.0
"""The same before the first call: libraries are loaded then, and nothing is compiled or cached."""

SLOWNESS = 10.0
"""The factor of the clean run's time that a program may go without a call."""

MAX_WAITS = 6
"""The default factor for a whole run, because an agent may meet several of its own timeouts."""


class Patience:
    """Time limits of a program's runs, judged by their durations on this machine.

    A run may wait `wait_s` for a held answer. Otherwise it may go without a call for at least as long, and for ten
    times as long as the clean run, or as recent runs under load. With a `deadline_s` this is also the limit of the
    whole run.
    """

    def __init__(self, deadline_s: float | None = None) -> None:
        self.wait_s = ANSWER_WAIT_S if deadline_s is None else deadline_s
        self._deadline_s = deadline_s
        self._clean_s: float | None = None
        self._recent_s: deque[float] = deque(maxlen=3)

    def note(self, took_s: float) -> None:
        """Note the duration of a run that ended by itself. The first one is the clean run."""
        if self._clean_s is None:
            self._clean_s = took_s
        self._recent_s.append(took_s)

    @property
    def idle_s(self) -> float:
        """Seconds that a run may continue without a call."""
        if self._clean_s is None:
            return max(self.wait_s, CLEAN_RUN_S)
        return max(self.wait_s, SLOWNESS * max(self._clean_s, min(self._recent_s)))

    @property
    def start_s(self) -> float:
        """Seconds that a run may continue before its first call."""
        return max(self.wait_s, START_S) if self._clean_s is None else self.idle_s

    @property
    def total_s(self) -> float:
        """The time limit of a whole run, in seconds."""
        return self.idle_s * MAX_WAITS if self._deadline_s is None else self.idle_s

    @property
    def knows_pace(self) -> bool:
        """Whether the clean run has ended."""
        return self._clean_s is not None

    def copy(self) -> Patience:
        """Return one with the same deadline and no known runs."""
        return Patience(self._deadline_s)


class RunClock:
    """The remaining time of one run of a program, by the clock of its calls.

    `hung` names what it waited for when its time ended.
    """

    def __init__(
        self, patience: Patience, observer: RunObserver, *, now_s: Callable[[], float] = SYSTEM_CLOCK.monotonic_s
    ) -> None:
        self._patience, self._observer, self._now_s = patience, observer, now_s
        self._started_s = now_s()
        self.hung = ""

    @property
    def took_s(self) -> float:
        return self._now_s() - self._started_s

    def idle_s(self, patience: Patience) -> float:
        """Return the seconds that it may go on without a call, where nothing is held back."""
        return patience.start_s if self._observer.last_call is None else patience.idle_s

    @property
    def due_s(self) -> float:
        """The presently known moment until which it may run."""
        patience, last = self._patience, self._observer.last_call
        limit_s = self.idle_s(patience) if self._observer.pending is None else patience.wait_s
        since_s = self._started_s if last is None else max(self._started_s, last.at_s)
        most_s = patience.total_s + self._observer.tools_took_s  # a tool that takes long is not the program's doing
        return min(limit_s + since_s, self._started_s + most_s)

    def left_s(self) -> float:
        """Return how long it may run until the next call of this: 0 or less if it has hung."""
        left_s = self.due_s - self._now_s()
        if left_s <= 0:
            self.hung = self.hung_text()
        return min(left_s, self._patience.wait_s)

    def hung_text(self, *, sleeps_s: float = inf) -> str:
        """Describe the wait that is too long. It would end by itself after `sleeps_s`, if that is known."""
        pending, last = self._observer.pending, self._observer.last_call
        wait_s, total_s = self._patience.wait_s, self._patience.total_s
        if (
            pending is not None
            and pending.is_retry
            and last is not None
            and last.at_s + wait_s > self._started_s + total_s
        ):
            return pending.retrying_text(total_s)
        if pending is not None:
            return pending.waiting_text(wait_s)
        idle_s = self.idle_s(self._patience)
        is_plain = idle_s == wait_s or not self._patience.knows_pace
        long = f"{idle_s:g} s" if is_plain else "more than ten times as long as without a fault"
        if last is None or last.at_s < self._started_s:
            return f"it had made no call after {long}"
        if last.has_server_ended:
            return f"it had not ended {long} after {last.name}, whose server ended without an answer"
        allowed_s = round(self.due_s - last.at_s, 1)
        if 0 < allowed_s < sleeps_s < inf:  # and not for shorter times, again and again
            hint = f"longer than {allowed_s:g} s: it needs a shorter pause, or -o deadline=SECONDS"
            return f"it sleeps for {round(sleeps_s, 1):g} s after {last.name}, {hint}"
        return f"it had not ended {long} after {last.name}, and was not waiting for an answer"


MAX_ERROR_CHARS = 500
_ERROR_LINE = re.compile(r"(?:Uncaught )?[\w.$]*(?:Error|Exception|Timeout|Interrupt|Fault)\b.*")
_ERROR_NAME = re.compile(r"(?:Uncaught )?([A-Za-z_$][\w.$]*)(?: \[[^\]]*\])?(?:: .*|:)?")


def error_line(stderr: str) -> str:
    """Return the last line that names an error, else the last line, or "".

    Of an exception group, it is the first error's.
    """
    lines = _lines(_without_group(stderr))
    named = [line for line in lines if _ERROR_LINE.fullmatch(line)]
    return (named or lines or [""])[-1][:MAX_ERROR_CHARS]


def named_error(stderr: str, names: Collection[str]) -> str:
    """Return which of these names is the class of the error that ended a program, according to its output, or "".

    A name is that of the class, with or without its module. Base classes are unknown, because the output does not show
    them.
    """
    match = _ERROR_NAME.fullmatch(_ending_line(stderr))
    found = () if match is None else (match[1], match[1].rpartition(".")[2])
    return next((name for name in found if name in names), "")


_TRACEBACK = "Traceback (most recent call last):"


def _ending_line(stderr: str) -> str:
    """Return the line below the last traceback of Python, or above the last stack of JavaScript, else `error_line`."""
    _, found, after = _without_group(stderr).rpartition(_TRACEBACK)
    if found:
        return next((line.strip() for line in after.splitlines() if line.strip() and not line[0].isspace()), "")
    lines = _lines(stderr)
    above_stack = [line for line, below in pairwise(lines) if below.startswith("at ") and not line.startswith("at ")]
    return above_stack[-1] if above_stack else error_line(stderr)


_OTHER_TRACES = re.compile(
    r"^(?:panic: |fatal error: |thread '.*' panicked at |Exception in thread \"|Unhandled exception[.:]"
    r"|PHP Fatal error:  Uncaught |\S+\.rb:\d+:in .*\(\w+(?:Error|Exception)\)$)",
    re.MULTILINE,
)
"""The beginnings of traces of Go, Rust, Java, .NET, PHP and Ruby."""

_NODE_END = re.compile(r"^Node\.js v[\d.]+\s*\Z", re.MULTILINE)
_NODE_SDK = re.compile(
    r"node_modules/(?:openai|ollama|ai|groq-sdk|@(?:anthropic-ai|google|aws-sdk|smithy|ai-sdk|mistralai))/"
)
_NODE_BUGS = re.compile(r"(?:Uncaught )?(?:Type|Reference|Syntax|Range|Eval|URI|Assertion)?Error\b")


def is_crash(stderr: str, code: int) -> bool:
    """Return whether a non-zero exit code means an uncaught error, whose trace ends the output.

    An escaped error of a vendor's SDK is a way to give up, and so is an exit without a trace.
    """
    if code < 0:
        return True
    if _NODE_END.search(stderr):
        stack = next((line for line in _lines(stderr) if line.startswith("at ")), "")
        return _NODE_BUGS.match(_ending_line(stderr)) is not None or _NODE_SDK.search(stack) is None
    after = _after_traceback(stderr)
    if not after:
        return _OTHER_TRACES.search(stderr) is not None
    if code != 1:  # Python's exit code for an uncaught error
        return False
    module, _, name = after[0].partition(":")[0].rpartition(".")
    return not is_api_error(module, name)


_FRAME = re.compile(r'^ *File "([^"]+)", line \d+', re.MULTILINE)
_FOLDERS_ABOVE = 4


def is_own_error(stderr: str) -> bool:
    """Return whether the uncaught error is of a class that the program itself defines.

    In Python, it has no module, as those of `__main__`, or one whose file is in the folder of a file of the traceback
    or above it. In JavaScript, it is not one of the language, of Node or of a package.
    """
    name = _ERROR_NAME.fullmatch(_ending_line(stderr))
    if name is None or _NODE_BUGS.match(name[1]):
        return False
    if _NODE_END.search(stderr):
        stack = next((line for line in _lines(stderr) if line.startswith("at ")), "node:")
        return "node_modules/" not in stack and "node:" not in stack and name[1] != "AggregateError"
    module, _, bare = name[1].rpartition(".")
    if not module:
        return _TRACEBACK in stderr and not hasattr(builtins, bare)
    if module.partition(".")[0] in {*sys.stdlib_module_names, "offbook"}:
        return False
    return any(_has_module(Path(file), module) for file in dict.fromkeys(_FRAME.findall(stderr)) if is_own_file(file))


def _has_module(file: Path, module: str) -> bool:
    """Return whether a module is in the folder of a file, or in one above it."""
    inside = Path(*module.split("."))
    paths = [folder / inside for folder in file.parents[:_FOLDERS_ABOVE]]
    return any(each.with_suffix(".py").is_file() or (each / "__init__.py").is_file() for each in paths)


def _after_traceback(stderr: str) -> list[str]:
    """Return the lines of the error whose Python traceback ends the output, or none if other output follows."""
    _, found, after = _without_group(stderr).rpartition(_TRACEBACK)
    lines = [line for line in after.splitlines() if line.strip()] if found else []
    start = next((place for place, line in enumerate(lines) if not line[0].isspace()), len(lines))
    error = lines[start:]
    # The message of an error may go on, as pydantic's does, with lines that are set in. A line at the end that is not
    # is what the program has said after it had logged the traceback.
    return error if len(error) == 1 or (error and error[-1][0].isspace()) else []


_GROUP = f"Exception Group {_TRACEBACK}"
_NEXT_IN_GROUP = re.compile(r"^ *\+-+ (?!1 )[\d.]+ -+$", re.MULTILINE)
_MARGIN = re.compile(r"^ *(?:\| ?|\+[-+ \d.]*$)", re.MULTILINE)


def _without_group(stderr: str) -> str:
    """Return the output; if it ends with an exception group, the first error in it, without the margin of the group."""
    _, found, group = stderr.rpartition(f"  + {_GROUP}")
    if not found or f"\n{_TRACEBACK}" in group:
        return stderr
    first = _NEXT_IN_GROUP.split(group, maxsplit=1)[0]
    return _MARGIN.sub("", first).replace(_GROUP, "")


def _lines(stderr: str) -> list[str]:
    return [line.strip() for line in stderr.splitlines() if line.strip()]


FOLDER_VARIABLES = ("$TMPDIR", "${TMPDIR}")
"""Prefixes of paths in the folder for temporary files of a run."""


class Ledger:
    """A file to which a program adds a line of JSON for each of its effects.

    A path that starts with `$TMPDIR` is in each run's own temporary folder. Any other is one file for all runs, which
    therefore happen one at a time: see `exclusive`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        prefix = next((each for each in FOLDER_VARIABLES if path.startswith(f"{each}/")), None)
        self._inside = None if prefix is None else path.removeprefix(prefix).lstrip("/")
        self._lock = Lock()

    def exclusive(self) -> AbstractContextManager[object]:
        """Return a block that only one run at a time is in, if all runs share the file."""
        return self._lock if self._inside is None else nullcontext()

    def start(self, folder: Path) -> LedgerPart:
        """Return the part of the file that a run adds, whose temporary folder is `folder`."""
        path = Path(self.path) if self._inside is None else folder / self._inside
        return LedgerPart(self.path, path, path.stat().st_size if path.is_file() else 0)


class LedgerPart(Struct, frozen=True):
    """The part of a ledger that a run adds: everything after `start` bytes, or all of it if the file is now shorter."""

    name: str
    path: Path
    start: int

    def effects(self, *, is_cut_off: bool) -> list[Effect]:
        """Return the effects that were added.

        Raises:
            InputError: the file cannot be read, or a line is not an effect.
        """
        try:
            data = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise InputError(error.strerror or str(error), source=self.name) from None
        start = self.start if len(data) >= self.start else 0
        lines_before = data[:start].count(b"\n")
        return read_effect_lines(data[start:], source=self.name, is_cut_off=is_cut_off, first_line=lines_before + 1)


class EffectCounter:
    """Counts the effects in a growing file after its first `start` bytes, without reading counted ones again."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self._path, self._start = path, start
        self._position, self._counted = start, 0

    def count(self) -> int:
        """Return the number of effects so far, without invalid lines."""
        lines, newline, rest = self._read_new().rpartition(b"\n")
        self._position += len(lines) + len(newline)
        self._counted += sum(map(_count_in, lines.split(b"\n")))
        return self._counted + _count_in(rest)

    def _read_new(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                if size < self._position:  # the program has written it again
                    self._position, self._counted = self._start if size >= self._start else 0, 0
                file.seek(self._position)
                return file.read()
        except OSError:
            return b""


def _count_in(line: bytes) -> int:
    try:
        return len(split_reached(parse_effects(line, source=""))[0]) if line.strip() else 0
    except InputError:
        return 0


class RunFiles:
    """The files of one run: its folder for temporary files, and where it reports its effects."""

    def __init__(self, folder: str, ledger: Ledger | None) -> None:
        self.temporary = Path(folder) / "tmp"
        self.temporary.mkdir()
        self.mcp_config = Path(folder) / "mcp.json"
        self.effects = LedgerPart("OFFBOOK_EFFECTS", Path(folder) / "effects.jsonl", 0)
        self._parts = [self.effects] if ledger is None else [self.effects, ledger.start(self.temporary)]
        self._counters = [EffectCounter(part.path, part.start) for part in self._parts]

    def read_effects(self, *, is_cut_off: bool) -> list[Effect]:
        """Return the effects in the files, those of the ledger last."""
        return [effect for part in self._parts for effect in part.effects(is_cut_off=is_cut_off)]

    def count_effects(self) -> int:
        """Return the number of effects in the files so far. Invalid lines are refused when the run has ended."""
        return sum(counter.count() for counter in self._counters)
