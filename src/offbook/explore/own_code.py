"""Tells the agent's own code from offbook, the standard library and installed packages, and where it waits."""

from __future__ import annotations

import asyncio
import re
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

_FOREIGN_FOLDERS = tuple(
    f"{Path(folder).resolve()}/"
    for folder in (sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib"), str(Path(__file__).parents[1]))
)
_INSTALLED = ("site-packages", "dist-packages")


@lru_cache(maxsize=4096)
def is_own_file(file: str) -> bool:
    """Return whether a file belongs to the agent: not to offbook, the standard library or an installed package."""
    if file.startswith("<"):
        return not file.startswith("<frozen")
    path = Path(file).resolve()
    return not str(path).startswith(_FOREIGN_FOLDERS) and not any(part in _INSTALLED for part in path.parts)


def is_own_module(module: ModuleType) -> bool:
    """Return whether a module belongs to the agent. One without a file is built in, or made by a program."""
    if module.__name__.partition(".")[0] in sys.stdlib_module_names:
        return False
    file = getattr(module, "__file__", None)
    return module.__name__ == "__main__" or (file is not None and is_own_file(file))


def place_of(frame: FrameType | None, *, inside: CodeType) -> str:
    """Return the innermost line of the agent's own code that leads to `frame`, like `desk.py:41 answer`; "" if none.

    Only what `inside` has called counts. If nothing of it is the agent's, the event loop waits, and the place is where
    the first task waits that waits in code of the agent.
    """
    while frame is not None and frame.f_code is not inside:
        if is_own_file(frame.f_code.co_filename):
            return _text(frame.f_code, frame.f_lineno)
        frame = frame.f_back
    return _waiting_place()


def _waiting_place() -> str:
    try:
        tasks = sorted(asyncio.all_tasks(), key=lambda task: (len(task.get_name()), task.get_name()))
    except RuntimeError:  # no event loop runs in this thread
        return ""
    places = [place for task in tasks for place in list(_places(task.get_coro()))[-1:]]
    return places[0] if places else ""


def _places(awaited: Any) -> Iterator[str]:
    """Yield the places of the agent's own code in a chain of awaits, outermost first."""
    while awaited is not None:
        frame = getattr(awaited, "cr_frame", None) or getattr(awaited, "ag_frame", None)
        if frame is not None and is_own_file(frame.f_code.co_filename):
            yield _text(frame.f_code, frame.f_lineno)
        awaited = getattr(awaited, "cr_await", None) or getattr(awaited, "ag_await", None)


def _text(code: CodeType, line: int | None) -> str:
    return f"{Path(code.co_filename).name}:{line} {code.co_name}"


_DUMPED_LINE = re.compile(r'^  File "(.+)", line (\d+) in (.+)$', re.MULTILINE)


def place_in_dump(dump: str, *, inside: CodeType) -> str:
    """Return the same from a dump of faulthandler, whose innermost line is first."""
    for file, line, function in _DUMPED_LINE.findall(dump):
        if (file, function) == (inside.co_filename, inside.co_name):
            break
        if is_own_file(file):
            return f"{Path(file).name}:{line} {function}"
    return ""
