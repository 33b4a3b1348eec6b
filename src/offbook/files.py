"""Opens only regular files, which cannot hang or lead elsewhere, and replaces files as a whole.

A reader of a file that is being replaced sees the old content or the new one, never a part.
"""

import errno
import os
import stat
from pathlib import Path

from offbook.system import os_flag

_NO_FOLLOW = os_flag("O_NOFOLLOW")
_SAFE = os_flag("O_CLOEXEC") | os_flag("O_NONBLOCK") | os_flag("O_NOCTTY") | os_flag("O_BINARY")
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW | os_flag("O_CLOEXEC") | os_flag("O_BINARY")
_DESCRIPTORS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
_KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a link",
}


def check_regular(path: str | os.PathLike[str], *, follow: bool = True) -> None:
    """Raise OSError for anything at `path` except a regular file or, if `follow`, a link to one."""
    try:
        mode = Path(path).stat(follow_symlinks=follow).st_mode
    except FileNotFoundError:
        return
    _check_kind(path, mode)


def open_regular(path: str | os.PathLike[str], flags: int, mode: int = 0o666, *, follow: bool = True) -> int:
    """Open a regular file, and return its descriptor. Never waits, as opening a named pipe would.

    Args:
        follow: whether `path` may be a link. False for side files, where a link could lead elsewhere.

    Raises:
        OSError: the file cannot be opened, or is not a regular file.
    """
    try:
        fd = os.open(path, flags | _SAFE | (0 if follow else _NO_FOLLOW), mode)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO):
            _check_kind(path, Path(path).stat(follow_symlinks=follow).st_mode)
        raise
    try:
        _check_kind(path, os.fstat(fd).st_mode)
    except OSError:
        os.close(fd)
        raise
    return fd


def _check_kind(path: str | os.PathLike[str], mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    if not stat.S_ISREG(mode):
        name = os.path.basename(path)  # noqa: PTH119 - any kind of path
        raise OSError(errno.EINVAL, f"{name} is {_KINDS.get(stat.S_IFMT(mode), 'not a file')}, not a regular file")


def read_file(path: str | os.PathLike[str], *, limit: int = -1) -> bytes:
    """Return the content of a file, or its first `limit` bytes.

    A pipe that is open in this process is read to its end: `/dev/stdin`, and `/dev/fd/63` as shells pass `<(command)`.

    Raises:
        OSError: the file cannot be read, or is not a regular file.
    """
    if not os.fspath(path).startswith(_DESCRIPTORS):
        return read_regular(path, limit=limit)
    with open(path, "rb") as file:  # noqa: PTH123 - any kind of path
        return file.read(limit)


def read_regular(path: str | os.PathLike[str], *, limit: int = -1) -> bytes:
    """Return the content of a regular file, like `read_file`, but refuse anything else."""
    with open(open_regular(path, os.O_RDONLY), "rb") as file:
        return file.read(limit)


def open_output(path: str | os.PathLike[str], *, append: bool = False) -> int:
    """Open a file for writing, and return its descriptor. It is created if missing, else emptied.

    A terminal, a device and a named pipe with a reader are also allowed.

    Raises:
        OSError: it cannot be written, or the pipe has no reader.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    try:
        fd = os.open(path, flags | _SAFE, 0o666)
    except OSError as error:
        if error.errno == errno.ENXIO and Path(path).is_fifo():
            raise OSError(errno.ENXIO, "nothing reads from this pipe") from None
        raise
    os.set_blocking(fd, True)
    return fd


def write_output(path: str | os.PathLike[str], data: bytes) -> None:
    """Write all of `data` to the path, opened and raising like `open_output`."""
    with open(open_output(path), "wb") as file:
        file.write(data)


def next_path(path: Path) -> Path:
    """Return the path for the next content of `path`: `report.html.next`."""
    return path.with_name(path.name + ".next")


def write_next(path: Path, data: bytes, *, mode: int | None = None, durable: bool = False) -> Path:
    """Write `data` to a new file at `next_path(path)` and return its path. Move it to `path` to replace that file.

    A leftover file or link there is removed, not followed.

    Args:
        mode: the permissions of the file; by default those of any new file.
        durable: whether to wait until the data is on the disk, so that a power failure cannot lose it.

    Raises:
        OSError: the file cannot be written.
    """
    following = next_path(path)
    following.unlink(missing_ok=True)
    fd = os.open(following, _CREATE, 0o666 if mode is None else mode)
    with open(fd, "wb") as file:  # noqa: PTH123 - a file descriptor has no path
        if mode is not None:
            os.fchmod(fd, mode)  # whatever the umask says
        file.write(data)
        if durable:
            file.flush()
            os.fsync(fd)
    return following


def replace_file(path: Path, data: bytes, *, mode: int | None = None) -> None:
    """Replace the file at `path` by `data`, with the permissions `mode` or those of any new file.

    If `path` is a link, it stays, and the file that it leads to is replaced.

    Raises:
        OSError: the file cannot be written, or is not a regular file; the old one is still there.
    """
    target = Path(os.path.realpath(path))
    check_regular(target)
    write_next(target, data, mode=mode).replace(target)
