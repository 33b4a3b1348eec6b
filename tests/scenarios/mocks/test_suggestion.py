"""The suggested mock in the error for a tool without one."""

from datetime import date
from typing import Literal

import pytest
from hypothesis import given as for_any
from hypothesis import strategies as st
from pydantic import BaseModel, Field
from typing_extensions import TypedDict

from offbook.errors import UnmockedToolError
from offbook.scenarios import Mocks
from tests.scenarios.mocks.resolving import resolve_all, virtually


class Item(BaseModel):
    sku: str
    price: float
    tags: list[str] = []


class Order(BaseModel):
    order_id: int
    placed: date
    status: Literal["open", "closed"]
    items: list[Item]
    note: str | None = None
    email: str = Field(json_schema_extra={"format": "email"})
    by_name: dict[str, int] = {}
    is_paid: bool


class Tree(TypedDict):
    name: str
    children: "list[Tree]"


def error_of(tool, args, mocked=(), **options):
    with pytest.raises(UnmockedToolError) as caught:
        virtually(resolve_all(Mocks(dict.fromkeys(mocked), **options).conversation(), (tool, args)))
    return caught.value


def pasted(error):
    """Mocks with the suggestion as the only one."""
    return eval(f"{{{error.suggestion}}}")


def test_the_error_shows_the_mock_to_paste():
    error = error_of("send_confirmation_email", {"to": "ada@example.com"})
    assert str(error) == (
        "tool 'send_confirmation_email' was called, but no mock is defined for it.\n"
        "Add one:\n"
        "\n"
        "    mocks = {\n"
        '        "send_confirmation_email": lambda args: {\n'
        '            "success": True,\n'
        '            "to": args["to"],\n'
        "        },\n"
        "    }\n"
        "\n"
        'Or let every tool without a mock return None: Mocks(…, unmocked="passthrough")'
    )


def test_a_mock_with_a_similar_name_is_pointed_out():
    error = error_of("create_booking", {}, mocked=["cancel", "create_bookng"])
    assert str(error).splitlines()[0].endswith("Did you mean the mock 'create_bookng'?")


@for_any(st.text(), st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=6))
def test_what_is_pasted_is_python_that_repeats_arguments_whatever_they_are_called(tool, args):
    mocks = pasted(error_of(tool, args))
    assert list(mocks) == [tool]
    answer = mocks[tool](args)
    assert answer.pop("success", None) is not None
    assert answer.items() <= args.items()


@pytest.mark.parametrize(
    "returns",
    [
        Order,
        list[Order],
        Tree,
        str,
        int,
        float,
        bool,
        date,
        list[int],
        dict[str, int],
        Item | None,
        Literal["a", "b"],
        None,
        {"type": ["string", "null"]},
        {"type": "array"},
        {"type": "string", "format": "uuid"},
        {"const": {"a": [1, None, "x"]}},
        {"type": "integer", "examples": [42]},
        {"properties": {"a": {"oneOf": [{"type": "null"}, {"type": "boolean"}]}}},
        {"allOf": [{"type": "object", "properties": {"a": {"type": "string"}}}]},
    ],
)
def test_where_it_is_known_what_the_tool_returns_the_suggestion_answers_like_that(returns):
    args = {"order_id": 7, "status": "any", "placed": 5, "sku": "S-1"}
    options = {"returns": {"find": returns}}
    error = error_of("find", args, **options)
    assert error.suggestion.startswith('"find": lambda args: ')
    tools = Mocks(pasted(error), **options).conversation()
    virtually(resolve_all(tools, ("find", args)))
    assert tools.calls[0].error is None


def test_fields_that_are_named_and_typed_like_an_argument_repeat_it():
    def find(order_id: int, status: str) -> Order: ...

    error = error_of("find", {"order_id": 7, "status": "any"}, schemas={"find": find})
    assert pasted(error)["find"]({"order_id": 9, "status": "any"}) == {
        "order_id": 9,
        "placed": "2026-03-30",
        "status": "open",
        "items": [{"sku": "text", "price": 1.0, "tags": ["text"]}],
        "note": "text",
        "email": "ada@example.com",
        "by_name": {},
        "is_paid": True,
    }


@pytest.mark.parametrize("schema", [{"$ref": "#/$defs/gone"}, {"$ref": "#/$defs/n", "$defs": {"n": True}}])
def test_a_schema_that_leads_nowhere_is_suggested_none_for(schema):
    assert pasted(error_of("find", {}, returns={"find": schema}))["find"]({}) is None
