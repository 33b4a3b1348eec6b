"""Collecting scenarios: which files there are, and what they declare."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from offbook.config.modules import execute
from offbook.config.schema import Config
from offbook.errors import InputError
from offbook.scenarios.scenario import Scenario, collecting

PASSED_OVER = frozenset({"__pycache__", "node_modules", "site-packages"})
WATCHED = (".py", ".toml", ".yaml", ".yml")


def scenario_files(config: Config, paths: Sequence[str] = ()) -> list[Path]:
    """The files that scenarios are in: those named, those in folders named, or those that the config finds.

    Raises:
        InputError: a path is not there, or there is no such file at all.
    """
    places = [Path(path) for path in paths] or [config.folder]
    files = dict.fromkeys(file.resolve() for place in places for file in _files_at(place, config))
    if not files:
        patterns = ", ".join(config.run.scenarios)
        where = ", ".join(map(str, places))
        raise InputError(f"there are no scenarios: no file is like {patterns}", source=where)
    return list(files)


def _files_at(place: Path, config: Config) -> Iterable[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError("there is no such file or folder", source=str(place))
    found = {file for pattern in config.run.scenarios for file in place.glob(pattern) if _is_own(file, place)}
    return sorted(found)


def _is_own(file: Path, place: Path) -> bool:
    folders = file.relative_to(place).parts[:-1]
    return file.is_file() and not any(map(_is_passed_over, folders))


def _is_passed_over(folder: str) -> bool:
    return folder in PASSED_OVER or folder.startswith(".")


def project_files(folder: Path) -> Iterator[Path]:
    """The Python files, configs and workflows in a folder: what a run may depend on."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_passed_over(name)]
        yield from (Path(place, name) for name in names if name.endswith(WATCHED))


def collect_scenarios(files: Iterable[Path]) -> list[Scenario]:
    """The scenarios that the files declare, in order. The files are executed.

    Raises:
        InputError: a file cannot be imported, a scenario is declared wrongly, or two have the same name.
    """
    scenarios = [scenario for file in files for scenario in collecting(partial(execute, file))]
    known: dict[str, Scenario] = {}
    for scenario in scenarios:
        other = known.setdefault(scenario.name, scenario)
        if other is not scenario:
            reason = f"there is another scenario called {scenario.name!r}, at {other.source}"
            raise InputError(
                reason, source=scenario.source, hint="recordings and reports know scenarios by their names"
            )
    return scenarios
