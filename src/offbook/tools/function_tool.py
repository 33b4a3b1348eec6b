"""Tools made of plain functions: `tool` and `tool_of`, with parameters from the signature and the docstring."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from inspect import Parameter
from math import isfinite
from types import MethodType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, Unpack, get_type_hints, overload

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import JsonObject
from offbook.tools.definition import ToolDef, ToolFunction, ToolOptions, ToolSpec

if TYPE_CHECKING:
    from offbook.tools.pydantic_parameters import TypedArguments


class FunctionTool(ToolDef, frozen=True, dict=True, kw_only=True):
    """A tool made from a function. Arguments are converted to the types of its hints: a date, an enum, a model.

    Calling the tool calls the function.
    """

    parameters: FunctionParameters

    def bind(self, args: JsonObject) -> JsonObject:
        return self.parameters.convert(args)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.callable(*args, **kwargs)

    def renamed(self, name: str) -> FunctionTool:
        """Return the tool under another name, which its errors also use."""
        return tool_of(self.callable, name=name, description=self.spec.description, **self.options)


def tool_of(
    function: ToolFunction,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> FunctionTool:
    """Create a tool from a function: its parameters from the hints, its description from the docstring.

    Args:
        function: anything that can be called with arguments by name, synchronous or not. Its docstring
            may describe the parameters in Google, NumPy or reST style; `Annotated[…, Field(…)]` is
            supported, and a parameter without a hint accepts anything.
        name: the tool's name; by default the function's.
        description: the tool's description; by default the docstring's.
        options: the optional fields of `ToolDef`, such as `timeout_s` and `side_effect`.

    Raises:
        InputError: a parameter cannot be passed by name, or its hint cannot be resolved or has no JSON schema.
    """
    if not callable(function):
        raise InputError(f"expected a function, got {type(function).__name__} {function!r}", source=name or "tool_of")
    written = _unwrapped(function)
    name = getattr(written, "__name__", type(written).__name__) if name is None else name
    documentation = parse_docstring(_docstring(written))
    parameters = FunctionParameters(
        function, globals=_globals(written), descriptions=documentation.parameters, tool=name
    )
    spec = ToolSpec(name, documentation.description if description is None else description, parameters)
    return FunctionTool(spec=spec, callable=function, parameters=parameters, **options)


@overload
def tool(function: ToolFunction, /) -> FunctionTool: ...
@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[ToolOptions],
) -> Callable[[ToolFunction], FunctionTool]: ...
def tool(function: ToolFunction | None = None, /, **options: Any) -> Any:
    """Decorate a function to make it a tool: `@tool`, or `@tool(side_effect=True)` with the options of `tool_of`."""
    return partial(tool_of, **options) if function is None else tool_of(function)


def _unwrapped(function: ToolFunction) -> ToolFunction:
    """Return the function, class or object itself, without wrappers."""
    while True:
        match function:
            case partial():
                function = function.func
            case MethodType() | staticmethod():
                function = function.__func__
            case _ if hasattr(function, "__wrapped__"):
                function = inspect.unwrap(function)
            case _:
                return function


def _docstring(written: ToolFunction) -> str | None:
    if hasattr(written, "__name__"):
        return written.__doc__
    return type(written).__call__.__doc__ or type(written).__doc__


def _globals(written: ToolFunction) -> Mapping[str, Any]:
    return getattr(written, "__globals__", None) or getattr(type(written).__call__, "__globals__", {})


class FunctionParameters:
    """The parameters of a function. Arguments are converted to the types of its hints.

    Args:
        function: the function. Arguments bound by a `partial` are not parameters.
        globals: the names for its hints.
        descriptions: of parameters whose hints have none.
        tool: the tool's name, for errors.

    Raises:
        InputError: a parameter cannot be passed by name, or its hint cannot be resolved or has no JSON schema.
    """

    def __init__(
        self, function: ToolFunction, *, globals: Mapping[str, Any], descriptions: Mapping[str, str], tool: str
    ) -> None:
        parameters = _parameters(function, tool=tool)
        named = [each for each in parameters if each.kind is not Parameter.VAR_KEYWORD]
        self._arguments = _arguments(
            Hints(
                types={each.name: _hint(each, globals, tool=tool) for each in named},
                optional=frozenset(each.name for each in named if each.default is not Parameter.empty),
                is_open=len(named) < len(parameters),
                tool=tool,
            )
        )
        self.schema: JsonObject = _with_descriptions(self._arguments.schema, named, descriptions)

    def check(self, args: JsonObject) -> None:
        self.convert(args)

    def convert(self, args: JsonObject) -> JsonObject:
        """Return the arguments converted to the types of the hints. Omitted ones stay omitted, and defaults apply.

        Raises:
            ToolArgumentsError: they do not fit.
        """
        return self._arguments.convert(args)


class Hints(Struct, frozen=True, kw_only=True):
    """The types of a function's arguments by name, the optional ones, and whether others are allowed."""

    types: dict[str, Any]
    optional: frozenset[str]
    is_open: bool
    tool: str

    def typed(self) -> TypedArguments:
        """Return the arguments as pydantic checks and converts them."""
        from offbook.tools.pydantic_parameters import TypedArguments  # noqa: PLC0415 - pydantic is slow to import

        return TypedArguments(self.types, optional=self.optional, is_open=self.is_open, tool=self.tool)


