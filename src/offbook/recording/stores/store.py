"""The interface of recording stores: readers, writers and stores; their safety in forks, and warnings."""

from __future__ import annotations

import os
import stat
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Generic, Protocol, TypeVar, runtime_checkable
from weakref import WeakValueDictionary

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.recording.format.document import AnyExchange, Document
from offbook.recording.format.exchange import Exchange, ToolExchange, is_conditional
from offbook.system import on_fork, os_flag
from offbook.text import did_you_mean_file

E_co = TypeVar("E_co", bound=AnyExchange, covariant=True)


class StoredExchange(Struct, Generic[E_co], frozen=True, gc=False):
    """An exchange in a recording. `id` orders exchanges; `repeats` means that it answers every call of its key."""

    id: int
    key: str
    exchange: E_co
    repeats: bool

    @property
    def fingerprint(self) -> str | None:
        return self.exchange.fingerprint

    @property
    def is_conditional(self) -> bool:
        """Whether it answers only otherwise unanswered calls."""
        return is_conditional(self.fingerprint)


class ExchangeIndex(Protocol[E_co]):
    """Exchanges, open for reading. The cost of finding one does not depend on their number."""

    @property
    def source(self) -> str: ...

    def repeating(self, key: str) -> StoredExchange[E_co] | None:
        """Return the exchange that answers every call of `key`, or None if the key has a list, or nothing.

        Exchanges with a `when` do not count as further ones.
        """
        ...

    def find(self, *, key: str | None, fingerprint: str | None, after: int) -> StoredExchange[E_co] | None:
        """Return the first exchange with an id above `after`: of `key` if given, and answering `fingerprint` if given.

        Of the exchanges of a key, one without a fingerprint answers every request.
        """
        ...

    def last(self, *, key: str | None, fingerprint: str | None) -> StoredExchange[E_co] | None:
        """Return the last exchange of those that `find` can find."""
        ...

    def __iter__(self) -> Iterator[StoredExchange[E_co]]:
        """Yield all exchanges, in order."""
        ...

    def __len__(self) -> int: ...


@runtime_checkable
class RecordingReader(ExchangeIndex[Exchange], Protocol):
    """A recording, open for reading: its model exchanges, and in `tools` its tool exchanges."""

    version: int
    meta: JsonObject

    @property
    def tools(self) -> ExchangeIndex[ToolExchange]:
        """The tool exchanges; their keys are the names of the tools."""
        ...

    def close(self) -> None: ...


class RecordingWriter(Protocol):
    """A recording, open for appending. The cost does not depend on the number of exchanges."""

    meta: JsonObject
    """The metadata of the recording when it was opened."""

    size: int
    """The number of model exchanges when it was opened."""

    tool_size: int
    """The number of tool exchanges when it was opened."""

    def add_meta(self, meta: JsonObject) -> None:
        """Add to the metadata of the recording."""
        ...

    def append(self, key: str, exchange: Exchange) -> None:
        """Append an exchange.

        Also works after `close`: the recording is opened again.

        Raises:
            InputError: the exchange cannot be written; the recording is unchanged.
        """
        ...

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        """Append a tool exchange. Durable like `append`."""
        ...

    def close(self) -> None:
        """Bring the recording into its final form. Safe to call twice."""
        ...


class SharedIndex(ExchangeIndex[E_co], Protocol):
    """Exchanges that others add to meanwhile. Read ones are kept until a refresh.

    `gone` counts exchanges that had expired or were evicted.
    """

    @property
    def gone(self) -> int: ...

    def has_read(self, *keys: str) -> bool:
        """Return whether anything of these keys or fingerprints was read and kept."""
        ...

    def refresh(self, *keys: str) -> None:
        """Read these keys and fingerprints again on demand, because others may have added to them."""
        ...


class SharedReader(SharedIndex[Exchange], RecordingReader, Protocol):
    """A recording that others write to while it is read."""

    @property
    def tools(self) -> SharedIndex[ToolExchange]: ...


class Claim(Struct, frozen=True):
    """The result of a claim, with all processes' changes since the last one.

    `id` is our exchange, or None if others had served all requested ones. `changes` are the ids served since, in order,
    with ours last; returned ones are negative. If it `is_restarted`, the session had expired, and its earlier state
    does not count.
    """

    id: int | None
    changes: list[int]
    is_restarted: bool

    @property
    def has_news(self) -> bool:
        """Whether other processes have changed anything."""
        return self.is_restarted or len(self.changes) > (self.id is not None)


class SharedPosition(Protocol):
    """The position of a session in a recording, shared by all processes that answer its calls."""

    def claim(self, *ids: int) -> Claim:
        """Serve the first unserved of these exchanges, for all processes at once.

        Raises:
            InputError: the recording cannot be reached.
        """
        ...

    def give_back(self, served: int) -> None:
        """Let another call have a claimed exchange. Raises like `claim`."""
        ...


@runtime_checkable
class PositionedReader(RecordingReader, Protocol):
    """A recording with the positions of sessions of several processes."""

    def position(self, group: str, session: str) -> SharedPosition:
        """Return the position of a session, which all servers of the group share."""
        ...


