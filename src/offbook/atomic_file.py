"""Replaces a file as a whole: whoever reads it sees the old content or the new one, never a part."""

import os
from pathlib import Path

_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def next_path(path: Path) -> Path:
    """Return the path beside `path` at which its next content is written: `report.html.next`."""
    return path.with_name(path.name + ".next")


def write_next(path: Path, data: bytes, *, mode: int | None = None, durable: bool = False) -> Path:
    """Write `data` to the file at `next_path(path)` and return its path. Move it to `path` to replace that file.

    Args:
        mode: the permissions of the file; by default those of any new file.
        durable: whether to wait until the data is on the disk, so that a power failure cannot lose it.

    Raises:
        OSError: the file cannot be written.
    """
    following = next_path(path)
    fd = os.open(following, _WRITE, 0o666 if mode is None else mode)
    with open(fd, "wb") as file:  # noqa: PTH123 - a file descriptor has no path
        if mode is not None:
            os.fchmod(fd, mode)  # also of a file that a crash has left behind
        file.write(data)
        if durable:
            file.flush()
            os.fsync(fd)
    return following


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace the file at `path` by `data`, with the permissions `mode` or those of any new file.

    Raises:
        OSError: the file cannot be written; the old one is still there.
    """
    write_next(path, data, mode=mode).replace(path)
