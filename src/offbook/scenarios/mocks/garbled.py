"""A mock of a tool that answers nonsense."""

from __future__ import annotations

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.mock import Answer, Mock
from offbook.scenarios.mocks.plain_value import PlainValue

BROKEN_JSON = '{"result": '


class Nonsense(Struct, frozen=True):
    """A value that is meant to be wrong, and so is not held against what the real tool returns."""

    value: object


class Garbled(Mock):
    """Answers with a value that is meant to be wrong."""

    def __init__(self, value: object) -> None:
        self._value = PlainValue(value, source="garbled", place="")

    def start(self) -> Answer:
        nonsense = self._value.start()

        def answer(args: JsonObject, context: MockContext) -> Nonsense:
            return Nonsense(nonsense(args, context))

        return answer


def garbled(value: object = BROKEN_JSON) -> Mock:
    """A mock that answers with what the real tool would not: text that is broken JSON, or `value`.

    Its answer is not checked against what the real tool returns.

    Raises:
        InputError: `value` is no JSON.
    """
    return Garbled(value)
