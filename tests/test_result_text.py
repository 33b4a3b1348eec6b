"""Whatever a tool returns has a text."""

import enum
from collections import OrderedDict, UserDict, deque
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from uuid import UUID

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import BaseModel, Field

from offbook import ToolCall
from offbook.messages import result_text
from offbook.tools import ToolOutcome


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):  # noqa: UP042
    YES = "yes"


@dataclass
class Point:
    x: int
    y: int


class Wind(Struct, rename="camel"):
    speed_kmh: float
    from_where: Colour = Colour.RED


class Place(BaseModel):
    name: str
    seen: date = date(2024, 1, 2)
    zip_code: str = Field(default="0001")


class Mute:
    def __str__(self):
        raise RuntimeError("no")

    __repr__ = __str__


class Loud:
    def __str__(self):
        return 'so "loud"'


CYCLE = []
CYCLE.append(CYCLE)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('as it is: "é"\n', 'as it is: "é"\n'),
        ("", ""),
        (Word.YES, "yes"),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (2.5, "2.5"),
        (2**70, str(2**70)),
        ({"b": 1, "a": [True, None, "é"]}, '{"b":1,"a":[true,null,"é"]}'),
        ({1: 2}, '{"1":2}'),
        ((1, "a"), '[1,"a"]'),
        ({3, 1, 2}, "[1,2,3]"),
        (frozenset(["b", "a"]), '["a","b"]'),
        ({1, "a", None}, '[1,"a",null]'),
        (datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), "2024-01-02T03:04:05+00:00"),
        ({"day": date(2024, 1, 2)}, '{"day":"2024-01-02"}'),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Colour.RED, "red"),
        ([Colour.RED], '["red"]'),
        (Point(1, 2), '{"x":1,"y":2}'),
        (Wind(3.5), '{"speedKmh":3.5,"fromWhere":"red"}'),
        ([Place(name="Oslo")], '[{"name":"Oslo","seen":"2024-01-02","zip_code":"0001"}]'),
        (b"\x00\x01\x02", "<3 bytes>"),
        ({"image": bytearray(7)}, '{"image":"<7 bytes>"}'),
        (memoryview(b"ab"), "<2 bytes>"),
        (MappingProxyType({"a": 1}), '{"a":1}'),
        (UserDict({"a": 1}), '{"a":1}'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        (deque([1, 2]), "[1,2]"),
        (range(3), "[0,1,2]"),
        ({"a": 1}.keys(), '["a"]'),
        ({"a": 1}.values(), "[1]"),
        (Decimal("1.50"), "1.50"),
        ([Decimal("1.50")], '["1.50"]'),
        (Path("a/b"), "a/b"),
        (Loud(), 'so "loud"'),
        ([Loud()], '["so \\"loud\\""]'),
        (float("nan"), "null"),
        (CYCLE, "[[...]]"),
        ({"big": 2**70}, "{'big': 1180591620717411303424}"),
        (Mute(), "<Mute that cannot be shown>"),
        ([Mute()], '["<Mute that cannot be shown>"]'),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_has_this_text(value, text):
    assert result_text(value) == text


def test_a_model_that_cannot_be_dumped_is_shown():
    class Odd(BaseModel):
        value: object

        def __str__(self):
            return "odd"

    assert result_text(Odd(value=object())) == "odd"


def test_a_list_too_deep_for_json_still_has_a_text():
    deep = []
    for _ in range(100_000):
        deep = [deep]
    assert result_text(deep) == "<list that cannot be shown>"


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(json_values.filter(lambda value: not isinstance(value, str)))
def test_json_values_can_be_read_back(value):
    assert orjson.loads(result_text(value)) == value


class Order:
    """What is shown as Python shows everything by default."""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (object(), "<object>"),
        (Order(), "<tests.test_result_text.Order>"),
        ([{"order": Order()}], '[{"order":"<tests.test_result_text.Order>"}]'),
        (ToolOutcome.of_value, "<bound method ToolOutcome.of_value of <class 'offbook.tools.dispatch.ToolOutcome'>>"),
        (object().__str__, "<method-wrapper '__str__' of object>"),
        ((number for number in ()), "<generator object <genexpr>>"),
        ("<Order object at 0x7f00>", "<Order object at 0x7f00>"),
    ],
)
def test_a_value_without_json_is_reported_the_same_in_every_run(value, text):
    assert result_text(value) == text


def test_an_error_about_an_object_is_reported_the_same_in_every_run():
    text = ToolOutcome.of_error(ToolCall("find"), LookupError(f"no {object()!r}")).text
    assert text == "[ToolError] LookupError: no <object>"
