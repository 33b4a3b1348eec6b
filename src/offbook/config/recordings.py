"""Recordings of scenarios: all in one file, or one file for each scenario in a folder."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from offbook.config.roles import RUN_CALLER, StepNames
from offbook.errors import RecordingMismatchError
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.record import RecordingProvider
from offbook.recording.replay import MockProvider

MAX_SLUG_CHARS = 80
RUN_FILE = "_run.json"  # no slug begins like it


def is_folder(path: str) -> bool:
    """Whether recordings go into a folder: one that is there, or a path that ends like one."""
    return path.endswith("/") or Path(path).is_dir()


def slug(name: str) -> str:
    """The name as part of a file's name: `Books a room!` is `books-a-room`."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-_")[:MAX_SLUG_CHARS] or "scenario"


def recorder_at(path: str, provider: Provider, names: StepNames) -> Provider:
    """What keeps every call that `provider` answers, in place of what is there of the same steps."""
    if not is_folder(path):
        return RecordingProvider(provider, path, record="all")
    return RecordingFolder(Path(path), names, lambda file: RecordingProvider(provider, file, record="all"))


def replay_at(path: str, names: StepNames) -> MockProvider | RecordingFolder:
    """What answers every call as it was recorded, and refuses all others.

    Raises:
        InputError: a recording cannot be read.
    """
    if not is_folder(path):
        return MockProvider(path, strict=True)
    return RecordingFolder(Path(path), names, _open_replay)


def _open_replay(file: Path) -> Provider:
    return MockProvider(file, strict=True) if file.exists() else MissingRecording(file)


class MissingRecording(Provider):
    """In the place of a recording that is not there: answers nothing."""

    name = "replay"

    def __init__(self, file: Path) -> None:
        self._file = file

    async def send(self, request: Request) -> Reply:
        reason = f"{self._file}: there is no such recording, to answer the step {request.step_id!r}"
        raise RecordingMismatchError(reason, kind="missing")


class RecordingFolder(Provider):
    """Passes each call on to the recording of its scenario, which is opened when it is first asked.

    What is asked about the run as a whole is in a recording of its own, `_run.json`.
    """

    name = "recordings"

    def __init__(self, folder: Path, names: StepNames, open: Callable[[Path], Provider]) -> None:
        self._folder, self._names, self._open = folder, names, open
        self._opened: dict[Path, Provider] = {}

    async def send(self, request: Request) -> Reply:
        file = self._folder / self._file_name(request.step_id)
        if file not in self._opened:
            self._opened[file] = self._open(file)
        return await self._opened[file].send(request)

    def _file_name(self, step_id: str | None) -> str:
        asker = self._names.asker(step_id)
        return RUN_FILE if asker == RUN_CALLER else f"{slug('' if asker is None else asker.scenario)}.json"

    async def close(self) -> None:
        for provider in self._opened.values():
            await provider.close()

    def unused(self) -> list[UnusedEntry]:
        """The exchanges of recordings that were asked, which were never served."""
        mocks = (provider for provider in self._opened.values() if isinstance(provider, MockProvider))
        return [left for mock in mocks for left in mock.unused()]
