"""A mock that is just a value."""

from __future__ import annotations

from copy import deepcopy

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.json_value import json_value
from offbook.scenarios.mocks.mock import Answer, Mock


class PlainValue(Mock):
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

    def start(self) -> Answer:
        def answer(args: JsonObject, context: MockContext) -> object:
            return deepcopy(self._value)

        return answer
