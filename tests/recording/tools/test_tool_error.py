"""Errors of tools are raised again as what they were, where that is a well-known class, and say the same."""

import builtins
import pickle

import pytest

from offbook.errors import OffbookError, RecordedToolError, ToolResolutionError, ToolTimeoutError
from offbook.recording.tool_error import error_of, recorded_error
from offbook.recording.tool_exchange import RecordedError
from offbook.tools.function_tool import tool_of
from offbook.tools.outcome import error_text


def look_up(city: str) -> str:
    return city


TOOL = tool_of(look_up, timeout_s=5)


class OutOfStockError(Exception):
    """An error of somebody's own."""


class UnspeakableError(Exception):
    def __str__(self):
        raise RuntimeError("no")


def raised_again(error):
    return error_of(recorded_error(error), tool=TOOL)


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
    assert (again.tool, str(again)) == ("look_up", "look_up took longer than 2 s")


@pytest.mark.parametrize("error", [OutOfStockError("none left"), UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad")])
def test_another_error_is_told_as_it_was_though_its_class_is_not_known(error):
    again = raised_again(error)
    assert isinstance(again, RecordedToolError)
    assert (again.type, again.message, str(again)) == (type(error).__name__, str(error), str(error))
    assert error_text(again) == error_text(error)


@pytest.mark.parametrize("name", ["", "a b", "x\0y", "os.system", "\x1b[2J", "\ud800", "é()"])
def test_a_name_that_no_class_can_have_is_part_of_the_message(name):
    again = error_of(RecordedError(name, "boo"), tool=TOOL)
    assert type(again) is RecordedToolError
    assert str(again) == f"{name}: boo"


@pytest.mark.parametrize("name", ["SystemExit", "KeyboardInterrupt", "GeneratorExit", "StopIteration", "eval", "print"])
def test_nothing_else_is_looked_up_by_the_name_in_a_file(name):
    again = error_of(RecordedError(name, "boo"), tool=TOOL)
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
    assert (type(arrived).__name__, arrived.type, str(arrived)) == ("OutOfStockError", "OutOfStockError", "none left")
    assert pickle.loads(pickle.dumps(RecordedToolError.of("a b", "c"))).args == ("a b: c",)
