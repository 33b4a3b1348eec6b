"""A tool put in the place of another."""

from datetime import date

import pytest

from offbook import ToolCall
from offbook.errors import ToolArgumentsError
from offbook.tools import run_tool, tool
from offbook.tools.wrapped import wrapped


@tool(prerequisites=["search"], timeout_s=5, side_effect=True, repeatable=True)
def book(on: date) -> str:
    """Book a day."""
    return on.isoformat()


def test_it_is_told_to_models_and_guarded_as_the_original():
    stand_in = wrapped(book, lambda **arguments: arguments, timeout_s=None)
    assert stand_in.spec is book.spec
    assert (stand_in.name, stand_in.prerequisites, stand_in.timeout_s) == ("book", ["search"], None)
    assert stand_in.side_effect
    assert stand_in.repeatable


async def test_it_gets_the_arguments_as_the_model_gave_them_once_the_original_would_take_them():
    stand_in = wrapped(book, lambda **arguments: arguments, timeout_s=None)
    assert (await run_tool(stand_in, ToolCall("book", {"on": "2024-12-24"}))).value == {"on": "2024-12-24"}
    with pytest.raises(ToolArgumentsError, match="on: "):
        stand_in.bind({"on": "soon"})


def test_it_can_be_called_as_a_function():
    assert wrapped(book, lambda on: f"not {on}", timeout_s=None)(on="today") == "not today"
