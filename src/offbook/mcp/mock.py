"""An MCP server without a recording: its tools are functions, mocks, or the declarations of a schema file."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook import __version__
from offbook.errors import InputError, MockDriftError, MockError
from offbook.mcp.answer import FoundAnswer, McpAnswer, McpSource, error_answer, result_answer
from offbook.mcp.message import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, McpMessage, text_result
from offbook.mcp.replay import McpReplay, recorded_tools
from offbook.mcp.surface import referenced
from offbook.messages import JsonObject, ToolCall, result_text
from offbook.recording.stores.locate import read_document
from offbook.scenarios.mocks import Mocks, exception_text, json_value
from offbook.scenarios.real_tool import (
    EXAMPLE_STRINGS,
    NoResultCheck,
    ResultCheck,
    build_real_tool,
    build_result_check,
)
from offbook.schema_errors import decode_json
from offbook.session.tape import Tape
from offbook.tools import Toolbox, ToolDef, ToolSpec
from offbook.tools.dispatch import run_tool
from offbook.tools.effects import UNDECLARED, ToolDeclaration
from offbook.tools.toolbox import GivenTool, GivenTools

_SUPPORTED = frozenset(
    ("initialize", "server/discover", "ping", "logging/setLevel", "subscriptions/listen", "tools/list")
)
_EXAMPLE = '{"tools": [{"name": "search", "inputSchema": {"type": "object"}, "outputSchema": {…}}]}'


class MockTool(Struct, frozen=True):
    """A tool of a mock server: its `tools/list` entry, its function, and the check of its results."""

    definition: JsonObject
    tool: ToolDef
    result: ResultCheck

    async def call(self, arguments: JsonObject) -> JsonObject:
        """Return the result of a `tools/call`. As in real servers, wrong arguments and errors of the tool are results
        with `isError`.

        Raises:
            MockError, RecordingMismatchError: the mock has no answer.
        """
        outcome = await run_tool(self.tool, ToolCall(self.tool.name, arguments))
        if outcome.error is None:
            return self._result(outcome.value)
        return text_result(f"Error executing tool {self.tool.name}: {exception_text(outcome.error)}", is_error=True)

    def _result(self, value: object) -> JsonObject:
        """Return a value as a result: an MCP result unchanged, an object as text and structured content."""
        if _is_result(value):
            return json_value(value)  # type: ignore[no-any-return]
        if value is None:
            return {"content": []}
        result = text_result(result_text(value))
        if isinstance(value, str):
            return result
        try:
            structured = json_value(value)
        except TypeError:
            return result
        if problems := self.result.problems(structured):
            raise MockDriftError(problems, tool=self.tool.name)
        return result | ({"structuredContent": structured} if isinstance(structured, dict) else {})


def _is_result(value: object) -> bool:
    content = value.get("content") if isinstance(value, Mapping) else None
    return isinstance(content, list) and all(isinstance(block, Mapping) and "type" in block for block in content)


StartTools: TypeAlias = Callable[[], Sequence[MockTool]]
"""Returns the tools for one session, in which sequences of mocks start over."""


class MockServer(McpSource):
    """Answers the requests of one session to the server `name` by its `tools`."""

    def __init__(self, name: str, tools: Iterable[MockTool]) -> None:
        self._tools = {each.tool.name: each for each in tools}
        about = {"capabilities": {"tools": {}}, "serverInfo": {"name": name, "version": __version__}}
        listed = {"tools": [each.definition for each in self._tools.values()]}
        methods = {
            "initialize": [{"arguments": {}, "result": about}],
            "tools/list": [{"arguments": {}, "result": listed}],
        }
        reader = read_document({"_version": 2, "_mcp": {name: methods}}, source=name)
        self._replay = McpReplay(name, recorded_tools(Tape(reader, strict=True)), lenient_requests=True)

    def find(self, request: McpMessage) -> FoundAnswer:
        """Return the answer to a request; see `McpSource`."""
        if request.tool:
            return FoundAnswer(McpAnswer(work=partial(self._call, request)))
        if request.method == "tools/call":
            return FoundAnswer(error_answer(request, INVALID_PARAMS, "Invalid params: name is missing"))
        if request.method not in _SUPPORTED:
            return FoundAnswer(error_answer(request, METHOD_NOT_FOUND, f"Method not found: {request.method}"))
        return FoundAnswer(self._replay.find(request).answer)

    def tool_headers(self, tool: str) -> Mapping[str, str]:
        return self._replay.tool_headers(tool)

    async def _call(self, request: McpMessage) -> McpAnswer:
        arguments = request.params.get("arguments") or {}
        if not isinstance(arguments, dict):
            return error_answer(request, INVALID_PARAMS, "Invalid params: arguments must be an object")
        tool = self._tools.get(request.tool)
        if tool is None:
            return result_answer(request, text_result(f"Unknown tool: {request.tool}", is_error=True))
        try:
            return result_answer(request, await tool.call(arguments))
        except MockError as error:
            return error_answer(request, INTERNAL_ERROR, str(error))


def module_tools(module: ModuleType, *, source: str) -> StartTools:
    """Return the tools that a module declares: by `Mocks`, `@tool`, or a collection called `tools`; otherwise its
    public functions.

    Raises:
        InputError: there are none, or one cannot be a tool.
    """
    values = vars(module)
    mocks = list({id(each): each for each in values.values() if isinstance(each, Mocks)}.values())
    declared = [each for name, each in values.items() if isinstance(each, ToolDef)]
    listed = values.get("tools")
    if isinstance(listed, Mapping | list | tuple):
        declared = list(Toolbox.of(listed, declared).values())
    if not mocks and not declared:
        functions = [each for name, each in values.items() if _is_own_function(name, each, module)]
        declared = list(Toolbox(functions).values())
    if not mocks and not declared:
        hint = "write a function for each tool: def search(query: str) -> str: …"
        raise InputError("there is no tool in it", source=source, hint=hint)
    return given_tools([*declared, *mocks])


def given_tools(given: Iterable[GivenTool | GivenTools | Mocks]) -> StartTools:
    """Return tools from functions, tools or mocks, or collections of functions and tools.

    Raises:
        InputError: one cannot be a tool.
    """
    each_given = list(given)
    mocks = [each for each in each_given if isinstance(each, Mocks)]
    tools = Toolbox.of(*(each for each in each_given if not isinstance(each, Mocks)))
    own = [_function_tool(tool) for tool in tools.values()]
    return lambda: [*own, *(tool for each in mocks for tool in _mocked_tools(each))]


def _is_own_function(name: str, value: object, module: ModuleType) -> bool:
    return not name.startswith("_") and inspect.isfunction(value) and value.__module__ == module.__name__


def _function_tool(tool: ToolDef) -> MockTool:
    try:
        result = build_real_tool(tool.name, tool).result
    except InputError:  # a function may return what has no schema: its text is what counts
        result = NoResultCheck()
    return MockTool(_definition(tool, result, tool.declaration), tool, result)


def _mocked_tools(mocks: Mocks) -> list[MockTool]:
    described = mocks.tools()
    running = mocks.conversation().toolbox([tool for tool, _ in described.values()])
    return [
        MockTool(_definition(tool, real.result, real.declaration), running[name], NoResultCheck())
        for name, (tool, real) in described.items()
    ]


def _definition(tool: ToolDef | ToolSpec, result: ResultCheck, declaration: ToolDeclaration) -> JsonObject:
    spec = tool.spec if isinstance(tool, ToolDef) else tool
    is_object = result.schema.get("type") == "object"
    annotations = annotations_from(declaration)
    return {
        "name": spec.name,
        **({"description": spec.description} if spec.description else {}),
        "inputSchema": spec.schema,
        **({"outputSchema": result.schema} if is_object else {}),
        **({"annotations": annotations} if annotations else {}),
    }


def annotations_from(declaration: ToolDeclaration) -> JsonObject:
    """Return a tool's declared effect as MCP annotations, or none."""
    if declaration == UNDECLARED:
        return {}
    if declaration.read_only:
        return {"readOnlyHint": True}
    return {"readOnlyHint": False, "idempotentHint": bool(declaration.idempotent)}


