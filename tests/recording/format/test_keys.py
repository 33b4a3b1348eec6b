"""Keys: which names an exchange may have, and how they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import InputError
from offbook.recording.format.keys import MAX_KEY_CHARS, find_key, quote_name, short_key, unfit_reason


@pytest.mark.parametrize(
    "key", ["a", "step 1", "graph/node", "a..b", "...", "Schritt äöü", "日本", "a_b", "x" * MAX_KEY_CHARS, "C:\\x", "~"]
)
def test_ordinary_names_are_fit(key):
    assert unfit_reason(key) == ""


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("", "is empty"),
        ("_meta", "starts with '_'"),
        ("..", "leads out"),
        ("../a", "leads out"),
        ("a/../b", "leads out"),
        ("a\\..\\b", "leads out"),
        ("a\n", "control characters"),
        ("\x1b[2J", "control characters"),
        ("a\x00", "control characters"),
        ("a\x9b", "control characters"),
        ("a\u2028b", "control characters"),
        ("a\ud800", "control characters"),
        ("x" * (MAX_KEY_CHARS + 1), "has 513 characters"),
    ],
)
def test_names_that_could_mean_something_else_are_not(key, reason):
    assert reason in unfit_reason(key)


@given(st.text(max_size=600))
def test_any_key_can_be_shown_on_one_short_line(key):
    line = quote_name(key)
    assert line.isprintable() or not unfit_reason(key)
    assert len(line.splitlines()) == 1
    line.encode()


def test_a_long_key_is_cut_and_shows_it():
    assert quote_name("x" * 100) == "'" + "x" * 59 + "…'"
    assert quote_name("x" * 60) == "'" + "x" * 60 + "'"


FIRST, SECOND = "19284883515f" + "a" * 52, "19284883515f" + "b" * 52
KEYS = ["greet", "greet_again", FIRST, SECOND, "_tools.get"]


def refused(prefix, keys=KEYS):
    with pytest.raises(InputError) as caught:
        find_key(prefix, keys, source="run.json")
    return caught.value


@pytest.mark.parametrize(
    ("prefix", "key"),
    [
        ("greet", "greet"),
        ("greet_", "greet_again"),
        (FIRST, FIRST),
        (FIRST[:59], FIRST),
        (SECOND[:13], SECOND),
        (SECOND[:13] + "…", SECOND),
        ("_t", "_tools.get"),
    ],
)
def test_a_key_or_the_beginning_of_one_is_enough(prefix, key):
    assert find_key(prefix, KEYS, source="run.json") == key


def test_what_a_table_shows_can_be_given():
    assert find_key(short_key(FIRST), [FIRST, "greet"], source="run.json") == FIRST
    assert short_key("greet") == "greet"


def test_the_beginning_of_several_is_reported_with_what_distinguishes_them():
    error = refused("1928")
    assert str(error).startswith("run.json: 2 keys start with '1928'")
    assert error.hint == f"write more of one: {FIRST[:13]}, {SECOND[:13]}"


@pytest.mark.parametrize("prefix", ["gret", "", "…", FIRST + "0"])
def test_what_is_no_beginning_is_refused_with_what_can_be_given(prefix):
    error = refused(prefix)
    assert error.hint == f"keys: greet, greet_again, {FIRST[:13]}, {SECOND[:13]}, _tools.get"
    for named in error.hint.removeprefix("keys: ").split(", "):
        assert find_key(named, KEYS, source="run.json")


def test_of_many_keys_the_first_are_reported():
    assert refused("x", [str(number) for number in range(99)]).hint.endswith("10, 11, …")
    assert refused("x", []).hint == "keys: none"
