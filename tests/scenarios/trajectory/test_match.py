"""Whether calls match, in every mode, and what is found wrong if they do not."""

import pytest

from offbook import ToolCall
from offbook.scenarios import MissingCall, PlacedCall, Trajectory, expected, match_trajectory

MODES = ["strict", "unordered", "in_order", "contains", "within"]


def calls_of(text):
    return [ToolCall(tool) for tool in text]


def searches(*texts):
    return [ToolCall("search", {"text": text}) for text in texts]


def found(calls, trajectory):
    """The tools that are missing, extra, misplaced and forbidden."""
    match = match_trajectory(calls, trajectory)
    assert match.matched is bool(match)
    return (
        "".join(missing.expectation.tool * missing.count for missing in match.missing),
        *("".join(placed.call.tool for placed in group) for group in (match.extra, match.misplaced, match.forbidden)),
    )


@pytest.mark.parametrize(
    ("mode", "expectations", "calls", "missing", "extra", "misplaced"),
    [
        ("strict", "ab", "ab", "", "", ""),
        ("strict", "ab", "ba", "", "", "b"),
        ("strict", "ab", "abx", "", "x", ""),
        ("strict", "ab", "xab", "", "x", ""),
        ("strict", "ab", "a", "b", "", ""),
        ("strict", "ab", "xy", "ab", "xy", ""),
        ("strict", "abc", "acxb", "", "x", "c"),
        ("strict", "aa", "a", "a", "", ""),
        ("strict", "a", "aa", "", "a", ""),
        ("strict", "", "", "", "", ""),
        ("strict", "", "a", "", "a", ""),
        ("unordered", "ab", "ab", "", "", ""),
        ("unordered", "ab", "ba", "", "", ""),
        ("unordered", "ab", "bax", "", "x", ""),
        ("unordered", "ab", "b", "a", "", ""),
        ("unordered", "aab", "aba", "", "", ""),
        ("unordered", "aab", "ab", "a", "", ""),
        ("unordered", "ab", "aab", "", "a", ""),
        ("in_order", "ab", "xaxbx", "", "", ""),
        ("in_order", "ab", "ba", "", "", "b"),
        ("in_order", "ab", "xa", "b", "", ""),
        ("in_order", "ab", "bab", "", "", ""),
        ("in_order", "aa", "axa", "", "", ""),
        ("in_order", "aa", "xa", "a", "", ""),
        ("contains", "ab", "xbxax", "", "", ""),
        ("contains", "ab", "xa", "b", "", ""),
        ("contains", "aa", "xa", "a", "", ""),
        ("contains", "a", "aaa", "", "", ""),
        ("contains", "", "abc", "", "", ""),
        ("within", "abc", "ba", "", "", ""),
        ("within", "abc", "aaa", "", "", ""),
        ("within", "abc", "", "", "", ""),
        ("within", "ab", "axb", "", "x", ""),
        ("within", "", "a", "", "a", ""),
    ],
)
def test_each_mode_finds_what_is_wrong(mode, expectations, calls, missing, extra, misplaced):
    trajectory = Trajectory(mode, list(expectations))
    assert found(calls_of(calls), trajectory) == (missing, extra, misplaced, "")


def test_what_is_wrong_is_told_with_its_place():
    call = ToolCall("x", {"n": 1})
    match = match_trajectory([ToolCall("a"), call], Trajectory("strict", ["a", expected("b", exactly=3)]))
    assert match.missing == (MissingCall(1, expected("b", exactly=3), 3),)
    assert match.extra == (PlacedCall(1, call),)
    assert str(match.missing[0]) == "number 2, b(…) exactly 3"
    assert str(match.extra[0]) == "call 2, x(n=1)"


@pytest.mark.parametrize("mode", ["unordered", "contains"])
def test_a_full_assignment_is_found_where_the_first_choice_would_fail(mode):
    """The second expectation can only have the first call, and the third only the second."""
    expectations = [
        expected("search"),
        expected("search", args={"text": "tea"}),
        expected("search", args={"text": "cup"}),
    ]
    assert match_trajectory(searches("tea", "cup", "pot"), Trajectory(mode, expectations))


def test_a_long_chain_of_calls_is_moved_on_to_make_room():
    size = 300
    calls = [ToolCall("search", {"low": n, "high": n + 1}) for n in range(size)]
    chain = [expected("search", args={"high": n}) for n in range(1, size)]
    assert match_trajectory(calls, Trajectory("unordered", [*chain, expected("search", args={"low": size - 1})]))
    assert match_trajectory(calls, Trajectory("unordered", [expected("search"), *chain]))


def test_of_calls_that_could_be_missing_the_last_is():
    expectations = [expected("search", args={"text": "tea"}), expected("search")]
    match = match_trajectory(searches("tea"), Trajectory("unordered", expectations))
    assert [missing.index for missing in match.missing] == [1]


def test_a_call_with_other_arguments_is_missing_and_extra():
    trajectory = Trajectory("strict", [expected("search", args={"text": "tea"})])
    assert found(searches("cup"), trajectory) == ("search", "search", "", "")


