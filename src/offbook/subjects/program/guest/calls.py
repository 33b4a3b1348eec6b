"""Notes the calls of a program's own functions with their arguments, from which `offbook tools` finds the tools.

Each call is a line of JSON in the file that OFFBOOK_CALLS names. Nothing is noted before the program's first
connection, because no model can have requested a tool by then. Functions of the standard library and of installed
packages are not noted, except the one by which MCP clients call tools.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import threading
from time import monotonic

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FrameType, ModuleType
    from typing import Any

CALLS_VARIABLE = "OFFBOOK_CALLS"
MAX_CALLS = 1_000
"""The number of noted calls of a function, enough to recognise a tool."""
MAX_ITEMS = 100_000
"""The size at which an argument is omitted: characters of a text, or items of a collection."""

_INSTALLED = tuple(f"{os.sep}{each}{os.sep}" for each in ("site-packages", "dist-packages"))
_MCP_CLIENT = ("mcp.client.session", "ClientSession.call_tool")
_VARARGS, _VARKEYWORDS, _GENERATOR, _ASYNC_GENERATOR = 0x04, 0x08, 0x20, 0x200
"""Flags of code objects from `inspect`, whose import is slow."""


class CallNotes:
    """The calls of this process."""

    def __init__(self, path: str) -> None:
        self._path, self._is_connected = path, False
        self._left: dict[CodeType, int] = {}
        self._libraries = tuple({os.path.join(each, "") for each in _library_folders()})
        with open(path, "ab"):  # says that a process of Python was observed
            pass

    def start(self) -> None:
        """Note calls from now on, in all threads."""
        sys.addaudithook(self._watch_connections)
        if sys.version_info < (3, 12):
            threading.setprofile(self._profile)
            sys.setprofile(self._profile)
            return
        monitoring = sys.monitoring
        free = next((each for each in range(6) if monitoring.get_tool(each) is None), None)
        if free is not None:
            monitoring.use_tool_id(free, "offbook")
            monitoring.register_callback(free, monitoring.events.PY_START, self._started)
            monitoring.set_events(free, monitoring.events.PY_START)

    def _watch_connections(self, event: str, _arguments: object) -> None:
        if event == "socket.connect":
            self._is_connected = True

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call" or not self._is_connected or self._left.get(frame.f_code) == 0:
            return
        # A coroutine is called again whenever it continues. Only the start of a function resumes with 0.
        if frame.f_code.co_code[frame.f_lasti + 1] == 0:
            self._note(frame)

    def _started(self, code: CodeType, _offset: int) -> object:
        if not self._is_connected and not self._is_foreign(code):
            return None
        self._note(sys._getframe(1))
        return None if self._left.get(code) else sys.monitoring.DISABLE  # type: ignore[attr-defined,unused-ignore]

    def _note(self, frame: FrameType) -> None:
        """Note a call. No failure here may become an error of the program."""
        code = frame.f_code
        if code not in self._left:
            self._left[code] = 0 if self._is_foreign(code) and not _is_mcp_call(frame) else MAX_CALLS
        if self._left[code]:
            self._left[code] -= 1
            try:
                self._write(frame)
            except Exception:
                self._left[code] = 0

    def _write(self, frame: FrameType) -> None:
        import json

        code, module = frame.f_code, frame.f_globals.get("__name__") or ""
        problem, defaults = _takeover(sys.modules.get(module), code)
        arguments = _arguments(frame)
        noted = {
            "function": f"{_own_name(module)}:{code.co_qualname}",
            "place": f"{code.co_filename}:{code.co_firstlineno}",
            "arguments": arguments,
            "defaults": [name for name, value in defaults.items() if frame.f_locals.get(name) is value],
            "problem": problem,
            "at_s": monotonic(),
        }
        with open(self._path, "ab", buffering=0) as file:
            file.write(json.dumps(noted).encode() + b"\n")

    def _is_foreign(self, code: CodeType) -> bool:
        """Return whether code is not the program's: of a package, of Python, or made by one of them."""
        file, name = code.co_filename, code.co_name
        is_scope = name.startswith("<") and name != "<lambda>"  # a module or a comprehension
        is_made = not os.path.isabs(file)  # by Python or by a package, such as `<string>`
        return is_scope or is_made or file.startswith(self._libraries) or any(each in file for each in _INSTALLED)


def _library_folders() -> Iterator[str]:
    paths = sysconfig.get_paths()
    for name in ("stdlib", "platstdlib", "purelib", "platlib"):
        yield paths[name]
        yield os.path.realpath(paths[name])
    yield os.path.dirname(os.path.abspath(__file__))


def _is_mcp_call(frame: FrameType) -> bool:
    return (frame.f_globals.get("__name__"), frame.f_code.co_qualname) == _MCP_CLIENT


def _own_name(module: str) -> str:
    """Return a module's name in a config: its file's for the running script."""
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    file = os.path.basename(getattr(main, "__file__", None) or "")
    return (spec.name if spec is not None else os.path.splitext(file)[0]) or module


def _takeover(module: ModuleType | None, code: CodeType) -> tuple[str, dict[str, Any]]:
    """Return why a function cannot be taken over by its name, empty if it can, and the defaults of its arguments."""
    from inspect import unwrap
    from types import FunctionType

    if code.co_flags & (_GENERATOR | _ASYNC_GENERATOR):
        return "generator", {}
    if "<" in code.co_qualname:
        return "lambda" if code.co_name == "<lambda>" else "nested", {}
    found: Any = module
    for part in code.co_qualname.split("."):
        found = getattr(found, part, None)
    function = unwrap(found) if callable(found) else found
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        return "hidden", {}
    if function.__code__ is not code:  # a wrapper around it, which is taken over instead
        return "", {}
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    return "", dict(zip(names, defaults, strict=True)) | (function.__kwdefaults__ or {})


def _arguments(frame: FrameType) -> dict[str, Any]:
    """Return the arguments of a call that has just begun, as far as they have a JSON form."""
    from .tools import json_form

    code, values = frame.f_code, frame.f_locals
    count = code.co_argcount + code.co_kwonlyargcount
    names = list(code.co_varnames[:count])
    others = iter(code.co_varnames[count:])
    if code.co_flags & _VARARGS:
        names.append(next(others))
    given = {name: values[name] for name in names if name in values and name not in ("self", "cls")}
    if code.co_flags & _VARKEYWORDS:
        given |= values.get(next(others), {})
    found = {}
    for name, value in given.items():
        if hasattr(value, "__len__") and not isinstance(value, type) and len(value) > MAX_ITEMS:
            continue
        form = json_form(value)
        if form is not None:
            found[name] = form[0]
    return found


def install() -> None:
    """Note the calls of this process, if the environment names a file."""
    if path := os.environ.get(CALLS_VARIABLE):
        CallNotes(path).start()
