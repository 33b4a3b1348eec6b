"""The places where frameworks take in their tools: one in each that knows a tool's function and its name.

Each is hooked at its import, by public names. A framework with an unexpected shape is left alone, and noted: its tools
run for real.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from types import FunctionType, ModuleType
from typing import Any, TypeAlias

from .bodies import replace_body
from .tools import Name, Selection, Tools

_Given: TypeAlias = Mapping[str, Any]
"""The arguments of a call of a framework's function, by name."""

STEERING = (
    "agents.agent:",
    "agno.agent.",
    "agno.team.",
    "autogen_agentchat.",
    "crewai.tools.agent_tools.",
    "deepagents.middleware.subagents:",
    "dspy.predict.",
    "google.adk.agents.",
    "google.adk.tools._node_tool:",
    "google.adk.tools._request_input_tool:",
    "google.adk.tools.agent_tool:",
    "google.adk.tools.exit_loop_tool:",
    "google.adk.tools.get_user_choice_tool:",
    "google.adk.tools.load_artifacts_tool:",
    "google.adk.tools.load_memory_tool:",
    "google.adk.tools.set_model_response_tool:",
    "google.adk.tools.skill_toolset:",
    "google.adk.tools.transfer_to_agent_tool:",
    "langchain_core.runnables.",
    "langchain_core.tools.convert:",
    "langgraph.pregel.",
    "langgraph_supervisor.",
    "langgraph_swarm.",
    "llama_index.core.agent.",
    "smolagents.default_tools:FinalAnswerTool.",
    "strands._context_manager.",
    "strands.agent.",
    "strands.tools.",
    "strands.vended_tools.stop.",
)
"""The places of frameworks' own steering tools: run another agent, hand over, end a loop, keep a state.

They change only the process, which a recorded result could not do: they always run.
"""

ADAPTERS = (
    "agno.tools.mcp.",
    "agno.utils.mcp:",
    "autogen_ext.tools.mcp.",
    "crewai.tools.mcp_",
    "dspy.utils.mcp:",
    "google.adk.tools.mcp_tool.",
    "haystack_integrations.tools.mcp.",
    "langchain_mcp_adapters.",
    "llama_index.tools.mcp.",
    "mcpadapt.",
    "semantic_kernel.connectors.mcp:",
)
"""The places where MCP tools become a framework's tools. Their calls are taken over in the MCP client, if at all."""

MCP_VARIABLE = "OFFBOOK_MCP_CONFIG"
"""The environment variable that is set where offbook stands in for MCP servers."""

_client_calls: set[object] = set()
"""The real calls of MCP clients in this process. A server in this process runs as a part of them."""


def hook_framework(module: ModuleType, tools: Tools) -> None:
    """Take over the tools of a framework, by the module that takes them in."""
    package, take_over = FRAMEWORKS[module.__name__]
    note = {"framework": package, "version": ""}
    with suppress(importlib.metadata.PackageNotFoundError):
        note["version"] = importlib.metadata.version(package)
    try:
        take_over(module, tools)
    except (AttributeError, TypeError, ValueError) as error:
        note["problem"] = f"{type(error).__name__}: {error}"
    tools.notes.append(note)


def take_tool(tools: Tools, function: Any, name: Name | None = None, *, select: Selection = dict) -> None:
    """Take over the function of a tool. One that cannot be taken over, such as a generator, is noted."""
    bound: set[str] = set()
    while isinstance(function, partial):
        bound |= function.keywords.keys()
        with suppress(ValueError):  # a builtin function
            bound |= set(list(inspect.signature(function.func).parameters)[: len(function.args)])
        function = function.func
    name = name or str(getattr(function, "__name__", "") or "tool")
    place = _place(function)
    if isinstance(name, str) and not _name_unless_steering(tools, name, place):
        return
    if place.startswith(STEERING + ADAPTERS):
        return
    if not tools.take(function, name, select=lambda given: select(without(*bound)(given))):
        tool = name if isinstance(name, str) else ""
        tools.notes.append({"tool": tool, "problem": f"{place} is a generator, or no function"})


