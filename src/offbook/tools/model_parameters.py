"""Parameters declared as a pydantic model."""

from __future__ import annotations

from functools import cached_property

from pydantic import BaseModel, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import ErrorDetails, to_json

from offbook.errors import InputError, ToolArgumentsError
from offbook.messages import JsonObject
from offbook.tools.argument_problem import arguments_error, given_parts, missing, path_to, unexpected, unfit
from offbook.tools.compact_schema import compact


class ModelParameters:
    """Takes what a pydantic model takes, judged as the model judges it."""

    def __init__(self, model: type[BaseModel], *, tool: str) -> None:
        self._model, self._tool = model, tool

    @cached_property
    def schema(self) -> JsonObject:
        try:
            return compact(self._model.model_json_schema())
        except PydanticUserError as error:
            raise InputError(error.message, source=self._tool, place=self._model.__name__) from error

    def check(self, args: JsonObject) -> None:
        try:
            self._model.model_validate(args)
        except ValidationError:
            self._check_as_json(args)

    def _check_as_json(self, args: JsonObject) -> None:
        """Judge the arguments as what they were: a strict model takes a date from JSON text, but from no other text."""
        try:
            self._model.model_validate_json(to_json(args, fallback=repr))
        except ValidationError as error:
            raise told(error, args, tool=self._tool) from None


def told(error: ValidationError, args: JsonObject, *, tool: str) -> ToolArgumentsError:
    """What pydantic found wrong, in words for a model."""
    return arguments_error((_problem(detail, args) for detail in error.errors(include_url=False)), tool=tool)


def _problem(detail: ErrorDetails, args: JsonObject) -> str:
    location = detail["loc"]
    if detail["type"] == "missing":
        return missing(path_to([*given_parts(location[:-1], args), location[-1]]))
    path = path_to(given_parts(location, args))
    if detail["type"] == "extra_forbidden":
        return unexpected(path)
    reason = detail["msg"].removeprefix("Value error, ").removeprefix("Assertion failed, ")
    return unfit(path, reason, detail["input"])
