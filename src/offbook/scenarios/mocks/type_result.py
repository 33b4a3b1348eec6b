"""Results declared as a type hint."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.model_parameters import told


class TypeResult:
    """Returns what a type hint says, read strictly from its JSON: `"5"` is no integer, but a date is text.

    Raises:
        InputError: there is no JSON for that type.
    """

    def __init__(self, hint: Any, *, tool: str) -> None:
        self._tool = tool
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(hint)
            self.schema: JsonObject = self._adapter.json_schema(mode="serialization")
        except (PydanticUserError, PydanticUndefinedAnnotation, TypeError) as error:
            raise InputError(
                f"its type cannot be described: {str(error).splitlines()[0]}",
                source="mocks",
                place=f"returns.{tool}",
                hint=f'give a JSON schema, or Any to check nothing: returns={{"{tool}": Any}}',
            ) from error

    def problems(self, result: Any) -> Sequence[str]:
        try:
            self._adapter.validate_json(orjson.dumps(result), strict=True)
        except ValidationError as error:
            return told(error, result, tool=self._tool).problems
        return ()
