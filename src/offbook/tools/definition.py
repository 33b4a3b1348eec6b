"""ToolDef and ToolSpec: a tool as an agent has it and as the model sees it, and tools that wrap another."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import iscoroutinefunction
from typing import Any, TypeAlias, TypedDict, cast

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.text import did_you_mean
from offbook.tools.effects import ToolDeclaration
from offbook.tools.parameters import DeclaredParameters, Parameters, parameters_of


class ToolSpec(Struct, frozen=True, dict=True):
    """A tool's name, description and parameters.

    `parameters` is a pydantic model, a JSON schema, or None for a tool without parameters.

    Raises:
        InputError: `parameters` is none of these, or not a valid schema.
    """

    name: str
    description: str = ""
    parameters: DeclaredParameters = None

    def __post_init__(self) -> None:
        self._parameters  # noqa: B018 - a wrong declaration fails where it is made

    @cached_property
    def _parameters(self) -> Parameters:
        return parameters_of(self.parameters, source=self.name)

    @cached_property
    def schema(self) -> JsonObject:
        """The JSON schema of the arguments."""
        return self._parameters.schema

    @cached_property
    def function(self) -> JsonObject:
        """The tool in the OpenAI chat format."""
        function = {"name": self.name, "description": self.description, "parameters": self.schema}
        return {"type": "function", "function": function}

    def check(self, args: JsonObject) -> JsonObject:
        """Check the arguments and return them unchanged.

        Raises:
            ToolArgumentsError: they do not fit the parameters.
        """
        self._parameters.check(args)
        return args


ToolFunction: TypeAlias = Callable[..., Any]


class ToolOptions(TypedDict, total=False):
    """The fields of a ToolDef that have a default."""

    prerequisites: Sequence[str | Mapping[str, str]]
    timeout_s: float | None
    side_effect: bool
    repeatable: bool
    idempotent: bool | str
    undoes: str | None
    read_only: bool
    may_remain: bool
    failed: str | None


class ToolDef(Struct, frozen=True, dict=True):
    """A tool of an agent.

    Args:
        spec: the model's view.
        callable: called with the model's arguments by name; sync or async. The model gets its return value as text,
            and its exception as an error.
        prerequisites: tools that must have run before: a name, or `{"tool": name, "match_arg": arg}`
            if that tool must have run with the same value of that argument.
        timeout_s: the time limit of a call; a synchronous function then runs in a thread.
        side_effect: whether running it twice does harm; tests count its runs.
        repeatable: whether repeated calls with the same arguments are fine, as in polling.
        idempotent: whether a repeated call with the same arguments has no further effect; the name of an argument if
            that holds for calls with the same value of it: an idempotency key.
        undoes: the tool whose effect this one undoes, as `cancel_hotel` does with `book_hotel`.
        read_only: whether it only reads and does no harm.
        may_remain: whether its effect may remain when a run gives up.
        failed: a pattern for results of failed calls, in addition to the usual shapes of errors.

    Raises:
        InputError: `callable` cannot be called, `timeout_s` is not above 0, or the declarations contradict each other.
    """

    spec: ToolSpec
    callable: ToolFunction
    prerequisites: Sequence[str | Mapping[str, str]] = ()
    timeout_s: float | None = None
    side_effect: bool = False
    repeatable: bool = False
    idempotent: bool | str = False
    undoes: str | None = None
    read_only: bool = False
    may_remain: bool = False
    failed: str | None = None

    def __post_init__(self) -> None:
        if not callable(self.callable):
            raise InputError(f"expected a function, got {self.callable!r}", source=self.name, place="callable")
        if self.timeout_s is not None and not self.timeout_s > 0:
            raise InputError(f"expected more than 0, got {self.timeout_s!r}", source=self.name, place="timeout_s")
        self.declaration.check(self.name)
        _check_key_argument(self.spec, self.idempotent)

    @property
    def declaration(self) -> ToolDeclaration:
        """The declared effect of the tool."""
        return ToolDeclaration(
            side_effect=self.side_effect,
            idempotent=self.idempotent,
            undoes=self.undoes,
            read_only=self.read_only,
            may_remain=self.may_remain,
            failed=self.failed,
        )

    def declared_as(self, declaration: ToolDeclaration) -> ToolDef:
        """Return the tool with external declarations in addition to its own."""
        return replace(
            self,
            side_effect=self.side_effect or declaration.side_effect,
            read_only=self.read_only or declaration.read_only,
            idempotent=self.idempotent or declaration.idempotent,
            undoes=self.undoes or declaration.undoes,
            may_remain=self.may_remain or declaration.may_remain,
            failed=self.failed or declaration.failed,
        )

    @property
    def options(self) -> ToolOptions:
        return cast("ToolOptions", {name: getattr(self, name) for name in ToolOptions.__annotations__})

    @property
    def name(self) -> str:
        return self.spec.name

    def bind(self, args: JsonObject) -> JsonObject:
        """Return the arguments to call `callable` with, by name.

        Raises:
            ToolArgumentsError: they do not fit the parameters.
        """
        return self.spec.check(args)


def _check_key_argument(spec: ToolSpec, idempotent: bool | str) -> None:
    """Raise InputError if `idempotent` names an argument that the tool does not have."""
    if isinstance(idempotent, bool):
        return
    known = spec.schema.get("properties", {})
    if known and idempotent not in known:
        hint = did_you_mean(idempotent, known, kind="arguments")
        raise InputError(f"there is no argument {idempotent!r}", source=spec.name, place="idempotent", hint=hint)


class WrappedTool(ToolDef, frozen=True, kw_only=True):
    """A tool that checks arguments as `original` does, and passes them on as the model gave them."""

    original: ToolDef

    def bind(self, args: JsonObject) -> JsonObject:
        self.original.bind(args)
        return args

    def __call__(self, **arguments: Any) -> Any:
        return self.callable(**arguments)


def is_async(function: object) -> bool:
    """Return whether calling it returns an awaitable, as far as can be known without calling it."""
    return iscoroutinefunction(function) or iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def wrap_tool(tool: ToolDef, function: ToolFunction, *, timeout_s: float | None) -> WrappedTool:
    """Return the tool with another callable, which is asynchronous if the tool's is.

    `function` may be a plain one, which may return an awaitable.
    """

    async def call_and_wait(**arguments: Any) -> Any:
        value = function(**arguments)
        return await value if hasattr(type(value), "__await__") else value

    called = call_and_wait if is_async(tool.callable) and not is_async(function) else function
    options: ToolOptions = {**tool.options, "timeout_s": timeout_s}
    return WrappedTool(spec=tool.spec, callable=called, original=tool, **options)
