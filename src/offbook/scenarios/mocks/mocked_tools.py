"""Mocks: declares what answers the tool calls of an agent, and answers them in each conversation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from itertools import count
from threading import Lock
from typing import Any, Literal, TypeAlias, get_args

from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from offbook.errors import InputError, MockError
from offbook.messages import JsonObject, plain_str
from offbook.recording.format.exchange import json_arguments
from offbook.scenarios.mocks.mock import (
    Mock,
    MockContext,
    UncheckedAnswer,
    json_value,
    resolve_answer,
    to_mock,
)
from offbook.scenarios.mocks.real_tool import (
    UNKNOWN_TOOL,
    GivenSchema,
    RealTool,
    build_real_tool,
    declared_tool,
    unmocked_error,
)
from offbook.tools import GivenTool, Toolbox, ToolDef, ToolSpec
from offbook.tools.dispatch import is_test_error
from offbook.tools.effects import UNDECLARED

SOURCE = "mocks"


class MockedTool(ToolDef, frozen=True):
    """A tool that takes arguments as the model sent them; they are checked when the call is answered."""

    def bind(self, args: JsonObject) -> JsonObject:
        return args


class MockedCall(Struct, frozen=True):
    """A tool call in a conversation, with its answer.

    `error` is the message of the exception that was raised instead of a `result`. A call that was cancelled, is still
    running, or that the test has no answer for, is not answered. `turn_index` and `call_index` are those of
    MockContext.
    """

    tool: str
    args: JsonObject
    result: Any = None
    error: str | None = None
    turn_index: int = 0
    call_index: int = 0
    is_answered: bool = False


def exception_text(error: Exception) -> str:
    """Return an error as the agent sees it: its message, with the class where the message alone is unclear."""
    message = plain_str(error)
    if isinstance(error, KeyError):
        return f"{type(error).__name__}: {message}"
    return message or type(error).__name__


UnmockedPolicy: TypeAlias = Literal["error", "passthrough"]
MockableTool: TypeAlias = ToolSpec | GivenTool
ToolWrapper: TypeAlias = Callable[[ToolDef], ToolDef]
"""Wraps a mocked tool, for instance to inject faults."""


def unwrapped(tool: ToolDef) -> ToolDef:
    """Return the tool itself."""
    return tool


class MockedTools:
    """The mocked tools of one conversation, with their own counts, state and sequences. See `Mocks.conversation`.

    `turn_index` is the current turn, from 0; the runner of the conversation sets it. `state` is shared by the mocks.
    Calls may be noted from other threads than that of the conversation.
    `declared_by` is the function that declares the mocks, for the advice of errors.
    """

    def __init__(self, mocks: Mocks, conversation_id: str, *, wrap_tool: ToolWrapper, declared_by: str) -> None:
        self.conversation_id = conversation_id
        self.turn_index = 0
        self.state: dict[str, Any] = {}
        self._mocks, self._wrap_tool, self._declared_by = mocks, wrap_tool, declared_by
        self._answers = {tool: mock.start() for tool, mock in mocks.declared.items()}
        self._counts = Counter[str]()
        self._calls: list[MockedCall] = []
        self._lock = Lock()
        self._unanswered: list[Exception] = []

    @property
    def calls(self) -> tuple[MockedCall, ...]:
        """The calls so far in order: the trajectory."""
        return tuple(self._calls)

    @property
    def unanswered(self) -> tuple[Exception, ...]:
        """The errors of calls that the test has no answer for, in order, even if the agent caught them."""
        return tuple(self._unanswered)

    def note_unanswered(self, error: Exception) -> None:
        """Add an error to `unanswered`."""
        self._unanswered.append(error)

    def note_call(self, tool: str, args: JsonObject, *, result: Any, error: str | None) -> None:
        """Add a call to the trajectory that something else has answered, such as an MCP server."""
        self._end(self._begin(tool, args)[1], result=result, error=error)

    async def resolve(self, tool: str, args: Mapping[str, Any]) -> Any:
        """Answer a call with the JSON of the mock's answer, or with `{"error": message}` if the mock raises.

        Raises:
            MockError: the tool has no mock, or the mock's answer is not one that the real tool could return.
            RecordingMismatchError: the recording has no matching exchange.
            InputError: the arguments are not a mapping.
        """
        if not isinstance(args, Mapping):
            hint = "parse JSON text first: json.loads(…)"
            error = InputError(f"expected arguments by name, got {args!r}", source="resolve", place=tool, hint=hint)
            self.note_unanswered(error)
            raise error
        try:
            return await self._call(tool, dict(args), self._mocks.real_tools.get(tool, UNKNOWN_TOOL))
        except Exception as error:
            if is_test_error(error):
                raise
            return {"error": exception_text(error)}

    def toolbox(self, tools: Mapping[str, MockableTool] | Iterable[MockableTool]) -> dict[str, ToolDef]:
        """Return the tools with mocked answers, for a Workflow or a WorkflowEngine.

        Arguments are checked as the real tool checks them. What a mock raises is raised, as by a real tool; errors
        of the test itself end the run.

        Args:
            tools: functions, tools and specs, as a list or by name.

        Raises:
            InputError: an item is not a tool.
        """
        if isinstance(tools, Mapping):
            real = Toolbox({name: self._runnable(given) for name, given in tools.items()})
        else:
            real = Toolbox([self._runnable(given) for given in tools])
        return {name: self._mocked(tool) for name, tool in real.items()}

    def _runnable(self, given: MockableTool) -> GivenTool:
        return ToolDef(given, self.resolve) if isinstance(given, ToolSpec) else given

    def _mocked(self, tool: ToolDef) -> MockedTool:
        known = self._mocks.real_tools.get(tool.name, UNKNOWN_TOOL)
        declaration = tool.declaration if tool.declaration != UNDECLARED else known.declaration
        real = RealTool(tool.bind, known.result, declaration)

        async def answer(**args: Any) -> Any:
            return await self._call(tool.name, args, real)

        return MockedTool(tool.spec, answer, **tool.options)

    async def _call(self, tool: str, args: JsonObject, real: RealTool) -> Any:
        """Return the JSON answer to a call, and add the call to the trajectory. Raises what the mock raises."""
        context, place = self._begin(tool, args)
        try:
            result = await self._result(args, context, real)
        except Exception as error:
            self._end(place, error=exception_text(error), is_answered=not is_test_error(error))
            if is_test_error(error):
                self.note_unanswered(error)
            raise
        self._end(place, result=result)
        return deepcopy(result)

    def _begin(self, tool: str, args: JsonObject) -> tuple[MockContext, int]:
        """Add a call to the trajectory, and return its place there."""
        arguments = json_arguments(args)
        with self._lock:
            place, call_index = len(self._calls), self._counts[tool]
            self._counts[tool] += 1
            self._calls.append(MockedCall(tool, arguments, turn_index=self.turn_index, call_index=call_index))
        self._mocks.note_called([tool])
        return MockContext(tool, call_index, self.conversation_id, self.turn_index, self.state), place

    def _end(self, place: int, *, result: Any = None, error: str | None = None, is_answered: bool = True) -> None:
        self._calls[place] = replace(self._calls[place], result=result, error=error, is_answered=is_answered)

    async def _result(self, args: JsonObject, context: MockContext, real: RealTool) -> Any:
        """Return the result of the wrapped tool. Arguments that the real tool would reject never reach it."""
        if context.tool in self._answers:
            real.check_args(args)

        async def answer(**given: Any) -> Any:
            return await self._answer(given, context, real)

        tool = self._wrap_tool(ToolDef(ToolSpec(context.tool), answer, **asdict(real.declaration)))
        value = tool.callable(**args)
        return await value if isinstance(value, Awaitable) else value

    async def _answer(self, args: JsonObject, context: MockContext, real: RealTool) -> Any:
        answer = self._answers.get(context.tool)
        if answer is None:
            if self._mocks.unmocked == "passthrough":
                return None
            returns, mocked = real.result.schema, self._answers
            raise unmocked_error(context.tool, args, returns=returns, mocked=mocked, declared_by=self._declared_by)
        value = await resolve_answer(answer, deepcopy(args), context)
        if isinstance(value, UncheckedAnswer):
            return value.value
        result = _json_result(value, tool=context.tool)
        real.check_result(result, tool=context.tool)
        return result


def _json_result(value: object, *, tool: str) -> Any:
    try:
        return json_value(value)
    except TypeError as error:
        raise MockError(f"the mock of {tool!r} returned something that is not JSON: {error}", tool=tool) from None


class Mocks:
    """The mocks of an agent's tools, by tool name.

    Args:
        declared: for each tool a JSON value, a function of `(args)` or `(args, ctx)`, sync or async, an
            exception, or the result of `sequence`, `replayed`, `fails`, `hangs` or `garbled`. `{"tools": {…}}` around
            them is accepted.
        unmocked: how calls of other tools are handled: `error` raises UnmockedToolError, `passthrough`
            answers None.
        schemas: the real tools, where they are known: functions, tools, specs, or JSON schemas of their
            arguments. Arguments that the real tool would reject are rejected, and the answer of a mock must
            match the return annotation of a function.
        returns: JSON schemas or type hints of the results of real tools; they override return annotations.
        side_effects: tools that must not run twice, in addition to those whose `schemas` say so.

    Raises:
        InputError: a mock, a schema or `unmocked` is invalid; the error names the tool.
    """

    def __init__(
        self,
        declared: Mapping[str, object],
        *,
        unmocked: UnmockedPolicy = "error",
        schemas: Mapping[str, GivenSchema] | None = None,
        returns: Mapping[str, object] | None = None,
        side_effects: str | Iterable[str] = (),
    ) -> None:
        if unmocked not in get_args(UnmockedPolicy):
            known = ", ".join(get_args(UnmockedPolicy))
            raise InputError(f"unknown value {unmocked!r}", source="unmocked", hint=f"one of: {known}")
        self.unmocked = unmocked
        self.declared = _build_mocks(declared)
        self._schemas, returns = dict(schemas or {}), returns or {}
        self.real_tools = {
            tool: build_real_tool(tool, self._schemas.get(tool), returns=returns.get(tool, UNSET))
            for tool in dict.fromkeys([*self._schemas, *returns])
        }
        for tool in (side_effects,) if isinstance(side_effects, str) else side_effects:
            real = self.real_tools.get(tool, UNKNOWN_TOOL)
            self.real_tools[tool] = replace(real, declaration=replace(real.declaration, side_effect=True))
        self._called = set[str]()
        self._numbers = count(1)

    def tools(self) -> dict[str, tuple[ToolDef | ToolSpec, RealTool]]:
        """Return the tools that have a mock, by name: as `schemas` declare them, and what they accept and return."""
        return {
            name: (declared_tool(self._schemas.get(name), name=name), self.real_tools.get(name, UNKNOWN_TOOL))
            for name in self.declared
        }

    def conversation(
        self,
        conversation_id: str | None = None,
        *,
        wrap_tool: ToolWrapper = unwrapped,
        declared_by: str = "Mocks",
    ) -> MockedTools:
        """Return the mocked tools of a new conversation, which shares no state with any other.

        `conversation_id` is any str, such as `conv-1-abc123`; by default `conv-1`, `conv-2` and so on. `wrap_tool`
        wraps each tool that is called. `declared_by` is the function that errors advise to change.
        """
        name = f"conv-{next(self._numbers)}" if conversation_id is None else conversation_id
        return MockedTools(self, name, wrap_tool=wrap_tool, declared_by=declared_by)

    @property
    def called(self) -> frozenset[str]:
        """The tools that were called, with and without a mock."""
        return frozenset(self._called)

    def note_called(self, tools: Iterable[str]) -> None:
        """Note tools that were called, here or in another process."""
        self._called.update(tools)

    def never_called(self) -> tuple[str, ...]:
        """Return the tools whose mocks were never called, in the order of declaration."""
        return tuple(tool for tool in self.declared if tool not in self._called)


def mocks_by_tool(declared: Mapping[str, object]) -> Mapping[str, object]:
    """Return the mocks by tool, without the `{"tools": …}` around them if there is one.

    Raises:
        InputError: it is not a mapping.
    """
    if not isinstance(declared, Mapping):
        hint = '{"get_weather": lambda args: {"city": args["city"]}}'
        raise InputError(f"expected a dict of mocks, got {declared!r}", source=SOURCE, hint=hint)
    inner = declared.get("tools")
    return inner if declared.keys() == {"tools"} and isinstance(inner, Mapping) else declared


def _build_mocks(declared: Mapping[str, object]) -> dict[str, Mock]:
    mocks = mocks_by_tool(declared)
    for tool in mocks:
        if not isinstance(tool, str) or not tool:
            raise InputError(f"expected the name of a tool, got {tool!r}", source=SOURCE)
    return {tool: to_mock(given, source=SOURCE, place=tool) for tool, given in mocks.items()}
