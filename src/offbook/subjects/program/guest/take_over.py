"""Starts the takeover of tools in this process: of frameworks at their import, and of named functions.

Every Python process of a run loads this at its start, so it loads nothing itself before there is a tool.
"""

from __future__ import annotations

import os
import sys

from .imports import ModuleHooks

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType, FrameType, ModuleType
    from typing import Any

    from .tools import Tools

URL_VARIABLE, SOCKET_VARIABLE = "OFFBOOK_TOOLS_URL", "OFFBOOK_TOOLS_SOCKET"
FUNCTIONS_VARIABLE = "OFFBOOK_TOOL_FUNCTIONS"
"""The environment variable with the functions of tools, as `refund=shop.payments:refund`, one a line."""

HOOKED = (
    "agents.agent",
    "agents.tool",
    "agno.tools",
    "autogen_core.tools",
    "claude_agent_sdk",
    "crewai.tools.base_tool",
    "dspy",
    "fastmcp.tools",
    "google.adk.tools.function_tool",
    "haystack.tools.tool",
    "langchain_core.tools.base",
    "llama_index.core.tools",
    "mcp.client.session",
    "mcp.server.fastmcp.tools",
    "mcp.server.mcpserver.tools",
    "pydantic_ai.tools",
    "semantic_kernel.functions",
    "smolagents.agents",
    "smolagents.tools",
    "strands.tools",
)
"""The framework modules that take in tools: see `frameworks.py`."""


_FOLDER = os.path.dirname(os.path.abspath(__file__))


class TakeOver:
    """The takeover in this process. Its parts are loaded with the first tool."""

    def __init__(self) -> None:
        self._made: Tools | None = None
        lines = os.environ.get(FUNCTIONS_VARIABLE, "").splitlines()
        self._functions = dict(line.split("=", 1) for line in lines if "=" in line)
        self._own = set[str]()
        self._script: CodeType | None = None
        self._hosts: dict[str, None] = {}

    @property
    def tools(self) -> Tools:
        """The taken-over tools."""
        if self._made is None:
            import atexit

            from .tools import Tools

            self._made = Tools(os.environ[URL_VARIABLE], os.environ.get(SOCKET_VARIABLE, ""))
            atexit.register(self._made.send_notes)
        return self._made

    def install(self) -> None:
        """Take over tools from now on."""
        import atexit

        sys.addaudithook(self._watch_network)
        atexit.register(self._note_hosts)
        hooks = ModuleHooks()
        for name in HOOKED:
            hooks.add(name, self._take_framework)
        for module in {place.partition(":")[0] for place in self._functions.values()} - {"__main__"}:
            hooks.add(module, self._take_functions)
        if self._functions:
            sys.addaudithook(self._watch_main)
            atexit.register(self._note_missing)

    # Names are noted when they are looked up, because a connection has only the address. An address without a name, as
    # where a library resolves names itself, is noted when it is connected to. What sends no byte, a socket for
    # datagrams that is "connected" to find the address of this machine, is no connection.
    def _watch_network(self, event: str, arguments: Any) -> None:
        """Note the hosts other than this machine that the program wants to reach."""
        if event == "socket.getaddrinfo":
            host = arguments[0]
        elif event == "socket.connect" and not self._hosts and arguments[0].type & 0xF == 1:
            host = arguments[1][0] if isinstance(arguments[1], tuple) else ""
        else:
            return
        name = host.decode("latin-1") if isinstance(host, bytes) else host
        if isinstance(name, str) and name and not _is_here(name):
            self._hosts[name] = None

    def _note_hosts(self) -> None:
        for host in self._hosts:
            self.tools.notes.append({"host": host})
        if self._hosts:
            self.tools.send_notes()

    def _take_framework(self, module: ModuleType) -> None:
        from .frameworks import hook_framework

        hook_framework(module, self.tools)

    def _take_functions(self, module: ModuleType) -> None:
        for tool, place in self._functions.items():
            if place.partition(":")[0] == module.__name__:
                self._take_function(tool, module, place.partition(":")[2])

    def _take_function(self, tool: str, module: ModuleType, path: str) -> None:
        found = _find(module, path)
        if module.__name__ in sys.stdlib_module_names:
            problem = "it is a part of Python, which offbook needs itself"
        elif self.tools.take(found, tool):
            return
        elif found is None:
            problem = "there is no such function"
        elif callable(found):
            problem = "it is a generator, or not written in Python"
        else:
            problem = f"it is a {type(found).__name__}, not a function"
        self.tools.notes.append({"tool": tool, "function": f"{module.__name__}:{path}", "problem": problem})

    # No hook tells when a script has defined its functions, and it may call them before any model asks for one. So the
    # lines of the script are traced until those that are tools are defined. What the script calls is not traced. If a
    # debugger traces already, the functions are taken over before the first connection instead.
    def _watch_main(self, event: str, arguments: Any) -> None:
        """Take over functions of the script that runs, which may be named by its file or its module."""
        if not self._functions:
            return
        main = sys.modules["__main__"]
        if event == "exec":
            code = arguments[0]
            is_script = code.co_name == "<module>" and code.co_filename == getattr(main, "__file__", "<string>")
            if is_script and os.path.dirname(code.co_filename) != _FOLDER:  # the fork server is a script of ours
                self._name_script(main)
                if self._own_places() and sys.gettrace() is None:
                    self._script = code
                    sys.settrace(self._trace)
        elif event == "socket.connect":
            self._name_script(main)
            for tool, path in self._own_places().items():
                if hasattr(main, path.partition(".")[0]):  # it may not have been defined so far
                    del self._functions[tool]
                    self._take_function(tool, main, path)

    def _name_script(self, main: ModuleType) -> None:
        self._own = {"__main__", os.path.splitext(os.path.basename(getattr(main, "__file__", None) or ""))[0]}
        self._own.add(getattr(getattr(main, "__spec__", None), "name", ""))

    def _trace(self, frame: FrameType, event: str, _argument: object) -> Any:
        """Take over what the script has defined, before its next line runs."""
        if frame.f_code is not self._script:
            return None
        for tool, path in self._own_places().items():
            found = _find(sys.modules["__main__"], path)
            if callable(found) and self.tools.take(found, tool):
                del self._functions[tool]
        if event != "return" and self._own_places():
            return self._trace
        if sys.gettrace() == self._trace:
            sys.settrace(None)
        return None

    def _own_places(self) -> dict[str, str]:
        """Return the tools that are functions of the script and not taken over yet, with their places in it."""
        places = {tool: place.partition(":") for tool, place in self._functions.items()}
        return {tool: path for tool, (module, _, path) in places.items() if module in self._own}

    def _note_missing(self) -> None:
        """Note the functions that the script has never defined."""
        for tool, path in self._own_places().items():
            self._take_function(tool, sys.modules["__main__"], path)
            self.tools.send_notes()  # this runs after what was registered with the first tool


def _is_here(host: str) -> bool:
    """Return whether a host is this machine."""
    own = os.uname().nodename
    return host in ("localhost", "::", "::1", "0.0.0.0", own) or host.startswith(("127.", "::ffff:127."))  # noqa: S104


def _find(module: ModuleType, path: str) -> object:
    """Return the object at `path` in a module, or None."""
    found: object = module
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def install() -> None:
    """Take over the tools of this process."""
    TakeOver().install()
