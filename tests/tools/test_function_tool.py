"""Anything that can be called becomes a tool."""

import functools
from datetime import date

import pytest

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.tools import FunctionTool, ToolDef, run_tool, tool, tool_of


def find(order_id: int, *, when: date = date(2024, 1, 1)):
    """Find an order.

    It may be old.

    Args:
        order_id: which one
    """
    return f"{order_id} {when:%d.%m.%Y}"


async def find_later(order_id: int):
    """Find an order."""
    return order_id


class Shop:
    """A shop."""

    def find(self, order_id: int):
        """Find an order."""
        return order_id

    @staticmethod
    def count(order_id: int):
        """Find an order."""
        return order_id

    loose = staticmethod(find_later)

    @classmethod
    def make(cls, order_id: int):
        """Find an order."""
        return order_id


class Finder:
    """Find an order."""

    def __call__(self, order_id: int):
        return order_id


class TellingFinder(Finder):
    """A finder."""

    def __call__(self, order_id: "int"):
        """Find an order."""
        return order_id


def twice(function):
    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        function(*args, **kwargs)
        return function(*args, **kwargs)

    return wrapped


@twice
def wrapped(order_id: int):
    """Find an order."""
    return order_id


def two(shop: str, order_id: int, limit: int = 5):
    """Find an order."""
    return order_id


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (find_later, "find_later"),
        (Shop().find, "find"),
        (Shop.count, "count"),
        (Shop.make, "make"),
        (vars(Shop)["loose"], "find_later"),
        (Finder(), "Finder"),
        (TellingFinder(), "TellingFinder"),
        (wrapped, "wrapped"),
        (functools.partial(two, "here", limit=3), "two"),
        (functools.partial(functools.partial(two, "here"), limit=3), "two"),
        (functools.partial(Shop().find), "find"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_anything_that_can_be_called_becomes_a_tool(function, name):
    made = tool_of(function)
    assert isinstance(made, ToolDef)
    assert made.name == name
    assert made.spec.description == "Find an order."
    assert made.spec.schema["properties"] == {"order_id": {"type": "integer"}}
    assert (await run_tool(made, ToolCall(name, {"order_id": "42"}))).value == 42


def test_name_and_description_come_from_the_function_unless_given():
    assert tool_of(find).spec.description == "Find an order.\n\nIt may be old."
    search = tool_of(find, name="search", description="")
    assert search.name == "search"
    assert search.spec.description == ""
    assert tool_of(lambda: 1, name="one").spec.description == ""


async def test_a_function_gets_what_its_hints_say():
    outcome = await run_tool(tool_of(find), ToolCall("find", {"order_id": 7, "when": "2024-12-24"}))
    assert outcome.value == "7 24.12.2024"


def test_what_a_tool_is_besides_its_function_is_kept():
    made = tool_of(find, prerequisites=["login"], timeout_s=2.5, side_effect=True, repeatable=True)
    assert made.prerequisites == ["login"]
    assert made.timeout_s == 2.5
    assert made.side_effect
    assert made.repeatable
    plain = tool_of(find)
    assert plain.prerequisites == ()
    assert plain.timeout_s is None
    assert not plain.side_effect
    assert not plain.repeatable


def test_the_decorator_makes_a_tool_that_can_still_be_called():
    @tool
    def add(a: int, b: int = 1):
        """Add two numbers."""
        return a + b

    assert isinstance(add, FunctionTool)
    assert add.name == "add"
    assert add.spec.description == "Add two numbers."
    assert add(2) == 3
    assert add(2, b=3) == 5


def test_the_decorator_takes_options():
    @tool(name="plus", side_effect=True)
    def add(a: int):
        return a

    assert add.name == "plus"
    assert add.side_effect


@pytest.mark.parametrize("thing", [5, "find", None, vars(Shop)["make"]], ids=["number", "text", "none", "classmethod"])
def test_what_cannot_be_called_is_refused(thing):
    with pytest.raises(InputError, match=r"^tool_of: expected a function, got "):
        tool_of(thing)
