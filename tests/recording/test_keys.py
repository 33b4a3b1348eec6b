"""Keys: which names an exchange may have, and how they are shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.recording.keys import MAX_KEY_CHARS, shown, unfit_reason


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
        ("..", "climbs"),
        ("../a", "climbs"),
        ("a/../b", "climbs"),
        ("a\\..\\b", "climbs"),
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
    line = shown(key)
    assert line.isprintable() or not unfit_reason(key)
    assert len(line.splitlines()) == 1
    line.encode()


def test_a_long_key_is_cut_and_shows_it():
    assert shown("x" * 100) == "'" + "x" * 59 + "…'"
    assert shown("x" * 60) == "'" + "x" * 60 + "'"
