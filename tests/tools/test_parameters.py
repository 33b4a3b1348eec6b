"""What a tool takes can be declared in three ways, and each is told apart from a mistake."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from offbook.errors import InputError
from offbook.text import path_text
from offbook.tools import Parameters
from offbook.tools.parameters import arguments_error, invalid_argument, parameters_of


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


def test_a_path_reads_like_code():
    assert path_text(["items", 0, "price"]) == "items[0].price"
    assert path_text([0]) == "[0]"
    assert path_text([]) == ""


def test_a_long_value_is_cut():
    problem = invalid_argument("text", "is too long", "a" * 1000)
    assert problem.startswith("text: is too long (got 'aaaa")
    assert problem.endswith("aaa…)")
    assert len(problem) < 120


def test_a_problem_that_is_found_twice_is_reported_once():
    assert arguments_error(["a: missing", "b: missing", "a: missing"], tool="t").problems == (
        "a: missing",
        "b: missing",
    )


def test_a_problem_takes_one_line():
    assert arguments_error(["a: not\neven"], tool="t").problems == ("a: not even",)


def test_of_many_problems_the_first_are_reported_and_the_others_counted():
    problems = arguments_error((f"a{number}: missing" for number in range(20)), tool="t").problems
    assert problems[:2] == ("a0: missing", "a1: missing")
    assert problems[7:] == ("a7: missing", "and 12 more")


@given(st.lists(st.text("a\n…", min_size=1, max_size=2000), max_size=40))
def test_no_error_is_endless(problems):
    error = arguments_error(problems, tool="t")
    assert len(error.problems) <= 9
    assert len(str(error)) < 3000
    assert len(str(error).splitlines()) == 1 + len(error.problems)
