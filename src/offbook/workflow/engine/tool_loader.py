"""Loads the tools that a workflow declares: built-ins, and functions of modules in the folder of the workflow."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from traceback import walk_tb
from types import ModuleType

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.text import did_you_mean
from offbook.tools import FunctionTool, ToolDef, tool_of
from offbook.workflow.builtin_tools import http_get, read_file, shell
from offbook.workflow.file.schema import HttpGetTool, PythonFunctionTool, ReadFileTool, ShellTool, ToolDefinition

_LOADED_MODULES: dict[Path, dict[str, ModuleType]] = {}
"""The modules that were imported from each workflow's folder, by name."""
_IMPORT_LOCK = RLock()


class ToolModule(Struct, frozen=True):
    """A module named by a workflow: from the workflow's `folder` if it exists there, otherwise from the import path."""

    name: str
    folder: Path

    @contextmanager
    def imported(self, *, source: str) -> Iterator[ModuleType]:
        """Import the module as if the workflow's folder were the first entry of `sys.path`.

        While the block lasts, `sys.modules` has the modules of this workflow, even if another workflow has modules
        of the same names. `source` names the tool in errors.

        Raises:
            InputError: there is no such module, or it cannot be imported.
        """
        with _IMPORT_LOCK, _folder_first(self.folder.resolve(), self.name):
            yield self._import(source)

    def _import(self, source: str) -> ModuleType:
        try:
            return importlib.import_module(self.name)
        except (Exception, SystemExit) as error:
            if isinstance(error, ModuleNotFoundError) and f"{self.name}.".startswith(f"{error.name}."):
                hint = did_you_mean(self.name, _modules_in(self.folder), kind="modules next to the workflow")
                raise InputError(f"there is no module {self.name!r}", source=source, hint=hint) from None
            where = _failure_location(error, self.folder.resolve())
            reason = f"importing {self.name} fails, in {where}: {type(error).__name__}: {error}"
            raise InputError(reason, source=source) from error


# Two workflows in one process may each have a module `tools`. Python keeps one module of a name, so the second workflow
# would get the functions of the first. While a module is imported and used here, the modules of other workflows are
# therefore out of `sys.modules`, and those of this one are in it. Afterwards both are as before. A lock keeps other
# threads from importing in the meantime.
@contextmanager
def _folder_first(folder: Path, name: str) -> Iterator[None]:
    before, own = set(sys.modules), _LOADED_MODULES.setdefault(folder, {})
    hidden = {shadowing: sys.modules.pop(shadowing) for shadowing in _shadowing_modules(folder, name)}
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
        _restore(hidden, instead_of=own)


def _restore(hidden: dict[str, ModuleType], *, instead_of: dict[str, ModuleType]) -> None:
    tops = {_top_package(name) for name in hidden}
    for name in instead_of:
        if _top_package(name) in tops:
            sys.modules.pop(name, None)
    sys.modules.update(hidden)


def _shadowing_modules(folder: Path, name: str) -> list[str]:
    """Return loaded modules that hide those of `folder`: modules of other workflows, or with our own module's name."""
    others = {
        id(module) for place, modules in _LOADED_MODULES.items() if place != folder for module in modules.values()
    }
    own_top = "" if _module_file(folder, name) is None else _top_package(name)
    return [
        loaded
        for loaded, module in list(sys.modules.items())
        if id(module) in others or (_top_package(loaded) == own_top and not _is_from(folder, loaded, module))
    ]


def _top_package(name: str) -> str:
    return name.partition(".")[0]


def _is_from(folder: Path, name: str, module: ModuleType) -> bool:
    file, origin = _module_file(folder, name), getattr(module, "__file__", None)
    return file is not None and origin is not None and Path(origin).resolve() == file.resolve()


def _module_file(folder: Path, name: str) -> Path | None:
    """Return the file in `folder` that Python would import as the module of that name."""
    path = folder.joinpath(*name.split("."))
    return next((file for file in (path / "__init__.py", path.with_name(f"{path.name}.py")) if file.is_file()), None)


def _modules_in(folder: Path) -> list[str]:
    files = (file.relative_to(folder) for pattern in ("*.py", "*/*.py") for file in folder.glob(pattern))
    return [".".join(file.with_suffix("").parts).removesuffix(".__init__") for file in files]


def _failure_location(error: BaseException, folder: Path) -> str:
    """Return where an import failed: at a syntax error, or in the last line that ran, if possible of `folder`."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{Path(error.filename).name}, line {error.lineno}"
    lines = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(error.__traceback__)]
    own = [(file, line) for file, line in lines if file.is_relative_to(folder) and "site-packages" not in file.parts]
    file, line = (own or lines)[-1]
    return f"{file.name}, line {line}"


def load_tools(
    declared: Mapping[str, ToolDefinition], *, folder: Path, given: Container[str] = ()
) -> dict[str, ToolDef]:
    """Load the declared tools, by their declared names.

    Functions are imported, which runs their modules. Paths and modules are relative to `folder`, the folder of the
    workflow. Tools in `given` are skipped, and nothing is imported for them.

    Raises:
        InputError: a tool cannot be loaded; `source` names it, like `tools.search`.
    """
    wanted = {name: definition for name, definition in declared.items() if name not in given}
    return {name: _load_tool(definition, name=name, folder=folder) for name, definition in wanted.items()}


def _load_tool(definition: ToolDefinition, *, name: str, folder: Path) -> ToolDef:
    match definition:
        case PythonFunctionTool():
            return _load_function(definition.function, name=name, folder=folder)
        case HttpGetTool():
            return http_get(name, allow=definition.allow, timeout_s=definition.timeout_s)
        case ReadFileTool():
            return read_file(name, root=definition.root, folder=folder)
        case ShellTool():
            return shell(name, allow=definition.allow, folder=folder, timeout_s=definition.timeout_s)


def _load_function(path: str, *, name: str, folder: Path) -> ToolDef:
    source = f"tools.{name}"
    module_name, _, function = path.partition(":")
    with ToolModule(module_name, folder).imported(source=source) as module:
        member = _member(module, function, source=source)
        try:
            return _as_tool(member, name=name)
        except InputError as error:
            raise InputError(error.reason, source=source, place=error.place, hint=error.hint) from error


def _member(module: ModuleType, name: str, *, source: str) -> object:
    if hasattr(module, name):
        return getattr(module, name)
    functions = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
    hint = did_you_mean(name, functions, kind="functions")
    raise InputError(f"there is no {name!r} in {module.__name__}", source=source, hint=hint)


def _as_tool(member: object, *, name: str) -> ToolDef:
    """Return a member of a module as a tool of that name."""
    match member:
        case FunctionTool():
            return member.renamed(name)
        case ToolDef():
            return replace(member, spec=replace(member.spec, name=name))
        case _ if callable(member):
            return tool_of(member, name=name)
    raise InputError(f"expected a function, got {type(member).__name__}")
