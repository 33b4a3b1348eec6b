"""Importing the Python modules that a workflow takes its tools from."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from traceback import walk_tb
from types import ModuleType

from msgspec import Struct

from offbook.errors import InputError
from offbook.wording import did_you_mean

_LOADED: dict[Path, dict[str, ModuleType]] = {}
"""The modules that were loaded from each workflow's folder, by name."""
_ONE_AT_A_TIME = RLock()


class ToolModule(Struct, frozen=True):
    """A module that a workflow in `folder` names: the one beside the workflow if there is one, else any other."""

    name: str
    folder: Path

    @contextmanager
    def imported(self, *, source: str) -> Iterator[ModuleType]:
        """The module, imported as if the workflow's folder were the first on the import path.

        Inside, the names of modules mean what they mean to this one, even if another workflow has modules
        of the same names. `source` names the tool in errors.

        Raises:
            InputError: there is no such module, or it cannot be imported.
        """
        with _ONE_AT_A_TIME, _folder_first(self.folder.resolve(), self.name):
            yield self._import(source)

    def _import(self, source: str) -> ModuleType:
        try:
            return importlib.import_module(self.name)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and f"{self.name}.".startswith(f"{error.name}."):
                hint = did_you_mean(self.name, _modules_in(self.folder), kind="modules beside the workflow")
                raise InputError(f"there is no module {self.name!r}", source=source, hint=hint) from None
            told = f"{type(error).__name__}: {error}"
            where = _spot(error, self.folder.resolve())
            raise InputError(f"importing {self.name} fails, in {where}: {told}", source=source) from error


@contextmanager
def _folder_first(folder: Path, name: str) -> Iterator[None]:
    before, own = set(sys.modules), _LOADED.setdefault(folder, {})
    hidden = {stranger: sys.modules.pop(stranger) for stranger in _strangers(folder, name)}
    sys.modules.update(own)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))
        for loaded, module in list(sys.modules.items()):
            if (loaded not in before or loaded in hidden) and _is_from(folder, loaded, module):
                own[loaded] = module
        _put_back(hidden, instead_of=own)


def _put_back(hidden: dict[str, ModuleType], *, instead_of: dict[str, ModuleType]) -> None:
    tops = {_top(name) for name in hidden}
    for name in instead_of:
        if _top(name) in tops:
            sys.modules.pop(name, None)
    sys.modules.update(hidden)


def _strangers(folder: Path, name: str) -> list[str]:
    """Loaded modules that could be mistaken for those of `folder`: of other workflows, or with the name of ours."""
    others = {id(module) for place, modules in _LOADED.items() if place != folder for module in modules.values()}
    taken = "" if _file(folder, name) is None else _top(name)
    return [
        loaded
        for loaded, module in list(sys.modules.items())
        if id(module) in others or (_top(loaded) == taken and not _is_from(folder, loaded, module))
    ]


def _top(name: str) -> str:
    return name.partition(".")[0]


def _is_from(folder: Path, name: str, module: ModuleType) -> bool:
    file, origin = _file(folder, name), getattr(module, "__file__", None)
    return file is not None and origin is not None and Path(origin).resolve() == file.resolve()


def _file(folder: Path, name: str) -> Path | None:
    """The file in `folder` that Python would load as the module of that name."""
    path = folder.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


def _modules_in(folder: Path) -> list[str]:
    files = (file.relative_to(folder) for pattern in ("*.py", "*/*.py") for file in folder.glob(pattern))
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]


def _spot(error: BaseException, folder: Path) -> str:
    """Where an import failed: the line that is no Python, or the last that was run, preferably of `folder`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    spots = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    near = [spot for spot in spots if spot[0].is_relative_to(folder) and "site-packages" not in spot[0].parts]
    file, line = (near or spots)[-1]
    return f"{file.name}, line {line}"
