"""The Parameters interface, its implementations for declared parameters, and the text of argument
errors for a model.
"""

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
    """The parameters of a tool: their schema for models, and the check of arguments."""

    @property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        ...

    def check(self, args: JsonObject) -> None:
        """Check the arguments.

        Raises:
            ToolArgumentsError: they do not fit.
        """
        ...


DeclaredParameters: TypeAlias = "type[BaseModel] | JsonObject | Parameters | None"


class NoParameters:
    """No parameters. Arguments that a model passes nevertheless are accepted."""

    def __init__(self) -> None:
        self.schema: JsonObject = {"type": "object", "properties": {}}

    def check(self, args: JsonObject) -> None:
        return None


def parameters_of(declared: DeclaredParameters, *, source: str) -> Parameters:
    """Return the parameters that `declared` describes, for the tool named `source`.

    Raises:
        InputError: `declared` is neither a model class nor a schema; the error names the tool.
    """
    if declared is None:
        return NoParameters()
    if isinstance(declared, Mapping):
        from offbook.tools.schema_parameters import SchemaParameters  # noqa: PLC0415 - jsonschema loads slowly

        return SchemaParameters(declared, tool=source)
    if isinstance(declared, type):
        if hasattr(declared, "model_json_schema"):
            from offbook.tools.pydantic_parameters import ModelParameters  # noqa: PLC0415 - as does pydantic

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
    """Describe an invalid argument. An empty path means all arguments together."""
    return f"{path}: {reason} (got {shorten(repr(given), MAX_VALUE_CHARACTERS)})" if path else reason


def existing_parts(location: Sequence[str | int], args: JsonObject) -> list[str | int]:
    """Return the parts of `location` that exist in `args`, without the branches of a type that pydantic names."""
    parts: list[str | int] = []
    value: Any = args
    for part in location:
        names = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        if part in names:
            value = value[part]
            parts.append(part)
    return parts


def arguments_error(problems: Iterable[str], *, tool: str) -> ToolArgumentsError:
    """Return the error for the problems, each once and on one line, limited in number and length."""
    lines = [shorten(" ".join(each.splitlines()), MAX_PROBLEM_CHARACTERS) for each in dict.fromkeys(problems)]
    shown = lines[:MAX_PROBLEMS]
    if len(lines) > len(shown):
        shown.append(f"and {len(lines) - len(shown)} more")
    return ToolArgumentsError(shown, tool=tool)
