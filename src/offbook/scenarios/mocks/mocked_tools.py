"""Mocked tools as one conversation sees them: answers calls, counts them and keeps the trajectory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from copy import deepcopy
from typing import Any, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError, MockError
from offbook.messages import JsonObject
from offbook.recording.format.tool_exchange import json_arguments
from offbook.scenarios.mocks.failures import UncheckedAnswer
from offbook.scenarios.mocks.mock import MockAnswer, MockContext, json_value, resolve_answer
from offbook.scenarios.mocks.real_tool import UNKNOWN_TOOL, RealTool
from offbook.scenarios.mocks.suggestion import unmocked_error
from offbook.tools import GivenTool, Toolbox, ToolDef, ToolSpec
from offbook.tools.dispatch import is_test_error
from offbook.tools.result_text import plain_str


class MockedTool(ToolDef, frozen=True):
    """A tool that takes arguments as the model gave them: whether they fit is judged when they are answered."""

    def bind(self, args: JsonObject) -> JsonObject:
        return args


class MockedCall(Struct, frozen=True):
    """A call of a tool, in one conversation, as it was made and answered.

    `error` is the message of what was raised instead of a `result`. A call that was given up, or still goes
    on, is not answered. `turn_index` and `call_index` are those of MockContext.
    """

    tool: str
    args: JsonObject
    result: Any = None
    error: str | None = None
    turn_index: int = 0
    call_index: int = 0
    is_answered: bool = False


def exception_text(error: Exception) -> str:
    """What an agent is told of an error: its message, after its class where the message alone says too little."""
    message = plain_str(error)
    if isinstance(error, KeyError):
        return f"{type(error).__name__}: {message}"
    return message or type(error).__name__


UnmockedPolicy: TypeAlias = Literal["error", "passthrough"]
MockableTool: TypeAlias = ToolSpec | GivenTool
ToolWrapper: TypeAlias = Callable[[ToolDef], ToolDef]
"""Puts something around a tool that a mock answers for, such as faults."""


def unwrapped(tool: ToolDef) -> ToolDef:
    """The tool with nothing around it."""
    return tool


class MockedTools:
    """Tools as one conversation sees them, with counts, state and sequences of its own. Made by `Mocks.conversation`.

    `turn_index` is the turn under way, from 0; whoever runs the conversation sets it. `state` is what the
    mocks share.
    """

    def __init__(
        self,
        conversation_id: str,
        *,
        answers: Mapping[str, MockAnswer],
        real_tools: Mapping[str, RealTool],
        unmocked: UnmockedPolicy,
        on_call: Callable[[str], object],
        around: ToolWrapper = unwrapped,
    ) -> None:
        self.conversation_id = conversation_id
        self.turn_index = 0
        self.state: dict[str, Any] = {}
        self._answers, self._real_tools, self._unmocked, self._on_call = answers, real_tools, unmocked, on_call
        self._wrap_tool = around
        self._counts = Counter[str]()
        self._calls: list[MockedCall] = []

    @property
    def calls(self) -> tuple[MockedCall, ...]:
        """The calls so far, in the order in which they were made: the trajectory."""
        return tuple(self._calls)

    async def resolve(self, tool: str, args: Mapping[str, Any]) -> Any:
        """What the agent is given for a call: the JSON of what the mock answers, or `{"error": message}` if it raises.

        Raises:
            MockError: the tool has no mock, or one that answers what the tool could not.
            RecordingMismatchError: a recording has no answer.
            InputError: the arguments are not an object.
        """
        if not isinstance(args, Mapping):
            hint = "arguments that are JSON text are parsed first: json.loads(…)"
            raise InputError(f"expected arguments by name, got {args!r}", source="resolve", place=tool, hint=hint)
        try:
            return await self._call(tool, dict(args), self._real_tools.get(tool, UNKNOWN_TOOL))
        except Exception as error:
            if is_test_error(error):
                raise
            return {"error": exception_text(error)}

    def toolbox(self, tools: Mapping[str, MockableTool] | Iterable[MockableTool]) -> dict[str, ToolDef]:
        """The same tools, answered by the mocks, for a Workflow or a WorkflowEngine.

        Arguments are judged as the real tool judges them. What a mock raises is raised, as a real tool
        would; errors of the test end the run.

        Args:
            tools: functions, tools and specs, as a list or by name.

        Raises:
            InputError: something that is no tool.
        """
        if isinstance(tools, Mapping):
            real = Toolbox({name: self._runnable(given) for name, given in tools.items()})
        else:
            real = Toolbox([self._runnable(given) for given in tools])
        return {name: self._mocked(tool) for name, tool in real.items()}

    def _runnable(self, given: MockableTool) -> GivenTool:
        return ToolDef(given, self.resolve) if isinstance(given, ToolSpec) else given

    def _mocked(self, tool: ToolDef) -> MockedTool:
        known = self._real_tools.get(tool.name, UNKNOWN_TOOL)
        real = RealTool(tool.bind, known.result, tool.side_effect or known.side_effect)

        async def answer(**args: Any) -> Any:
            return await self._call(tool.name, args, real)

        return MockedTool(tool.spec, answer, tool.prerequisites, tool.timeout_s, tool.side_effect, tool.repeatable)

    async def _call(self, tool: str, args: JsonObject, real: RealTool) -> Any:
        """The JSON that a call is answered with. Raises what the mock raises. The call is kept in any case."""
        context, place = self._begin(tool, args), len(self._calls) - 1
        try:
            result = await self._result(args, context, real)
        except Exception as error:
            self._end(place, error=exception_text(error))
            raise
        self._end(place, result=result)
        return deepcopy(result)

    def _begin(self, tool: str, args: JsonObject) -> MockContext:
        call_index = self._counts[tool]
        self._counts[tool] += 1
        self._on_call(tool)
        self._calls.append(MockedCall(tool, json_arguments(args), turn_index=self.turn_index, call_index=call_index))
        return MockContext(tool, call_index, self.conversation_id, self.turn_index, self.state)

    def _end(self, place: int, *, result: Any = None, error: str | None = None) -> None:
        self._calls[place] = replace(self._calls[place], result=result, error=error, is_answered=True)

    async def _result(self, args: JsonObject, context: MockContext, real: RealTool) -> Any:
        """What a call comes to, with what stands around the tool. What the real tool would refuse never gets there."""
        if context.tool in self._answers:
            real.check_args(args)

        async def answer(**given: Any) -> Any:
            return await self._answer(given, context, real)

        tool = self._wrap_tool(ToolDef(ToolSpec(context.tool), answer, side_effect=real.side_effect))
        value = tool.callable(**args)
        return await value if isinstance(value, Awaitable) else value

    async def _answer(self, args: JsonObject, context: MockContext, real: RealTool) -> Any:
        answer = self._answers.get(context.tool)
        if answer is None:
            return self._without_mock(context.tool, args, real)
        value = await resolve_answer(answer, deepcopy(args), context)
        if isinstance(value, UncheckedAnswer):
            return value.value
        result = _json_result(value, tool=context.tool)
        real.check_result(result, tool=context.tool)
        return result

    def _without_mock(self, tool: str, args: JsonObject, real: RealTool) -> None:
        if self._unmocked == "error":
            raise unmocked_error(tool, args, returns=real.result.schema, mocked=self._answers)


def _json_result(value: object, *, tool: str) -> Any:
    try:
        return json_value(value)
    except TypeError as error:
        raise MockError(f"the mock of {tool!r} answers what is no JSON: {error}", tool=tool) from None
