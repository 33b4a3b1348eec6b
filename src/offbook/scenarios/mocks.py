"""Mocks of tools: their kinds, the declaration of all mocks of an agent, and the mocked tools of a conversation."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Set
from copy import deepcopy
from inspect import Parameter
from itertools import count
from math import inf
from threading import Lock
from typing import Any, Literal, Never, TypeAlias, get_args

import msgspec
import orjson
from msgspec import UNSET, Struct
from msgspec.structs import asdict, replace

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, MockError, ToolFaultError, ToolTimeoutError
from offbook.messages import JsonObject, plain_str
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.exchange import json_arguments
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import RecordingInput, open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.scenarios.mock_bug import mock_bug
from offbook.scenarios.real_tool import (
    UNKNOWN_TOOL,
    GivenSchema,
    RealTool,
    build_real_tool,
    declared_tool,
    unmocked_error,
)
from offbook.session.replayed_tools import ReplayedTools
from offbook.session.sources import RecordedTools
from offbook.session.tape import Tape
from offbook.tools import GivenTool, Toolbox, ToolDef, ToolSpec
from offbook.tools.dispatch import is_test_error
from offbook.tools.effects import UNDECLARED


class MockContext(Struct, frozen=True):
    """The call that a mock answers.

    `call_index` counts the earlier calls of this tool in this conversation; `turn_index` is the current turn. Both
    start at 0. `state` lives for one conversation and is shared by all its mocks. Agentest's names `callIndex`,
    `conversationId` and `turnIndex` mean the same.
    """

    tool: str
    call_index: int
    conversation_id: str
    turn_index: int
    state: dict[str, Any]

    @property
    def callIndex(self) -> int:  # noqa: N802 - Agentest's name
        return self.call_index

    @property
    def conversationId(self) -> str:  # noqa: N802 - Agentest's name
        return self.conversation_id

    @property
    def turnIndex(self) -> int:  # noqa: N802 - Agentest's name
        return self.turn_index


MockAnswer: TypeAlias = Callable[[JsonObject, MockContext], Any]
"""Answers a call with a value or an awaitable, or raises."""


class Mock(Struct, frozen=True):
    """The declared replacement for a tool, which holds no state of conversations.

    `start` returns the function that answers the calls of one conversation.
    """

    start: Callable[[], MockAnswer]


async def resolve_answer(answer: MockAnswer, args: JsonObject, context: MockContext) -> Any:
    """Return the answer to a call, awaited if necessary. Raises what the mock raises."""
    value = answer(args, context)
    return await value if hasattr(type(value), "__await__") else value


def json_value(value: object) -> Any:
    """Return a copy of the value that contains only JSON types.

    Dates, enums, dataclasses, Structs and pydantic models become their usual JSON; tuples become lists, and sets
    become sorted lists.

    Raises:
        TypeError: the value contains something that has no JSON form.
    """
    return orjson.loads(orjson.dumps(value, default=_json_default, option=orjson.OPT_NON_STR_KEYS))


def _json_default(value: Any) -> object:
    """Convert a value that orjson cannot serialize itself."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value)
    raise TypeError


def _value_mock(value: object, *, source: str, place: str = "") -> Mock:
    """Return a mock that answers every call with the same value, as it was at the time of declaration."""
    try:
        answered = json_value(value)
    except TypeError as error:
        hint = "a mock is a JSON value, a function of (args) or (args, ctx), or one of sequence, replayed, fails, …"
        raise InputError(f"not JSON: {error}", source=source, place=place, hint=hint) from None
    return Mock(lambda: lambda args, context: deepcopy(answered))


SIGNATURE_HINT = "write lambda args: …, or lambda args, ctx: …"
POSITIONAL_KINDS = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}


def _function_mock(function: Callable[..., Any], *, source: str, place: str) -> Mock:
    """Return a mock that answers with the result of a function of `(args)` or `(args, ctx)`, sync or async.

    A second parameter with a default gets the context only if it is named `ctx`.
    """
    try:
        takes_context = _takes_context(inspect.signature(function))
    except (TypeError, ValueError) as error:
        raise InputError(str(error), source=source, place=place, hint=SIGNATURE_HINT) from None
    return Mock(lambda: function if takes_context else lambda args, context: function(args))


