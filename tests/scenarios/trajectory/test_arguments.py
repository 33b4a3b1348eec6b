"""Comparing arguments, and the text of their differences."""

import pytest

from offbook import ToolCall
from offbook.scenarios import Trajectory, anything, expected, match_trajectory, near


def lines_of(expected_args, actual, match="exact"):
    """The lines of the differences of arguments; none if they match."""
    trajectory = Trajectory("strict", [expected("search", args=expected_args, match=match)])
    difference = match_trajectory([ToolCall("search", actual)], trajectory).difference
    return [line.strip() for line in difference.splitlines()[2:]]


@pytest.mark.parametrize(
    ("left", "right"),
    [(1, 1.0), (0, -0.0), (True, True), (None, None), ("a", "a"), ([1, [2]], [1, [2.0]]), ((1, 2), [1, 2]), ({}, {})],
)
def test_equal_values_are_equal(left, right):
    assert lines_of({"a": left}, {"a": right}) == []


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (True, 1),
        (1, True),
        (False, 0),
        ("1", 1),
        (None, 0),
        (None, ""),
        ([], {}),
        ({}, []),
        ([1], 1),
        ("ab", ["a", "b"]),
    ],
)
def test_values_of_different_kinds_are_not_equal(left, right):
    assert lines_of({"a": left}, {"a": right}) == [f"a: expected {left!r}, got {right!r}"]


def test_partial_arguments_may_have_further_names_at_any_depth():
    actual = {"guest": {"name": "Ada", "age": 36}, "time": "09:00"}
    assert lines_of({"guest": {"name": "Ada"}}, actual, "partial") == []
    assert lines_of({"guest": {"name": "Ada"}}, actual, "exact") == [
        "guest.age: expected nothing, got 36",
        "time: expected nothing, got '09:00'",
    ]


def test_partial_arguments_must_have_every_name_that_is_given():
    assert lines_of({"guest": {"name": "Ada"}, "n": 1}, {"guest": {}, "n": 2}, "partial") == [
        "guest.name: expected 'Ada', got nothing",
        "n: expected 1, got 2",
    ]


def test_lists_are_compared_exactly_even_in_partial_arguments():
    rooms = {"rooms": [{"no": 1, "beds": 2}]}
    assert lines_of({"rooms": [{"no": 1}]}, rooms, "partial") == ["rooms[0].beds: expected nothing, got 2"]
    assert lines_of({"rooms": [1, 2]}, {"rooms": [1, 2, 3]}, "partial") == ["rooms: expected [1, 2], got [1, 2, 3]"]
    assert lines_of({"rooms": [1, 2]}, {"rooms": [2, 1]}, "partial") == [
        "rooms[0]: expected 1, got 2",
        "rooms[1]: expected 2, got 1",
    ]


def test_matchers_may_stand_at_any_depth():
    wanted = {"stay": {"rooms": [{"price": near(80, within=5), "no": anything()}]}}
    assert lines_of(wanted, {"stay": {"rooms": [{"price": 84.9, "no": 12}]}}) == []
    assert lines_of(wanted, {"stay": {"rooms": [{"price": 90}]}}) == [
        "stay.rooms[0].price: expected near(80, within=5), got 90 (off by 10)",
        "stay.rooms[0].no: expected anything(), got nothing",
    ]


def test_long_values_are_cut_to_where_they_differ():
    same = "a" * 200
    assert lines_of({"text": f"{same}left{same}"}, {"text": f"{same}right{same}"}) == [
        "text: expected …aaaaaaaaleftaaaaaaaaaaaaaaaaaaaaaa…, got …aaaaaaaarightaaaaaaaaaaaaaaaaaaaaa…"
    ]
    assert lines_of({"text": "a" * 60}, {"text": "b"}) == [f"text: expected '{'a' * 34}…, got 'b'"]


def test_many_differences_are_cut_to_the_first_five():
    lines = lines_of({str(name): 1 for name in range(8)}, {str(name): 2 for name in range(8)})
    assert lines == [*(f"{name}: expected 1, got 2" for name in range(5)), "… 3 more"]


def test_names_that_cannot_be_printed_are_reported_without_harm():
    assert lines_of({"a\x1b[2J\n": 1}, {}) == ["a·[2J·: expected 1, got nothing"]
