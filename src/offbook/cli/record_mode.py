"""What a command does if it is to record where something is recorded already."""

from __future__ import annotations

from offbook.cli.options import RecordMode
from offbook.cli.output.console import print_message
from offbook.errors import InputError
from offbook.recording.call_cache import is_failure
from offbook.recording.stores.locate import open_store
from offbook.text import pluralize

_MODES = "append adds this run, fresh replaces them, all replaces what is called again, new records what is missing"


def require_record_mode(location: str, mode: RecordMode | None, *, default: RecordMode = "append") -> RecordMode:
    """Return the mode to record with: as given, or the default for a recording without exchanges.

    Raises:
        InputError: the recording has exchanges, and no mode says what becomes of them; or it cannot be read.
    """
    size, failed = (0, 0) if mode is not None else _size(location)
    if size:
        reason = f"there {'is' if size == 1 else 'are'} {pluralize(size, 'exchange')} already"
        if failed == size:
            hint = "no call of that run got an answer: add --record-mode fresh to replace it"
            raise InputError(f"{reason}, and all failed", source=location, hint=hint)
        raise InputError(reason, source=location, hint=f"add --record-mode MODE: {_MODES}")
    return mode or default


def note_recorded(location: str, mode: RecordMode | None) -> None:
    """Say on stderr that exchanges are added to those of a recording, if no mode says so.

    Raises:
        InputError: the recording cannot be read.
    """
    size, _ = (0, 0) if mode is not None else _size(location)
    if size:
        message = f"{location} has {pluralize(size, 'exchange')}: this run is added to them"
        print_message("offbook: ", f"{message}; --record-mode fresh replaces them", is_err=True)


def _size(location: str) -> tuple[int, int]:
    """Return how many exchanges a recording has, and how many of them are failures of a model."""
    store = open_store(location)
    if not store.exists():
        return 0, 0
    document = store.load()
    return document.size, sum(is_failure(exchange) for _, exchange in document)
