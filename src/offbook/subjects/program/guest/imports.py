"""Calls functions when modules are loaded, before other code sees their contents. It loads nothing itself."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:  # `typing` alone would take longer than all of this
    from collections.abc import Callable, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any, TypeAlias

    _Hook: TypeAlias = Callable[[ModuleType], None]


class ModuleHooks:
    """A finder that finds nothing itself: it lets the others find a module with a hook, and watches it load."""

    def __init__(self) -> None:
        self._hooks: dict[str, list[_Hook]] = {}

    def add(self, name: str, hook: _Hook) -> None:
        """Call `hook` with a module when it is loaded, or now if it already is."""
        module = sys.modules.get(name)
        if module is not None:
            hook(module)
            return
        if not self._hooks:
            sys.meta_path.insert(0, self)
        self._hooks.setdefault(name, []).append(hook)

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        hooks = self._hooks.get(name)
        if hooks is None:
            return None
        for finder in sys.meta_path:
            if finder is self or not hasattr(finder, "find_spec"):
                continue
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None and hasattr(spec.loader, "exec_module"):
                    self._watch(spec.loader, name, hooks)
                return spec
        return None

    def _watch(self, loader: Any, name: str, hooks: list[_Hook]) -> None:
        """Call the hooks when the loader has executed the module. The loader itself does not change."""
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)
            self._hooks.pop(name, None)
            for hook in hooks:
                hook(module)

        if hasattr(loader, "__dict__"):
            loader.exec_module = exec_module
