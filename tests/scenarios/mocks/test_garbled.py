"""Mocks of tools that answer nonsense."""

import json

import pytest

from offbook import InputError
from offbook.scenarios import garbled, sequence
from tests.scenarios.mocks.parts import given, given_times


def test_by_default_the_answer_is_text_that_looks_like_json_and_is_none():
    (text,) = given(garbled())
    assert text.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


@pytest.mark.parametrize("value", [None, {"id": 5}, ["wrong"], "<html>"])
def test_a_wrong_shape_is_given_as_declared(value):
    assert given_times(garbled(value), 2) == [value, value]


def test_nonsense_is_not_held_against_what_the_real_tool_returns():
    answers = sequence([garbled({"id": "five"}), {"id": 5}])
    returns = {"tool": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    assert given(answers, {}, {}, returns=returns) == [{"id": "five"}, {"id": 5}]


def test_nonsense_that_is_no_json_is_refused():
    with pytest.raises(InputError, match="garbled: no JSON"):
        garbled(object())
