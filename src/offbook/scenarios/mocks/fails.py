"""A mock of a tool that fails."""

from __future__ import annotations

from itertools import count
from typing import Any

from msgspec import UNSET

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.declared import mock_of
from offbook.scenarios.mocks.mock import Answer, Mock
from offbook.scenarios.mocks.raising import Raising

SOURCE = "fails"


class FailingAtFirst(Mock):
    """Fails `times` times in each conversation, and lets another mock answer from then on."""

    def __init__(self, failure: Mock, *, times: int, then: Mock) -> None:
        self._failure, self._times, self._then = failure, times, then

    def start(self) -> Answer:
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
    failure = Raising(error, source=SOURCE)
    if times is None and then is UNSET:
        return failure
    if times is None or then is UNSET:
        hint = 'fails("no connection", times=2, then={"ok": True})'
        raise InputError("times and then go together", source=SOURCE, hint=hint)
    if not isinstance(times, int) or times < 1:
        raise InputError(f"expected one or more, got {times!r}", source=SOURCE, place="times")
    return FailingAtFirst(failure, times=times, then=mock_of(then, source=SOURCE, place="then"))