def _takes_context(signature: inspect.Signature) -> bool:
    """Return whether the function takes two arguments. Raises TypeError if it takes neither one nor two."""
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind in POSITIONAL_KINDS]
    takes_any = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    second = positional[1:2]
    takes_context = takes_any or any(each.default is Parameter.empty or each.name == "ctx" for each in second)
    try:
        signature.bind(*([None] * (2 if takes_context else 1)))
    except TypeError as error:
        raise TypeError(f"a mock is called with (args) or (args, ctx): {error}") from None
    return takes_context


def _raising_mock(error: object, *, source: str, place: str = "") -> Mock:
    """Return a mock that raises on every call: an exception, or a message, which is raised as a ToolFaultError."""
    if isinstance(error, type) and issubclass(error, Exception):
        name = error.__name__
        try:
            error = error()
        except TypeError as reason:
            hint = f"pass an instance: {name}(…)"
            raise InputError(f"{name}: {reason}", source=source, place=place, hint=hint) from None
    if not isinstance(error, Exception | str):
        raise InputError(f"expected an exception or a message, got {error!r}", source=source, place=place)

    def answer(args: JsonObject, context: MockContext) -> Never:
        if isinstance(error, str):
            raise ToolFaultError(error, tool=context.tool)
        raise error.with_traceback(None)

    return Mock(lambda: answer)


def to_mock(declared: object, *, source: str, place: str = "") -> Mock:
    """Build a mock from a mock, an exception, a function, or a JSON value.

    Raises:
        InputError: `declared` is none of these; the error has `source` and `place`.
    """
    if isinstance(declared, Mock):
        return declared
    if isinstance(declared, ToolDef):
        hint = "a mock replaces a tool; to run the real one, call it: lambda args: tool(**args)"
        raise InputError("expected a mock, got a tool", source=source, place=place, hint=hint)
    if isinstance(declared, Exception) or (isinstance(declared, type) and issubclass(declared, Exception)):
        return _raising_mock(declared, source=source, place=place)
    if callable(declared):
        return _function_mock(declared, source=source, place=place)
    return _value_mock(declared, source=source, place=place)


def sequence(values: Iterable[object]) -> Mock:
    """Return a mock that answers with one value after the other, and then repeats the last one.

    It starts over in each conversation. A value is anything that can be declared as a mock: an exception is raised,
    a function is called, a mock answers that one call.

    Raises:
        InputError: there are no values, or one of them cannot be a mock.
    """
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        hint = "sequence([first, second])"
        raise InputError(f"expected a list of answers, got {values!r}", source="sequence", hint=hint)
    mocks = [to_mock(value, source="sequence", place=f"[{index}]") for index, value in enumerate(values)]
    if not mocks:
        raise InputError("expected at least one answer, got none", source="sequence")

    def start() -> MockAnswer:
        answers, calls = [mock.start() for mock in mocks], count()

        def answer(args: JsonObject, context: MockContext) -> Any:
            return answers[min(next(calls), len(answers) - 1)](args, context)

        return answer

    return Mock(start)


def replayed(recording: RecordingInput, tool: str | None = None, *, strict: bool = True) -> Mock:
    """Return a mock that answers with what a tool returned or raised when it was recorded.

    A call is answered by the first unused exchange that was recorded with the same arguments, or without arguments.

    Args:
        recording: a path, `sqlite:///path.db`, or the document as a dict. It is read once, here.
        tool: the tool's name in the recording; by default the name of the mocked tool.
        strict: whether a call without a matching exchange raises RecordingMismatchError. If not, it is answered with
            the next exchange of the tool, or the last one, or None, and a one-line warning is logged.

    Raises:
        InputError: the recording cannot be read, or (strict) is older than version 2.
    """
    if isinstance(recording, str | os.PathLike):
        store = open_store(recording)
        document, source = store.load(), store.location
    else:
        source = "recording"
        document = recording if isinstance(recording, Document) else document_from_dict(recording, source=source)
    if strict:
        check_strict(document.version, source=source)

    def start() -> MockAnswer:
        reader = MemoryReader(document, source=source)
        replay = ReplayedTools(Toolbox(), RecordedTools(Tape(reader, strict=strict)), reader=reader)

        def answer(args: JsonObject, context: MockContext) -> Any:
            return replay.answer(ToolDef(ToolSpec(context.tool if tool is None else tool), answer), args)

        return answer

    return Mock(start)


