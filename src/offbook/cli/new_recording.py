"""A recording that a command may make."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from offbook.recording.stores.locate import open_store


@contextmanager
def none_left_empty(location: str | None) -> Iterator[None]:
    """Remove the file at `location`, if it was not there before the block and nothing was recorded in it.

    A database is left: others may have it open, and would go on writing to what is gone.

    Raises:
        InputError: the location names no store.
    """
    was_there = location is None or "://" in location or open_store(location).exists()
    try:
        yield
    finally:
        if not was_there and location is not None:
            _remove_if_empty(location)


def _remove_if_empty(location: str) -> None:
    store = open_store(location)
    if store.exists() and store.load().size == 0:
        Path(location).unlink(missing_ok=True)
