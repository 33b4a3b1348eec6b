"""A place beside a recording, for what is on its way there."""

from __future__ import annotations

import os
import stat
from itertools import count
from pathlib import Path


def claim_sibling(path: Path) -> Path:
    """A new file beside `path`, which is there, and as private: empty, and named like `run.json.fresh-1`.

    Raises:
        OSError: it cannot be made.
    """
    mode = stat.S_IMODE(path.stat().st_mode) | 0o600
    numbers = count(1)
    while True:
        sibling = path.with_name(f"{path.name}.fresh-{next(numbers)}")
        try:
            os.close(os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode))
        except FileExistsError:  # of a run that is under way, or was cut off
            continue
        return sibling
