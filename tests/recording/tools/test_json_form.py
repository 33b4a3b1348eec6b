"""What recordings keep of values: JSON that a model is told alike, or else the text that it is told."""

import dataclasses
import datetime as dt
import enum
import json
import uuid

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.recording.json_form import JsonForm, json_arguments, json_form
from offbook.tools.result_text import result_text


@dataclasses.dataclass
class Point:
    x: int
    y: int


class Place(msgspec.Struct):
    city: str


class Weather(pydantic.BaseModel):
    sky: str
    at: dt.date


class Colour(enum.Enum):
    RED = "red"


class Opaque:
    def __str__(self):
        return "opaque"


class Silent:
    def __str__(self):
        raise RuntimeError("no")


@pytest.mark.parametrize("value", [None, True, 0, -3, 1.5, "", "text", "5", '{"a": 1}', [], {}, {"a": [1, None]}])
def test_json_is_kept_as_it_is(value):
    assert json_form(value) == JsonForm(value)
    assert type(json_form(value).value) is type(value)


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        ((1, 2), [1, 2]),
        ({1: "a"}, {"1": "a"}),
        ({3, 1, 2}, [1, 2, 3]),
        (Point(1, 2), {"x": 1, "y": 2}),
        (Place("Oslo"), {"city": "Oslo"}),
        (Weather(sky="rain", at=dt.date(2026, 1, 2)), {"sky": "rain", "at": "2026-01-02"}),
        ([dt.date(2026, 1, 2), Colour.RED], ["2026-01-02", "red"]),
        ({"raw": b"abc"}, {"raw": "<3 bytes>"}),
        (float("nan"), None),
    ],
)
def test_what_has_json_is_kept_as_that(value, kept):
    assert json_form(value) == JsonForm(kept)


@pytest.mark.parametrize(
    ("value", "text", "told_of"),
    [
        (dt.date(2026, 1, 2), "2026-01-02", "date"),
        (uuid.UUID(int=7), str(uuid.UUID(int=7)), "UUID"),
        (Colour.RED, "red", "Colour"),
        (b"abc", "<3 bytes>", "bytes"),
        (Opaque(), "opaque", "Opaque"),
        (Silent(), "<Silent that cannot be shown>", "Silent"),
        (2**70, str(2**70), "int"),
        ("half a \ud800 pair", "half a ? pair", "str"),
        ({1: "a", "1": "b"}, '{"1":"a","1":"b"}', "dict"),
    ],
)
def test_what_has_no_json_is_kept_as_its_text_with_the_name_of_its_type(value, text, told_of):
    assert json_form(value) == JsonForm(text, told_of)


def test_what_is_nested_without_end_is_kept_as_its_text():
    cyclic = []
    cyclic.append(cyclic)
    assert json_form(cyclic) == JsonForm("[[...]]", "list")
    deep = []
    for _ in range(400):
        deep = [deep]
    assert json_form(deep).told_of == "list"
    json.dumps(json_form(deep).value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@given(values)
def test_a_model_is_told_the_same_of_what_is_kept(value):
    kept = json_form(value).value
    assert result_text(kept) == result_text(value).encode(errors="replace").decode()
    assert msgspec.json.decode(msgspec.json.encode(kept)) == kept


def test_arguments_are_always_an_object():
    given_ = {"day": dt.date(2026, 1, 2), "n": 2**70, "plain": {"a": (1,)}}
    assert json_arguments(given_) == {"day": "2026-01-02", "n": str(2**70), "plain": {"a": [1]}}
