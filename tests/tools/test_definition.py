"""A tool is its spec and its function, and refuses what could only fail later."""

from datetime import date

import pytest
from pydantic import BaseModel

from offbook import ToolCall
from offbook.errors import InputError, ToolArgumentsError
from offbook.tools import ToolDef, ToolSpec, run_tool, tool
from offbook.tools.definition import wrap_tool

SPEC = ToolSpec("find", parameters={"type": "object", "required": ["city"]})


def test_a_tool_has_the_name_of_its_spec_and_no_rules_unless_given():
    tool = ToolDef(spec=SPEC, callable=print)
    assert tool.name == "find"
    assert tool.prerequisites == ()
    assert tool.timeout_s is None
    assert not tool.side_effect
    assert not tool.repeatable


def test_arguments_are_bound_as_they_came_if_they_fit():
    args = {"city": "Oslo"}
    assert ToolDef(SPEC, print).bind(args) is args
    with pytest.raises(ToolArgumentsError, match="city: missing"):
        ToolDef(SPEC, print).bind({})


def test_what_cannot_be_called_is_refused():
    with pytest.raises(InputError, match=r"^find: callable: expected a function, got 'print'$"):
        ToolDef(SPEC, "print")


@pytest.mark.parametrize("timeout_s", [0, -1.5, float("nan")])
def test_a_timeout_that_is_no_time_is_refused(timeout_s):
    with pytest.raises(InputError, match=r"^find: timeout_s: expected more than 0, got "):
        ToolDef(SPEC, print, timeout_s=timeout_s)


def test_a_tool_that_only_reads_cannot_declare_an_effect():
    with pytest.raises(InputError, match="read_only contradicts side_effect"):
        ToolDef(SPEC, print, side_effect=True, read_only=True)
    with pytest.raises(InputError, match="read_only contradicts undoes='book'"):
        ToolDef(SPEC, print, undoes="book", read_only=True)
    with pytest.raises(InputError, match="it cannot undo itself"):
        ToolDef(SPEC, print, undoes="find")


def test_an_idempotency_key_is_an_argument_of_the_tool():
    assert tool(idempotent="key")(pay).declaration.idempotent == "key"
    with pytest.raises(InputError, match=r"there is no argument 'kee'\n  hint: arguments: amount, key"):
        tool(idempotent="kee")(pay)


def pay(amount: int, key: str):
    """Pay."""


@pytest.mark.parametrize(
    "declared", [{"side_effect": True}, {"idempotent": True}, {"undoes": "book"}], ids=lambda each: next(iter(each))
)
def test_a_wrapped_tool_declares_what_the_tool_does(declared):
    original = ToolDef(SPEC, print, **declared)
    assert original.declaration.has_effect
    assert wrap_tool(original, print, timeout_s=None).declaration == original.declaration


class Order(BaseModel):
    order_id: int


def test_a_spec_is_reported_in_the_openai_shape():
    assert ToolSpec("find", "Find an order.", Order).function == {
        "type": "function",
        "function": {
            "name": "find",
            "description": "Find an order.",
            "parameters": {"type": "object", "properties": {"order_id": {"type": "integer"}}, "required": ["order_id"]},
        },
    }


def test_arguments_that_fit_come_back_as_they_came():
    args = {"order_id": "42", "odd": 1}
    assert ToolSpec("find", parameters=Order).check(args) is args


def test_arguments_that_do_not_fit_are_refused():
    with pytest.raises(ToolArgumentsError, match="order_id: missing") as caught:
        ToolSpec("find", parameters=Order).check({})
    assert caught.value.tool == "find"


def test_a_wrong_declaration_is_refused_where_it_is_made():
    with pytest.raises(InputError, match=r"^find: parameters\.required: not a valid JSON schema"):
        ToolSpec("find", parameters={"type": "object", "required": 5})


def test_what_is_made_of_a_spec_is_made_once():
    spec = ToolSpec("find", parameters=Order)
    assert spec.function is spec.function
    assert spec.schema is spec.function["function"]["parameters"]


@tool(prerequisites=["search"], timeout_s=5, side_effect=True, repeatable=True)
def book(on: date) -> str:
    """Book a day."""
    return on.isoformat()


def test_it_is_reported_to_models_and_guarded_as_the_original():
    stand_in = wrap_tool(book, lambda **arguments: arguments, timeout_s=None)
    assert stand_in.spec is book.spec
    assert stand_in.name == "book"
    assert stand_in.prerequisites == ["search"]
    assert stand_in.timeout_s is None
    assert stand_in.side_effect
    assert stand_in.repeatable


async def test_it_gets_the_arguments_as_the_model_gave_them_once_the_original_would_take_them():
    stand_in = wrap_tool(book, lambda **arguments: arguments, timeout_s=None)
    assert (await run_tool(stand_in, ToolCall("book", {"on": "2024-12-24"}))).value == {"on": "2024-12-24"}
    with pytest.raises(ToolArgumentsError, match="on: "):
        stand_in.bind({"on": "soon"})


def test_it_can_be_called_as_a_function():
    assert wrap_tool(book, lambda on: f"not {on}", timeout_s=None)(on="today") == "not today"
