"""What is fuzzed: a target has valid inputs, and is fed what was made of them."""

from __future__ import annotations

import contextlib
import io
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

from offbook.cli.main import main

EXIT_CODES = (0, 1, 2, 3)
_CONTROLS = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class DefectError(Exception):
    """What a target did is wrong although it did not fail."""


class Target(ABC):
    """Reads what others wrote. Any error that is not one of ours is a defect, as is taking too long.

    It has a folder of its own for the files that it reads. `corpus` has valid inputs.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.corpus = self.valid_inputs()

    @abstractmethod
    def valid_inputs(self) -> Sequence[bytes]:
        """Return valid inputs, and make the files that they need."""

    @abstractmethod
    def feed(self, data: bytes) -> None:
        """Read an input."""

    def close(self) -> None:
        """Release what it holds, and complain of what has gone wrong unseen."""

    def put(self, name: str, data: bytes) -> str:
        """Write a file of the folder, and return its path."""
        path = self.folder / name
        path.write_bytes(data)
        return str(path)


def choose(data: bytes, options: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return one of the options, always the same for the same data."""
    return options[crc32(data) % len(options)]


def run_command(*arguments: str) -> int:
    """Run `offbook` in this process, and return its exit code.

    Raises:
        DefectError: it exits with a code that is not documented, or prints what a terminal would act on.
    """
    printed = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    before, sys.argv = sys.argv, ["offbook", *arguments]
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            code = _exit_code()
    finally:
        sys.argv = before
    text = printed.buffer.getvalue().decode("utf-8", "surrogateescape")
    if code not in EXIT_CODES or "Traceback" in text:
        raise DefectError(f"{' '.join(arguments)} exits with {code}: {text[-500:]}")
    if found := _CONTROLS.search(text):
        raise DefectError(
            f"{' '.join(arguments)} prints {found[0]!r}: {text[max(0, found.start() - 80) : found.end()]!r}"
        )
    return code


def _exit_code() -> int:
    try:
        main()
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1 if ending.code else 0
    return 0
