"""Mocks of tools that misbehave: `fails`, `hangs` and `garbled`."""

from __future__ import annotations

import asyncio
from itertools import count
from math import inf
from typing import Any, Never

from msgspec import UNSET, Struct

from offbook.clock import SYSTEM_CLOCK
from offbook.errors import InputError, ToolTimeoutError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.mock import Mock, MockAnswer, MockContext, RaisingMock, ValueMock, resolve_answer, to_mock

FAILS = "fails"


class FailFirstMock(Mock):
    """Fails the first `times` calls of each conversation; then another mock answers."""

    def __init__(self, failure: Mock, *, times: int, then: Mock) -> None:
        self._failure, self._times, self._then = failure, times, then

    def start(self) -> MockAnswer:
        failure, then, calls = self._failure.start(), self._then.start(), count()

        def answer(args: JsonObject, context: MockContext) -> Any:
            return (failure if next(calls) < self._times else then)(args, context)

        return answer


def fails(error: str | Exception | type[Exception], *, times: int | None = None, then: object = UNSET) -> Mock:
    """Return a mock that raises an error: on every call, or on the first `times` calls of each conversation.

    Args:
        error: an exception, or a message, which is raised as a ToolFaultError.
        times: how many calls fail; by default all of them.
        then: the mock for the calls after that; anything that can be declared as a mock.

    Raises:
        InputError: `error` is neither, or only one of `times` and `then` is set.
    """
    failure = RaisingMock(error, source=FAILS)
    if times is None and then is UNSET:
        return failure
    if times is None or then is UNSET:
        hint = 'fails("no connection", times=2, then={"ok": True})'
        raise InputError("times and then must be set together", source=FAILS, hint=hint)
    if not isinstance(times, int) or times < 1:
        raise InputError(f"expected an int of at least 1, got {times!r}", source=FAILS, place="times")
    return FailFirstMock(failure, times=times, then=to_mock(then, source=FAILS, place="then"))


HANGS = "hangs"


class HangingMock(Mock):
    """Never answers."""

    def start(self) -> MockAnswer:
        async def answer(args: JsonObject, context: MockContext) -> None:
            await asyncio.get_running_loop().create_future()

        return answer


class DelayedMock(Mock):
    """Answers with another mock, `for_s` seconds after the call."""

    def __init__(self, then: Mock, *, for_s: float) -> None:
        self._then, self._for_s = then, for_s

    def start(self) -> MockAnswer:
        then = self._then.start()

        async def answer(args: JsonObject, context: MockContext) -> Any:
            await SYSTEM_CLOCK.sleep_s(self._for_s)
            return await resolve_answer(then, args, context)

        return answer


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
        return HangingMock()
    if not 0 < for_s < inf:
        raise InputError(f"expected a positive number of seconds, got {for_s!r}", source=HANGS, place="for_s")
    if then is not UNSET:
        return DelayedMock(to_mock(then, source=HANGS, place="then"), for_s=for_s)

    def time_out(args: JsonObject, ctx: MockContext) -> Never:
        raise ToolTimeoutError(tool=ctx.tool, timeout_s=for_s)

    return DelayedMock(to_mock(time_out, source=HANGS), for_s=for_s)


BROKEN_JSON = '{"result": '


class UncheckedAnswer(Struct, frozen=True):
    """A value that is wrong on purpose, and therefore not checked against the real tool."""

    value: object


class GarbledMock(Mock):
    """Answers with a value that is wrong on purpose."""

    def __init__(self, value: object) -> None:
        self._value = ValueMock(value, source="garbled", place="")

    def start(self) -> MockAnswer:
        answer_value = self._value.start()

        def answer(args: JsonObject, context: MockContext) -> UncheckedAnswer:
            return UncheckedAnswer(answer_value(args, context))

        return answer


def garbled(value: object = BROKEN_JSON) -> Mock:
    """Return a mock that answers with something the real tool would not return: broken JSON text, or `value`.

    The answer is not checked against the real tool.

    Raises:
        InputError: `value` is not JSON.
    """
    return GarbledMock(value)
