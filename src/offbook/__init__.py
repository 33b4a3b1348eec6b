"""Stands in for the models and tools an LLM agent talks to, so that agents can be tested deterministically."""

from importlib import import_module

from offbook.version import __version__ as __version__


def _homes() -> dict[str, str]:
    """The module of each public name, read from the stub beside this file: the only list of them."""
    homes: dict[str, str] = {}
    with open(__file__ + "i", encoding="utf-8") as stub:  # noqa: PTH123 - a bare import must not load pathlib
        for line in stub:
            if line.startswith("from "):
                module = line.split(maxsplit=2)[1]
            if " as " in line:
                names = line.replace(",", " ").split()
                homes |= {names[place - 1]: module for place, word in enumerate(names) if word == "as"}
    return homes


_HOME = _homes()


def __getattr__(name: str) -> object:
    """Load a public name when it is first used, so that a bare import costs next to nothing."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOME[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = sorted(["__version__", *_HOME])  # noqa: PLE0605 - read from the stub
