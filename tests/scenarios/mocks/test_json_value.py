"""What mocks answer is JSON, or an error that names the mock."""

from dataclasses import dataclass
from datetime import date
from enum import Enum
from types import MappingProxyType

import pytest
from msgspec import Struct
from pydantic import BaseModel

from offbook.errors import MockError
from tests.scenarios.mocks.parts import given


@dataclass
class Slot:
    day: date


class Seat(Struct):
    row: int


class Guest(BaseModel):
    born: date


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (Slot(date(2026, 3, 30)), {"day": "2026-03-30"}),
        ([Seat(4)], [{"row": 4}]),
        ({"guest": Guest(born=date(1815, 12, 10))}, {"guest": {"born": "1815-12-10"}}),
        ((1, (2,)), [1, [2]]),
        ({"b", "a", "c"}, ["a", "b", "c"]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (Colour.RED, "red"),
        ({1: "one"}, {"1": "one"}),
        (date(2026, 3, 30), "2026-03-30"),
    ],
)
def test_values_with_a_usual_json_are_given_as_that(value, json):
    assert given(lambda args: value) == [json]


@pytest.mark.parametrize("value", [object(), b"bytes", [1j], {"f": print}, {1, "a"}, "\ud800", 2**70])
def test_a_result_that_is_no_json_is_an_error_that_names_the_mock(value):
    with pytest.raises(MockError, match="the mock of 'tool' answers what is no JSON: ") as caught:
        given(lambda args: value)
    assert caught.value.tool == "tool"
