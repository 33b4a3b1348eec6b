"""Comparing arguments, the text of their differences, and matchers."""

import re
from collections import OrderedDict
from functools import partial

import pytest

from offbook import InputError, ToolCall
from offbook.scenarios import (
    Trajectory,
    any_of,
    anything,
    expected,
    is_type,
    match_trajectory,
    matches,
    near,
    satisfies,
)


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


def difference_of(matcher, value):
    """The difference of a call with that value; empty if it matches."""
    trajectory = Trajectory("strict", [expected("search", args={"a": matcher})])
    return match_trajectory([ToolCall("search", {"a": value})], trajectory).reason.rpartition("search: a: ")[2]


def is_even(value):
    return value % 2 == 0


async def is_late(value):
    return True


def answer_of(predicate, value):
    return predicate(value)


@pytest.mark.parametrize(
    ("matcher", "value"),
    [
        (anything(), None),
        (any_of("09:00", "10:00"), "10:00"),
        (any_of(1, near(5, within=1)), 6),
        (any_of({"a": [anything()]}), {"a": [3]}),
        (any_of(satisfies(is_even), "x"), "x"),
        (is_type(int), 3),
        (is_type(float), 3.5),
        (is_type(float), 3),
        (is_type(bool), True),
        (is_type(dict), OrderedDict()),
        (is_type(type(None)), None),
        (matches("b+"), "abbc"),
        (matches(re.compile("^AB$", re.IGNORECASE)), "ab"),
        (near(9.5, within=0.1), 9.6),
        (near(0.7, within=0.1), 0.8),
        (near(3, within=0), 3.0),
        (satisfies(is_even), 4),
        (satisfies(lambda value: value), "some"),
    ],
)
def test_a_value_that_fits_is_taken(matcher, value):
    assert difference_of(matcher, value) == ""


@pytest.mark.parametrize(
    ("matcher", "value", "message"),
    [
        (any_of("09:00", "10:00"), "11:00", "expected any_of('09:00', '10:00'), got '11:00' (none of them)"),
        (any_of(1), True, "expected any_of(1), got True (none of them)"),
        (is_type(int), True, "expected is_type(int), got True (its type is bool)"),
        (is_type(float), False, "expected is_type(float), got False (its type is bool)"),
        (is_type(int), 3.0, "expected is_type(int), got 3.0 (its type is float)"),
        (is_type(bool), 1, "expected is_type(bool), got 1 (its type is int)"),
        (matches("^b+$"), "abbc", "expected matches('^b+$'), got 'abbc' (no match in it)"),
        (matches("1"), 1, "expected matches('1'), got 1 (not a str)"),
        (near(9.5, within=0.1), 12, "expected near(9.5, within=0.1), got 12 (off by 2.5)"),
        (near(1, within=1), True, "expected near(1, within=1), got True (not a number)"),
        (near(1, within=1), "1", "expected near(1, within=1), got '1' (not a number)"),
        (satisfies(is_even, "even"), 3, "expected satisfies(even), got 3 (it is false)"),
        (satisfies(is_even), 3, "expected satisfies(is_even), got 3 (it is false)"),
        (satisfies(partial(int.__lt__, 3)), 2, "expected satisfies(partial), got 2 (it is false)"),
    ],
)
def test_a_value_that_does_not_fit_is_reported_with_the_reason(matcher, value, message):
    assert difference_of(matcher, value) == message


def test_a_predicate_that_raises_does_not_fit_and_its_error_is_reported():
    assert difference_of(satisfies(lambda value: value["no"], "has no"), {}) == (
        "expected satisfies(has no), got {} (raised KeyError: 'no')"
    )
    assert difference_of(any_of(1, satisfies(lambda value: 1 / 0, "odd")), 2) == (
        "expected any_of(1, satisfies(odd)), got 2 (raised ZeroDivisionError: division by zero)"
    )


def test_a_predicate_without_an_answer_yet_does_not_fit():
    assert difference_of(satisfies(partial(answer_of, is_late), "late"), 2) == (
        "expected satisfies(late), got 2 (raised TypeError: the predicate is async)"
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (any_of, "any_of: expected at least one option"),
        (lambda: is_type("int"), "is_type: expected a type, got 'int'"),
        (lambda: matches("("), "matches: invalid pattern '(': missing )"),
        (lambda: matches(7), "matches: expected a regular expression, got 7"),
        (lambda: near("1", within=1), "near: number: expected a finite number, got '1'"),
        (lambda: near(1, within=float("nan")), "near: within: expected a finite number, got nan"),
        (lambda: near(True, within=1), "near: number: expected a finite number, got True"),
        (lambda: near(1, within=-1), "near: within: expected at least 0, got -1"),
        (lambda: satisfies(7), "satisfies: expected a sync function, got 7"),
        (lambda: satisfies(is_late), "satisfies: expected a sync function, got <function is_late"),
    ],
)
def test_a_demand_that_makes_no_sense_is_refused(make, message):
    with pytest.raises(InputError, match=re.escape(message)):
        make()
