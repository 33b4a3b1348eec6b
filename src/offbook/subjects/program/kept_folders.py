"""The folders that a program keeps between its lives. Every run finds their original contents.

A folder is shared by all runs, which then happen one at a time, and is restored before each and at the end. If the
command has the placeholder `{keep}`, each run has a copy instead, and the folder itself is only read.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock

from offbook.errors import InputError
from offbook.private_folder import PrivateFolder
from offbook.system import lock_file

PLACEHOLDER = "{keep}"
_BACKUP, _COPY, _OLD, _LOCK = ".offbook-backup", ".offbook-copy", ".offbook-old", ".offbook-lock"


class KeptFolders:
    """The folders that a program's runs keep. Close it, or they stay as the last run left them.

    `restored` names those that a killed exploration had left changed, and that were now restored.

    Raises:
        InputError: there is no such folder, it cannot be copied, or another exploration keeps it; or the command has
            the placeholder without exactly one folder.
    """

    def __init__(self, paths: Sequence[str], command: Sequence[str]) -> None:
        has_placeholder = any(PLACEHOLDER in word for word in command)
        if has_placeholder and len(paths) != 1:
            hint = f"--keep FOLDER once; {PLACEHOLDER} in the command is the copy that a run has of it"
            raise InputError(f"{PLACEHOLDER} stands for one folder, not {len(paths)}", source="--keep", hint=hint)
        self._lock, self._folders = Lock(), list[_SharedFolder]()
        self._copied = _CopiedFolder(paths[0]) if has_placeholder else None
        try:
            for path in paths if self._copied is None else ():
                self._folders.append(_SharedFolder(path))
        except InputError:
            self.close()
            raise

    @property
    def restored(self) -> list[str]:
        return [folder.name for folder in self._folders if folder.was_restored]

    @contextmanager
    def run(self, command: Sequence[str], folder: Path) -> Iterator[list[str]]:
        """Provide a run's kept folders, and return its command. `folder` is the place for its copy."""
        if self._copied is not None:
            path = self._copied.copy_to(folder)
            yield [word.replace(PLACEHOLDER, str(path)) for word in command]
        elif self._folders:
            with self._lock:
                for each in self._folders:
                    each.restore()
                yield list(command)
        else:
            yield list(command)

    def close(self) -> None:
        """Restore the folders, and remove their backups. Safe to call twice."""
        while self._folders:
            self._folders.pop().close()
        if self._copied is not None:
            self._copied.close()


class _CopiedFolder:
    """A folder that is copied for each run, in its state when this object was created."""

    def __init__(self, path: str) -> None:
        _check_folder(path)
        self._name, self._temporary = path, PrivateFolder()
        with _readable_errors(path):
            self._source = Path(shutil.copytree(path, Path(self._temporary.name) / "keep", symlinks=True))

    def copy_to(self, folder: Path) -> Path:
        with _readable_errors(self._name):
            return Path(shutil.copytree(self._source, folder / "keep", symlinks=True))

    def close(self) -> None:
        self._temporary.cleanup()


class _SharedFolder:
    """A folder that all runs share. Until `close`, its original content is in a backup next to it.

    The backup is complete before a run begins, and stays if this process is killed: the next one that keeps the folder
    restores it, and `was_restored` is then set.
    """

    def __init__(self, path: str) -> None:
        self.name, self._path = path, Path(os.path.abspath(path))  # noqa: PTH100 - links stay links
        if Path.cwd().resolve().is_relative_to(self._path.resolve()):
            hint = f"--workdir {path} gives each run a copy to work in"
            reason = "a folder in which the program stands cannot be replaced"
            raise InputError(reason, source=f"--keep {path}", hint=hint)
        self._backup, self._copy = self._beside(_BACKUP), self._beside(_COPY)
        self.was_restored = self._backup.exists()
        if not self.was_restored:
            _check_folder(path)
        # no other process gets this lock until it is closed, or this process ends
        with _readable_errors(self.name):
            lock = os.open(self._beside(_LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            lock_file(lock, wait=False)
        except BlockingIOError:
            os.close(lock)
            raise InputError("another exploration keeps this folder", source=f"--keep {self.name}") from None
        self._lock = lock
        try:
            if self.was_restored:
                self.restore()
            else:
                with _readable_errors(self.name):
                    _remove(self._copy)
                    shutil.copytree(self._path, self._copy, symlinks=True)
                    self._copy.rename(self._backup)
        except InputError:
            os.close(self._lock)
            raise

    def restore(self) -> None:
        """Restore the folder from the backup. A copy replaces it at once, so it is never half done."""
        with _readable_errors(self.name, hint=f"what was in it is in {self._backup}"):
            old = self._beside(_OLD)
            _remove(self._copy)
            _remove(old)
            shutil.copytree(self._backup, self._copy, symlinks=True)
            with suppress(FileNotFoundError):  # the run has removed it
                self._path.rename(old)
            self._copy.rename(self._path)
            _remove(old)

    def close(self) -> None:
        self.restore()
        _remove(self._backup)
        self._beside(_LOCK).unlink(missing_ok=True)
        os.close(self._lock)

    def _beside(self, suffix: str) -> Path:
        return self._path.with_name(self._path.name + suffix)


def _check_folder(path: str) -> None:
    if not Path(path).is_dir():
        hint = f"if there is none before the first run, create an empty one: mkdir {path}"
        raise InputError("there is no such folder", source=f"--keep {path}", hint=hint)


@contextmanager
def _readable_errors(path: str, *, hint: str = "") -> Iterator[None]:
    try:
        yield
    except OSError as error:  # shutil.Error too
        raise InputError(
            f"it cannot be copied: {error.strerror or error}", source=f"--keep {path}", hint=hint
        ) from None


def _remove(path: Path) -> None:
    with suppress(FileNotFoundError):
        shutil.rmtree(path)
