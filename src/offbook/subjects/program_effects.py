"""Where a program reports its side effects: a file of the run, and a ledger that the program keeps anyway."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from threading import Lock

from msgspec import Struct

from offbook.effects import Effect, read_effect_lines
from offbook.errors import InputError

_FOLDER_VARIABLES = ("$TMPDIR", "${TMPDIR}")


class Ledger:
    """A file to which a program adds a line of JSON for each of its effects.

    A path that starts with `$TMPDIR` is in the folder for temporary files that each run has. Any other is one file for
    all runs, which therefore happen one after the other: see `exclusive`.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        prefix = next((each for each in _FOLDER_VARIABLES if path.startswith(f"{each}/")), None)
        self._inside = None if prefix is None else path.removeprefix(prefix).lstrip("/")
        self._lock = Lock()

    def exclusive(self) -> AbstractContextManager[object]:
        """Return a block that only one run at a time is in, if all runs share the file."""
        return self._lock if self._inside is None else nullcontext()

    def start(self, folder: Path) -> LedgerPart:
        """Return the part of the file that a run adds, whose folder for temporary files is `folder`."""
        path = Path(self.path) if self._inside is None else folder / self._inside
        return LedgerPart(self.path, path, path.stat().st_size if path.is_file() else 0)


class LedgerPart(Struct, frozen=True):
    """What a run adds to a ledger: what comes after its first `start` bytes; all of it if the file is now shorter."""

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
        return read_effect_lines(b"\n" * lines_before + data[start:], source=self.name, is_cut_off=is_cut_off)


class EffectFile(Struct, frozen=True):
    """The file of a run that OFFBOOK_EFFECTS names."""

    path: Path

    def effects(self, *, is_cut_off: bool) -> list[Effect]:
        """Return the effects that were reported. Raises InputError if a line is not an effect."""
        data = self.path.read_bytes() if self.path.exists() else b""
        return read_effect_lines(data, source="OFFBOOK_EFFECTS", is_cut_off=is_cut_off)
