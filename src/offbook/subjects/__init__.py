"""Subjects of explorations (functions, programs, workflows, scenarios), executors of cases, regression files."""

from __future__ import annotations

import os

from offbook.files import read_regular

FILE_START = b'{\n  "offbook": "regression"'
"""The file type's first bytes."""


def is_regression(path: str | os.PathLike[str]) -> bool:
    """Return whether a file starts like a regression; False if it cannot be read."""
    try:
        return read_regular(path, limit=len(FILE_START)) == FILE_START
    except OSError:
        return False