class Arguments(Protocol):
    """The arguments of a function: their schema, and their conversion to the types of the hints."""

    schema: JsonObject

    def convert(self, args: JsonObject) -> JsonObject: ...


PLAIN_TYPES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _arguments(hints: Hints) -> Arguments:
    is_plain = all(any(hint is plain for plain in (Any, *PLAIN_TYPES)) for hint in hints.types.values())
    return PlainArguments(hints) if is_plain else hints.typed()


class PlainArguments:
    """Arguments that are all strings, numbers, true or false, or anything.

    Pydantic, which is slow to import, is needed only for arguments of other types: it converts or refuses them.
    """

    def __init__(self, hints: Hints) -> None:
        self._hints = hints
        self._required = hints.types.keys() - hints.optional
        self.schema = _plain_schema(hints)

    def convert(self, args: JsonObject) -> JsonObject:
        if not self._fit(args):
            return self._typed.convert(args)
        return {name: args[name] for name in self._hints.types if name in args} | args

    def _fit(self, args: JsonObject) -> bool:
        types = self._hints.types
        if type(args) is not dict or not self._required <= args.keys():
            return False
        if not self._hints.is_open and not args.keys() <= types.keys():
            return False
        return all(types.get(name, Any) is Any or type(value) is types[name] for name, value in args.items())

    @cached_property
    def _typed(self) -> TypedArguments:
        return self._hints.typed()


def _plain_schema(hints: Hints) -> JsonObject:
    """Return the schema that pydantic would."""
    properties = {
        name: {"type": PLAIN_TYPES[hint]} if hint in PLAIN_TYPES else {} for name, hint in hints.types.items()
    }
    required = [name for name in hints.types if name not in hints.optional]
    return {
        "additionalProperties": hints.is_open,
        "properties": properties,
        **({"required": required} if required else {}),
        "type": "object",
    }


def _parameters(function: ToolFunction, *, tool: str) -> list[Parameter]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise InputError("the function has no signature", source=tool, hint="wrap it in a def") from None
    if parameters and parameters[0].name == "self" and parameters[0].annotation is Parameter.empty:
        raise InputError("the function is an unbound method", source=tool, hint="tool_of(thing.method)")
    bound = function.keywords if isinstance(function, partial) else {}
    required = [each for each in parameters if each.name not in bound]
    for each in required:
        _check_kind(each, tool=tool)
    return required


def _check_kind(parameter: Parameter, *, tool: str) -> None:
    if parameter.kind is Parameter.VAR_POSITIONAL:
        hint = f"take a list: {parameter.name}: list[…]"
        raise InputError("a model passes arguments by name", source=tool, place=str(parameter), hint=hint)
    if parameter.kind is Parameter.POSITIONAL_ONLY:
        hint = "remove the / from the signature"
        raise InputError("a model passes arguments by name", source=tool, place=parameter.name, hint=hint)
    fields = sys.modules.get("pydantic.fields")  # without the module, there is no field
    if fields is not None and isinstance(parameter.default, fields.FieldInfo):
        hint = f"{parameter.name}: Annotated[…, Field(…)]"
        raise InputError("a Field is not a default of a function", source=tool, place=parameter.name, hint=hint)


def _hint(parameter: Parameter, globals: Mapping[str, Any], *, tool: str) -> Any:
    if parameter.annotation is Parameter.empty:
        return Any
    annotated = SimpleNamespace(__annotations__={"hint": parameter.annotation})
    try:
        return get_type_hints(annotated, dict(globals), include_extras=True)["hint"]
    except (NameError, SyntaxError, TypeError, AttributeError) as error:
        reason = f"its hint cannot be resolved: {error}"
        raise InputError(reason, source=tool, place=parameter.name, hint="define it at module level") from error


def _with_descriptions(schema: JsonObject, parameters: list[Parameter], descriptions: Mapping[str, str]) -> JsonObject:
    for each in parameters:
        shape = schema["properties"].get(each.name, {})
        if each.name in descriptions:
            shape.setdefault("description", descriptions[each.name])
        if each.default is not Parameter.empty:
            shape |= _default(each.default)
    return schema


def _default(value: object) -> JsonObject:
    if value is None or type(value) in (str, int, bool) or (type(value) is float and isfinite(value)):
        return {"default": value}
    from offbook.tools.pydantic_parameters import json_default  # noqa: PLC0415 - pydantic is slow to import

    return json_default(value)


class FunctionDocs(Struct, frozen=True):
    """The descriptions of a function and of its parameters."""

    description: str
    parameters: Mapping[str, str]


def parse_docstring(docstring: str | None) -> FunctionDocs:
    """Parse a docstring in Google, NumPy or reST style; any other is a description as a whole."""
    text = inspect.cleandoc(docstring or "")
    if "\n" not in text and ":" not in text:
        return FunctionDocs(text.strip(), {})
    import docstring_parser  # noqa: PLC0415 - a docstring of one sentence does not need it

    try:
        parsed = docstring_parser.parse(text)
    except (docstring_parser.ParseError, LookupError):  # the library fails on some reST, such as ": :param"
        return FunctionDocs(text, {})
    return FunctionDocs(
        (parsed.description or "").strip(),
        {each.arg_name: each.description for each in parsed.params if each.description},
    )
