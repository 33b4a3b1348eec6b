"""Loads the public names of packages on first use, so that a bare import costs next to nothing."""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import PathFinder

TYPE_CHECKING = False  # importing typing takes longer than reading a stub
if TYPE_CHECKING:
    from collections.abc import Callable

PUBLIC_MODULES = (
    "offbook.errors",
    "offbook.messages",
    "offbook.events",
    "offbook.clock",
    "offbook.faults",
    "offbook.providers",
    "offbook.gateway",
    "offbook.recording",
    "offbook.wire",
    "offbook.tools",
    "offbook.agent",
    "offbook.workflow",
    "offbook.scenarios",
    "offbook.explore",
    "offbook.observe",
    "offbook.report",
    "offbook.report.exploration",
)
"""The modules with names that `offbook` itself does not offer. The first one with a name is its home."""


def lazy_names(
    package: str, file: str, *own_names: str, other_homes: tuple[str, ...] = ()
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the package whose `__init__.py` is `file`.

    The stub next to it, `__init__.pyi`, is the only list of the names to load: one `from module import Name as Name` a
    line. `own_names` are those that `__init__.py` defines itself. The error for a name of one of the modules
    `other_homes` names that import.
    """
    homes = _read_stub(file + "i")
    names = sorted([*homes, *own_names])

    def load(name: str) -> object:
        if name not in homes:
            raise _missing(name, package, other_homes)
        value = getattr(import_module(homes[name]), name)
        setattr(import_module(package), name, value)
        return value

    return load, names.copy, names


def _read_stub(path: str) -> dict[str, str]:
    """Return the module of each name in a stub."""
    homes: dict[str, str] = {}
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 - a bare import must not load pathlib
        for line in stub:
            # Importing ast to parse the stub takes more than twice as long as the whole import of the package.
            match line.split():
                case ["from", module, "import", name, "as", alias] if name == alias:
                    homes[name] = module
    return homes


def _missing(name: str, package: str, other_homes: tuple[str, ...]) -> AttributeError | ImportError:
    """Return the error for a name that a package does not have."""
    # `from package import submodule` asks for an attribute first. It must not load the other homes.
    is_submodule = PathFinder.find_spec(f"{package}.{name}", sys.modules[package].__path__) is not None
    for home in () if is_submodule or name.startswith("_") else other_homes:
        if name in public_names(home):
            # `from package import name` drops the text of an AttributeError and reports its own. It asks from inside
            # importlib, two frames up from here, and passes an ImportError on.
            is_import = sys._getframe(2).f_globals.get("__name__") == "importlib._bootstrap"  # noqa: SLF001
            return (ImportError if is_import else AttributeError)(f"{name} moved: from {home} import {name}")
    return AttributeError(f"module {package!r} has no attribute {name!r}")


def public_names(module: str) -> list[str]:
    """Return the names that a module offers: its `__all__`, or else the classes and functions that it defines."""
    loaded = import_module(module)
    if hasattr(loaded, "__all__"):
        return list(loaded.__all__)
    own = (name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module)
    return [name for name in own if not name.startswith("_") and hasattr(vars(loaded)[name], "__qualname__")]
