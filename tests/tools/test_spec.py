"""A spec tells a model about a tool, and a wrong one fails where it is written."""

import pytest
from pydantic import BaseModel

from offbook.errors import InputError, ToolArgumentsError
from offbook.tools import ToolSpec


class Order(BaseModel):
    order_id: int


def test_a_spec_is_told_in_the_openai_shape():
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
    with pytest.raises(InputError, match=r"^find: parameters\.required: no valid JSON schema"):
        ToolSpec("find", parameters={"type": "object", "required": 5})


def test_what_is_made_of_a_spec_is_made_once():
    spec = ToolSpec("find", parameters=Order)
    assert spec.function is spec.function
    assert spec.schema is spec.function["function"]["parameters"]
