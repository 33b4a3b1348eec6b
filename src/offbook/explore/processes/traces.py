"""Whether a run has left its process as it found it, so that the next run may use that process instead of a new one.

To fork a process and to copy the memory that a run touches takes longer than most runs. A process is used again only if
a later run could not notice the earlier one. That is looked at after each run:

- What the agent can reach from its function is the same, object by object: variables of its modules, closures, classes,
  containers, attributes.
- So are the variables of the modules and the attributes of the classes of others that its code can name, and no module
  was loaded.
- No function, class or object of the agent's own is left that was not there before, wherever something holds it.
- The process has the same files, threads, directory, environment, signal handlers, streams and levels of logging.

What may be left is what the standard library and `KNOWN_PACKAGES` have built at first use, and hold themselves. An
agent that uses other packages, changes modules by names that its code does not show (`setattr`, `patch`), or has an
object whose state Python does not show (a file, a generator, a database), gets a new process for every run.
"""

from __future__ import annotations

import atexit
import datetime as dt
import decimal
import dis
import functools
import gc
import locale
import logging
import operator
import os
import re
import signal
import socket
import sys
import threading
import types
import warnings
import weakref
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from itertools import chain
from typing import Any

import msgspec

from offbook.explore.monitor import is_own_module

KNOWN_PACKAGES = frozenset(
    {
        *("anthropic", "anyio", "httpx", "httpx2", "jiter", "msgspec", "offbook", "openai", "orjson", "pydantic"),
        *("pydantic_core", "pytest", "typing_extensions"),
    }
)
"""Packages beside the standard library that keep nothing of a run but what they build at first use."""

BY_ANY_NAME = frozenset(
    {
        *("__dict__", "__import__", "__setattr__", "delattr", "eval", "exec", "globals", "import_module", "modules"),
        *("patch", "setattr", "vars"),
    }
)
"""Names in code that may change whatever it likes, by names that cannot be seen."""

MAX_OBJECTS = 50_000
"""How many objects of an agent are looked at. If it has more, that takes longer than to fork."""

_ATOMS: frozenset[type] = frozenset(
    {str, bytes, int, float, complex, bool, type(None), type(...), type(NotImplemented), range, slice}
)
_TRANSPARENT: frozenset[type] = frozenset(
    {
        *(object, dict, list, tuple, set, frozenset, deque, OrderedDict, defaultdict, type, property, classmethod),
        *(staticmethod, BaseException, Exception, types.CodeType, types.FunctionType, types.BuiltinFunctionType),
        *(types.MethodType, types.CellType, types.ModuleType, types.MappingProxyType, types.GenericAlias),
        *(types.UnionType, types.MemberDescriptorType, types.GetSetDescriptorType, types.WrapperDescriptorType),
        *(types.MethodDescriptorType, types.ClassMethodDescriptorType, types.MethodWrapperType, types.SimpleNamespace),
        *(functools.partial, type(functools.lru_cache(len)), operator.itemgetter, operator.attrgetter),
        *(operator.methodcaller, re.Pattern, weakref.ref, ContextVar, decimal.Decimal, super, *msgspec.Struct.__mro__),
        *(dt.date, dt.datetime, dt.time, dt.timedelta, dt.timezone, dt.tzinfo),
        *(type(threading.Lock()), type(threading.RLock()), type(vars(Callable)["_abc_impl"])),
    }
)
"""Types of objects whose whole state is what they refer to, or never changes, or is no part of what they mean."""


class UnknownStateError(Exception):
    """It cannot be known whether a run changes the state of its process, and why."""


