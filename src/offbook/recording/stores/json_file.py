"""A recording in a JSON file, with a journal while it is being written."""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec import Struct

from offbook.decoding import decode
from offbook.errors import InputError, RecordingFormatError, RecordingWriteError
from offbook.files import check_regular, next_path, read_regular, write_next
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, each_exchange
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.format.file import MAX_FILE_BYTES, parse_document, render_document, too_large
from offbook.recording.format.keys import FOLDER_KEY
from offbook.recording.stores.journal import Journal
from offbook.recording.stores.memory import MemoryReader
from offbook.recording.stores.store import create_sibling, log_warning, no_recording_error, refuse_link, unusable_error
from offbook.schema_errors import explain_msgspec_error

if TYPE_CHECKING:
    from offbook.recording.stores.media_files import MediaFolder


class _JournalLine(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One line of the journal: a model or tool exchange to add, metadata to add, or the mark of a fold that is about to
    finish.
    """

    key: str | None = None
    entry: Exchange | None = None
    tool: str | None = None
    call: ToolExchange | None = None
    meta: JsonObject | None = None
    folded: str | None = None


_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_encoder = msgspec.json.Encoder()


class JsonFileStore:
    """A recording at `path`. An appended exchange is in the journal at once, and in the file after a fold.

    A fold writes the new file next to the old one, marks that in the journal, swaps the files and removes the journal.
    After a crash, the next process that opens the recording finishes or repeats the fold.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self.location, self.identity = str(path), str(self.path)
        self._next = next_path(self.path)
        self._journal_path = self.path.with_name(self.path.name + ".journal")

    @cached_property
    def _media(self) -> MediaFolder:
        """The recording's media files. A reader of a recording without any does not load this."""
        from offbook.recording.stores.media_files import MediaFolder  # noqa: PLC0415

        return MediaFolder(self.path)

    def exists(self) -> bool:
        return os.access(self.path, os.F_OK) or self._has_journal()

    def read(self) -> MemoryReader:
        return MemoryReader(self.load(), source=self.location)

    def load(self) -> Document:
        return self._load(self._fold_or_merge)

    def peek(self) -> Document:
        """Return the whole recording, like `load`, without changing a file: the journal stays."""
        return self._load(self._merged)

    def _load(self, with_journal: Callable[[], Document]) -> Document:
        if not self.exists():
            raise no_recording_error(self.path, source=self.location)
        try:
            return with_journal() if self._has_journal() else self._parse(self.path)
        except OSError as error:
            raise self.unusable(error) from None

    def write(self) -> JsonFileWriter:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return JsonFileWriter(self, self._journal(), self.fold())
        except OSError as error:
            raise self.unusable(error) from None

    def save(self, document: Document) -> None:
        data = render_document(document)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked_journal() as journal:
                self._open_lines(journal)
                self._swap_in(data, journal)
        except OSError as error:
            raise self.unusable(error) from None

    def update(self, change: Callable[[Document], bool | None]) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self._locked_journal() as journal:
                document, has_more = self._read_all(journal)
                if change(document) is not False or has_more:
                    self._swap_in(render_document(document), journal)
        except OSError as error:
            raise self.unusable(error) from None

    def sibling(self) -> JsonFileStore:
        try:
            return JsonFileStore(create_sibling(self.path))
        except OSError as error:
            raise self.unusable(error) from None

    def beside(self, suffix: str) -> JsonFileStore:
        refuse_link(Path(f"{self.location}{suffix}"), source=f"{self.location}{suffix}")
        return JsonFileStore(f"{self.location}{suffix}")

    def share(self) -> None:
        return None

    def remove(self) -> None:
        for path in (self._journal_path, self._next, self.path):
            path.unlink(missing_ok=True)
        self._media.keep(())

    def remove_if_empty(self) -> None:
        try:
            if self.exists():
                with self._locked_journal() as journal:
                    document, has_more = self._read_all(journal)
                    if document.size == 0:
                        self.path.unlink(missing_ok=True)
                        self._media.keep(())
                    elif has_more:
                        self._swap_in(render_document(document), journal)
        except OSError as error:
            raise self.unusable(error) from None

    def fold(self, *, wait: bool = True) -> Document:
        """Move the journal into the file, and return the recording. The file is created if missing.

        Raises:
            BlockingIOError: the journal is in use, and `wait` is false.
            OSError: the folder cannot be written; nothing is lost.
            RecordingFormatError: the file is not a recording; file and journal are unchanged.
        """
        with self._locked_journal(wait=wait) as journal:
            document, has_more = self._read_all(journal)
            if has_more or not self.path.exists():
                self._swap_in(render_document(document), journal)
            return document

    def settle(self, *, wait: bool = True) -> None:
        """Fold the journal, if any. If that fails, the next process that opens the recording folds it."""
        try:
            if self._has_journal():
                self.fold(wait=wait)
        except BlockingIOError:
            return
        except OSError as error:
            log_warning(
                "offbook.recording",
                "%s: %s; what was recorded stays in %s",
                self.location,
                error,
                self._journal_path.name,
            )

    def unusable(self, error: OSError) -> InputError:
        """Return the error for a file that cannot be read or written."""
        is_folder = isinstance(error, IsADirectoryError)
        found = unusable_error(error.strerror or str(error), source=self.location, is_folder=is_folder)
        if error.errno in _NO_ROOM:
            return RecordingWriteError(found.reason, source=found.source, hint=found.hint)
        return found

    def _has_journal(self) -> bool:
        return os.access(self._journal_path, os.F_OK)

    def _journal(self, *, read_only: bool = False) -> Journal:
        return Journal(self._journal_path, beside=self.path, read_only=read_only)

    @contextmanager
    def _locked_journal(self, *, wait: bool = True) -> Iterator[Journal]:
        """Lock the journal. It is removed at the end, when all its lines must be in the file, unless an error is raised
        while it has lines.
        """
        check_regular(self.path)
        journal = self._journal()
        try:
            with journal.locked(wait=wait):
                try:
                    yield journal
                except BaseException:
                    if not journal.read_locked():
                        journal.remove_locked()
                    raise
                journal.remove_locked()
        finally:
            journal.close()

    def _open_lines(self, journal: Journal) -> list[_JournalLine]:
        """Return the lines that are not yet in the file. Finish a fold that was killed before its swap."""
        folded, lines = _after_last_fold(self._lines(journal.read_locked()))
        if self._is_next(folded):
            self._next.replace(self.path)
        self._next.unlink(missing_ok=True)
        return lines

    def _read_all(self, journal: Journal) -> tuple[Document, bool]:
        """Return the content of file and journal, and whether the journal has anything that the file lacks."""
        lines = self._open_lines(journal)
        document = self._document_in(self.path)
        _apply(lines, document)
        return document, bool(lines)

    def _is_next(self, folded: str | None) -> bool:
        """Return whether a fold's new file, whose hash is `folded`, still has to be swapped in."""
        return folded is not None and self._next.exists() and sha256(read_regular(self._next)).hexdigest() == folded

    def _fold_or_merge(self) -> Document:
        """Fold, or do it in memory if the folder cannot be written."""
        try:
            return self.fold()
        except OSError:
            return self._merged()

    def _merged(self) -> Document:
        journal = self._journal(read_only=True)
        try:
            with journal.locked():
                folded, lines = _after_last_fold(self._lines(journal.read_locked()))
                document = self._document_in(self._next if self._is_next(folded) else self.path)
                _apply(lines, document)
                return document
        except FileNotFoundError:  # folded by another process in the meantime
            return self._parse(self.path)
        finally:
            journal.close()

    def _lines(self, data: bytes) -> list[_JournalLine]:
        lines = []
        for number, raw in enumerate(data.split(b"\n"), 1):
            try:
                if raw:
                    lines.append(decode(raw, _JournalLine))
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                if _is_json(raw):
                    reason, _ = explain_msgspec_error(error)
                    raise RecordingFormatError(
                        reason,
                        source=str(self._journal_path),
                        place=f"line {number}",
                        hint="open it with the version of offbook that wrote it, or remove the line",
                    ) from None
                log_warning(
                    "offbook.recording", "%s: dropped an incomplete line of %d bytes", self._journal_path, len(raw)
                )
        return lines

    def _document_in(self, path: Path) -> Document:
        return self._parse(path) if path.exists() else Document()

    def _parse(self, path: Path) -> Document:
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise too_large(size, self.location)
        data = read_regular(path)
        document = parse_document(data, source=self.location)
        if FOLDER_KEY in document.rest:
            document = parse_document(self._with_files(path, data), source=self.location)
            document.rest.pop(FOLDER_KEY, None)
        return document

    def _with_files(self, path: Path, data: bytes) -> bytes:
        """Return the JSON at `path`, which was `data`, with the content of its files.

        Another process may replace the recording, and remove a file, while this one reads: then it reads again.
        """
        while True:
            try:
                return self._media.put_back(data, source=self.location)
            except FileNotFoundError as error:
                before, data = data, read_regular(path)
                if data == before:
                    from offbook.recording.stores.media_files import missing_error  # noqa: PLC0415

                    raise missing_error(error, source=self.location) from None

    def _swap_in(self, data: bytes, journal: Journal) -> None:
        """Replace the file by `data`, which includes the content of the journal."""
        # A process may be killed between any two of these steps. Media files come first, because the new file refers
        # to them, and unused ones are removed last. The new file is complete on the disk before the journal has its
        # hash: who finds that hash swaps the files; who does not finds all lines in the journal, and folds again. So
        # no line is lost, and none is in the file twice.
        try:
            mode = stat.S_IMODE(self.path.stat().st_mode) if self.path.exists() else None
            data, files = self._media.take_out(data)
            self._media.write(files, mode=mode)
            write_next(self.path, data, mode=mode, durable=True)
            journal.write_locked(_encoder.encode(_JournalLine(folded=sha256(data).hexdigest())))
        except OSError:
            with suppress(OSError):
                self._next.unlink()
            raise
        self._next.replace(self.path)
        with suppress(OSError):  # what is not needed does no harm
            self._media.keep(files)


def _is_json(raw: bytes) -> bool:
    """Return whether the line is complete, even with an unreadable value: too large, or nested too deeply."""
    try:
        decode(raw, msgspec.Raw)
    except RecursionError:
        return True
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _after_last_fold(lines: list[_JournalLine]) -> tuple[str | None, list[_JournalLine]]:
    """Return the mark of the last fold, if any, and the lines after it."""
    for position in range(len(lines) - 1, -1, -1):
        if lines[position].folded is not None:
            return lines[position].folded, lines[position + 1 :]
    return None, lines


def _apply(lines: list[_JournalLine], document: Document) -> None:
    for line in lines:
        if line.meta is not None:
            document.meta |= line.meta
        if line.key is not None and line.entry is not None:
            document.add(line.key, line.entry)
        if line.tool is not None and line.call is not None:
            document.add_tool(line.tool, line.call)


class JsonFileWriter:
    """Appends to a JSON recording. If it is not closed, it folds when the program ends."""

    def __init__(self, store: JsonFileStore, journal: Journal, document: Document) -> None:
        self.meta, self.size = document.meta, sum(1 for _ in document)
        self.tool_size = sum(1 for _ in each_exchange(document.tools))
        self._store, self._journal = store, journal
        self._abandoned = weakref.finalize(self, _abandon, store, journal)

    def add_meta(self, meta: JsonObject) -> None:
        self._add(_JournalLine(meta=meta))

    def append(self, key: str, exchange: Exchange) -> None:
        self._add(_JournalLine(key=key, entry=exchange))

    def append_tool(self, tool: str, exchange: ToolExchange) -> None:
        self._add(_JournalLine(tool=tool, call=exchange))

    def _add(self, line: _JournalLine) -> None:
        data = _encoder.encode(line)
        if b"\n" in data:  # a request that was read from an indented file has some
            data = msgspec.json.format(data, indent=-1)
        if not self._abandoned.alive:
            self._abandoned = weakref.finalize(self, _abandon, self._store, self._journal)
        try:
            self._journal.append(data)
        except OSError as error:
            raise self._store.unusable(error) from None

    def close(self) -> None:
        self._abandoned.detach()
        self._journal.close()
        self._store.settle()


def _abandon(store: JsonFileStore, journal: Journal) -> None:
    """Close a writer that was not closed. The garbage collector may call this under any lock: do not wait for one."""
    journal.close()
    try:
        store.settle(wait=False)
    except InputError as error:
        log_warning("offbook.recording", "%s", error)