FAILS = "fails"


def fails(error: str | Exception | type[Exception], *, times: int | None = None, then: object = UNSET) -> Mock:
    """Return a mock that raises an error: on every call, or on the first `times` calls of each conversation.

    Args:
        error: an exception, or a message, which is raised as a ToolFaultError.
        times: how many calls fail; by default all of them.
        then: the mock for the calls after that; anything that can be declared as a mock.

    Raises:
        InputError: `error` is neither, or only one of `times` and `then` is set.
    """
    failure = _raising_mock(error, source=FAILS)
    if times is None and then is UNSET:
        return failure
    if times is None or then is UNSET:
        hint = 'fails("no connection", times=2, then={"ok": True})'
        raise InputError("times and then must be set together", source=FAILS, hint=hint)
    if not isinstance(times, int) or times < 1:
        raise InputError(f"expected an int of at least 1, got {times!r}", source=FAILS, place="times")
    following = to_mock(then, source=FAILS, place="then")

    def start() -> MockAnswer:
        fail, succeed, calls = failure.start(), following.start(), count()

        def answer(args: JsonObject, context: MockContext) -> Any:
            return (fail if next(calls) < times else succeed)(args, context)

        return answer

    return Mock(start)


HANGS = "hangs"


def hangs(for_s: float | None = None, *, then: object = UNSET) -> Mock:
    """Return a mock that never answers, or not before `for_s` seconds have passed.

    A call that is never answered ends when the caller gives up: set `timeout_s` on the tool, or a time limit on the
    conversation.

    Args:
        for_s: seconds until the answer. Virtual time does not wait.
        then: the answer; anything that can be declared as a mock. By default a ToolTimeoutError.

    Raises:
        InputError: `for_s` is not a positive number, or `then` is set without it.
    """
    if for_s is None:
        if then is not UNSET:
            hint = "hangs(for_s=30, then=…)"
            raise InputError("a call that hangs forever has no answer", source=HANGS, place="then", hint=hint)
        return Mock(lambda: lambda args, context: asyncio.get_running_loop().create_future())
    if not 0 < for_s < inf:
        raise InputError(f"expected a positive number of seconds, got {for_s!r}", source=HANGS, place="for_s")

    def time_out(args: JsonObject, ctx: MockContext) -> Never:
        raise ToolTimeoutError(tool=ctx.tool, timeout_s=for_s)

    following = to_mock(time_out if then is UNSET else then, source=HANGS, place="then")

    def start() -> MockAnswer:
        answer_then = following.start()

        async def answer(args: JsonObject, context: MockContext) -> Any:
            await SYSTEM_CLOCK.sleep_s(for_s)
            return await resolve_answer(answer_then, args, context)

        return answer

    return Mock(start)


BROKEN_JSON = '{"result": '


class UncheckedAnswer(Struct, frozen=True):
    """A value that is wrong on purpose, and therefore not checked against the real tool."""

    value: object


def garbled(value: object = BROKEN_JSON) -> Mock:
    """Return a mock that answers with something the real tool would not return: broken JSON text, or `value`.

    The answer is not checked against the real tool.

    Raises:
        InputError: `value` is not JSON.
    """
    answer = _value_mock(value, source="garbled").start()
    return Mock(lambda: lambda args, context: UncheckedAnswer(answer(args, context)))


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
        """Add a call to the trajectory that something other than a mock answered, such as an MCP server."""
        self._end(self._begin(tool, args)[1], result=result, error=error)

    async def resolve(self, tool: str, args: Mapping[str, Any]) -> Any:
        """Answer a call with the JSON of the mock's answer, or with `{"error": message}` if the mock raises.

        Raises:
            MockError: the tool has no mock, or the mock's answer is not one that the real tool could return, or the
                function of the mock has a bug.
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
        try:
            value = await resolve_answer(answer, deepcopy(args), context)
        except Exception as error:
            if (bug := mock_bug(error, tool=context.tool)) is not None:
                raise bug from error
            raise
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