class AgentState:
    """The state of this process, as far as a run of `function` can see it, with which a forked one is compared.

    Raises:
        UnknownStateError: a run may change what cannot be seen.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        reachable = _Reachable(function)
        self._objects, self._modules = reachable.all()
        self._names = reachable.names
        self._dicts = [each for each in self._objects if isinstance(each, dict)]
        self._noted: list[Any] = []
        self._variables: list[list[Any]] = []
        self._values: list[Any] = []
        self._settings: list[Any] = []

    def note(self) -> None:
        """Note what there is just before the first run, and have the garbage collector forget it."""
        self._noted, self._settings = self._references(), _settings()
        self._note_variables()
        gc.collect()
        gc.freeze()

    def is_as_noted(self) -> bool:
        """Return whether a run has left everything as it was. If so, what packages have built counts as noted."""
        gc.collect()
        try:  # lists look for the same objects first, which takes little time; other objects may not be comparable
            is_same = _settings() == self._settings and self._references() == self._noted and self._has_same_variables()
        except Exception:
            return False
        if not is_same or _has_own(gc.get_objects()):
            return False
        gc.freeze()
        return True

    def _references(self) -> list[Any]:
        """Return what the agent refers to. The keys are listed, too: not all are referents of a dictionary."""
        return [gc.get_referents(*self._objects), list(chain.from_iterable(self._dicts)), list(sys.modules.values())]

    def _note_variables(self) -> None:
        self._variables = [list(module.values()) for module in self._modules]
        self._values = gc.get_referents(*self._modules)

    def _has_same_variables(self) -> bool:
        """Return whether no variable of others has changed. Packages may have added some that the agent cannot name."""
        if gc.get_referents(*self._modules) == self._values:
            return True
        for module, noted in zip(self._modules, self._variables, strict=True):
            found, added = list(module.values()), list(module)[len(noted) :]
            if found[: len(noted)] != noted or not self._names.isdisjoint(added):
                return False
        self._note_variables()
        return True


def _has_own(objects: list[Any]) -> bool:
    """Return whether one of the objects is of the agent: its function, its class, or an object of that."""
    kinds = set(map(type, objects))  # there are many objects, and few types
    classes = {kind for kind in kinds if issubclass(kind, type)}
    functions = [each for each in objects if type(each) is types.FunctionType]
    named = [each for each in objects if type(each) in classes] if classes else []
    names = {each.__globals__.get("__name__") for each in functions}
    return any(map(_is_of_agent, names | {getattr(each, "__module__", None) for each in (*kinds, *named)}))


@functools.lru_cache(maxsize=4096)
def _is_of_agent(name: object) -> bool:
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module is None or is_own_module(module)


_handler_of = vars(signal)["_signal"].getsignal
"""The same as `signal.getsignal`, which takes longer to make an enum of what it returns."""


def _settings() -> list[Any]:
    """Return what a run can change of its process, as values that can be compared."""
    loggers = [each for each in list(logging.root.manager.loggerDict.values()) if isinstance(each, logging.Logger)]
    return [
        sorted(map(_file, os.listdir("/proc/self/fd"))),  # noqa: PTH208 - a path takes longer
        [threading.active_count(), len(os.listdir("/proc/self/task")), _has_children()],  # noqa: PTH208
        [os.getcwd(), vars(os.environ)["_data"].copy(), sys.path[:]],  # noqa: PTH109
        list(map(_handler_of, range(1, signal.NSIG))),
        [signal.getitimer(signal.ITIMER_REAL), socket.getdefaulttimeout(), locale.setlocale(locale.LC_ALL)],
        [sys.stdin, sys.stdout, sys.stderr, sys.excepthook, sys.displayhook, sys.gettrace(), sys.getprofile()],
        [list(map(id, each)) for each in (sys.meta_path, sys.path_hooks, warnings.filters)],
        [sys.getrecursionlimit(), gc.isenabled(), gc.get_threshold(), vars(atexit)["_ncallbacks"]()],
        [(each.level, each.disabled, *map(id, each.handlers)) for each in (logging.root, *loggers)],
        logging.root.manager.disable,
    ]


def _file(number: str) -> tuple[str, str]:
    try:
        return number, os.readlink(f"/proc/self/fd/{number}")  # noqa: PTH115
    except OSError:  # the directory itself, while it was read
        return number, ""


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class _Reachable:
    """All objects that a function can reach, without what never changes, and what it can name of other packages.

    `names` are those in the code.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._found: dict[int, Any] = {}
        self._foreign: dict[int, Any] = {}
        self.names = set[str]()
        self._left: list[Any] = [function]

    def all(self) -> tuple[list[Any], list[dict[str, Any]]]:
        """Return the objects, and the variables of the modules and classes of others.

        Raises:
            UnknownStateError: some have a state that Python does not show, or may be changed by any name.
        """
        while self._left:
            each = self._left.pop()
            if type(each) not in _ATOMS and id(each) not in self._found and not self._is_leaf(each):
                self._add(each)
        for name in self.names & BY_ANY_NAME:
            raise UnknownStateError(f"it uses {name}")
        return list(self._found.values()), list(map(_namespace, self._named()))

    def _add(self, each: Any) -> None:
        kind: type = type(each)
        if not isinstance(each, type) and not _is_transparent(kind):
            raise UnknownStateError(f"it holds a {kind.__module__}.{kind.__qualname__}")
        if len(self._found) == MAX_OBJECTS:
            raise UnknownStateError("it has too many objects")
        self._found[id(each)] = each
        self._left += gc.get_referents(each)
        if isinstance(each, types.CodeType):
            self.names.update(each.co_names)
            self._left += [sys.modules[name] for name in _imported(each) if name in sys.modules]
        if isinstance(each, dict):
            self._left += each

    def _is_leaf(self, each: Any) -> bool:
        """Return whether an object is not the agent's: a module or a class of others, a logger, a standard stream."""
        if isinstance(each, types.ModuleType | type):
            is_foreign = _is_foreign(str(each.__module__ if isinstance(each, type) else each.__name__))
            if is_foreign:
                self._foreign[id(each)] = each
            return is_foreign
        if isinstance(each, dict):
            name = each.get("__name__")
            return isinstance(name, str) and vars(sys.modules.get(name, object)) is each and _is_foreign(name)
        return isinstance(each, logging.Logger) or any(each is stream for stream in _standard_streams())

    def _named(self) -> list[Any]:
        """Return the modules and classes of others that the code can name: `openai`, `openai.resources`."""
        left = list(self._foreign.values())
        while left:
            names = _namespace(left.pop())
            for value in [names[name] for name in self.names & names.keys()]:
                if isinstance(value, types.ModuleType | type) and id(value) not in self._foreign:
                    self._foreign[id(value)] = value
                    left.append(value)
        return list(self._foreign.values())


