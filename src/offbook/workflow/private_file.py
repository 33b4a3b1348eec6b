"""Files that are for the eyes of their owner alone."""

from __future__ import annotations

import os
from pathlib import Path


def write_private(path: Path, data: bytes) -> None:
    """Put a file in its place whole or not at all; only its owner may read it.

    Raises:
        OSError: it cannot be written.
    """
    following = path.with_name(path.name + ".next")
    fd = os.open(following, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(fd, "wb") as file:  # noqa: PTH123 - a file descriptor has no path
        file.write(data)
    following.replace(path)