def annotated(tools: Iterable[MockTool], declared: Mapping[str, ToolDeclaration]) -> list[MockTool]:
    """Return the tools with annotations for their declarations in `declared`."""
    described = ((each, annotations_from(declared.get(each.tool.name, UNDECLARED))) for each in tools)
    return [
        replace(each, definition=each.definition | {"annotations": annotations}) if annotations else each
        for each, annotations in described
    ]


def schema_tools(path: str | os.PathLike[str]) -> StartTools:
    """Return the tools that a JSON file declares: a list of tools, or a result of `tools/list`.

    Each call is answered by the tool's `example`, by a value that fits its `outputSchema`, or by a text.

    Raises:
        InputError: it is not such a file, a schema is invalid, or no value can be made for an `outputSchema`.
    """
    source = os.fspath(path)
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise InputError(error.strerror or str(error), source=source) from None
    document = decode_json(data, object, source=source, hint=f"like {_EXAMPLE}", allows_repeats=True)
    listed = document.get("tools") if isinstance(document, dict) else document
    if not isinstance(listed, list) or not listed:
        raise InputError("expected a list of tools", source=source, place="tools", hint=f"like {_EXAMPLE}")
    tools = [_declared_tool(each, source=source, place=f"tools[{index}]") for index, each in enumerate(listed)]
    return lambda: tools


