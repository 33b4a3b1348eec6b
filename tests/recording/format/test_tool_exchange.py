"""What recordings keep of values: JSON that a model is told alike, or else the text that it is told."""

import builtins
import dataclasses
import datetime as dt
import enum
import json
import pickle
import uuid

import msgspec
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import OffbookError, ToolResolutionError, ToolTimeoutError
from offbook.messages import result_text
from offbook.recording.format.exchange import (
    JsonForm,
    RecordedError,
    RecordedToolError,
    error_from_record,
    json_arguments,
    json_form,
    recorded_error,
)
from offbook.tools.dispatch import error_text
from offbook.tools.function_tool import tool_of


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
    ("value", "expected"),
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
def test_what_has_json_is_kept_as_that(value, expected):
    assert json_form(value) == JsonForm(expected)


@pytest.mark.parametrize(
    ("value", "text", "type_name"),
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
def test_what_has_no_json_is_kept_as_its_text_with_the_name_of_its_type(value, text, type_name):
    assert json_form(value) == JsonForm(text, type_name)


def test_what_is_nested_without_end_is_kept_as_its_text():
    cyclic = []
    cyclic.append(cyclic)
    assert json_form(cyclic) == JsonForm("[[...]]", "list")
    deep = []
    for _ in range(400):
        deep = [deep]
    assert json_form(deep).type_name == "list"
    json.dumps(json_form(deep).value)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.dates() | st.binary() | st.uuids(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text() | st.integers(), inner) | st.tuples(inner),
    max_leaves=8,
)


@given(values)
def test_a_model_is_told_the_same_of_what_is_kept(value):
    form = json_form(value).value
    assert result_text(form) == result_text(value).encode(errors="replace").decode()
    assert msgspec.json.decode(msgspec.json.encode(form)) == form


def test_arguments_are_always_an_object():
    given_ = {"day": dt.date(2026, 1, 2), "n": 2**70, "plain": {"a": (1,)}}
    assert json_arguments(given_) == {"day": "2026-01-02", "n": str(2**70), "plain": {"a": [1]}}


def look_up(city: str) -> str:
    return city


TOOL = tool_of(look_up, timeout_s=5)


class OutOfStockError(Exception):
    """An error of somebody's own."""


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raised_again(error):
    return error_from_record(recorded_error(error), tool=TOOL)


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no such city: Atlantis"),
        TypeError("expected a text"),
        LookupError("nothing"),
        IndexError(7),
        RuntimeError(),
        TimeoutError("too late"),
        ConnectionError("refused"),
        ConnectionResetError(104, "Connection reset by peer"),
        PermissionError(13, "Permission denied", "/etc/shadow"),
        FileNotFoundError(2, "No such file or directory", "x"),
        OSError("disk on fire"),
        ZeroDivisionError("division by zero"),
        ToolResolutionError("there is no order 7"),
        Exception("plain"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_well_known_error_is_of_its_class_again_and_says_the_same(error):
    again = raised_again(error)
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert error_text(again) == error_text(error)


@pytest.mark.parametrize("key", ["Oslo", 42, ("a", 1), "it's"])
def test_a_key_error_says_the_same_whatever_the_key(key):
    again = raised_again(KeyError(key))
    assert isinstance(again, KeyError)
    assert error_text(again) == error_text(KeyError(key))


def test_a_timeout_is_a_timeout_again():
    again = raised_again(ToolTimeoutError(tool="look_up", timeout_s=2.0))
    assert isinstance(again, ToolTimeoutError)
    assert again.tool == "look_up"
    assert str(again) == "look_up took longer than 2 s"


@pytest.mark.parametrize("error", [OutOfStockError("none left"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")])
def test_another_error_is_reported_as_it_was_though_its_class_is_not_known(error):
    again = raised_again(error)
    assert isinstance(again, RecordedToolError)
    assert again.type == type(error).__name__
    assert again.message == str(error)
    assert str(again) == str(error)
    assert error_text(again) == error_text(error)


@pytest.mark.parametrize("name", ["", "a b", "x\0y", "os.system", "\x1b[2J", "\ud800", "é()"])
def test_a_name_that_no_class_can_have_is_part_of_the_message(name):
    again = error_from_record(RecordedError(name, "boo"), tool=TOOL)
    assert type(again) is RecordedToolError
    assert str(again) == f"{name}: boo"


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "eval", "print"])
def test_nothing_else_is_looked_up_by_the_name_in_a_file(name):
    again = error_from_record(RecordedError(name, "boo"), tool=TOOL)
    assert isinstance(again, RecordedToolError)
    assert not isinstance(again, getattr(builtins, name)) if name[0].isupper() else True


def test_an_error_that_cannot_say_anything_is_recorded_all_the_same():
    assert recorded_error(UnspeakableError()) == RecordedError(
        "UnspeakableError", "<UnspeakableError that cannot be shown>"
    )
    assert recorded_error(ValueError("\ud800")) == RecordedError("ValueError", "?")


def test_a_recorded_error_crosses_to_another_process():
    error = RecordedToolError.of("OutOfStockError", "none left")
    arrived = pickle.loads(pickle.dumps(error))
    assert isinstance(arrived, OffbookError)
    assert type(arrived).__name__ == "OutOfStockError"
    assert arrived.type == "OutOfStockError"
    assert str(arrived) == "none left"
    assert pickle.loads(pickle.dumps(RecordedToolError.of("a b", "c"))).args == ("a b: c",)
