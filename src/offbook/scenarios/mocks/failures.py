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
    """Fails `times` times in each conversation, and lets another mock answer from then on."""

    def __init__(self, failure: Mock, *, times: int, then: Mock) -> None:
        self._failure, self._times, self._then = failure, times, then

    def start(self) -> MockAnswer:
        failure, then, calls = self._failure.start(), self._then.start(), count()

        def answer(args: JsonObject, context: MockContext) -> Any:
            return (failure if next(calls) < self._times else then)(args, context)

        return answer


def fails(error: str | Exception | type[Exception], *, times: int | None = None, then: object = UNSET) -> Mock:
    """A mock that raises an error: at every call, or the first `times` of each conversation, and answers `then` after.

    Args:
        error: an exception, or a message, which is raised as a ToolFaultError.
        times: how often it fails; by default always.
        then: whatever can be a mock.

    Raises:
        InputError: `error` is none, or `times` and `then` do not go together.
    """
    failure = RaisingMock(error, source=FAILS)
    if times is None and then is UNSET:
        return failure
    if times is None or then is UNSET:
        hint = 'fails("no connection", times=2, then={"ok": True})'
        raise InputError("times and then go together", source=FAILS, hint=hint)
    if not isinstance(times, int) or times < 1:
        raise InputError(f"expected one or more, got {times!r}", source=FAILS, place="times")
    return FailFirstMock(failure, times=times, then=to_mock(then, source=FAILS, place="then"))


HANGS = "hangs"


class HangingMock(Mock):
    """Never answers."""

    def start(self) -> MockAnswer:
        async def answer(args: JsonObject, context: MockContext) -> None:
            await asyncio.get_running_loop().create_future()

        return answer


class DelayedMock(Mock):
    """Lets another mock answer, `for_s` after the call."""

    def __init__(self, then: Mock, *, for_s: float) -> None:
        self._then, self._for_s = then, for_s

    def start(self) -> MockAnswer:
        then = self._then.start()

        async def answer(args: JsonObject, context: MockContext) -> Any:
            await SYSTEM_CLOCK.sleep_s(self._for_s)
            return await resolve_answer(then, args, context)

        return answer


def hangs(for_s: float | None = None, *, then: object = UNSET) -> Mock:
    """A mock that does not answer: never, or not until `for_s` have passed.

    For ever means until the caller gives up: give the tool a `timeout_s`, or the conversation a time limit.

    Args:
        for_s: how long it keeps silent. Virtual time passes at once.
        then: whatever can be a mock; by default a ToolTimeoutError.

    Raises:
        InputError: `for_s` is no time, or `then` is given without it.
    """
    if for_s is None:
        if then is not UNSET:
            hint = "hangs(for_s=30, then=…)"
            raise InputError("what hangs for ever has no answer", source=HANGS, place="then", hint=hint)
        return HangingMock()
    if not 0 < for_s < inf:
        raise InputError(f"expected some seconds, got {for_s!r}", source=HANGS, place="for_s")
    if then is not UNSET:
        return DelayedMock(to_mock(then, source=HANGS, place="then"), for_s=for_s)

    def give_up(args: JsonObject, ctx: MockContext) -> Never:
        raise ToolTimeoutError(tool=ctx.tool, timeout_s=for_s)

    return DelayedMock(to_mock(give_up, source=HANGS), for_s=for_s)


BROKEN_JSON = '{"result": '


class UncheckedAnswer(Struct, frozen=True):
    """A value that is meant to be wrong, and so is not held against what the real tool returns."""

    value: object


class GarbledMock(Mock):
    """Answers with a value that is meant to be wrong."""

    def __init__(self, value: object) -> None:
        self._value = ValueMock(value, source="garbled", place="")

    def start(self) -> MockAnswer:
        nonsense = self._value.start()

        def answer(args: JsonObject, context: MockContext) -> UncheckedAnswer:
            return UncheckedAnswer(nonsense(args, context))

        return answer


def garbled(value: object = BROKEN_JSON) -> Mock:
    """A mock that answers with what the real tool would not: text that is broken JSON, or `value`.

    Its answer is not checked against what the real tool returns.

    Raises:
        InputError: `value` is no JSON.
    """
    return GarbledMock(value)
