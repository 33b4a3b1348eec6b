"""Packages that load a public name when it is first used, so that a bare import costs next to nothing."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # importing typing takes longer than reading a stub
if TYPE_CHECKING:
    from collections.abc import Callable


def lazy_names(
    package: str, file: str, *own_names: str
) -> tuple[Callable[[str], object], Callable[[], list[str]], list[str]]:
    """Return `__getattr__`, `__dir__` and `__all__` for the package whose `__init__.py` is `file`.

    The stub beside it, `__init__.pyi`, is the only list of the names to load: `from module import Name as Name`.
    `own_names` are those that `__init__.py` defines itself.
    """
    homes = _read_stub(file + "i")
    names = sorted([*homes, *own_names])

    def load(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(homes[name]), name)
        setattr(import_module(package), name, value)
        return value

    return load, names.copy, names


def _read_stub(path: str) -> dict[str, str]:
    """Return the module of each name in a stub."""
    homes: dict[str, str] = {}
    module = ""
    with open(path, encoding="utf-8") as stub:  # noqa: PTH123 - a bare import must not load pathlib
        for line in stub:
            if line.startswith("from "):
                module = line.split(maxsplit=2)[1]
            if " as " in line:
                words = line.replace(",", " ").split()
                homes |= {words[place - 1]: module for place, word in enumerate(words) if word == "as"}
    return homes
