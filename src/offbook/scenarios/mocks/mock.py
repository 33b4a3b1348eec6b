"""The Mock base class, and mocks made from values, functions, exceptions and sequences of them."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from copy import deepcopy
from inspect import Parameter
from itertools import count
from typing import Any, Never, TypeAlias

import msgspec
import orjson
from msgspec import Struct

from offbook.errors import InputError, ToolFaultError
from offbook.messages import JsonObject
from offbook.tools import ToolDef


class MockContext(Struct, frozen=True):
    """The call that is being answered.

    `call_index` is how often this tool was called in this conversation before, `turn_index` the turn under
    way; both count from 0. `state` lives for one conversation and is shared by all its mocks.
    """

    tool: str
    call_index: int
    conversation_id: str
    turn_index: int
    state: dict[str, Any]


MockAnswer: TypeAlias = Callable[[JsonObject, MockContext], Any]
"""Answers a call with a value, with something to wait for, or by raising."""


class Mock(ABC):
    """A stand-in for a tool, as declared. It keeps nothing of what conversations do with it."""

    @abstractmethod
    def start(self) -> MockAnswer:
        """What answers the calls of one conversation."""


async def resolve_answer(answer: MockAnswer, args: JsonObject, context: MockContext) -> Any:
    """The value that a call is answered with, waited for if need be. Raises what the mock raises."""
    value = answer(args, context)
    return await value if hasattr(type(value), "__await__") else value


def json_value(value: object) -> Any:
    """A copy of the value that consists of JSON alone.

    Dates, enums, dataclasses, Structs and pydantic models have their usual JSON, tuples are lists and sets
    are sorted.

    Raises:
        TypeError: something in it has no JSON.
    """
    return orjson.loads(orjson.dumps(value, default=_json_default, option=orjson.OPT_NON_STR_KEYS))


def _json_default(value: Any) -> object:
    """The value as one that has JSON. Called for those that have none of their own."""
    if isinstance(value, msgspec.Struct):
        return msgspec.to_builtins(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return sorted(value)
    raise TypeError


class ValueMock(Mock):
    """Answers every call with the same value, as it was when it was declared.

    Raises:
        InputError: the value is no JSON.
    """

    def __init__(self, value: object, *, source: str, place: str) -> None:
        try:
            self._value = json_value(value)
        except TypeError as error:
            hint = "a mock is a JSON value, a function of (args) or (args, ctx), or one of sequence, replayed, fails, …"
            raise InputError(f"no JSON: {error}", source=source, place=place, hint=hint) from None

    def start(self) -> MockAnswer:
        def answer(args: JsonObject, context: MockContext) -> object:
            return deepcopy(self._value)

        return answer


SIGNATURE_HINT = "write lambda args: …, or lambda args, ctx: …"
POSITIONAL_KINDS = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}


class FunctionMock(Mock):
    """Answers with what a function of `(args)` or `(args, ctx)` returns, or can be awaited for.

    A second parameter that has a default is given the context only if it is named `ctx`.

    Raises:
        InputError: the function takes neither.
    """

    def __init__(self, function: Callable[..., Any], *, source: str, place: str) -> None:
        self._function = function
        try:
            self._takes_context = _takes_context(inspect.signature(function))
        except (TypeError, ValueError) as error:
            raise InputError(str(error), source=source, place=place, hint=SIGNATURE_HINT) from None

    def start(self) -> MockAnswer:
        return self._function if self._takes_context else self._without_context

    def _without_context(self, args: JsonObject, context: MockContext) -> Any:
        return self._function(args)


def _takes_context(signature: inspect.Signature) -> bool:
    """Whether a function of that signature takes two arguments. Raises TypeError if it takes neither one nor two."""
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


class RaisingMock(Mock):
    """Raises `error` at every call: an exception, or a message, which is raised as a ToolFaultError.

    Raises:
        InputError: it is none of these.
    """

    def __init__(self, error: object, *, source: str, place: str = "") -> None:
        if isinstance(error, type) and issubclass(error, Exception):
            error = _instantiate(error, source=source, place=place)
        if not isinstance(error, Exception | str):
            raise InputError(f"expected an error or a message, got {error!r}", source=source, place=place)
        self._error = error

    def start(self) -> MockAnswer:
        def answer(args: JsonObject, context: MockContext) -> Never:
            if isinstance(self._error, str):
                raise ToolFaultError(self._error, tool=context.tool)
            raise self._error.with_traceback(None)

        return answer


def _instantiate(kind: type[Exception], *, source: str, place: str) -> Exception:
    try:
        return kind()
    except TypeError as error:
        hint = f"give the error itself: {kind.__name__}(…)"
        raise InputError(f"{kind.__name__}: {error}", source=source, place=place, hint=hint) from None


def to_mock(declared: object, *, source: str, place: str = "") -> Mock:
    """The mock that `declared` describes: a mock, an exception, a function, or a JSON value.

    Raises:
        InputError: it describes none; the error has `source` and `place`.
    """
    if isinstance(declared, Mock):
        return declared
    if isinstance(declared, ToolDef):
        hint = "a mock stands in for a tool; to run a real one, call it: lambda args: tool(**args)"
        raise InputError("expected a mock, got a tool", source=source, place=place, hint=hint)
    if isinstance(declared, Exception) or (isinstance(declared, type) and issubclass(declared, Exception)):
        return RaisingMock(declared, source=source, place=place)
    if callable(declared):
        return FunctionMock(declared, source=source, place=place)
    return ValueMock(declared, source=source, place=place)


class SequenceMock(Mock):
    """Lets one mock after the other answer a call, and the last one all further calls."""

    def __init__(self, mocks: Sequence[Mock]) -> None:
        self._mocks = mocks

    def start(self) -> MockAnswer:
        answers, calls = [mock.start() for mock in self._mocks], count()

        def answer(args: JsonObject, context: MockContext) -> Any:
            return answers[min(next(calls), len(answers) - 1)](args, context)

        return answer


def sequence(values: Iterable[object]) -> Mock:
    """A mock that answers with one value after the other, then with the last one again and again.

    It starts afresh in each conversation. Whatever can be a mock can be one of the values: an exception is
    raised, a function is called, a mock answers that one call.

    Raises:
        InputError: there are no values, or one of them is no mock.
    """
    if isinstance(values, str | bytes | dict) or not isinstance(values, Iterable):
        hint = "sequence([first, second])"
        raise InputError(f"expected a list of answers, got {values!r}", source="sequence", hint=hint)
    mocks = [to_mock(value, source="sequence", place=f"[{index}]") for index, value in enumerate(values)]
    if not mocks:
        raise InputError("expected one answer or more, got none", source="sequence")
    return SequenceMock(mocks)
