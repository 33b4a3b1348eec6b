"""What a real tool returns, as far as it is known, to hold answers of a mock against."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from msgspec import UNSET

from offbook.messages import JsonObject


class ResultCheck(Protocol):
    """What a tool returns."""

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of results."""
        ...

    def problems(self, result: Any) -> Sequence[str]:
        """What is wrong with a JSON value as a result, a line each."""
        ...


class AnyResult:
    """Returns whatever it likes."""

    def __init__(self) -> None:
        self.schema: JsonObject = {}

    def problems(self, result: Any) -> Sequence[str]:
        return ()


def result_check_of(declared: object, *, tool: str) -> ResultCheck:
    """The check for what `declared` says of a tool's results: a JSON schema, a type hint, or (UNSET) nothing.

    Raises:
        InputError: it is neither; the error names the tool.
    """
    if declared is UNSET:
        return AnyResult()
    if isinstance(declared, Mapping):
        from offbook.scenarios.mocks.schema_result import SchemaResult  # noqa: PLC0415 - jsonschema loads slowly

        return SchemaResult(declared, tool=tool)
    from offbook.scenarios.mocks.type_result import TypeResult  # noqa: PLC0415 - as does pydantic

    return TypeResult(declared, tool=tool)
