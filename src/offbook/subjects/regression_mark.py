"""Telling the file of a finding from other JSON files, at little cost."""

from __future__ import annotations

import os
from pathlib import Path

MARK = b'{\n  "offbook": "regression"'
"""How such a file begins."""


def is_regression(path: str | os.PathLike[str]) -> bool:
    """Whether a file holds a regression, by how it begins; False if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return file.read(len(MARK)) == MARK
    except OSError:
        return False
