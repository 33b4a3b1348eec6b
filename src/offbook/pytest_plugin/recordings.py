"""The recordings of tests: where they are, and which files and entries no test used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.recording.match.cursor import UnusedEntry


FOLDER = "recordings"
MAX_NAME_CHARS = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def default_recording(test_file: Path, name: str) -> Path:
    """`recordings/<file>/<name>.json` beside the file, with what file names should not have taken out of the name."""
    return test_file.parent / FOLDER / test_file.stem / f"{file_name(name)}.json"


def file_name(name: str) -> str:
    """The name of a test, fit for a file: `test_greets[Ada]` is `test_greets-Ada`.

    Names that would become alike get a digest at their end.
    """
    plain = name.removesuffix("]").replace("[", "-", 1) if name.endswith("]") else name
    fit = _UNFIT.sub("-", plain).strip("-.")[:MAX_NAME_CHARS]
    if fit == plain.replace(" ", "-"):
        return fit
    return f"{fit}-{blake2b(name.encode(), digest_size=3).hexdigest()}".lstrip("-")


def resolve_recording(recording: str, folder: Path) -> str:
    """A recording as a marker names it, with its path made relative to the test's folder."""
    scheme, separator, path = recording.rpartition(":///")
    return f"{scheme}{separator}{folder / path}"


NARROWING_OPTIONS = ("keyword", "markexpr", "deselect", "lf", "last_failed", "stepwise", "collectonly")


def unused_recordings(config: pytest.Config, used: set[str]) -> list[Path]:
    """The recordings below the folders that were run, without those used; none if only some of their tests were."""
    if any(config.getoption(name, None) for name in NARROWING_OPTIONS):
        return []
    folders = [folder for folder in map(Path, config.args) if folder.is_dir()]
    taken = {os.path.realpath(each) for each in used}
    found = {file.resolve() for folder in folders for file in _recordings_below(folder, config.getini("norecursedirs"))}
    return sorted(file for file in found if str(file) not in taken)


def _recordings_below(folder: Path, passed_over: list[str]) -> Iterator[Path]:
    for place, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in passed_over)]
        if FOLDER in folders:
            folders.remove(FOLDER)
            yield from Path(place, FOLDER).rglob("*.json")


MAX_SHOWN_ENTRIES = 10


def fail_if_unused(unused: list[UnusedEntry], recording: str) -> None:
    """Fail the test that is running if it left something unused."""
    __tracebackhide__ = True
    if unused:
        left = join_entries(entry_names(unused))
        told = f"{pluralize(len(unused), 'entry', 'entries')} not used"
        hint = "remove what is stale, or record the test again"
        pytest.fail(f"{recording}: {told}: {left}\n  hint: {hint}", pytrace=False)


def entry_names(unused: list[UnusedEntry]) -> list[str]:
    """The entries by their keys, of which fingerprints are cut, and their places in the keys' lists."""
    from offbook.recording.format.keys import short_fingerprint  # noqa: PLC0415 - this module is loaded with pytest

    return [f"{short_fingerprint(each.key)}[{each.position}]" for each in unused]


def join_entries(entries: list[str]) -> str:
    """The first entries, on one line."""
    return ", ".join(entries[:MAX_SHOWN_ENTRIES]) + (", …" if len(entries) > MAX_SHOWN_ENTRIES else "")
