"""The working folder of one run: a copy of a template, and what the run has changed in it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from filecmp import cmp
from pathlib import Path
from typing import Literal, TypeAlias

from offbook.errors import InputError

Change: TypeAlias = Literal["created", "changed", "deleted"]

OPTION = "--workdir"
NOT_COMPARED = frozenset((".git", "__pycache__"))
"""Folders that do not count as changes of a run: their files always differ."""

_CLONE = 0x40049409
"""The request of Linux to share the blocks of another file until one of the two is written to."""


class WorkingFolder:
    """Copies of a template, as it was when this object was made: each run works in one of its own.

    Raises:
        InputError: there is no such folder, or it cannot be copied.
    """

    def __init__(self, template: str, into: str | os.PathLike[str]) -> None:
        self.template = Path(os.path.abspath(template))  # noqa: PTH100 - links stay links
        if not self.template.is_dir():
            raise InputError("there is no such folder", source=f"{OPTION} {template}")
        self._original = Path(into) / "original" / self.template.name
        self._copy(self.template, self._original)
        if (self._original / ".git").is_file():
            self._make_repository()

    def copy_to(self, folder: str | os.PathLike[str]) -> Path:
        """Return a new copy in a folder. It has the name of the template."""
        target = Path(os.path.realpath(folder)) / self.template.name
        self._copy(self._original, target)
        return target

    def changes(self, copy: Path) -> dict[str, Change]:
        """Return what differs between a copy and the template, by relative path, in order."""
        before, after = dict(_files_in(self._original)), dict(_files_in(copy))
        changes: dict[str, Change] = {name: "deleted" for name in before if name not in after}
        for name, path in after.items():
            if name not in before:
                changes[name] = "created"
            elif not _is_same(before[name], path, self._original, copy):
                changes[name] = "changed"
        return dict(sorted(changes.items()))

    def words(self, command: Sequence[str]) -> list[str]:
        """Return a command that is to run in a copy: files that the template does not have are those of here."""
        return [self._word(word, is_program=place == 0) for place, word in enumerate(command)]

    def _word(self, word: str, *, is_program: bool) -> str:
        if (is_program and "/" not in word) or word.startswith("-") or not word or Path(word).is_absolute():
            return word
        is_here = os.path.isfile(word) and not os.path.lexists(self.template / word)  # noqa: PTH113 - any text
        return str(Path(word).absolute()) if is_here else word

    def _copy(self, source: Path, target: Path) -> None:
        try:
            shutil.copytree(source, target, symlinks=True, ignore=_special_files, copy_function=_copy_file)
            for path in _links_in(target):
                to = path.readlink()
                if to.is_absolute() and to.is_relative_to(source):  # it must not lead out of the copy
                    path.unlink()
                    path.symlink_to(target / to.relative_to(source))
        except OSError as error:  # shutil.Error too
            raise InputError(f"it cannot be copied: {_reason(error)}", source=f"{OPTION} {self.template}") from None

    # A linked worktree and a submodule have a file that names the folder of their repository. A copy of that file would
    # let git change the index and the branches of the template.
    def _make_repository(self) -> None:
        """Give the copy a repository of its own, with the commits of the template's and no remote."""
        own, cloned = self._original / ".git", self._original.with_name("repository")
        commands = (
            ["clone", "--quiet", "--no-checkout", "--local", str(self.template), str(cloned)],
            ["-C", str(cloned), "remote", "remove", "origin"],
        )
        self._git(*commands)
        own.unlink()
        (cloned / ".git").rename(own)
        shutil.rmtree(cloned)
        self._git(["-C", str(self._original), "reset", "--quiet"])

    def _git(self, *commands: list[str]) -> None:
        for command in commands:
            try:
                subprocess.run(["git", *command], check=True, capture_output=True)  # noqa: S603, S607
            except (OSError, subprocess.CalledProcessError) as error:
                said = (getattr(error, "stderr", None) or str(error).encode()).decode("utf-8", "replace").strip()
                reason = f"its repository cannot be copied: {said}"
                raise InputError(reason, source=f"{OPTION} {self.template}", hint="use a clone of it") from None


def _reason(error: OSError) -> str:
    if isinstance(error, shutil.Error) and error.args and isinstance(error.args[0], list) and error.args[0]:
        source, _, reason = error.args[0][0]
        return f"{source}: {reason}"
    return error.strerror or str(error)


def _special_files(folder: str, names: list[str]) -> list[str]:
    """Return the names of sockets, pipes and devices: they cannot be copied."""
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    return [name for name in names if not any(is_kind(os.lstat(Path(folder, name)).st_mode) for is_kind in kinds)]


def _copy_file(source: str, target: str) -> str:
    """Copy a file with its mode and times; as a clone, where the file system has them."""
    if sys.platform.startswith("linux"):
        with suppress(OSError), open(source, "rb") as old, open(target, "wb") as new:  # noqa: PTH123
            import fcntl  # noqa: PLC0415 - Windows has none

            fcntl.ioctl(new.fileno(), _CLONE, old.fileno())
            shutil.copystat(source, target)
            return target
    return shutil.copy2(source, target)


def _links_in(folder: Path) -> Iterator[Path]:
    for name, _, _ in os.walk(folder):
        with os.scandir(name) as entries:
            yield from [Path(entry.path) for entry in entries if entry.is_symlink()]


def _files_in(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yield the files and links of a folder by their relative paths, without those that are not compared."""
    for name, folders, files in os.walk(folder):
        here = Path(name)
        links = [each for each in folders if (here / each).is_symlink()]
        folders[:] = [each for each in folders if each not in NOT_COMPARED and each not in links]
        for each in (*files, *links):
            yield (here / each).relative_to(folder).as_posix(), here / each


def _is_same(before: Path, after: Path, original: Path, copy: Path) -> bool:
    if before.is_symlink() or after.is_symlink():
        both = before.is_symlink() and after.is_symlink()
        return both and _target(before, original) == _target(after, copy)
    modes = [path.stat().st_mode for path in (before, after)]
    if not all(map(stat.S_ISREG, modes)) or modes[0] & stat.S_IXUSR != modes[1] & stat.S_IXUSR:
        return False
    return cmp(before, after, shallow=False)


def _target(link: Path, folder: Path) -> str:
    to = link.readlink()
    return str(to.relative_to(folder)) if to.is_absolute() and to.is_relative_to(folder) else str(to)
