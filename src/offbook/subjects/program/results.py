"""The products of a program besides its output: its files, and a command that checks them."""

from __future__ import annotations

import os
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from filecmp import cmp
from hashlib import sha256
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError
from offbook.explore.run import normalize_text, normalize_texts
from offbook.explore.state import content_value, state_of_path
from offbook.subjects.program.process import (
    FOLDER_VARIABLES,
    MAX_OUTPUT_BYTES,
    ProgramExit,
    ProgramProcess,
    check_command,
)
from offbook.system import lock_file
from offbook.text import shorten
from offbook.working_folder import WorkingFolder

MAX_FILES = 500
BACKUP_FOLDER = ".offbook-results"
"""The folder with the result files as they were before the exploration, until it has ended."""

_OUTSIDE_HINT = "it is relative to the working directory, or starts with $TMPDIR/"


class ResultPattern(Struct, frozen=True):
    """Result files, as they were declared: a name or a pattern in the working directory, or in $TMPDIR."""

    declared: str
    pattern: str
    is_temporary: bool

    @classmethod
    def parse(cls, declared: str) -> ResultPattern:
        """Return the pattern.

        Raises:
            InputError: it is no pattern, or it leads out of its folder.
        """
        prefix = next((each for each in FOLDER_VARIABLES if declared.startswith(f"{each}/")), "")
        pattern = declared.removeprefix(prefix).lstrip("/") if prefix else declared
        path, source = PurePosixPath(pattern), f"results={declared}"
        if not pattern.strip() or path.is_absolute() or ".." in path.parts:
            raise InputError("this is not a file in the working directory", source=source, hint=_OUTSIDE_HINT)
        try:
            next(Path().glob(pattern), None)
        except (ValueError, NotImplementedError) as error:
            raise InputError(str(error), source=source, hint="a pattern is like 'out/*.json'") from None
        return cls(declared, pattern, bool(prefix))

    def files_in(self, folder: Path) -> list[Path]:
        """Return the files in a folder, sorted, without the backup.

        Raises:
            InputError: there are too many.
        """
        found = [path for path in folder.glob(self.pattern) if path.is_symlink() or path.is_file()]
        files = sorted(path for path in found if path.relative_to(folder).parts[0] != BACKUP_FOLDER)
        if len(files) > MAX_FILES:
            reason = f"these are {len(files):,} files; at most {MAX_FILES} can be results"
            raise InputError(reason, source=f"results={self.declared}", hint="narrow the pattern")
        return files


class SharedFiles:
    """The result files in the working directory, shared by all runs. Each run finds the original ones.

    They are kept in a backup next to them until `close` has restored them, so they survive a kill.

    Raises:
        InputError: a file is a link or outside the folder, another exploration uses the folder, or a killed one
            has left its backup.
    """

    def __init__(self, patterns: Sequence[ResultPattern], folder: Path) -> None:
        self._patterns, self._folder, self._backup = patterns, folder, folder / BACKUP_FOLDER
        self._originals = [self._checked(file) for file in self.current()]
        self._lock_file = self._lock_backup()
        try:
            for file in self._originals:
                self._copy(file, self._backup_of(file))
        except OSError as error:
            shutil.rmtree(self._backup)
            raise InputError(f"it cannot be kept: {error}", source="results") from None

    def current(self) -> list[Path]:
        """Return the present files."""
        return sorted({file for pattern in self._patterns for file in pattern.files_in(self._folder)})

    def restore(self) -> None:
        """Restore the original files, and remove new ones.

        Raises:
            InputError: that is not possible; says where they are.
        """
        try:
            for file in self.current():
                if file not in self._originals:
                    file.unlink()
            for file in self._originals:
                kept = self._backup_of(file)
                if file.is_symlink() or not file.is_file() or not cmp(file, kept, shallow=False):
                    self._copy(kept, file)
        except OSError as error:
            hint = f"as it was before the exploration, it is in {self._backup}"
            raise InputError(f"it cannot be restored: {error}", source="results", hint=hint) from None

    def close(self) -> None:
        """Restore the files, and remove the backup."""
        self.restore()
        shutil.rmtree(self._backup)
        os.close(self._lock_file)

    def _checked(self, file: Path) -> Path:
        if file.is_symlink() or not file.resolve().is_relative_to(self._folder.resolve()):
            hint = "name the file itself, in the working directory"
            raise InputError(f"{file.relative_to(self._folder)} is a link", source="results", hint=hint)
        return file

    def _backup_of(self, file: Path) -> Path:
        return self._backup / file.relative_to(self._folder)

    def _lock_backup(self) -> int:
        """Create the folder of the backup, and lock it for this exploration."""
        try:
            self._backup.mkdir(exist_ok=True)
            lock = os.open(self._backup, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            lock_file(lock, wait=False)
        except BlockingIOError:
            os.close(lock)
            hint = "wait for its end, or explore in another folder, or let the program write to $TMPDIR"
            raise InputError("another exploration uses these files", source="results", hint=hint) from None
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(self._backup)) from None
        if any(self._backup.iterdir()):
            os.close(lock)
            hint = "these are the result files as they were before it: move them back, and remove the folder"
            raise InputError("an exploration was cut off here", source=str(self._backup), hint=hint)
        return lock

    @staticmethod
    def _copy(source: Path, target: Path) -> None:
        """Copy a file with its mode and times. The target is complete, or unchanged."""
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.offbook-{os.getpid()}")
        shutil.copy2(source, partial)
        partial.replace(target)


