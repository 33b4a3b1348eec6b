"""A recording in a JSON file, with a journal beside it while it is being written."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec
from msgspec import Struct

from understudy.errors import InputError, RecordingFormatError
from understudy.messages import JsonObject
from understudy.recording.document import Document
from understudy.recording.exchange import Exchange
from understudy.recording.file_format import MAX_FILE_BYTES, parse, render, too_large
from understudy.recording.stores.journal import Journal
from understudy.recording.stores.memory import MemoryShelf

logger = logging.getLogger("understudy.recording")


class _Line(Struct, omit_defaults=True, forbid_unknown_fields=True):
    """One line of the journal: an exchange to add, metadata to add, or the mark of a fold about to be finished."""

    key: str | None = None
    entry: Exchange | None = None
    forget_before: str | None = None
    meta: JsonObject | None = None
    folded: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(_Line)


class JsonFileStore:
    """A recording at `path`. What was appended is in the journal at once and in the file after a fold.

    A fold writes the whole file anew beside the old one, marks that in the journal, swaps the files
    and removes the journal; whoever opens the recording after a crash finishes or repeats it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(os.path.realpath(path))
        self.location = str(path)
        self._next = self.path.with_name(self.path.name + ".next")
        self._journal_path = self.path.with_name(self.path.name + ".journal")

    def exists(self) -> bool:
        return self.path.exists() or self._journal_path.exists()

    def read(self) -> MemoryShelf:
        return MemoryShelf(self.load(), source=self.location)

    def load(self) -> Document:
        if not self.exists():
            raise InputError("no such recording", source=self.location, hint="record it first, or check the path")
        if self._journal_path.exists():
            return self._fold_or_merge()
        return self._parse_file()

    def write(self) -> JsonFileWriter:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            if not self.path.exists():
                self._create()
            return JsonFileWriter(self, Journal(self._journal_path), self.load())
        except OSError as error:
            raise self._unusable(error) from None

    def save(self, document: Document) -> None:
        data = render(document)
        try:
            with self._locked_journal() as journal:
                self._swap_in(data)
                journal.remove_locked()
        except OSError as error:
            raise self._unusable(error) from None

    def _create(self) -> None:
        """Make the file, unless another process was quicker."""
        with self._locked_journal():
            if not self.path.exists():
                self._swap_in(render(Document()))

    @contextmanager
    def _locked_journal(self) -> Iterator[Journal]:
        journal = Journal(self._journal_path)
        try:
            with journal.locked():
                yield journal
        finally:
            journal.close()

    def fold(self) -> Document:
        """Bring what the journal holds into the file.

        Raises:
            OSError: the folder cannot be written to; nothing is lost.
            RecordingFormatError: the file is no recording; file and journal are left as they are.
        """
        with self._locked_journal() as journal:
            lines = self._open_lines(journal.read_locked())
            document = self._parse_file() if self.path.exists() else Document()
            if lines:
                _apply(lines, document)
                data = render(document)
                self._write_next(data)
                journal.write_locked(_encoder.encode(_Line(folded=sha256(data).hexdigest())))
                self._next.replace(self.path)
            journal.remove_locked()
            return document

    def _fold_or_merge(self) -> Document:
        """Fold, or where the folder cannot be written to, do as much in memory."""
        try:
            return self.fold()
        except OSError:
            document = self._parse_file() if self.path.exists() else Document()
            _apply(_after_last_fold(self._lines(self._journal_path.read_bytes()))[1], document)
            return document

    def _open_lines(self, data: bytes) -> list[_Line]:
        """The lines that are not in the file yet, after finishing a fold that was cut off before its swap."""
        folded, lines = _after_last_fold(self._lines(data))
        if folded and self._next.exists() and sha256(self._next.read_bytes()).hexdigest() == folded:
            self._next.replace(self.path)
        return lines

    def _lines(self, data: bytes) -> list[_Line]:
        lines = []
        for raw in data.split(b"\n"):
            try:
                if raw:
                    lines.append(_decoder.decode(raw))
            except (msgspec.DecodeError, UnicodeDecodeError):
                logger.warning("%s: dropped a torn line of %d bytes", self._journal_path, len(raw))
        return lines

    def _parse_file(self) -> Document:
        try:
            size = self.path.stat().st_size
            if size > MAX_FILE_BYTES:
                raise too_large(size, self.location)
            return parse(self.path.read_bytes(), source=self.location)
        except OSError as error:
            raise self._unusable(error) from None

    def _write_next(self, data: bytes) -> None:
        with self._next.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if self.path.exists():
            self._next.chmod(self.path.stat().st_mode & 0o7777)

    def _swap_in(self, data: bytes) -> None:
        self._write_next(data)
        self._next.replace(self.path)

    def _unusable(self, error: OSError) -> InputError:
        reason = error.strerror or str(error)
        hint = "name a file, not a folder" if self.path.is_dir() else "check the path and its permissions"
        return RecordingFormatError(reason[0].lower() + reason[1:], source=self.location, hint=hint)


def _after_last_fold(lines: list[_Line]) -> tuple[str | None, list[_Line]]:
    """The mark of the last fold, if there is one, and the lines behind it."""
    for position in range(len(lines) - 1, -1, -1):
        if lines[position].folded is not None:
            return lines[position].folded, lines[position + 1 :]
    return None, lines


def _apply(lines: list[_Line], document: Document) -> None:
    for line in lines:
        if line.meta is not None:
            document.meta |= line.meta
        if line.key is not None and line.entry is not None:
            if line.forget_before is not None:
                document.forget(line.key, before=line.forget_before)
            document.add(line.key, line.entry)


class JsonFileWriter:
    """Appends to a JSON recording. Left unclosed, it folds when the program ends."""

    def __init__(self, store: JsonFileStore, journal: Journal, document: Document) -> None:
        self.meta, self.size = document.meta, sum(1 for _ in document)
        self._journal = journal
        self._close = weakref.finalize(self, _fold_and_close, store, journal)

    def add_meta(self, meta: JsonObject) -> None:
        self._journal.append(_encoder.encode(_Line(meta=meta)))

    def append(self, key: str, exchange: Exchange, *, forget_before: str | None = None) -> None:
        self._journal.append(_encoder.encode(_Line(key=key, entry=exchange, forget_before=forget_before)))

    def close(self) -> None:
        self._close()


def _fold_and_close(store: JsonFileStore, journal: Journal) -> None:
    journal.close()
    if store.path.parent.exists() and store.exists():
        store.load()