def _declared_tool(declared: Any, *, source: str, place: str) -> MockTool:
    name = declared.get("name") if isinstance(declared, dict) else None
    if not isinstance(name, str) or not name:
        raise InputError("expected a tool with a name", source=source, place=place, hint=f"like {_EXAMPLE}")
    definition = {field: value for field, value in declared.items() if field != "example"}
    definition.setdefault("inputSchema", {"type": "object"})
    for field in ("inputSchema", "outputSchema"):
        if not isinstance(definition.get(field, {}), dict):
            raise InputError("expected a JSON schema", source=source, place=f"{place}.{field}")
    try:
        spec = ToolSpec(name, str(declared.get("description", "")), definition["inputSchema"])
        output = definition.get("outputSchema")
        result = NoResultCheck() if output is None else build_result_check(output, tool=name)
    except InputError as error:
        raise InputError(error.reason, source=source, place=f"{place} ({name})", hint=error.hint) from None
    if "example" in declared:
        answer = declared["example"]
    else:
        answer = f"{name} was called" if output is None else example_of(output)
    problems = [] if output is None or _is_result(answer) else result.problems(answer)
    if problems:
        hint = "give the tool an `example` that fits"
        reason = f"no value for its outputSchema: {problems[0]}"
        raise InputError(reason, source=source, place=f"{place} ({name})", hint=hint)
    return MockTool(definition, ToolDef(spec, lambda **_: deepcopy(answer)), NoResultCheck())


_MAX_DEPTH = 8


def example_of(schema: Any, root: Any = None, depth: int = 0) -> Any:
    """Return a value for a JSON schema: its `const`, `default`, `examples` or `enum`, else one made from its type and
    limits. It may violate other keywords.
    """
    root = schema if root is None else root
    if not isinstance(schema, dict):
        return None
    declared = [schema[keyword] for keyword in ("const", "default") if keyword in schema]
    declared += [schema[keyword][0] for keyword in ("examples", "enum") if _has_items(schema, keyword)]
    if declared:
        return deepcopy(declared[0])
    if isinstance(schema.get("$ref"), str):
        return example_of(referenced(root, schema["$ref"]), root, depth + 1) if depth < _MAX_DEPTH else None
    return _example_of_shape(schema, root, depth)


def _has_items(schema: JsonObject, keyword: str) -> bool:
    return isinstance(schema.get(keyword), list) and bool(schema[keyword])


def _example_of_shape(schema: JsonObject, root: Any, depth: int) -> Any:
    for keyword in ("anyOf", "oneOf"):
        if _has_items(schema, keyword):
            return example_of(schema[keyword][-1 if depth >= _MAX_DEPTH else 0], root, depth + 1)
    if _has_items(schema, "allOf"):
        examples = [example_of(part, root, depth + 1) for part in schema["allOf"]]
        objects = [each for each in examples if isinstance(each, dict)]
        return {name: value for each in objects for name, value in each.items()} if objects else examples[0]
    kind = schema.get("type", "object" if "properties" in schema else "string")
    return _example_of_type(kind[0] if isinstance(kind, list) and kind else kind, schema, root, depth)


def _example_of_type(kind: Any, schema: JsonObject, root: Any, depth: int) -> Any:
    match kind:
        case "object":
            properties = schema.get("properties", {})
            required = schema.get("required", [])
            names = [name for name in properties if depth < _MAX_DEPTH // 2 or name in required]
            return {name: example_of(properties[name], root, depth + 1) for name in names}
        case "array":
            count = max(schema.get("minItems", 0), 1 if "items" in schema and depth < _MAX_DEPTH // 2 else 0)
            return [example_of(schema.get("items", {}), root, depth + 1) for _ in range(count)]
        case "integer" | "number":
            return _example_number(schema, step=1 if kind == "integer" else 0.5)
        case "boolean":
            return True
        case "null":
            return None
        case _:
            text = EXAMPLE_STRINGS.get(schema.get("format", ""), "text")
            return text.ljust(schema.get("minLength", 0), "x")[: schema.get("maxLength")]


def _example_number(schema: JsonObject, *, step: float) -> float:
    """Return a number between the limits of a schema, 1 if it may be."""
    lowest: float = schema.get("minimum", schema.get("exclusiveMinimum", -step) + step)
    highest: float = schema.get("maximum", schema.get("exclusiveMaximum", lowest + 1 + step) - step)
    multiple: float | None = schema.get("multipleOf")
    if multiple is not None and multiple > 0:
        return -(-lowest // multiple) * multiple
    return 1 if lowest <= 1 <= highest else lowest if "minimum" in schema or "exclusiveMinimum" in schema else highest
