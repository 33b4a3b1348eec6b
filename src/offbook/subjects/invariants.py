"""Invariants: what must hold for every run, as functions in a file of the user."""

from __future__ import annotations

from pathlib import Path

from offbook.config.modules import execute, modules_of
from offbook.errors import InputError
from offbook.explore.verdict import Invariant

START = "invariant_"


def load_invariants(file: str) -> list[Invariant]:
    """The functions of a Python file whose names start with `invariant_`, in order. Each takes a Run.

    Raises:
        InputError: the file is not there, cannot be imported, or has no such function.
    """
    path = Path(file)
    if not path.is_file():
        raise InputError("there is no such file", source=file)
    with modules_of([path.resolve().parent]):
        module = execute(path.resolve())
    found = [value for name, value in vars(module).items() if name.startswith(START) and callable(value)]
    if not found:
        hint = "def invariant_one_refund(run):\n        assert run.side_effects['refund'] <= 1"
        raise InputError(f"it has no function whose name starts with {START}", source=file, hint=hint)
    return found
