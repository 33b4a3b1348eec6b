"""What a tool takes can be declared in three ways, and each is told apart from a mistake."""

import subprocess
import sys

import pytest
from pydantic import BaseModel

from offbook.errors import InputError
from offbook.tools import Parameters
from offbook.tools.parameters import parameters_of


class Order(BaseModel):
    order_id: int


class Anything:
    schema = {"type": "object"}  # noqa: RUF012

    def check(self, args):
        return None


@pytest.mark.parametrize(
    "declared", [Order, {"type": "object"}, None, Anything()], ids=["model", "schema", "none", "own"]
)
def test_every_declaration_becomes_parameters_with_the_schema_of_an_object(declared):
    parameters = parameters_of(declared, source="find")
    assert isinstance(parameters, Parameters)
    assert parameters.schema["type"] == "object"


def test_parameters_of_ones_own_are_taken_as_they_are():
    own = Anything()
    assert parameters_of(own, source="find") is own


def test_a_tool_that_takes_nothing_says_so_and_lets_odd_arguments_through():
    parameters = parameters_of(None, source="now")
    assert parameters.schema == {"type": "object", "properties": {}}
    parameters.check({"reason": "because"})


@pytest.mark.parametrize("declared", [int, "city", 5, [], Order(order_id=1), Anything], ids=repr)
def test_anything_else_is_refused_with_the_tool_and_what_was_expected(declared):
    with pytest.raises(InputError) as caught:
        parameters_of(declared, source="find")
    assert str(caught.value).startswith(
        "find: parameters: expected a pydantic model class, a JSON schema or None, got "
    )
    assert repr(declared) in str(caught.value)


def test_importing_tools_loads_neither_pydantic_nor_jsonschema():
    program = """
import sys
from offbook.tools import ToolDef, ToolSpec
ToolDef(ToolSpec("now"), callable=lambda: "noon").bind({})
print({"pydantic", "jsonschema", "docstring_parser"} & set(sys.modules))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
