"""Where the frameworks take in their tools: the one place of each that knows a tool's function and its name.

Each is hooked when it is loaded, by public names alone. One that does not look as expected is left as it is, and noted:
its tools run for real.
"""

from __future__ import annotations

import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

from .bodies import replace_body
from .imports import ModuleHooks
from .tools import Tools


def hook_frameworks(hooks: ModuleHooks, tools: Tools) -> None:
    """Take over the tools of every framework that the program loads."""
    for package, (module, take_over) in FRAMEWORKS.items():
        hooks.add(module, partial(_hook, package, take_over, tools))


def _hook(package: str, take_over: Callable[[ModuleType, Tools], None], tools: Tools, module: ModuleType) -> None:
    note = {"framework": package, "version": ""}
    with suppress(importlib.metadata.PackageNotFoundError):
        note["version"] = importlib.metadata.version(package)
    try:
        take_over(module, tools)
    except (AttributeError, TypeError, ValueError) as error:
        note["problem"] = f"{type(error).__name__}: {error}"
    tools.notes.append(note)


def before_call(function: Any, then: Callable[[Mapping[str, Any]], None]) -> None:
    """Call `then` with the arguments of each call of a function of a framework, by name, before it runs."""
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no function")
    signature = inspect.signature(function)

    def body(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with suppress(TypeError):  # the function itself raises it
            then(signature.bind(*args, **kwargs).arguments)
        return original(*args, **kwargs)

    replace_body(function, body)


def take_decorated(decorator: Any, tools: Tools, *, function: str, name: str) -> None:
    """Take over what a decorator is applied to, by the names of its parameters: `@tool` and `@tool(name="look")`."""
    if not isinstance(decorator, FunctionType):
        raise TypeError(f"{decorator!r} is no function")
    signature = inspect.signature(decorator)
    if not {function, name} <= signature.parameters.keys():
        raise TypeError(f"{decorator.__name__} has no {function} and {name}")

    def body(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        target, tool = given.get(function), given.get(name)
        if target is not None:
            tools.take(target, _name_of(tool, target))
            return original(*args, **kwargs)
        decorate = original(*args, **kwargs)

        def take_and_decorate(target: Any) -> Any:
            tools.take(target, _name_of(tool, target))
            return decorate(target)

        return take_and_decorate

    replace_body(decorator, body)


def _name_of(name: object, function: object) -> str:
    return str(name or getattr(function, "__name__", "") or "tool")


def _langchain(module: ModuleType, tools: Tools) -> None:
    """A tool is a class with `_run` and `_arun`; what a function is made to is one, too."""
    base = module.BaseTool
    without = frozenset(("config", "run_manager", "callbacks"))

    def take(kind: type) -> None:
        for method in ("_run", "_arun"):
            if method in vars(kind):
                tools.take(vars(kind)[method], lambda args: str(args[0].name), without=without)

    inherited = base.__dict__["__init_subclass__"].__func__

    def init_subclass(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        found = original(*args, **kwargs)
        take(args[0])
        return found

    replace_body(inherited, init_subclass)


def _pydantic_ai(module: ModuleType, tools: Tools) -> None:
    def take(arguments: Mapping[str, Any]) -> None:
        function = arguments["function"]
        tools.take(function, _name_of(arguments.get("name"), function))

    before_call(module.Tool.__init__, take)


def _openai_agents(module: ModuleType, tools: Tools) -> None:
    take_decorated(module.function_tool, tools, function="func", name="name_override")


FRAMEWORKS: dict[str, tuple[str, Callable[[ModuleType, Tools], None]]] = {
    "langchain-core": ("langchain_core.tools.base", _langchain),
    "pydantic-ai-slim": ("pydantic_ai.tools", _pydantic_ai),
    "openai-agents": ("agents.tool", _openai_agents),
}
"""The module of each framework that is hooked, by the name of its package."""
