"""Loads the libraries of a program once for all runs, and finds those that cannot be shared.

A process that forks must have one thread and no connection: threads do not exist in the child, and connections would be
shared. A library's output would be missing in the runs. The models of SDKs are built by sending the requests of the
clean run again: see `first_use.py`.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, partial
from importlib import _bootstrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from offbook.providers.first_use import Sdk, send_again
else:  # it is beside this file, under the name of the guest
    from .first_use import Sdk, send_again

_PACKAGES = ("site-packages", "dist-packages")


def foreign_modules(before: Iterable[str], folders: Iterable[str]) -> list[str]:
    """Return the modules that were loaded since then and are not the program's own, in the order of loading."""
    known, own = set(before), [os.path.join(os.path.realpath(folder), "") for folder in folders]
    found = [(name, module) for name, module in list(sys.modules.items()) if name not in known]
    return [name for name, module in found if name != "__main__" and _is_foreign(module, own)]


def _is_foreign(module: Any, own: list[str]) -> bool:
    file = getattr(module, "__file__", None)
    if not isinstance(file, str):
        return False
    real = os.path.realpath(file)
    return is_of_library(real) or not any(real.startswith(folder) for folder in own)


def is_of_library(path: str) -> bool:
    """Return whether a file is installed, or comes with Python."""
    return any(part in _PACKAGES for part in path.split(os.sep)) or is_standard_library(path)


def is_standard_library(path: str) -> bool:
    """Return whether a file, or the code of a frozen module, comes with Python."""
    return path.startswith(_standard_library()) and not any(part in _PACKAGES for part in path.split(os.sep))


@cache
def _standard_library() -> tuple[str, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[name] for name in ("stdlib", "platstdlib")]
    return ("<frozen ", *{os.path.join(each, "") for folder in folders for each in (folder, os.path.realpath(folder))})


def load(modules: list[str]) -> dict[str, Any]:
    """Load these modules, and return which one is not fit for a fork, with those that load it, and why."""
    watch = _Watch()
    for name in modules:
        with suppress(BaseException):  # it may need something that only the program has, and then that loads it
            importlib.import_module(name)
        if watch.blamed:
            break
    watch.end()
    return {"blamed": sorted(watch.blamed), "why": watch.why}


def send_requests(requests: list[tuple[str, str]], url: str) -> str:
    """Send requests of a run, by path and body, again to the server at `url`.

    Returns the residue that a forking process must not have, or "".
    """
    before = process_state()
    for path, body in requests:
        send_again(path, body, partial(_base_url, url + path))
    gc.collect()
    return new_since(before)


def _base_url(url: str, sdk: Sdk) -> dict[str, str]:
    return {sdk.url_option: url.partition(sdk.root)[0]}


class _Watch:
    """Watches the loading of modules until `end`: the innermost one that starts something is to blame.

    So are those that load it, because they load it again.
    """

    def __init__(self) -> None:
        self.blamed, self.why = set[str](), ""
        self._loading: list[str] = []
        self._real: Callable[[Any], Any] = _bootstrap._load_unlocked  # type: ignore[attr-defined]
        self._before = process_state()
        _bootstrap._load_unlocked = self._load  # type: ignore[attr-defined]

    def end(self) -> None:
        _bootstrap._load_unlocked = self._real  # type: ignore[attr-defined]

    def _load(self, spec: Any) -> Any:
        self._loading.append(spec.name)
        try:
            return self._real(spec)
        finally:
            self._check()
            self._loading.pop()

    def _check(self) -> None:
        if self.blamed:
            return
        self.why = new_since(self._before)
        if self.why:
            self.blamed = set(self._loading)
            self.why = f"loading {self._loading[-1]} {self.why}"


def new_since(before: dict[str, int]) -> str:
    """Return what a forking process must not have and did not have before, or ""."""
    found = process_state()
    return next((what for what, count in found.items() if count > before[what]), "")


def process_state() -> dict[str, int]:
    """Count the things that a forking process must not have."""
    with suppress(Exception):
        sys.stdout.flush()
    files = [_file(number) for number in os.listdir("/proc/self/fd")]
    return {
        "starts a thread": len(os.listdir("/proc/self/task")),
        "opens a connection": sum(name.startswith(("socket:", "anon_inode:[eventpoll]")) for name in files),
        "prints something": os.fstat(1).st_size,
    }


def _file(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""