class Products(Struct, frozen=True):
    """The products of a run: its files by name, normalised, and a failed check's output.

    `missing` are the names and patterns without a file. `state` is the state at `state_of`, as JSON.
    """

    files: dict[str, str] | None = None
    missing: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    state: Any = UNSET


NO_PRODUCTS = Products()
CHECK_TIMEOUT_S = 60.0
MAX_CHECK_CHARS = 2000
EXIT_CODE_VARIABLE = "OFFBOOK_EXIT_CODE"
"""The environment variable with the program's exit code, for a check."""


class ProgramProducts:
    """A program's result files, and the command that checks a run.

    Args:
        results: names and patterns of files that the program writes.
        check: a command, split as by a shell, that fails if something is wrong after a run.
        state_of: a file or a folder that a run leaves its state in, or a command that prints it.
        working: what each run has a copy of, and works in. What it changes there are results too.

    Raises:
        InputError: one of them is invalid.
    """

    def __init__(
        self,
        results: Sequence[str] = (),
        check: str | None = None,
        state_of: str | None = None,
        *,
        working: WorkingFolder | None = None,
    ) -> None:
        self._patterns = [ResultPattern.parse(each) for each in results]
        self._check = None if check is None else _split_check(check)
        self._state = None if state_of is None else _StatePlace.parse(state_of)
        self._folder, self._lock = Path.cwd(), Lock()
        of_state = [] if self._state is None else self._state.patterns
        self._working = working
        shared = (*self._patterns, *of_state) if working is None else ()
        self._in_folder = [each for each in shared if not each.is_temporary]
        self._shared: SharedFiles | None = None
        self._checks: set[ProgramProcess] = set()
        self._is_stopped = False

    def exclusive(self) -> AbstractContextManager[object]:
        """Return a block that only one run at a time is in, if all runs share their files."""
        return self._lock if self._in_folder else nullcontext()

    def prepare(self) -> None:
        """Make the files as they were before the first run.

        Raises:
            InputError: they cannot be kept or restored.
        """
        if self._shared is not None:
            self._shared.restore()
        elif self._in_folder:
            self._shared = SharedFiles(self._in_folder, self._folder)

    def collect(
        self,
        ended: ProgramExit,
        temporary: Path,
        environment: Mapping[str, str],
        aliases: Mapping[str, str],
        copy: Path | None = None,
    ) -> Products:
        """Return the files of a run that has ended, whose texts get the aliases, and check it.

        `copy` is the folder that it has worked in.
        """
        folder = copy or self._folder
        files = {each.declared: dict(_read(each, folder, temporary, aliases)) for each in self._patterns}
        if self._working is not None:
            files["what has changed"] = self._changes(self._working, folder, aliases)
        problems = [] if self._check is None else [self._run_check(ended, environment, folder)]
        state: Any = UNSET
        if self._state is not None and self._state.command:
            state, problem = self._printed_state(self._state.command, ended, environment, aliases, folder)
            problems.append(problem)
        elif self._state is not None:
            place = temporary if self._state.is_temporary else folder
            state = normalize_texts(state_of_path(place / self._state.path), aliases)
        return Products(
            files={name: text for found in files.values() for name, text in found.items()} if files else None,
            missing=tuple(each.declared for each in self._patterns if not files[each.declared]),
            broken=tuple(normalize_text(problem, aliases) for problem in problems if problem),
            state=state,
        )

    def check_clean(self, products: Products) -> None:
        """Raise InputError if the run without a fault has not written all files."""
        for declared in products.missing:
            reason = "the run without a fault has written no such file"
            raise InputError(reason, source=f"results={declared}", hint=_OUTSIDE_HINT)
        if products.state is None:
            reason = "the run without a fault has left no such file"
            raise InputError(reason, source="state_of", hint=_OUTSIDE_HINT)

    def stop(self) -> None:
        """Kill the running checks, and later ones."""
        self._is_stopped = True
        for each in list(self._checks):
            each.kill()

    def close(self) -> None:
        """Make the files as they were before the exploration. May be called twice."""
        shared, self._shared = self._shared, None
        if shared is not None:
            shared.close()

    @staticmethod
    def _changes(working: WorkingFolder, copy: Path, aliases: Mapping[str, str]) -> dict[str, str]:
        """Return what a run has changed in its copy of a folder: by its path, what a file has, or that it is deleted.

        Files after the first 500 have one digest.
        """
        changes = working.changes(copy)
        shown, rest = list(changes.items())[:MAX_FILES], list(changes.items())[MAX_FILES:]
        files = {name: "deleted" if change == "deleted" else _content(copy / name, aliases) for name, change in shown}
        if rest:
            contents = [(name, change, change != "deleted" and _content(copy / name, aliases)) for name, change in rest]
            digest = sha256(msgspec.json.encode(contents)).hexdigest()
            files[f"and {len(rest):,} more"] = f"sha256 {digest}"
        return files

    def _run_check(self, ended: ProgramExit, environment: Mapping[str, str], folder: Path) -> str:
        """Run the check, and return what is wrong."""
        command = self._check or []
        return _problem_of("the check", command, self._run_command(command, ended, environment, folder))

    def _printed_state(
        self,
        command: list[str],
        ended: ProgramExit,
        environment: Mapping[str, str],
        aliases: Mapping[str, str],
        folder: Path,
    ) -> tuple[Any, str]:
        """Return the state that a command prints, and what is wrong if it fails."""
        printed = self._run_command(command, ended, environment, folder)
        problem = _problem_of("the command of state_of", command, printed)
        return (UNSET if problem else content_value(normalize_text(printed.stdout, aliases).encode())), problem

    def _run_command(
        self, command: list[str], ended: ProgramExit, environment: Mapping[str, str], folder: Path
    ) -> ProgramExit:
        deadline_s = SYSTEM_CLOCK.monotonic_s() + CHECK_TIMEOUT_S
        variables = {**environment, EXIT_CODE_VARIABLE: str(ended.code)}
        process = ProgramProcess(command, variables, folder=folder)
        self._checks.add(process)
        if self._is_stopped:
            process.kill()
        try:
            return process.run(lambda: deadline_s - SYSTEM_CLOCK.monotonic_s())
        finally:
            self._checks.discard(process)


