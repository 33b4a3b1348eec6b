"""A toolbox holds tools by name, and refuses what no model could call."""

import re
from collections.abc import Mapping

import pytest

from offbook.errors import InputError
from offbook.tools import FunctionTool, Toolbox, ToolDef, ToolSpec


def find(order_id: int):
    """Find an order."""
    return order_id


def refund(order_id: int):
    return order_id


LOGIN = ToolDef(ToolSpec("login", "Log in."), callable=lambda: "in")


def refusal(tools):
    with pytest.raises(InputError) as caught:
        Toolbox(tools)
    return str(caught.value)


def test_functions_and_tools_are_held_by_name_in_the_order_given():
    box = Toolbox([refund, LOGIN, find])
    assert isinstance(box, Mapping)
    assert list(box) == ["refund", "login", "find"]
    assert len(box) == 3
    assert box["login"] is LOGIN
    assert isinstance(box["find"], FunctionTool)
    assert "nothing" not in box
    assert repr(box) == "Toolbox(refund, login, find)"


def test_under_a_mapping_the_key_is_the_name():
    box = Toolbox({"search": find, "login": LOGIN})
    assert list(box) == ["search", "login"]
    assert box["search"].name == "search"


def test_a_toolbox_can_be_made_of_a_toolbox_or_of_nothing():
    box = Toolbox([find])
    assert Toolbox(box) == box
    assert len(Toolbox()) == 0


def test_what_models_are_told_is_made_once():
    box = Toolbox([find, LOGIN])
    assert [spec.name for spec in box.specs] == ["find", "login"]
    assert box.functions == tuple(spec.function for spec in box.specs)
    assert box.functions is box.functions


def test_a_toolbox_does_not_change():
    tools = {"find": find}
    box = Toolbox(tools)
    tools["refund"] = refund
    assert list(box) == ["find"]
    with pytest.raises(TypeError):
        box["refund"] = refund


def test_a_tool_under_another_name_is_refused():
    assert refusal({"enter": LOGIN}) == "tools: enter: the tool is named login\n  hint: use its name as the key"


def test_two_tools_of_a_name_are_refused():
    assert refusal([find, LOGIN, find]) == "tools: there are two tools named find"


@pytest.mark.parametrize("name", ["", "find order", "find.order", "é", "a" * 65, "find\n", 5])
def test_a_name_that_models_do_not_take_is_refused(name):
    assert refusal({name: find}).startswith(f"tools: {name!r} is not a valid tool name\n  hint: use letters, digits")


@pytest.mark.parametrize("name", ["f", "find-order_2", "a" * 64])
def test_a_name_that_models_take_is_taken(name):
    assert list(Toolbox({name: find})) == [name]


def test_a_function_without_a_name_needs_one():
    assert refusal([lambda: 1]).startswith("tools: '<lambda>' is not a valid tool name")
    assert list(Toolbox({"one": lambda: 1})) == ["one"]


@pytest.mark.parametrize(
    ("tools", "message"),
    [
        ([find, "refund"], "tools: tools[1]: expected a function or ToolDef, got str 'refund'"),
        ({"find": None}, "tools: find: expected a function or ToolDef, got NoneType None"),
        ("find", "tools: expected a list or dict of tools, got str 'find'"),
        (5, "tools: expected a list or dict of tools, got int 5"),
    ],
    ids=lambda value: re.sub(r" at 0x[0-9a-f]+", "", str(value)),
)
def test_what_is_no_tool_is_refused_with_what_was_expected(tools, message):
    assert refusal(tools) == message
