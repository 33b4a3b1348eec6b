"""A mock that raises."""

from __future__ import annotations

from typing import Never

from offbook.errors import InputError, ToolFaultError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.mock import Answer, Mock


class Raising(Mock):
    """Raises `error` at every call: an exception, or a message, which is raised as a ToolFaultError.

    Raises:
        InputError: it is none of these.
    """

    def __init__(self, error: object, *, source: str, place: str = "") -> None:
        if isinstance(error, type) and issubclass(error, Exception):
            error = _made(error, source=source, place=place)
        if not isinstance(error, Exception | str):
            raise InputError(f"expected an error or a message, got {error!r}", source=source, place=place)
        self._error = error

    def start(self) -> Answer:
        def answer(args: JsonObject, context: MockContext) -> Never:
            if isinstance(self._error, str):
                raise ToolFaultError(self._error, tool=context.tool)
            raise self._error.with_traceback(None)

        return answer


def _made(kind: type[Exception], *, source: str, place: str) -> Exception:
    try:
        return kind()
    except TypeError as error:
        hint = f"give the error itself: {kind.__name__}(…)"
        raise InputError(f"{kind.__name__}: {error}", source=source, place=place, hint=hint) from None