def _read(
    pattern: ResultPattern, folder: Path, temporary: Path, aliases: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    place, prefix = (temporary, "$TMPDIR/") if pattern.is_temporary else (folder, "")
    for file in pattern.files_in(place):
        yield f"{prefix}{file.relative_to(place).as_posix()}", _content(file, aliases)


class _StatePlace(Struct, frozen=True):
    """The place of a program's state: a path, whose original contents each run finds, or a command that prints it."""

    path: str = ""
    is_temporary: bool = False
    patterns: tuple[ResultPattern, ...] = ()
    command: list[str] = []

    @classmethod
    def parse(cls, declared: str) -> _StatePlace:
        """Return the place. It is a command if no such file exists, and its first word is one."""
        prefix = next((each for each in FOLDER_VARIABLES if declared.startswith(f"{each}/")), "")
        words = shlex.split(declared)
        if not prefix and not Path(declared).exists() and words and shutil.which(words[0]):
            return cls(command=words)
        names = (declared, *(f"{declared}{each}" for each in _DATABASE_FILES), f"{declared.rstrip('/')}/**/*")
        patterns = tuple(ResultPattern.parse(name) for name in names)
        return cls(patterns[0].pattern, bool(prefix), patterns)


_DATABASE_FILES = ("-wal", "-shm", "-journal")
"""The side files of an open SQLite database."""


def _problem_of(what: str, command: list[str], checked: ProgramExit) -> str:
    """Return why a command failed, or ""."""
    if checked.code == 0:
        return ""
    how = f"it did not end within {CHECK_TIMEOUT_S:g} s" if checked.code is None else f"exit code {checked.code}"
    output = "\n".join(filter(None, [checked.stdout.strip(), checked.stderr.strip()]))
    said = f"\n{shorten(output, MAX_CHECK_CHARS)}" if output else ""
    return f"{what} failed ({how}): {shlex.join(command)}{said}"


def _split_check(check: str) -> list[str]:
    try:
        command = shlex.split(check)
    except ValueError as error:
        hint = "quote it for the shell, and once more for the words of the command"
        raise InputError(f"the command cannot be split: {error}", source="check", hint=hint) from None
    if not command:
        raise InputError("the command is empty", source="check", hint="python check.py")
    check_command(command)
    return command


def _content(file: Path, aliases: Mapping[str, str]) -> str:
    """Return a file's content, normalised like output, or a digest of binary or long content."""
    if file.is_symlink():
        return f"a link to {normalize_text(str(file.readlink()), aliases)}"
    data = file.read_bytes()
    try:
        text = normalize_text(data.decode(), aliases)
    except UnicodeDecodeError:
        return f"{len(data):,} bytes, sha256 {sha256(data).hexdigest()}"
    if len(text) <= MAX_OUTPUT_BYTES:
        return text
    return f"{text[:MAX_OUTPUT_BYTES]}… {len(text):,} characters, sha256 {sha256(text.encode()).hexdigest()}"
