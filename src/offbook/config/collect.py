"""Collects scenarios from files, and plans which scenario runs with which agent."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from offbook.config.modules import execute_file
from offbook.config.schema import Config
from offbook.errors import InputError
from offbook.scenarios.scenario import Scenario, collect_declared
from offbook.text import did_you_mean

IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
PROJECT_SUFFIXES = (".py", ".toml", ".yaml", ".yml")


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
    found = {file for pattern in config.run.scenarios for file in place.glob(pattern) if _is_project_file(file, place)}
    return sorted(found)


def _is_project_file(file: Path, place: Path) -> bool:
    folders = file.relative_to(place).parts[:-1]
    return file.is_file() and not any(map(_is_ignored, folders))


def _is_ignored(folder: str) -> bool:
    return folder in IGNORED_FOLDERS or folder.startswith(".")


def project_files(folder: Path) -> Iterator[Path]:
    """The Python files, configs and workflows in a folder: what a run may depend on."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_ignored(name)]
        yield from (Path(place, name) for name in names if name.endswith(PROJECT_SUFFIXES))


def collect_scenarios(files: Iterable[Path]) -> list[Scenario]:
    """The scenarios that the files declare, in order. The files are executed.

    Raises:
        InputError: a file cannot be imported, a scenario is declared wrongly, or two have the same name.
    """
    scenarios = [scenario for file in files for scenario in collect_declared(partial(execute_file, file))]
    known: dict[str, Scenario] = {}
    for scenario in scenarios:
        other = known.setdefault(scenario.name, scenario)
        if other is not scenario:
            reason = f"there is another scenario called {scenario.name!r}, at {other.source}"
            raise InputError(
                reason, source=scenario.source, hint="recordings and reports know scenarios by their names"
            )
    return scenarios


class RunPlan(Struct, frozen=True):
    """Scenarios, and the agents that are asked for in the place of those that the scenarios name."""

    scenarios: tuple[Scenario, ...]
    requested_agents: tuple[str, ...]
    pairs: tuple[tuple[Scenario, str], ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents that take part, in order."""
        return tuple(dict.fromkeys(agent for _, agent in self.pairs))


def plan_run(config: Config, scenarios: Sequence[Scenario], *, agents: Iterable[str] = ()) -> RunPlan:
    """Every scenario with each of `agents`, or with the one that it names, or with the first of the config.

    Raises:
        InputError: there is no such agent, or none at all, or nobody to play the user of a scenario.
    """
    asked = tuple(dict.fromkeys(agents))
    for name in asked:
        _check_agent(config, name, source="--agent", place="")
    pairs = []
    for scenario in scenarios:
        place = f"scenario {scenario.name!r}"
        if not scenario.is_scripted and config.user is None:
            hint = f"write [user] with provider and model into {config.source}, or give the scenario turns"
            raise InputError("there is no model to play its user", source=scenario.source, place=place, hint=hint)
        for name in asked or (scenario.agent or next(iter(config.agents), ""),):
            _check_agent(config, name, source=scenario.source, place=place)
            pairs.append((scenario, name))
    return RunPlan(tuple(scenarios), asked, tuple(pairs))


def _check_agent(config: Config, name: str, *, source: str, place: str) -> None:
    if not config.agents:
        hint = '[agent]\n    handler = "my_agent:handle"'
        raise InputError("no agent is declared", source=config.source, hint=hint)
    if name not in config.agents:
        hint = did_you_mean(name, config.agents, kind="agents")
        raise InputError(f"there is no agent {name!r}", source=source, place=place, hint=hint)
