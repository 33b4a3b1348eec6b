"""Recordings of scenarios: one file for all of them, or a folder with one file for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from offbook.config.roles import RUN_CALLER, StepNames
from offbook.errors import InputError, RecordingMismatchError
from offbook.events import NULL_SINK, Sink
from offbook.messages import Reply, Request
from offbook.providers.provider import Provider
from offbook.recording.stores.locate import last_recorded_at, open_store
from offbook.session.log import Log, Served
from offbook.session.provider import MockProvider
from offbook.session.recorder import RecordMode
from offbook.session.recording_provider import RecordingProvider

MAX_SLUG_CHARS = 80
RUN_FILE = "_run.json"  # no slug starts with "_"


def is_folder(path: str) -> bool:
    """Return whether a path is a folder of recordings: it exists as one, or ends with `/`."""
    return path.endswith("/") or Path(path).is_dir()


def recording_files(folder: str) -> list[Path]:
    """Return the recordings and other JSON files of a folder."""
    return sorted(Path(folder).glob("*.json"))


def scenarios_recorded_at(path: str) -> str:
    """Return the time of the last exchange of a recording, or of a folder's recordings, or ""."""
    times = []
    for each in recording_files(path) if is_folder(path) else [path]:
        with suppress(InputError):  # a file of another kind
            times.append(last_recorded_at(each))
    return max(times, default="")


def slug(name: str) -> str:
    """Return a name as part of a file name: `Books a room!` becomes `books-a-room`."""
    return re.sub(r"[^\w]+", "-", name.lower()).strip("-_")[:MAX_SLUG_CHARS] or "scenario"


def recording_file(names: StepNames, step_id: str | None) -> str:
    """Return the name of the file for a call in a folder of recordings."""
    caller = names.caller(step_id)
    return RUN_FILE if caller == RUN_CALLER else f"{slug('' if caller is None else caller.scenario)}.json"


def recorder_at(
    path: str, provider: Provider, names: StepNames, *, mode: RecordMode, sink: Sink = NULL_SINK
) -> Provider:
    """Return a provider that records every call of `provider`, in a record mode, and emits an event for it."""
    if not is_folder(path):
        return RecordingProvider(provider, path, record=mode, sink=sink)
    return RecordingFolder(Path(path), names, lambda file: RecordingProvider(provider, file, record=mode, sink=sink))


def replay_at(path: str, names: StepNames) -> MockProvider | RecordingFolder:
    """Return a provider that answers calls from the recordings, and raises for all others.

    Raises:
        InputError: a recording cannot be read.
    """
    if not is_folder(path):
        return MockProvider(path, strict=True)
    return RecordingFolder(Path(path), names, _open_replay)


def _open_replay(file: Path) -> Provider:
    return MockProvider(file, strict=True) if file.exists() else MissingRecording(file)


class MissingRecording(Provider):
    """Replaces a recording that does not exist: every call raises RecordingMismatchError."""

    name = "replay"

    def __init__(self, file: Path) -> None:
        self._file = file

    async def send(self, request: Request) -> Reply:
        reason = f"{self._file}: there is no such recording for the step {request.step_id!r}"
        raise RecordingMismatchError(reason, kind="missing")


class RecordingFolder(Provider, Served):
    """Forwards each call to its scenario's recording, which the first call opens.

    Calls about the run as a whole are in a separate recording, `_run.json`.
    """

    name = "recordings"

    def __init__(self, folder: Path, names: StepNames, open: Callable[[Path], Provider]) -> None:
        self._folder, self._names, self._open = folder, names, open
        self._opened: dict[str, Provider] = {}
        self._created: list[str] = []

    async def send(self, request: Request) -> Reply:
        return await self._provider_of(request).send(request)

    def check_price(self, request: Request) -> None:
        self._provider_of(request).check_price(request)

    def _provider_of(self, request: Request) -> Provider:
        return self._provider(recording_file(self._names, request.step_id))

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for provider in self._opened.values():
            await provider.__aexit__(kind, error, trace)
        for file in self._created:
            open_store(self._folder / file).remove_if_empty()

    async def close(self) -> None:
        for provider in self._opened.values():
            await provider.close()

    def open_all(self, scenarios: Iterable[str]) -> None:
        """Open the recordings of these scenarios, and the run's, before their first calls.

        New recordings that stay empty are removed at the end.
        """
        files = dict.fromkeys((*(f"{slug(name)}.json" for name in scenarios), RUN_FILE))
        self._created = [file for file in files if not (self._folder / file).exists()]
        for file in files:
            self._provider(file)

    def mocks(self) -> dict[str, MockProvider]:
        """Return the opened recordings of a replay, by file name."""
        opened = sorted(self._opened.items())
        return {file: provider for file, provider in opened if isinstance(provider, MockProvider)}

    @property
    def log(self) -> Log:
        """The log of the opened recordings."""
        return Log.of(mock.log.placed(file) for file, mock in self.mocks().items())

    @property
    def opened(self) -> list[str]:
        """The names of the recordings that calls were forwarded to, sorted."""
        return sorted(self._opened)

    def note_used(self, file: str, ids: Iterable[int]) -> None:
        """Count exchanges of a recording as served that a replay in another process has served."""
        provider = self._provider(file)
        if isinstance(provider, MockProvider):
            provider.note_used(ids)

    def _provider(self, file: str) -> Provider:
        if file not in self._opened:
            self._opened[file] = self._open(self._folder / file)
        return self._opened[file]
