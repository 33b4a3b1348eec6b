"""The built-in tool that reads text files in one folder."""

from __future__ import annotations

import errno
import os
from contextlib import ExitStack
from pathlib import Path
from stat import S_ISREG

from offbook.errors import InputError, ToolFailureError, ToolRefusalError, ToolResolutionError
from offbook.text import did_you_mean
from offbook.tools import ToolDef, tool_of

MAX_BYTES = 1_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
"""Without blocking: to open a pipe that nobody writes to would block."""


def read_file(name: str, *, root: str, folder: Path) -> ToolDef:
    """Return a tool `name` that reads files under `root`, which is relative to `folder` and inside it.

    Raises:
        InputError: `root` is outside of `folder`, or not a folder.
    """
    source, base = f"tools.{name}", folder.resolve()
    inside = (base / root).resolve()
    if not inside.is_relative_to(base):
        raise InputError(f"{root} leaves the folder of the workflow", source=source, place="root")
    if not inside.is_dir():
        raise InputError(f"there is no folder {root} beside the workflow", source=source, place="root")
    description = "Read a text file. Paths are relative to the folder that you may read."
    return tool_of(FileReader(inside, tool=name).read, name=name, description=description, read_only=True)


class FileReader:
    """Reads UTF-8 text files of up to 1 MB under `root`, a resolved path, and nothing else."""

    def __init__(self, root: Path, *, tool: str) -> None:
        self._root, self._tool = root, tool

    async def read(self, path: str) -> str:
        """Read a text file.

        Args:
            path: the path of the file, like notes/today.txt

        Raises:
            ToolRefusalError: `path` is outside of the root, or not a regular file.
            ToolResolutionError: there is no such file.
            ToolFailureError: the file is too large, not UTF-8, or cannot be read.
        """
        parts = self._parts(path)
        try:
            data = self._data(parts, path)
        except OSError as error:
            raise self._translate(error, path) from None
        if len(data) > MAX_BYTES:
            raise ToolFailureError(f"{path} is larger than {MAX_BYTES} bytes", tool=self._tool)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ToolFailureError(f"{path} is not UTF-8 text", tool=self._tool) from None

    def _parts(self, path: str) -> tuple[str, ...]:
        """Return the parts of the resolved path below the root."""
        given = Path(path)
        if given.is_absolute() or ".." in given.parts or "\0" in path:
            raise ToolRefusalError(f"{path!r} is not a path below the folder, like notes/today.txt", tool=self._tool)
        try:
            resolved = (self._root / given).resolve()
        except (OSError, RuntimeError, UnicodeError):
            raise ToolRefusalError(f"{path!r} cannot be resolved", tool=self._tool) from None
        if not resolved.is_relative_to(self._root):
            raise ToolRefusalError(f"{path!r} is outside of the folder", tool=self._tool)
        return resolved.relative_to(self._root).parts

    def _data(self, parts: tuple[str, ...], path: str) -> bytes:
        """Read a file, at most one byte more than the limit.

        Every part is opened relative to the one before it and without following links, so that nothing outside of
        the root is opened, whatever is moved or linked in the meantime.
        """
        if not parts:
            raise ToolRefusalError(f"{path!r} is a folder", tool=self._tool)
        with ExitStack() as opened:
            at = os.open(self._root, _FOLDER)
            opened.callback(os.close, at)
            for part in parts:
                try:
                    at = os.open(part, _FILE, dir_fd=at)
                except FileNotFoundError:
                    hint = did_you_mean(part, os.listdir(at), kind="there are")  # noqa: PTH208 - `at` is no path
                    raise ToolResolutionError(f"there is no {path!r}; {hint}") from None
                opened.callback(os.close, at)
            if not S_ISREG(os.fstat(at).st_mode):
                raise ToolRefusalError(f"{path!r} is not a regular file", tool=self._tool)
            return _read(at)

    def _translate(self, error: OSError, path: str) -> Exception:
        if error.errno == errno.ENOTDIR:
            return ToolResolutionError(f"there is no {path!r}")
        if error.errno in (errno.ELOOP, errno.ENXIO):
            return ToolRefusalError(f"{path!r} is not a regular file", tool=self._tool)
        return ToolFailureError(f"{path!r} cannot be read: {error.strerror}", tool=self._tool)


def _read(descriptor: int) -> bytes:
    data = bytearray()
    while len(data) <= MAX_BYTES and (piece := os.read(descriptor, MAX_BYTES + 1 - len(data))):
        data += piece
    return bytes(data)