_IMPORT = dis.opmap["IMPORT_NAME"]


def _imported(code: types.CodeType) -> Iterator[str]:
    """Yield the modules that code loads when it runs."""
    if _IMPORT in code.co_code[::2]:
        yield from (str(step.argval) for step in dis.get_instructions(code) if step.opcode == _IMPORT)


def _namespace(each: Any) -> dict[str, Any]:
    """Return the variables of a module, or the attributes of a class; those of built-in ones cannot change."""
    if isinstance(each, types.ModuleType):
        return vars(each)
    return next((found for found in gc.get_referents(each) if type(found) is dict), {})


@functools.lru_cache(maxsize=4096)
def _is_foreign(name: str) -> bool:
    """Return whether a module is not the agent's. Raises UnknownStateError like `_is_known`."""
    module = sys.modules.get(name)
    return module is not None and not is_own_module(module) and _is_known(name)


def _is_known(module: str) -> bool:
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package in KNOWN_PACKAGES:
        return True
    raise UnknownStateError(f"it uses {package}")


def _standard_streams() -> tuple[Any, ...]:
    return sys.stdin, sys.stdout, sys.stderr, sys.__stdin__, sys.__stdout__, sys.__stderr__


@functools.lru_cache(maxsize=4096)
def _is_transparent(kind: type) -> bool:
    """Return whether all state of the objects of a type is what they refer to."""
    return all(base in _TRANSPARENT or base in _ATOMS or _is_written_in_python(base) for base in kind.__mro__)


def _is_written_in_python(kind: type) -> bool:
    module = sys.modules.get(kind.__module__)
    file = getattr(module, "__file__", None)
    return kind.__module__ in {"__main__", "typing", "abc"} or (isinstance(file, str) and file.endswith(".py"))
