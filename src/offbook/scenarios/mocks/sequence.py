"""A mock that answers in order."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from typing import Any

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.declared import mock_of
from offbook.scenarios.mocks.mock import Answer, Mock


class SequenceMock(Mock):
    """Lets one mock after the other answer a call, and the last one all further calls."""

    def __init__(self, mocks: Sequence[Mock]) -> None:
        self._mocks = mocks

    def start(self) -> Answer:
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
    mocks = [mock_of(value, source="sequence", place=f"[{index}]") for index, value in enumerate(values)]
    if not mocks:
        raise InputError("expected one answer or more, got none", source="sequence")
    return SequenceMock(mocks)
