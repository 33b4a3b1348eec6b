"""Writes events as JSON lines, and reads them back."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TextIO, get_args

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import asdict

from offbook.clock import Clock
from offbook.decoding import decode
from offbook.errors import InputError
from offbook.events import ClosingSink, Event
from offbook.files import open_output, open_regular
from offbook.recording.redact.rules import mask_reported

_KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in get_args(Event)}


class JsonLinesSink(ClosingSink):
    """Writes each event as an object on its own line: `{"event": "CallStarted", …its fields}`.

    Every line is flushed: a crash loses none. Equal runs write equal bytes.

    Args:
        target: a path, whose file is replaced and whose folder is created, or an open text file, which is appended to
            and not closed.
        clock: adds `at_s`, the clock's seconds; without one, lines have no time. The `SYSTEM_CLOCK` of offbook.clock
            uses the time of the running event loop, which may be virtual.
    """

    def __init__(self, target: str | os.PathLike[str] | TextIO, *, clock: Clock | None = None) -> None:
        self._is_owner = isinstance(target, str | os.PathLike)
        self._file = open_for_writing(target) if isinstance(target, str | os.PathLike) else target
        self._clock = clock

    def emit(self, event: Event) -> None:
        fields = {"event": type(event).__name__, **asdict(event)}
        if self._clock is not None:
            fields["at_s"] = self._clock.monotonic_s()
        self._file.write(mask_reported(orjson.dumps(fields)).decode() + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file if the sink opened it. Safe to call twice."""
        if self._is_owner:
            self._file.close()


def read_events(path: str | os.PathLike[str]) -> Iterator[Event]:
    """Yield the events that a JsonLinesSink wrote to `path`.

    Raises:
        InputError: the file cannot be read, or a line of it is not an event; it names the line.
    """
    try:
        with open(open_regular(path, os.O_RDONLY), "rb") as lines:  # noqa: PTH123 - a file descriptor has no path
            for number, line in enumerate(lines, start=1):
                yield _event(line, source=os.fspath(path), place=f"line {number}")
    except OSError as error:
        raise InputError(str(error.strerror), source=os.fspath(path)) from error


def open_for_writing(path: str | os.PathLike[str]) -> TextIO:
    """Open a new text file, in a folder that is created if needed.

    Raises:
        InputError: the file cannot be written.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        return open(open_output(path), "w", encoding="utf-8", newline="\n")  # noqa: PTH123 - the caller closes it
    except OSError as error:
        raise InputError(str(error.strerror), source=os.fspath(path)) from error


def _event(line: bytes, *, source: str, place: str) -> Event:
    try:
        name = decode(line, _Head).event
        if name not in _KINDS:
            known = ", ".join(sorted(_KINDS))
            raise InputError(f"unknown event {name!r}", source=source, place=place, hint=f"events: {known}")
        event: Event = decode(line, _KINDS[name])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        hint = 'write one event per line, like {"event": "BreakerChanged", "provider": "openai", "state": "open"}'
        raise InputError(str(error), source=source, place=place, hint=hint) from error
    return event


class _Head(Struct):
    event: str