def test_a_call_with_other_arguments_is_only_missing_where_others_are_allowed():
    for mode in ("in_order", "contains"):
        trajectory = Trajectory(mode, [expected("search", args={"text": "tea"})])
        assert found(searches("cup"), trajectory) == ("search", "", "", "")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("counts", "calls", "missing", "extra"),
    [
        ({"exactly": 2}, "a", "a", ""),
        ({"exactly": 2}, "aa", "", ""),
        ({"exactly": 2}, "aaa", "", "a"),
        ({"exactly": 2}, "", "aa", ""),
        ({"at_most": 2}, "", "", ""),
        ({"at_most": 2}, "aa", "", ""),
        ({"at_most": 2}, "aaaa", "", "aa"),
        ({"at_least": 2}, "a", "a", ""),
        ({"at_least": 2}, "aaaa", "", ""),
        ({"at_least": 1, "at_most": 2}, "", "a", ""),
        ({"at_least": 1, "at_most": 2}, "aaa", "", "a"),
        ({"exactly": 0}, "a", "", "a"),
        ({"at_least": 1_000_000}, "a", "a" * 999_999, ""),
    ],
)
def test_counts_hold_in_every_mode(mode, counts, calls, missing, extra):
    assert found(calls_of(calls), Trajectory(mode, [expected("a", **counts)])) == (missing, extra, "", "")


def test_counted_calls_keep_their_place_where_order_matters():
    trajectory = Trajectory("strict", [expected("search", at_most=3), "book", expected("mail", at_least=1)])
    tools = {"s": "search", "b": "book", "m": "mail"}

    def matched(text):
        return match_trajectory([ToolCall(tools[letter]) for letter in text], trajectory)

    assert matched("bm")
    assert matched("sssbmmmm")
    assert [placed.index for placed in matched("sbsm").misplaced] == [2]


def test_where_others_are_allowed_a_limit_holds_for_all_calls_that_no_other_expectation_takes():
    expectations = [expected("search", args={"text": "tea"}), expected("search", at_most=1)]
    trajectory = Trajectory("contains", expectations)
    assert match_trajectory(searches("cup", "tea"), trajectory)
    assert [placed.index for placed in match_trajectory(searches("cup", "tea", "pot"), trajectory).extra] == [2]


def test_room_under_a_limit_is_made_by_moving_a_call_that_fits_elsewhere():
    expectations = [expected("search", at_most=1), expected("search", args={"text": "tea"}, at_most=2)]
    assert match_trajectory(searches("tea", "tea", "cup"), Trajectory("unordered", expectations))
    assert match_trajectory(searches("tea", "cup"), Trajectory("contains", [expected("search"), *expectations[:1]]))


def test_a_call_that_is_allowed_anyway_makes_room_for_one_that_is_limited():
    expectations = [expected("search"), expected("search", args={"text": "tea"}, at_most=1)]
    trajectory = Trajectory("contains", expectations)
    assert match_trajectory(searches("cup", "tea", "tea"), trajectory)
    assert [placed.index for placed in match_trajectory(searches("cup", "tea", "tea", "tea"), trajectory).extra] == [3]


@pytest.mark.parametrize("mode", MODES)
def test_a_forbidden_call_is_found_in_every_mode_and_is_not_extra_as_well(mode):
    trajectory = Trajectory(mode, ["a"], forbidden=["x"])
    assert found(calls_of("a"), trajectory) == ("", "", "", "")
    assert found(calls_of("ax"), trajectory) == ("", "", "", "x")


def test_only_calls_with_the_forbidden_arguments_are_forbidden():
    trajectory = Trajectory("contains", forbidden=["drop", expected("search", args={"text": "gin"})])
    match = match_trajectory(searches("tea", "gin"), trajectory)
    assert [placed.index for placed in match.forbidden] == [1]


def test_a_forbidden_call_is_forbidden_even_if_it_is_expected():
    assert found(calls_of("a"), Trajectory("strict", ["a"], forbidden=["a"])) == ("", "", "", "a")


@pytest.mark.parametrize(
    ("calls", "misplaced"),
    [("fr", ""), ("frr", ""), ("fxrf", ""), ("rf", "r"), ("rfr", "r"), ("r", "r"), ("f", ""), ("", "")],
)
def test_the_first_of_what_comes_second_must_have_one_of_what_comes_first_before_it(calls, misplaced):
    trajectory = Trajectory("contains", before=[("f", "r")])
    assert found(calls_of(calls), trajectory) == ("", "", misplaced, "")


def test_order_may_be_asked_of_calls_with_certain_arguments():
    order = (expected("search", args={"text": "tea"}), expected("search", args={"text": "cup"}))
    trajectory = Trajectory("contains", before=[order])
    assert match_trajectory(searches("pot", "tea", "cup"), trajectory)
    assert not match_trajectory(searches("pot", "cup", "tea"), trajectory)


def test_a_call_that_is_extra_and_too_early_is_both():
    trajectory = Trajectory("strict", ["f"], before=[("f", "r")])
    assert found(calls_of("rf"), trajectory) == ("", "r", "r", "")
