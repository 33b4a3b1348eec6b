"""Starts the takeover of tools in this process: of the frameworks that it loads, and of functions that are named."""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Mapping
from functools import partial
from types import ModuleType

from .frameworks import hook_frameworks
from .imports import ModuleHooks
from .tools import URL_VARIABLE, Tools

FUNCTIONS_VARIABLE = "OFFBOOK_TOOL_FUNCTIONS"
"""The environment variable with the functions that are tools, as JSON: `{"refund": "shop.payments:refund"}`."""


def install() -> None:
    """Take over the tools of this process."""
    tools, hooks = Tools(os.environ[URL_VARIABLE]), ModuleHooks()
    hook_frameworks(hooks, tools)
    named: dict[str, str] = json.loads(os.environ.get(FUNCTIONS_VARIABLE) or "{}")
    for tool, place in named.items():
        module, _, path = place.partition(":")
        hooks.add(module, partial(_take_function, tools, tool, path))
    if named:
        _take_before_first_connection(tools, named)
    atexit.register(tools.send_notes)


def _take_function(tools: Tools, tool: str, path: str, module: ModuleType) -> None:
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    if not tools.take(found, tool):
        problem = "there is no such function" if found is None else f"it is a {type(found).__name__}, not a function"
        tools.notes.append({"tool": tool, "function": f"{module.__name__}:{path}", "problem": problem})


def _take_before_first_connection(tools: Tools, functions: Mapping[str, str]) -> None:
    """Take over functions of the script that runs, which may be named by its file or its module.

    Nobody tells when a script has defined its functions. No model can have asked for one before the first connection.
    """
    left = dict(functions)

    def watch(event: str, _arguments: object) -> None:
        if event != "socket.connect" or not left:
            return
        main, own = sys.modules["__main__"], {"__main__"}
        own |= {os.path.splitext(os.path.basename(getattr(main, "__file__", None) or ""))[0]}
        own |= {getattr(getattr(main, "__spec__", None), "name", "")}
        for tool, place in list(left.items()):
            module, _, path = place.partition(":")
            if module in own and hasattr(main, path.partition(".")[0]):  # it may not have been defined so far
                del left[tool]
                _take_function(tools, tool, path, main)

    sys.addaudithook(watch)
