"""From what a user declares as a mock to the mock."""

from __future__ import annotations

from offbook.errors import InputError
from offbook.scenarios.mocks.function_mock import FunctionMock
from offbook.scenarios.mocks.mock import Mock
from offbook.scenarios.mocks.plain_value import PlainValue
from offbook.scenarios.mocks.raising import Raising
from offbook.tools import ToolDef


def mock_of(declared: object, *, source: str, place: str = "") -> Mock:
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
        return Raising(declared, source=source, place=place)
    if callable(declared):
        return FunctionMock(declared, source=source, place=place)
    return PlainValue(declared, source=source, place=place)
