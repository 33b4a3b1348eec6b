"""The Parameters interface, how declared parameters become one, and the text of argument errors for a model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from offbook.errors import InputError, ToolArgumentsError
from offbook.messages import JsonObject
from offbook.text import shorten

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
            from offbook.tools.typed_parameters import ModelParameters  # noqa: PLC0415 - as does pydantic

            return ModelParameters(declared, tool=source)
    elif isinstance(declared, Parameters):
        return declared
    raise InputError(
        f"expected a pydantic model class, a JSON schema or None, got {declared!r}", source=source, place="parameters"
    )


MAX_PROBLEMS = 8
MAX_VALUE_CHARACTERS = 80
MAX_PROBLEM_CHARACTERS = 300


def missing_argument(path: str) -> str:
    return f"{path}: missing"


def unexpected_argument(path: str) -> str:
    return f"{path}: unexpected, there is no such argument"


def invalid_argument(path: str, reason: str, given: object) -> str:
    """An argument that is there and wrong. A path that is empty means all arguments together."""
    return f"{path}: {reason} (got {shorten(repr(given), MAX_VALUE_CHARACTERS)})" if path else reason


def argument_path(parts: Iterable[str | int]) -> str:
    """Where in the arguments, like `items[0].price`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")


def existing_parts(location: Sequence[str | int], args: JsonObject) -> list[str | int]:
    """The parts of `location` that name something given, and so none of the branches of a type that were tried."""
    parts: list[str | int] = []
    value: Any = args
    for part in location:
        names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if part in names:
            value = value[part]
            parts.append(part)
    return parts


def arguments_error(problems: Iterable[str], *, tool: str) -> ToolArgumentsError:
    """The error that tells the problems, each once and in one line, and not endlessly many or long ones."""
    lines = [shorten(" ".join(each.splitlines()), MAX_PROBLEM_CHARACTERS) for each in dict.fromkeys(problems)]
    told = lines[:MAX_PROBLEMS]
    if len(lines) > len(told):
        told.append(f"and {len(lines) - len(told)} more")
    return ToolArgumentsError(told, tool=tool)
