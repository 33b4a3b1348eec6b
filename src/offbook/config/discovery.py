"""Discovery: finds the files of scenarios, imports a project's modules, and plans which agent runs each scenario."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from msgspec import Struct

from offbook.config.file import Config
from offbook.errors import InputError, WorkflowError
from offbook.files import read_file
from offbook.recording.format.foreign import explain_import
from offbook.scenarios.runner import NO_USER_MODEL, check_agent
from offbook.scenarios.scenario import Scenario, collect_declared, turn
from offbook.scenarios.scenario import scenario as declare_scenario
from offbook.scenarios.trajectory import expected
from offbook.text import did_you_mean, did_you_mean_file, shorten

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
        raise InputError("there is no such file or folder", source=str(place), hint=did_you_mean_file(place))
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
    """Yield the Python files, configs and workflows of a folder, on which a run may depend."""
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


SITE_PACKAGES = "site-packages"
PACKAGE = Path(__file__).parent.parent


@contextmanager
def import_from(folders: Iterable[Path]) -> Iterator[None]:
    """Make the modules in the folders importable; earlier folders take precedence.

    Modules that are imported in the block are unloaded at its end, so that the next run reads them again.
    """
    before, paths = set(sys.modules), list(dict.fromkeys(folders))
    sys.path[:0] = map(str, paths)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        for path in paths:
            with suppress(ValueError):
                sys.path.remove(str(path))
        imported = [(name, module) for name, module in list(sys.modules.items()) if name not in before]
        for name in [name for name, module in imported if any(_is_in(folder, module) for folder in paths)]:
            del sys.modules[name]


def load_object(reference: str, *, source: str, place: str) -> object:
    """Import the object `module:name`; `source` and `place` say where the reference is written.

    Raises:
        InputError: the module does not exist, has no such name, or cannot be imported.
    """
    module_name, _, name = reference.partition(":")
    try:
        module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and f"{module_name}.".startswith(f"{error.name}."):
            hint = "modules are imported from the config's folder and from sys.path"
            raise InputError(f"there is no module {module_name!r}", source=source, place=place, hint=hint) from None
        raise import_error(error, f"cannot import {module_name}") from error
    if not hasattr(module, name):
        names = [other for other in vars(module) if not other.startswith("_")]
        hint = did_you_mean(name, names, kind="names in it")
        raise InputError(f"there is no {name!r} in {module_name}", source=source, place=place, hint=hint)
    loaded: object = getattr(module, name)
    return loaded


def execute_file(file: Path) -> ModuleType:
    """Execute a file and return it as a module.

    Raises:
        InputError: it cannot be imported; `source` is the file and line.
    """
    name = f"scenarios_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        explained = explain_import(read_file(file), source=file.name, expected="a Python file")
        reason, hint = explained or ("not a Python file", "")
        raise InputError(reason, source=str(file), hint=hint)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except InputError as error:
        if file.name in error.source or isinstance(error, WorkflowError):
            raise
        place = ": ".join(part for part in (error.source, error.place) if part)
        source = _location(error, inside=file.parent)
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from error
    except (Exception, SystemExit) as error:
        raise import_error(error, "cannot import it", inside=file.parent) from error
    return module


def import_error(error: BaseException, summary: str, *, inside: Path | None = None) -> InputError:
    """Return the error of a failed import with its file and line, preferably those of a file in `inside`."""
    if isinstance(error, SyntaxError) and error.filename:
        return InputError(f"{summary}: {type(error).__name__}: {error.msg}", source=f"{error.filename}:{error.lineno}")
    reason, source = f"{summary}: {type(error).__name__}: {error}", _location(error, inside=inside)
    return InputError(reason, source=source, hint=_argument_hint(str(error)) if isinstance(error, TypeError) else "")


def _location(error: BaseException, *, inside: Path | None) -> str:
    spots = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    own = [spot for spot in spots if not _is_foreign(spot[0]) and (inside is None or spot[0].is_relative_to(inside))]
    file, line = (own or spots)[-1]
    return f"{file}:{line}"


_UNKNOWN_ARGUMENT = re.compile(r"(\w+)\(\) got an unexpected keyword argument '(\w+)'")
_DECLARING = {function.__name__: function for function in (declare_scenario, turn, expected)}


def _argument_hint(message: str) -> str:
    """Return the hint for a call of a function of scenarios with wrong arguments, from the message of the TypeError."""
    found = _UNKNOWN_ARGUMENT.search(message)
    if found is not None and found[1] in _DECLARING:
        snake_case = re.sub(r"([A-Z])", r"_\1", found[2]).lower()
        return did_you_mean(snake_case, inspect.signature(_DECLARING[found[1]]).parameters, kind="arguments")
    if message.startswith("scenario() takes 1 positional argument"):
        return 'pass everything but the name by name: scenario("books a room", turns=["09:00"])'
    return ""


def _is_foreign(file: Path) -> bool:
    return SITE_PACKAGES in file.parts or not file.is_file() or file.is_relative_to(PACKAGE)


def _is_in(folder: Path, module: ModuleType) -> bool:
    """Return whether a module is from the folder. A package without `__init__.py` has no file, only its folders."""
    origin = getattr(module, "__file__", None)
    places = [Path(origin)] if origin is not None else [Path(each) for each in getattr(module, "__path__", ())]
    return any(place.is_relative_to(folder) and SITE_PACKAGES not in place.parts for place in places)
