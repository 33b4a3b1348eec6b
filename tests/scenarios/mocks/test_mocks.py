"""Mocks as declared: what is refused, the names of conversations, and what was never called."""

import pytest

from tests.scenarios.mocks.parts import resolve_all, virtually
from understudy import InputError
from understudy.scenarios import Mocks
from understudy.tools import tool


def test_mocks_that_no_conversation_called_are_told_in_the_order_declared():
    mocks = Mocks({"c": 1, "a": 2, "b": 3}, unmocked="passthrough")
    assert mocks.never_called() == ("c", "a", "b")
    virtually(resolve_all(mocks.conversation(), "a", "elsewhere"))
    assert mocks.never_called() == ("c", "b")
    virtually(resolve_all(mocks.conversation(), "c", "b"))
    assert mocks.never_called() == ()


def test_a_conversation_without_an_id_is_given_the_next():
    mocks = Mocks({})
    ids = [mocks.conversation(given).conversation_id for given in (None, "conv-7-abc123", None)]
    assert ids == ["conv-1", "conv-7-abc123", "conv-2"]


@tool
def get_weather(city: str):
    return city


@pytest.mark.parametrize(
    ("declared", "reason"),
    [
        ([1], r"mocks: expected a dict of mocks, got \[1\]"),
        ({"": 1}, "mocks: expected the name of a tool, got ''"),
        ({5: 1}, "mocks: expected the name of a tool, got 5"),
        ({"get_weather": get_weather}, "mocks: get_weather: expected a mock, got a tool"),
    ],
)
def test_what_is_no_mock_is_refused_where_it_is_declared(declared, reason):
    with pytest.raises(InputError, match=reason):
        Mocks(declared)


def test_an_unknown_mode_is_refused_with_those_there_are():
    with pytest.raises(InputError, match=r"unmocked: unknown mode 'ignore'(.|\n)*one of: error, passthrough"):
        Mocks({}, unmocked="ignore")
