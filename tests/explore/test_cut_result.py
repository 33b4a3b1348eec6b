"""Results that are what is left of others."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.cut_result import is_cut, is_nothing


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("", "done"),
        (None, "done"),
        ([], ["done"]),
        ("The order is", "The order is lost."),
        ("The order is\nBye", "The order is lost.\nBye"),
        ({"exit": 0, "stdout": "The\n"}, {"exit": 0, "stdout": "The order\n"}),
        (["a", "be"], ["a", "bee"]),
    ],
)
def test_what_lacks_an_end_is_cut(result, whole):
    assert is_cut(result, whole)


@pytest.mark.parametrize(
    ("result", "whole"),
    [
        ("done", "done"),
        ("", ""),
        ("anything", None),
        ("Sorry.", "done"),
        ("The order\nwas found", "The order is lost.\nBye"),
        ("The order is lost.\nBye\nBye", "The order is lost.\nBye"),
        ({"exit": 1, "stdout": "The"}, {"exit": 0, "stdout": "The order"}),
        ({"stdout": "The"}, {"exit": 0, "stdout": "The order"}),
        (["a"], ["a", "b"]),
        (1, 12),
    ],
)
def test_what_says_something_else_is_not_cut(result, whole):
    assert not is_cut(result, whole)


@given(st.text(), st.text())
def test_every_beginning_is_cut_from_its_whole(beginning, rest):
    whole = beginning + rest
    assert is_cut(beginning, whole) == (beginning.strip() != whole.strip() and not is_nothing(whole))
