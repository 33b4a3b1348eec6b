"""Running again whenever files change."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from offbook.cli.console import say
from offbook.cli.exit_codes import BAD_INPUT, FINE, INTERRUPTED
from offbook.config.collect import project_files
from offbook.errors import OffbookError

_SHORTLY = partial(time.sleep, 0.3)


def watched(run: Callable[[], int], changes: Iterable[object]) -> int:
    """Run now and after every change, until interrupted or until there are no more changes; gives the last exit code.

    What is wrong with the files is told, and waited for to be mended.
    """
    code = FINE
    try:
        for _ in chain([None], changes):
            code = _told(run)
            if code == INTERRUPTED:
                break
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def polled_changes(folder: Path, *, pause: Callable[[], object] = _SHORTLY) -> Iterator[None]:
    """Yields whenever a Python file, a config or a workflow in the folder has been changed, added or removed.

    It counts from now, and looks after each `pause`.
    """
    return _changes(folder, _moments(folder), pause)


def _changes(folder: Path, seen: dict[Path, int], pause: Callable[[], object]) -> Iterator[None]:
    while True:
        pause()
        now = _moments(folder)
        if now != seen:
            seen = now
            yield


def _moments(folder: Path) -> dict[Path, int]:
    """When each file was last changed."""
    moments = {}
    for file in project_files(folder):
        with suppress(FileNotFoundError):
            moments[file] = file.stat().st_mtime_ns
    return moments


def _told(run: Callable[[], int]) -> int:
    try:
        return run()
    except OffbookError as error:
        say("error: ", str(error), style="bold red", is_err=True)
        return BAD_INPUT
