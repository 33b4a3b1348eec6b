"""Checks the result of a mock against a JSON schema. A separate module, because jsonschema is slow to import."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jsonschema.exceptions import SchemaError, ValidationError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from offbook.errors import InputError, MockError
from offbook.messages import JsonObject
from offbook.tools.parameters import argument_path, invalid_argument
from offbook.tools.schema_parameters import validator_class


class SchemaResultCheck:
    """Checks a result against a JSON schema, of the draft that its `$schema` names, or else of 2020-12.

    Raises:
        InputError: the schema is not valid.
    """

    def __init__(self, schema: Mapping[str, Any], *, tool: str) -> None:
        self._tool = tool
        self.schema: JsonObject = dict(schema)
        kind = validator_class(self.schema)
        try:
            kind.check_schema(self.schema)
        except SchemaError as error:
            place = argument_path(["returns", tool, *error.absolute_path])
            raise InputError(f"invalid JSON schema: {error.message}", source="mocks", place=place) from None
        self._validator = kind(self.schema, registry=Registry(), format_checker=kind.FORMAT_CHECKER)

    def problems(self, result: Any) -> Sequence[str]:
        try:
            return [line for error in self._validator.iter_errors(result) for line in _problems(error)]
        except Unresolvable as error:
            message = f"the schema of the results of {self._tool!r} has a $ref to {error.ref}, which does not exist"
            raise MockError(message, tool=self._tool) from None


def _problems(error: ValidationError) -> Iterator[str]:
    error = best_match([error]) or error
    yield invalid_argument(argument_path(error.absolute_path), error.message, error.instance)