class SharedCalls(Protocol):
    """A recording that many processes use. One of them makes each call.

    If it `goes_on_live`, calls are made live while the recording cannot be reached.
    """

    @property
    def reader(self) -> SharedReader: ...

    @property
    def goes_on_live(self) -> bool: ...

    def acquire(self, call: str) -> bool:
        """Take the lease of a call, and return whether it was free. A process that dies loses it.

        Raises:
            InputError: the recording cannot be reached.
        """
        ...

    def append(self, key: str, exchange: Exchange, *, call: str) -> None:
        """Append the exchange of a call, and release its lease in one step. Raises like RecordingWriter."""
        ...

    def append_tool(self, tool: str, exchange: ToolExchange, *, call: str) -> int:
        """Append the exchange of a tool call, like `append`, and return its id."""
        ...

    def release(self, call: str) -> None:
        """Release the lease of a call without an exchange. No effect if it is not ours."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """A store of one recording."""

    @property
    def location(self) -> str:
        """The location, as given, without a password."""
        ...

    @property
    def identity(self) -> str:
        """A text that is equal for all stores of the same recording, in any notation of their location."""
        ...

    def exists(self) -> bool: ...

    def read(self) -> RecordingReader:
        """Open for reading. Raise InputError if the recording is missing or cannot be read."""
        ...

    def write(self) -> RecordingWriter:
        """Open for appending. The recording is created if it does not exist.

        Raises:
            InputError: the file cannot be written, or is not a recording.
        """
        ...

    def load(self) -> Document:
        """Return the whole recording. Raises like `read`."""
        ...

    def save(self, document: Document) -> None:
        """Replace the whole recording. A failure changes nothing."""
        ...

    def update(self, change: Callable[[Document], bool | None]) -> None:
        """Change the recording while no other process can write. It is created if missing, and unchanged on failure.

        Others' concurrent exchanges are present before `change` sees the recording, or are added after. If `change`
        returns False, nothing is written.

        Raises:
            InputError: the file cannot be written, or is not a recording.
        """
        ...

    def sibling(self) -> Store:
        """Create another store of the same kind next to this existing one.

        Raises:
            InputError: the folder cannot be written.
        """
        ...

    def beside(self, suffix: str) -> Store:
        """Return the store of the same kind whose name has the suffix.

        Raises:
            InputError: there is a link instead, which could lead anywhere.
        """
        ...

    def share(self) -> SharedCalls | None:
        """Return the coordination of calls between processes, or None if the store has none, as a file.

        Raises:
            InputError: the recording cannot be read.
        """
        ...

    def remove(self) -> None:
        """Remove the recording and its side files. No process may have it open."""
        ...

    def remove_if_empty(self) -> None:
        """Remove a file without exchanges, while no other process can write. Later appends create a new one.

        A database stays, because others may have it open.

        Raises:
            InputError: the file cannot be read, or is not a recording.
        """
        ...


def refuse_link(path: Path, *, source: str) -> None:
    """Raise InputError for a link in place of a recording's side file."""
    if path.is_symlink():
        raise InputError("it is a link; links are not followed", source=source, hint="remove the link")


def create_sibling(path: Path) -> Path:
    """Create an empty file next to `path`, named like `run.json.fresh-1` and with the same permissions.

    Raises:
        OSError: the file cannot be created.
    """
    mode = stat.S_IMODE(path.stat().st_mode) | 0o600
    numbers = count(1)
    while True:
        sibling = path.with_name(f"{path.name}.fresh-{next(numbers)}")
        try:
            os.close(os.open(sibling, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os_flag("O_CLOEXEC"), mode))
        except FileExistsError:  # of a run that is in progress, or was killed
            continue
        return sibling


def no_recording_error(path: Path, *, source: str) -> InputError:
    """Return the error for a missing recording, with a likely name."""
    hint = did_you_mean_file(path, "record it first, or check the path")
    return InputError("no such recording", source=source, hint=hint)


def unusable_error(reason: str, *, source: str, is_folder: bool = False) -> InputError:
    """Return the error for a recording that cannot be read or written."""
    hint = "name a file, not a folder" if is_folder else "check the path, its permissions and the space"
    return InputError(reason[:1].lower() + reason[1:], source=source, hint=hint)


class ForkGuarded(ABC):
    """Holds a resource open. It is closed before every fork, and reopened on demand.

    `guard` is held while the resource is in use; a fork waits for that.
    """

    def __init__(self) -> None:
        self.guard = threading.RLock()
        _guarded[id(self)] = self

    @abstractmethod
    def close(self) -> None:
        """Close the resource. Safe to call twice."""


# A child would share open files and connections with its parent: a lock on a file would last until both have closed
# it, SQLite forbids to use a connection after a fork, and answers of Redis would reach the wrong process. And a lock
# that another thread holds during the fork is never released in the child. So a fork waits for all guards, closes what
# they guard, and both processes open it again when they need it.
_guarded: WeakValueDictionary[int, ForkGuarded] = WeakValueDictionary()
_held_during_fork: list[ForkGuarded] = []
_forking = threading.RLock()


def _close_before_fork() -> None:
    _forking.acquire()
    _held_during_fork.extend(item for reference in _guarded.valuerefs() if (item := reference()) is not None)
    for item in _held_during_fork:
        item.guard.acquire()
        item.close()


def _release_after_fork() -> None:
    while _held_during_fork:
        _held_during_fork.pop().guard.release()
    _forking.release()


on_fork(before=_close_before_fork, after=_release_after_fork)


def log_warning(logger: str, message: str, *values: object) -> None:
    """Log a warning. Logging is imported on demand, because most recordings have no warnings."""
    import logging  # noqa: PLC0415

    logging.getLogger(logger).warning(message, *values)
