"""Imports the Python modules of a project from its folder, and unloads them after the run."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from traceback import walk_tb
from types import ModuleType

from offbook.errors import InputError, WorkflowError
from offbook.scenarios.scenario import scenario, turn
from offbook.scenarios.trajectory import expected
from offbook.text import did_you_mean

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
        for name in [name for name in sys.modules if name not in before]:
            if any(_is_in(folder, sys.modules[name]) for folder in paths):
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
        raise InputError("not a Python file", source=str(file))
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
_DECLARING = {function.__name__: function for function in (scenario, turn, expected)}


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
    origin = getattr(module, "__file__", None)
    return origin is not None and Path(origin).is_relative_to(folder) and SITE_PACKAGES not in Path(origin).parts
