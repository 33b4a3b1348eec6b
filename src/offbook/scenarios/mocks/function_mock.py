"""A mock that is a function."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.scenarios.mocks.context import MockContext
from offbook.scenarios.mocks.mock import Answer, Mock

HINT = "write lambda args: …, or lambda args, ctx: …"
POSITIONAL = {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}


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
            raise InputError(str(error), source=source, place=place, hint=HINT) from None

    def start(self) -> Answer:
        return self._function if self._takes_context else self._without_context

    def _without_context(self, args: JsonObject, context: MockContext) -> Any:
        return self._function(args)


def _takes_context(signature: inspect.Signature) -> bool:
    """Whether a function of that signature takes two arguments. Raises TypeError if it takes neither one nor two."""
    parameters = list(signature.parameters.values())
    positional = [each for each in parameters if each.kind in POSITIONAL]
    takes_any = any(each.kind is Parameter.VAR_POSITIONAL for each in parameters)
    second = positional[1:2]
    takes_context = takes_any or any(each.default is Parameter.empty or each.name == "ctx" for each in second)
    try:
        signature.bind(*([None] * (2 if takes_context else 1)))
    except TypeError as error:
        raise TypeError(f"a mock is called with (args) or (args, ctx): {error}") from None
    return takes_context