def _place(function: object) -> str:
    return f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', '')}"


def _name_unless_steering(tools: Tools, name: str, *places: str) -> str:
    """Return the name of a tool, or "" if one of its places is that of a steering tool, which is noted."""
    if name and any(each.startswith(STEERING + ADAPTERS) for each in places):
        tools.note_steering(name)
        return ""
    return name


def _signature(function: FunctionType, *, needs: tuple[str, ...]) -> inspect.Signature:
    signature = inspect.signature(function)
    if missing := [each for each in needs if each not in signature.parameters]:
        raise TypeError(f"{function.__qualname__} has no parameter {' and '.join(missing)}")
    return signature


def before_call(function: Any, then: Callable[[_Given], None], *, needs: tuple[str, ...]) -> None:
    """Call `then` with the arguments of each call of a function of a framework, by name, before it runs."""
    function = getattr(function, "__func__", function)
    if not isinstance(function, FunctionType):
        raise TypeError(f"{function!r} is no function")
    signature = _signature(function, needs=needs)

    def body(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the function itself raises it
            return original(*args, **kwargs)
        then(given)
        return original(*args, **kwargs)

    replace_body(function, body)


def take_given(maker: Any, tools: Tools, function: str, *, name: str = "", select: Selection = dict) -> None:
    """Take over the function given to a maker of tools, by the names of its parameters."""

    def take(given: _Given) -> None:
        if given.get(function) is not None:
            take_tool(tools, given[function], given.get(name), select=select)

    before_call(maker, take, needs=(function, name) if name else (function,))


def take_field(
    model: Any, tools: Tools, function: str, *, name: Callable[[Any], str] = str, select: Selection = dict
) -> None:
    """Take over the function in a field of a pydantic model without its own `__init__`, with the name in its field
    `name`.
    """
    if not {"name", function} <= model.model_fields.keys():
        raise AttributeError(f"{model.__name__} has no field name and {function}")
    make = model.__init__

    def __init__(self: Any, /, **fields: Any) -> None:  # noqa: N807
        if fields.get(function) is not None:
            take_tool(tools, fields[function], name(fields.get("name") or ""), select=select)
        make(self, **fields)

    model.__init__ = __init__


def take_methods(base: Any, tools: Tools, *methods: str, name: Callable[[Any], str], select: Selection = dict) -> None:
    """Take over methods of the classes derived from a class from now on.

    `name` is an instance's tool name; an instance without one is no function tool.
    """
    if missing := [each for each in methods if not callable(getattr(base, each, None))]:
        raise AttributeError(f"{base.__name__} has no {' and '.join(missing)}")
    inherited = vars(base).get("__init_subclass__")

    def name_of(args: tuple[Any, ...]) -> str:
        return _name_unless_steering(tools, name(args[0]), f"{_place(type(args[0]))}.")

    def init_subclass(kind: type, /, **kwargs: Any) -> None:
        if inherited is not None:
            inherited.__get__(None, kind)(**kwargs)
        else:
            super(base, kind).__init_subclass__(**kwargs)
        for each in methods:
            method = vars(kind).get(each)
            if isinstance(method, FunctionType):
                take_tool(tools, method, name_of, select=select)
            elif method is not None:
                tools.notes.append({"tool": "", "problem": f"{kind.__qualname__}.{each} is no method"})

    base.__init_subclass__ = classmethod(init_subclass)


def take_decorated(decorator: Any, tools: Tools, *, function: str, name: str, select: Selection = dict) -> None:
    """Take over a decorated function, by the decorator's parameters: `@tool` and `@tool(name="look")`."""
    if not isinstance(decorator, FunctionType):
        raise TypeError(f"{decorator!r} is no function")
    signature = inspect.signature(decorator)
    if not {function, name} <= signature.parameters.keys():
        raise TypeError(f"{decorator.__name__} has no {function} and {name}")

    def body(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        target, tool = given.get(function), given.get(name)
        if target is not None:
            take_tool(tools, target, tool, select=select)
            return original(*args, **kwargs)
        decorate = original(*args, **kwargs)

        def take_and_decorate(target: Any) -> Any:
            take_tool(tools, target, tool, select=select)
            return decorate(target)

        return take_and_decorate

    replace_body(decorator, body)


def without(*names: str, package: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Select all arguments except those of some names, and those of a package's classes.

    A context is an object of its framework. Many are dataclasses or pydantic models, which have a JSON form.
    """

    def is_given(name: str, value: object) -> bool:
        return name not in names and not (package and f"{type(value).__module__}.".startswith(f"{package}."))

    return lambda given: {name: value for name, value in given.items() if is_given(name, value)}


def _first(given: dict[str, Any]) -> object:
    """Select the contents of the first argument, for a tool that gets all of the model's arguments in one."""
    return next((value for name, value in given.items() if name != "self"), {})


MAX_TOOLS = 256


def _langchain(module: ModuleType, tools: Tools) -> None:
    """A tool is a class with `_run` and `_arun`. A function becomes one."""
    if missing := [each for each in ("tool_call_schema", "get_input_schema") if not hasattr(module.BaseTool, each)]:
        raise AttributeError(f"BaseTool has no {' and '.join(missing)}")
    injected: dict[int, tuple[Any, set[str]]] = {}

    def injected_into(tool: Any) -> set[str]:
        """Return the names of the arguments that the model does not give, such as a state. Finding them is slow."""
        if id(tool) not in injected:
            if len(injected) > MAX_TOOLS:
                injected.clear()
            shown, taken = tool.tool_call_schema, tool.get_input_schema()
            known = hasattr(shown, "model_fields") and hasattr(taken, "model_fields")
            injected[id(tool)] = (tool, set(taken.model_fields) - set(shown.model_fields) if known else set())
        return injected[id(tool)][1]

    def select(given: dict[str, Any]) -> object:
        names = injected_into(given["self"])
        return without("config", "run_manager", "callbacks", *names, package="langgraph")(given)

    def name(tool: Any) -> str:
        functions = (getattr(tool, "func", None), getattr(tool, "coroutine", None))
        return _name_unless_steering(tools, str(tool.name), *map(_place, functions))

    take_methods(module.BaseTool, tools, "_run", "_arun", name=name, select=select)


def _pydantic_ai(module: ModuleType, tools: Tools) -> None:
    take_given(module.Tool.__init__, tools, "function", name="name", select=without(package="pydantic_ai"))


def _openai_agents(module: ModuleType, tools: Tools) -> None:
    """Take over a decorated function, or one that gets the arguments as JSON."""
    select = without(package="agents")
    take_decorated(module.function_tool, tools, function="func", name="name_override", select=select)

    def select_parsed(given: dict[str, Any]) -> object:
        with suppress(ValueError, TypeError):
            return json.loads(list(given.values())[-1])
        return {}

    def take(given: _Given) -> None:
        function = given["on_invoke_tool"]
        made_by = function.func if isinstance(function, partial) else function
        if not _place(made_by).startswith("agents."):
            take_tool(tools, function, given["name"], select=select_parsed)

    before_call(module.FunctionTool.__init__, take, needs=("name", "on_invoke_tool"))


def _agents_as_tools(module: ModuleType, tools: Tools) -> None:
    def make(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tool = original(*args, **kwargs)
        tools.note_steering(tool.name)
        return tool

    replace_body(module.Agent.as_tool, make)


def _mcp_client(module: ModuleType, tools: Tools) -> None:
    """Take over the client that all adapters use to call servers' tools. Stand-in servers answer their own tools."""
    if os.environ.get(MCP_VARIABLE):
        return
    result_type = module.types.CallToolResult
    session_call = module.ClientSession.call_tool
    signature = _signature(session_call, needs=("name", "arguments"))

    async def call(_name: str, arguments: dict[str, Any], make: Callable[[], Awaitable[Any]]) -> Any:
        token = object()
        _client_calls.add(token)
        try:
            return await make()
        finally:
            _client_calls.discard(token)

    tools.take(call, lambda args: str(args[0]), select=lambda given: given["arguments"])

    async def answered(original: FunctionType, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        given = signature.bind(*args, **kwargs).arguments
        try:
            value = await call(given["name"], given.get("arguments") or {}, lambda: original(*args, **kwargs))
        except FAILURES as error:
            if type(error) not in FAILURES:
                raise
            return result_type.model_validate(_tool_result(str(error)) | {"isError": True})
        return value if hasattr(type(value), "model_validate") else result_type.model_validate(_tool_result(value))

    replace_body(session_call, answered)


FAILURES = (RuntimeError, ConnectionError, TimeoutError)
"""The classes of faults' errors. A server reports its tool's failure in a result."""


def _tool_result(value: object) -> dict[str, Any]:
    """Return a result after a fault as the result of an MCP tool."""
    if isinstance(value, Mapping) and "content" in value:
        return dict(value)
    return {"content": [{"type": "text", "text": "" if value is None else str(value)}]}


def _take_served(given: _Given, tools: Tools, name: str | None, package: str) -> None:
    """Take over a server's tool for clients in this process. A client that calls it for real has recorded it."""
    own = name or str(getattr(given["fn"], "__name__", "tool"))
    take_tool(tools, given["fn"], lambda _args: "" if _client_calls else own, select=without(package=package))


def _mcp(module: ModuleType, tools: Tools) -> None:
    """`FastMCP` of mcp 1 and `MCPServer` of mcp 2."""
    before_call(
        module.Tool.from_function,
        lambda given: _take_served(given, tools, given.get("name"), "mcp"),
        needs=("fn", "name"),
    )


def _fastmcp(module: ModuleType, tools: Tools) -> None:
    def take(given: _Given) -> None:
        name = given.get("name") or getattr(given.get("metadata"), "name", None)
        _take_served(given, tools, name, "fastmcp")

    before_call(module.FunctionTool.from_function, take, needs=("fn", "name"))


def _claude_agent_sdk(module: ModuleType, tools: Tools) -> None:
    """Take over tools that models know by server and name."""

    def take(given: _Given) -> None:
        for each in given.get("tools") or ():
            take_tool(tools, each.handler, f"mcp__{given['name']}__{each.name}", select=_first)

    before_call(module.create_sdk_mcp_server, take, needs=("name", "tools"))


def _smolagents(module: ModuleType, tools: Tools) -> None:
    take_given(module.tool, tools, "tool_function")
    take_methods(module.Tool, tools, "forward", name=lambda tool: str(tool.name))


def _smolagents_agents(module: ModuleType, tools: Tools) -> None:
    def note(given: _Given) -> None:
        for each in given.get("managed_agents") or ():
            tools.note_steering(str(each.name))

    before_call(module.MultiStepAgent.__init__, note, needs=("managed_agents",))


def _autogen(module: ModuleType, tools: Tools) -> None:
    take_given(module.FunctionTool.__init__, tools, "func", name="name")
    take_methods(module.BaseTool, tools, "run", name=lambda tool: str(tool.name), select=_first)
    take_methods(module.BaseStreamTool, tools, "run_stream", name=lambda tool: str(tool.name))


def _llama_index(module: ModuleType, tools: Tools) -> None:
    def take(given: _Given) -> None:
        name = getattr(given.get("metadata"), "name", None)
        select = without(*given.get("partial_params") or (), package="workflows")
        for each in ("fn", "async_fn"):
            if given.get(each) is not None:
                take_tool(tools, given[each], name, select=select)

    before_call(module.FunctionTool.__init__, take, needs=("fn", "async_fn", "metadata", "partial_params"))
    take_methods(module.BaseTool, tools, "__call__", name=lambda tool: str(tool.metadata.get_name()))
    take_methods(module.AsyncBaseTool, tools, "call", "acall", name=lambda tool: str(tool.metadata.get_name()))


def _haystack(module: ModuleType, tools: Tools) -> None:
    def take(given: _Given) -> None:
        select = without(*(given.get("inputs_from_state") or {}).values(), package="haystack.components.agents")
        for each in ("function", "async_function"):
            if given.get(each) is not None:
                take_tool(tools, given[each], given.get("name"), select=select)

    before_call(module.Tool.__init__, take, needs=("name", "function", "inputs_from_state"))


def _agno(module: ModuleType, tools: Tools) -> None:
    select = without("agent", "team", "run_context", "fc", "images", "videos", "audios", "files", package="agno")
    take_field(module.Function, tools, "entrypoint", select=select)


def _crewai(module: ModuleType, tools: Tools) -> None:
    """Take over tools that models know by a name without spaces."""
    name = module.sanitize_tool_name
    take_field(module.Tool, tools, "func", name=name)
    take_methods(module.BaseTool, tools, "_run", "_arun", name=lambda tool: str(name(tool.name)))


def _strands(module: ModuleType, tools: Tools) -> None:
    """A tool is a decorated function, or a function of a module, which is given the call of the model."""
    select = without("agent", package="strands")
    take_given(module.decorator.DecoratedFunctionTool.__init__, tools, "tool_func", name="tool_name", select=select)

    def select_input(given: dict[str, Any]) -> object:
        call = _first(given)
        return call.get("input", {}) if isinstance(call, Mapping) else {}

    take_given(module.PythonAgentTool.__init__, tools, "tool_func", name="tool_name", select=select_input)
    take_methods(module.tools.AgentTool, tools, "stream", name=lambda tool: str(tool.tool_name))


def _semantic_kernel(module: ModuleType, tools: Tools) -> None:
    """Take over functions that models know by plugin and name."""
    select = without("kernel", "service", "execution_settings", "arguments", package="semantic_kernel")

    def take(given: _Given) -> None:
        names = (given.get("plugin_name"), getattr(given["method"], "__kernel_function_name__", None))
        take_tool(tools, given["method"], "-".join(filter(None, names)), select=select)

    before_call(module.KernelFunctionFromMethod.__init__, take, needs=("method", "plugin_name"))


def _dspy(module: ModuleType, tools: Tools) -> None:
    take_given(module.Tool.__init__, tools, "func", name="name")


def _google_adk(module: ModuleType, tools: Tools) -> None:
    take_given(module.FunctionTool.__init__, tools, "func", select=without("tool_context", package="google.adk"))
    take_methods(
        module.BaseTool, tools, "run_async", name=lambda tool: str(tool.name), select=lambda given: given["args"]
    )


FRAMEWORKS: dict[str, tuple[str, Callable[[ModuleType, Tools], None]]] = {
    "agents.agent": ("openai-agents", _agents_as_tools),
    "agents.tool": ("openai-agents", _openai_agents),
    "agno.tools": ("agno", _agno),
    "autogen_core.tools": ("autogen-core", _autogen),
    "claude_agent_sdk": ("claude-agent-sdk", _claude_agent_sdk),
    "crewai.tools.base_tool": ("crewai", _crewai),
    "dspy": ("dspy", _dspy),
    "fastmcp.tools": ("fastmcp", _fastmcp),
    "google.adk.tools.function_tool": ("google-adk", _google_adk),
    "haystack.tools.tool": ("haystack-ai", _haystack),
    "langchain_core.tools.base": ("langchain-core", _langchain),
    "llama_index.core.tools": ("llama-index-core", _llama_index),
    "mcp.client.session": ("mcp", _mcp_client),
    "mcp.server.fastmcp.tools": ("mcp", _mcp),
    "mcp.server.mcpserver.tools": ("mcp", _mcp),
    "pydantic_ai.tools": ("pydantic-ai-slim", _pydantic_ai),
    "semantic_kernel.functions": ("semantic-kernel", _semantic_kernel),
    "smolagents.agents": ("smolagents", _smolagents_agents),
    "smolagents.tools": ("smolagents", _smolagents),
    "strands.tools": ("strands-agents", _strands),
}
"""Each framework's package and its takeover, by the hooked module."""
