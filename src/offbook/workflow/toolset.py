"""The tools that a workflow declares, made ready to be called."""

from __future__ import annotations

from collections.abc import Container, Mapping
from pathlib import Path
from types import ModuleType

from msgspec.structs import replace

from offbook.errors import InputError
from offbook.tools import FunctionTool, ToolDef, tool_of
from offbook.wording import did_you_mean
from offbook.workflow import tool_definition as declarations
from offbook.workflow.builtin_tools.http_get import http_get
from offbook.workflow.builtin_tools.read_file import read_file
from offbook.workflow.builtin_tools.shell import shell
from offbook.workflow.tool_definition import ToolDefinition
from offbook.workflow.tool_module import ToolModule


def load_tools(
    declared: Mapping[str, ToolDefinition], *, folder: Path, given: Container[str] = ()
) -> dict[str, ToolDef]:
    """The declared tools, each named as it is declared.

    Functions are imported, which runs their modules. Paths and modules are looked for in `folder`, where
    the workflow is. Tools that are in `given` are left out, and nothing is imported for them.

    Raises:
        InputError: a tool cannot be loaded; `source` says which, like `tools.search`.
    """
    wanted = {name: definition for name, definition in declared.items() if name not in given}
    return {name: _loaded(definition, name=name, folder=folder) for name, definition in wanted.items()}


def _loaded(definition: ToolDefinition, *, name: str, folder: Path) -> ToolDef:
    match definition:
        case declarations.FunctionTool():
            return _function(definition.function, name=name, folder=folder)
        case declarations.HttpGetTool():
            return http_get(name, allow=definition.allow, timeout_s=definition.timeout_s)
        case declarations.ReadFileTool():
            return read_file(name, root=definition.root, folder=folder)
        case declarations.ShellTool():
            return shell(name, allow=definition.allow, folder=folder, timeout_s=definition.timeout_s)


def _function(path: str, *, name: str, folder: Path) -> ToolDef:
    source = f"tools.{name}"
    module_name, _, function = path.partition(":")
    with ToolModule(module_name, folder).imported(source=source) as module:
        found = _member(module, function, source=source)
        try:
            return _tool(found, name=name)
        except InputError as error:
            raise InputError(error.reason, source=source, place=error.place, hint=error.hint) from error


def _member(module: ModuleType, name: str, *, source: str) -> object:
    if hasattr(module, name):
        return getattr(module, name)
    functions = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
    hint = did_you_mean(name, functions, kind="functions")
    raise InputError(f"there is no {name!r} in {module.__name__}", source=source, hint=hint)


def _tool(found: object, *, name: str) -> ToolDef:
    """What a module holds, as a tool of that name."""
    match found:
        case FunctionTool():
            return tool_of(
                found.callable,
                name=name,
                description=found.spec.description,
                prerequisites=found.prerequisites,
                timeout_s=found.timeout_s,
                side_effect=found.side_effect,
                repeatable=found.repeatable,
            )
        case ToolDef():
            return replace(found, spec=replace(found.spec, name=name))
        case _ if callable(found):
            return tool_of(found, name=name)
    raise InputError(f"expected a function, got {type(found).__name__}")
