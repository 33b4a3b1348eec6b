"""What a model is told about a tool."""

from __future__ import annotations

from functools import cached_property

from msgspec import Struct

from offbook.messages import JsonObject
from offbook.tools.parameters import DeclaredParameters, Parameters, parameters_of


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool's name, what it does and what it takes.

    `parameters` is a pydantic model, a JSON schema, or None for a tool that takes nothing.

    Raises:
        InputError: `parameters` is none of these, or no valid schema.
    """

    name: str
    description: str = ""
    parameters: DeclaredParameters = None

    def __post_init__(self) -> None:
        self._parameters  # noqa: B018 - a wrong declaration is told where it is made

    @cached_property
    def _parameters(self) -> Parameters:
        return parameters_of(self.parameters, source=self.name)

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        return self._parameters.schema

    @cached_property
    def function(self) -> JsonObject:
        """The tool in the OpenAI chat shape."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def check(self, args: JsonObject) -> JsonObject:
        """The arguments as they came, if they are what the tool takes.

        Raises:
            ToolArgumentsError: they are not; it says what is wrong with which.
        """
        self._parameters.check(args)
        return args
