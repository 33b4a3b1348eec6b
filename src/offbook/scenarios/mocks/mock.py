"""Mock, and mocks of values, functions, exceptions, sequences, recordings, and of tools that fail."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Set
from copy import deepcopy
from inspect import Parameter
from itertools import count
from math import inf
from typing import Any, Never, TypeAlias

import msgspec
import orjson
from msgspec import UNSET, Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, ToolFaultError, ToolTimeoutError
from offbook.messages import JsonObject
from offbook.recording.format.document import Document, check_strict
from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import RecordingInput, open_store
from offbook.recording.stores.memory import MemoryReader
from offbook.session.replayed_tools import ReplayedTools
from offbook.session.sources import RecordedTools
from offbook.tools import Toolbox, ToolDef, ToolSpec


class MockContext(Struct, frozen=True):
    """The call that a mock answers.

    `call_index` counts the earlier calls of this tool in this conversation; `turn_index` is the current turn. Both
    start at 0. `state` lives for one conversation and is shared by all its mocks.
    """

    tool: str
    call_index: int
    conversation_id: str
    turn_index: int
    state: dict[str, Any]


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
        replay = ReplayedTools(Toolbox(), RecordedTools(reader.tools), reader=reader, strict=strict)

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
