"""What a tool takes: declared as a pydantic model, as a JSON schema, or as nothing at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from offbook.errors import InputError
from offbook.messages import JsonObject

if TYPE_CHECKING:
    from pydantic import BaseModel


@runtime_checkable
class Parameters(Protocol):
    """What a tool takes, as models are told it and as calls are checked against it."""

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        ...

    def check(self, args: JsonObject) -> None:
        """Pass if the arguments are what the tool takes.

        Raises:
            ToolArgumentsError: they are not.
        """
        ...


DeclaredParameters: TypeAlias = "type[BaseModel] | JsonObject | Parameters | None"


class NoParameters:
    """Takes nothing; arguments that a model adds all the same are let through."""

    def __init__(self) -> None:
        self.schema: JsonObject = {"type": "object", "properties": {}}

    def check(self, args: JsonObject) -> None:
        return None


def parameters_of(declared: DeclaredParameters, *, source: str) -> Parameters:
    """The parameters that `declared` describes, for the tool named `source`.

    Raises:
        InputError: it describes none; the error names the tool.
    """
    if declared is None:
        return NoParameters()
    if isinstance(declared, Mapping):
        from offbook.tools.schema_parameters import SchemaParameters  # noqa: PLC0415 - jsonschema loads slowly

        return SchemaParameters(declared, tool=source)
    if isinstance(declared, type):
        if hasattr(declared, "model_json_schema"):
            from offbook.tools.model_parameters import ModelParameters  # noqa: PLC0415 - as does pydantic

            return ModelParameters(declared, tool=source)
    elif isinstance(declared, Parameters):
        return declared
    raise InputError(
        f"expected a pydantic model class, a JSON schema or None, got {declared!r}", source=source, place="parameters"
    )
