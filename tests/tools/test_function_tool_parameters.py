"""A function's signature as parameters: what models are told of it, and what the function gets."""

import enum
import inspect
import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import docstring_parser
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from offbook.errors import InputError, ToolArgumentsError
from offbook.tools import tool_of
from offbook.tools.function_tool import FunctionDocs, Hints, PlainArguments, parse_docstring
from offbook.tools.pydantic_parameters import compact_schema


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Item(BaseModel):
    sku: str
    count: int = 1


class StrictDay(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


@dataclass
class Point:
    x: int
    y: int = 0


class Address(TypedDict):
    street: str


class Opaque:
    pass


def schema_of(hint, **default):
    def call(value):
        return value

    call.__annotations__ = {"value": hint}
    call.__defaults__ = tuple(default.values()) or None
    return tool_of(call).spec.schema


def refusal(function):
    with pytest.raises(InputError) as caught:
        tool_of(function)
    return str(caught.value)


@pytest.mark.parametrize(
    ("hint", "argument", "received", "described"),
    [
        (int, 3, 3, {"type": "integer"}),
        (int, "3", 3, {"type": "integer"}),
        (float, 3, 3.0, {"type": "number"}),
        (str, "a", "a", {"type": "string"}),
        (bool, True, True, {"type": "boolean"}),
        (Any, [1], [1], {}),
        (list[int], ["1"], [1], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"a": 1}, {"a": 1}, {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Optional[int], None, None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (int | str, "a", "a", {"anyOf": [{"type": "integer"}, {"type": "string"}]}),
        (Literal["a", "b"], "b", "b", {"type": "string", "enum": ["a", "b"]}),
        (date, "2024-02-29", date(2024, 2, 29), {"type": "string", "format": "date"}),
        (datetime, "2024-02-29T10:00:00", datetime(2024, 2, 29, 10), {"type": "string", "format": "date-time"}),  # noqa: DTZ001
        (timedelta, "PT5S", timedelta(seconds=5), {"type": "string", "format": "duration"}),
        (UUID, str(UUID(int=5)), UUID(int=5), {"type": "string", "format": "uuid"}),
        (Colour, "red", Colour.RED, {"$ref": "#/$defs/Colour"}),
        (Item, {"sku": "a"}, Item(sku="a"), {"$ref": "#/$defs/Item"}),
        (list[Item], [{"sku": "a"}], [Item(sku="a")], {"type": "array", "items": {"$ref": "#/$defs/Item"}}),
        (StrictDay, {"day": "2024-02-29"}, StrictDay(day=date(2024, 2, 29)), {"$ref": "#/$defs/StrictDay"}),
        (Point, {"x": 1}, Point(1), {"$ref": "#/$defs/Point"}),
        (Address, {"street": "a"}, {"street": "a"}, {"$ref": "#/$defs/Address"}),
        (
            Annotated[int, Field(ge=1, description="which")],
            2,
            2,
            {"type": "integer", "minimum": 1, "description": "which"},
        ),
    ],
    ids=str,
)
def test_a_hint_says_what_models_are_told_and_what_the_function_gets(hint, argument, received, described):
    def call(value):
        return value

    call.__annotations__ = {"value": hint}
    tool = tool_of(call)
    assert tool.spec.schema["properties"] == {"value": described}
    assert tool.spec.schema["required"] == ["value"]
    assert tool.bind({"value": argument}) == {"value": received}
    assert type(tool.bind({"value": argument})["value"]) is type(received)


def test_the_schema_of_a_function_is_compact():
    def find(order_id: int, colour: Colour = Colour.RED, *, title: str = "none"):
        """Find an order.

        Args:
            order_id: which one
            title: how to call it
        """

    assert tool_of(find).spec.schema == {
        "type": "object",
        "properties": {
            "order_id": {"type": "integer", "description": "which one"},
            "colour": {"$ref": "#/$defs/Colour", "default": "red"},
            "title": {"type": "string", "description": "how to call it", "default": "none"},
        },
        "required": ["order_id"],
        "additionalProperties": False,
        "$defs": {"Colour": {"type": "string", "enum": ["red", "blue"]}},
    }


def test_a_description_in_the_hint_goes_before_that_of_the_docstring():
    def find(a: Annotated[int, Field(description="from the hint")], b: int):
        """Find.

        Args:
            a: from the docstring
            b: from the docstring
        """

    described = tool_of(find).spec.schema["properties"]
    assert [described[name]["description"] for name in "ab"] == ["from the hint", "from the docstring"]


def test_a_default_that_has_no_json_is_not_reported():
    assert schema_of(Any, default=Opaque())["properties"] == {"value": {}}
    assert schema_of(Any, default=None)["properties"] == {"value": {"default": None}}


def test_defaults_are_left_to_the_function():
    def find(a: int, b: date = date(2024, 1, 1)):
        return b

    assert tool_of(find).bind({"a": 1}) == {"a": 1}


def test_a_parameter_without_a_hint_takes_anything():
    tool = tool_of(lambda a, b=2: None, name="find")
    assert tool.spec.schema["properties"] == {"a": {}, "b": {"default": 2}}
    assert tool.bind({"a": Opaque}) == {"a": Opaque}


def test_odd_names_are_fine():
    def find(_private: int, model_config: str, schema: str, copy: int = 1):
        return None

    args = {"_private": 1, "model_config": "a", "schema": "b", "copy": 2}
    assert tool_of(find).bind(args) == args


def test_an_alias_is_what_the_model_is_reported():
    def find(order_id: Annotated[int, Field(alias="orderId")]):
        return order_id

    tool = tool_of(find)
    assert list(tool.spec.schema["properties"]) == ["orderId"]
    assert tool.bind({"orderId": 1}) == {"order_id": 1}


def test_a_function_with_keywords_takes_further_arguments():
    def find(a: int, **others: Any):
        return others

    tool = tool_of(find)
    assert tool.spec.schema["additionalProperties"] is True
    assert list(tool.spec.schema["properties"]) == ["a"]
    assert tool.bind({"a": "1", "b": "2"}) == {"a": 1, "b": "2"}


def test_arguments_that_do_not_fit_are_reported_by_name():
    def find(order_id: int, items: list[Item]):
        return order_id

    tool = tool_of(find)
    with pytest.raises(ToolArgumentsError) as caught:
        tool.bind({"order_id": "forty-two", "items": [{}], "note": "x"})
    assert caught.value.tool == "find"
    assert caught.value.problems == (
        "order_id: Input should be a valid integer, unable to parse string as an integer (got 'forty-two')",
        "items[0].sku: missing",
        "note: unexpected, there is no such argument",
    )
    with pytest.raises(ToolArgumentsError, match="order_id: missing"):
        tool.spec.check({"items": []})


def test_what_cannot_be_given_by_name_is_refused():
    def scattered(*values: int): ...

    def placed(value: int, /): ...

    assert refusal(scattered) == (
        "scattered: *values: int: a model passes arguments by name\n  hint: take a list: values: list[…]"
    )
    assert refusal(placed) == (
        "placed: value: a model passes arguments by name\n  hint: remove the / from the signature"
    )


def test_a_method_without_its_object_is_refused():
    class Shop:
        def find(self, order_id: int): ...

    assert refusal(Shop.find).startswith("find: the function is an unbound method\n  hint: tool_of(")


def test_a_field_as_a_default_is_refused():
    def find(order_id: int = Field(default=1)): ...

    assert refusal(find).startswith("find: order_id: a Field is not a default")


@pytest.mark.parametrize(
    ("hint", "reason"),
    [
        ("Nowhere", "name 'Nowhere' is not defined"),
        ("list[Nowhere]", "name 'Nowhere' is not defined"),
        ("datetime.nowhere", "has no attribute 'nowhere'"),
        ("not a hint", "Forward reference must be an expression"),
        ("int | 'Item'", "unsupported operand"),
    ],
)
def test_a_hint_that_cannot_be_resolved_is_refused_with_the_parameter(hint, reason):
    def find(a, b): ...

    find.__annotations__ = {"a": "int", "b": hint}
    message = refusal(find)
    assert message.startswith("find: b: its hint cannot be resolved: ")
    assert reason in message


@pytest.mark.parametrize("hint", [Opaque, list[Opaque], Callable[[], int], 5, "Later"], ids=str)
def test_a_type_that_has_no_schema_is_refused_with_the_parameter(hint):
    def find(a: int, b): ...

    find.__annotations__["b"] = list[Later] if hint == "Later" else hint
    assert refusal(find).startswith("find: b: its type has no JSON schema: ")


class Later(BaseModel):
    value: "Never"  # noqa: F821


def test_a_function_that_does_not_tell_what_it_takes_is_refused():
    assert refusal(max) == "max: the function has no signature\n  hint: wrap it in a def"


def test_titles_go_at_every_depth():
    schema = {
        "title": "Order",
        "$defs": {"Item": {"title": "Item", "type": "object"}},
        "properties": {"a": {"title": "A", "anyOf": [{"title": "X", "type": "string"}, {"type": "null"}]}},
        "additionalProperties": {"title": "Rest"},
    }
    assert compact_schema(schema) == {
        "$defs": {"Item": {"type": "object"}},
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
        "additionalProperties": {},
    }


def test_what_is_merely_named_title_stays():
    schema = {
        "properties": {"title": {"type": "string", "default": {"title": "x"}, "examples": [{"title": "y"}]}},
        "required": ["title"],
        "enum": [{"title": "z"}],
    }
    assert compact_schema(schema) == schema


GOOGLE = """Find an order.

    Looks everywhere.

    Args:
        order_id: which order
        deep (bool): how far,
            and further
    Returns:
        the order
"""
NUMPY = """Find an order.

    Looks everywhere.

    Parameters
    ----------
    order_id : int
        which order
    deep : bool, optional
        how far,
        and further
"""
REST = """Find an order.

    Looks everywhere.

    :param order_id: which order
    :param bool deep: how far,
        and further
    :returns: the order
"""


@pytest.mark.parametrize("docstring", [GOOGLE, NUMPY, REST], ids=["google", "numpy", "rest"])
def test_description_and_parameters_are_found(docstring):
    documentation = parse_docstring(docstring)
    assert documentation.description == "Find an order.\n\nLooks everywhere."
    assert documentation.parameters == {"order_id": "which order", "deep": "how far,\nand further"}


@pytest.mark.parametrize("docstring", [None, "", "  \n "])
def test_no_docstring_says_nothing(docstring):
    documentation = parse_docstring(docstring)
    assert documentation.description == ""
    assert documentation.parameters == {}


def test_a_parameter_without_a_description_is_left_out():
    assert parse_docstring("Find.\n\nArgs:\n    a:\n    b: this").parameters == {"b": "this"}


pieces = st.sampled_from(
    [GOOGLE, NUMPY, REST, ":param", ":raises x", "@param", "Args:", "Returns", "---", "Find it.", "a"]
)
gaps = st.sampled_from(["\n", "\n\n", "\n    ", ": ", " "])


@given(st.lists(pieces | gaps | st.text(max_size=8)))
def test_no_docstring_is_too_odd(parts):
    assert isinstance(parse_docstring("".join(parts)).description, str)


def test_a_description_of_one_line_before_parameters_ends_with_its_last_word():
    parsed = parse_docstring("Find an order.\n\n    Args:\n        order_id: which order\n    ")
    assert parsed.description == "Find an order."


PLAIN = st.dictionaries(st.sampled_from("abcd"), st.sampled_from([str, int, float, bool, Any]))
VALUES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.lists(st.integers()))


@st.composite
def hints(draw):
    types = draw(PLAIN)
    optional = frozenset(draw(st.sets(st.sampled_from(list(types))))) if types else frozenset()
    return Hints(types=types, optional=optional, is_open=draw(st.booleans()), tool="tool")


def converted(arguments, args):
    """The arguments with their types, in order, or why they are refused."""
    try:
        return [(name, type(value), repr(value)) for name, value in arguments.convert(args).items()]
    except ToolArgumentsError as error:
        return str(error)


@given(hints())
def test_plain_arguments_have_the_schema_of_pydantic(drawn):
    assert json.dumps(PlainArguments(drawn).schema) == json.dumps(drawn.typed().schema)


@given(hints(), st.dictionaries(st.sampled_from("abcde"), VALUES))
def test_plain_arguments_are_converted_and_refused_as_by_pydantic(drawn, args):
    assert converted(PlainArguments(drawn), args) == converted(drawn.typed(), args)


@given(st.text("ab .,-@", max_size=60))
def test_a_docstring_of_one_line_is_the_description_that_its_parser_gives(text):
    parsed = docstring_parser.parse(inspect.cleandoc(text))
    assert parse_docstring(text) == FunctionDocs((parsed.description or "").strip(), {})
