"""Recordings that no test used."""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

from offbook.pytest_plugin.recording_place import FOLDER

NARROWING = ("keyword", "markexpr", "deselect", "lf", "last_failed", "stepwise", "collectonly")


def unused_recordings(config: pytest.Config, used: set[str]) -> list[Path]:
    """The recordings below the folders that were run, without those used; none if only some of their tests were."""
    if any(config.getoption(name, None) for name in NARROWING):
        return []
    folders = [folder for folder in map(Path, config.args) if folder.is_dir()]
    taken = {os.path.realpath(each) for each in used}
    found = {file.resolve() for folder in folders for file in _recordings(folder, config.getini("norecursedirs"))}
    return sorted(file for file in found if str(file) not in taken)


def _recordings(folder: Path, passed_over: list[str]) -> Iterator[Path]:
    for place, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in passed_over)]
        if FOLDER in folders:
            folders.remove(FOLDER)
            yield from Path(place, FOLDER).rglob("*.json")
