"""Runs a command again whenever a file of its project changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from offbook.cli import BAD_INPUT, FINE, INTERRUPTED
from offbook.cli.output.console import print_message
from offbook.config.discovery import project_files
from offbook.errors import OffbookError

_POLL_PAUSE = partial(time.sleep, 0.3)


def run_on_change(run: Callable[[], int], changes: Iterable[object]) -> int:
    """Run now and after every change, until interrupted or until there are no more changes. Return the last exit code.

    A problem with the files is printed, and the next change is awaited.
    """
    code = FINE
    try:
        for _ in chain([None], changes):
            code = _run_once(run)
            if code == INTERRUPTED:
                break
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def poll_changes(folder: Path, *, pause: Callable[[], object] = _POLL_PAUSE) -> Iterator[None]:
    """Yield whenever a Python file, a config or a workflow in the folder is changed, added or removed.

    It compares with the files of now, after each `pause`.
    """
    return _changes(folder, _modified_times(folder), pause)


def _changes(folder: Path, seen: dict[Path, int], pause: Callable[[], object]) -> Iterator[None]:
    while True:
        pause()
        now = _modified_times(folder)
        if now != seen:
            seen = now
            yield


def _modified_times(folder: Path) -> dict[Path, int]:
    """Return when each file was last changed."""
    moments = {}
    for file in project_files(folder):
        with suppress(FileNotFoundError):
            moments[file] = file.stat().st_mtime_ns
    return moments


def _run_once(run: Callable[[], int]) -> int:
    try:
        return run()
    except OffbookError as error:
        print_message("error: ", str(error), style="bold red", is_err=True)
        return BAD_INPUT
