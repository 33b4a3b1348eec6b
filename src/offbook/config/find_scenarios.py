"""Collects scenarios from files, and plans which agent runs each scenario."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from offbook.config.modules import execute_file
from offbook.config.schema import Config
from offbook.errors import InputError
from offbook.scenarios.runner import NO_USER_MODEL, check_agent
from offbook.scenarios.scenario import Scenario, collect_declared
from offbook.text import shorten

IGNORED_FOLDERS = frozenset({"__pycache__", "node_modules", "site-packages"})
PROJECT_SUFFIXES = (".py", ".toml", ".yaml", ".yml")


def scenario_files(config: Config, paths: Sequence[str] = ()) -> list[Path]:
    """Return the scenario files at `paths`, which are files or folders; by default those that the config finds.

    Raises:
        InputError: a path does not exist, or there are no scenario files.
    """
    places = [Path(path) for path in paths] or [config.folder]
    files = dict.fromkeys(file.resolve() for place in places for file in _files_at(place, config))
    if not files:
        patterns = ", ".join(config.run.scenarios)
        where = ", ".join(map(str, places))
        raise InputError(f"there are no scenarios: no file matches {patterns}", source=where)
    return list(files)


def _files_at(place: Path, config: Config) -> Iterable[Path]:
    if place.is_file():
        return [place]
    if not place.is_dir():
        raise InputError("there is no such file or folder", source=str(place))
    found = {file for pattern in config.run.scenarios for file in _matches(place, pattern)}
    return sorted(file for file in found if _is_project_file(file, place))


def _matches(place: Path, pattern: str) -> list[Path]:
    try:
        return list(place.glob(pattern))
    except (ValueError, NotImplementedError, RecursionError) as error:
        hint = "a pattern is relative to the folder of the config, like **/sim_*.py"
        raise InputError(f"{shorten(pattern)!r}: {error}", source="run.scenarios", hint=hint) from None


def _is_project_file(file: Path, place: Path) -> bool:
    folders = file.relative_to(place).parts[:-1]
    return file.is_file() and not any(map(_is_ignored, folders))


def _is_ignored(folder: str) -> bool:
    return folder in IGNORED_FOLDERS or folder.startswith(".")


def project_files(folder: Path) -> Iterator[Path]:
    """Yield the Python files, configs and workflows in a folder: what a run may depend on."""
    for place, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_ignored(name)]
        yield from (Path(place, name) for name in names if name.endswith(PROJECT_SUFFIXES))


def collect_scenarios(files: Iterable[Path]) -> list[Scenario]:
    """Execute the files and return the scenarios that they declare, in order.

    Raises:
        InputError: a file cannot be imported, a scenario is invalid, or two have the same name.
    """
    scenarios = [scenario for file in files for scenario in collect_declared(partial(execute_file, file))]
    known: dict[str, Scenario] = {}
    for scenario in scenarios:
        other = known.setdefault(scenario.name, scenario)
        if other is not scenario:
            reason = f"there is another scenario named {scenario.name!r}, at {other.source}"
            hint = "names must be unique: recordings and reports use them"
            raise InputError(reason, source=scenario.source, hint=hint)
    return scenarios


class RunPlan(Struct, frozen=True):
    """The scenarios of a run, the agents requested instead of those that scenarios name, and the resulting pairs."""

    scenarios: tuple[Scenario, ...]
    requested_agents: tuple[str, ...]
    pairs: tuple[tuple[Scenario, str], ...]

    @property
    def agents(self) -> tuple[str, ...]:
        """The agents of the run, in order."""
        return tuple(dict.fromkeys(agent for _, agent in self.pairs))


def plan_run(config: Config, scenarios: Sequence[Scenario], *, agents: Iterable[str] = ()) -> RunPlan:
    """Pair every scenario with each of `agents`, or with the agent that it names, or with the first of the config.

    Raises:
        InputError: an agent is unknown, the config has no agents, or there is no model to simulate a user.
    """
    if not config.agents:
        hint = '[agent]\n    handler = "my_agent:handle"'
        raise InputError("no agent is declared", source=config.source, hint=hint)
    requested = tuple(dict.fromkeys(agents))
    for name in requested:
        check_agent(name, config.agents, source="--agent")
    pairs = []
    for scenario in scenarios:
        place = f"scenario {scenario.name!r}"
        if not scenario.is_scripted and config.user is None:
            hint = f"add turns to the scenario, or a [user] with provider and model to {config.source}"
            raise InputError(NO_USER_MODEL, source=scenario.source, place=place, hint=hint)
        for name in requested or (scenario.agent or next(iter(config.agents)),):
            check_agent(name, config.agents, source=scenario.source, place=place)
            pairs.append((scenario, name))
    return RunPlan(tuple(scenarios), requested, tuple(pairs))
