"""The locations of tests' recordings, and the files and entries that no test used."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from offbook.errors import InputError
from offbook.text import pluralize

if TYPE_CHECKING:
    from offbook.pytest_plugin.markers import RecordingPlan
    from offbook.recording.match.cursor import OverusedEntry, UnusedEntry


FOLDER = "recordings"
MAX_NAME_CHARS = 100
_UNFIT = re.compile(r"[^A-Za-z0-9_.-]+")


def default_recording(test_file: Path, name: str) -> Path:
    """Return `recordings/<file>/<name>.json` next to the file, with a valid file name."""
    return test_file.parent / FOLDER / test_file.stem / f"{file_name(name)}.json"


def file_name(name: str) -> str:
    """Return a valid file name for a test: `test_greets[Ada]` becomes `test_greets-Ada`.

    A name that loses other characters gets a digest, so different tests have different files.
    """
    plain = name.removesuffix("]").replace("[", "-", 1) if name.endswith("]") else name
    fit = _UNFIT.sub("-", plain).strip("-.")[:MAX_NAME_CHARS]
    if fit == plain.replace(" ", "-"):
        return fit
    return f"{fit}-{blake2b(name.encode(), digest_size=3).hexdigest()}".lstrip("-")


def resolve_recording(recording: str, folder: Path) -> str:
    """Return the recording of a marker. A file's path is relative to the folder of the test."""
    if recording.lower().startswith(("redis://", "rediss://")):
        return recording
    scheme, separator, path = recording.rpartition(":///")
    return f"{scheme}{separator}{folder / path}"


_LIVE_MODES = ("all", "append", "fresh")


def keys_to_set(plans: Iterable[RecordingPlan], environment: Mapping[str, str]) -> list[str]:
    """Return the unset key variables of the vendors whose answers are to be recorded again.

    The vendors are those of the existing recordings. One whose address the environment sets needs no key.
    """
    locations = {plan.location for plan in plans if plan.record in _LIVE_MODES}
    if not locations:
        return []
    from offbook.recording.stores.locate import open_store  # noqa: PLC0415 - only who records again needs it
    from offbook.vendors import VENDORS, missing_keys, upstreams_from_environment  # noqa: PLC0415

    known = {codec: name for name, each in VENDORS.items() if not each.is_opt_in for codec in each.codecs.values()}
    vendors = set[str]()
    for location in locations:
        with suppress(InputError):  # the test itself fails then, and says why
            store = open_store(location)
            document = store.load() if store.exists() else ()
            vendors |= {known.get(each.wire.protocol, "") for _, each in document if each.wire is not None}
    return missing_keys(sorted(vendors - upstreams_from_environment(environment).keys()), environment)


NARROWING_OPTIONS = ("keyword", "markexpr", "deselect", "lf", "last_failed", "stepwise", "collectonly", "offbook_shard")


def unused_recordings(config: pytest.Config, used: set[str]) -> list[Path]:
    """Return the unused recordings below the folders that ran, or none if only some of their tests ran."""
    if any(config.getoption(name, None) for name in NARROWING_OPTIONS):
        return []
    folders = [folder for folder in map(Path, config.args) if folder.is_dir()]
    used_files = {os.path.realpath(each) for each in used}
    found = {file.resolve() for folder in folders for file in _recordings_below(folder, config.getini("norecursedirs"))}
    return sorted(file for file in found if str(file) not in used_files)


def _recordings_below(folder: Path, ignored: list[str]) -> Iterator[Path]:
    for place, folders, _ in os.walk(folder):
        folders[:] = [name for name in folders if not any(fnmatch(name, pattern) for pattern in ignored)]
        if FOLDER in folders:
            folders.remove(FOLDER)
            yield from Path(place, FOLDER).rglob("*.json")


MAX_SHOWN_ENTRIES = 10


def fail_if_unused(unused: list[UnusedEntry], recording: str) -> None:
    """Fail the current test if it left entries unused."""
    __tracebackhide__ = True
    if unused:
        count, names = pluralize(len(unused), "entry", "entries"), join_entries(entry_names(unused))
        hint = "remove what is stale, or record the test again"
        pytest.fail(f"{recording}: {count} not used: {names}\n  hint: {hint}", pytrace=False)


def fail_if_overused(overused: list[OverusedEntry], recording: str) -> None:
    """Fail the current test if it was served entries more often than they were recorded."""
    __tracebackhide__ = True
    if overused:
        from offbook.recording.format.keys import short_fingerprint  # noqa: PLC0415 - this module is loaded with pytest

        names = join_entries([f"{short_fingerprint(each.key)} {each.served:,} times" for each in overused])
        hint = "the test repeats calls that were made once; record it again if it should"
        reason = f"{pluralize(len(overused), 'entry', 'entries')} served more often than recorded: {names}"
        pytest.fail(f"{recording}: {reason}\n  hint: {hint}", pytrace=False)


def entry_names(unused: list[UnusedEntry]) -> list[str]:
    """Return the entries as keys, with fingerprints shortened, and positions in the lists of the keys."""
    from offbook.recording.format.keys import short_fingerprint  # noqa: PLC0415 - this module is loaded with pytest

    return [f"{short_fingerprint(each.key)}[{each.position}]" for each in unused]


def join_entries(entries: list[str]) -> str:
    """Join the first entries to one line."""
    return ", ".join(entries[:MAX_SHOWN_ENTRIES]) + (", …" if len(entries) > MAX_SHOWN_ENTRIES else "")
