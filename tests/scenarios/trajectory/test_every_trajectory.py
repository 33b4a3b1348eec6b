"""What holds for all calls and all trajectories."""

from hypothesis import given, settings
from hypothesis import strategies as st

from offbook import ToolCall
from offbook.scenarios import MissingCall, PlacedCall, Trajectory, match_trajectory
from tests.scenarios.trajectory.samples import can_match, exactly, few_calls, rich_calls, trajectories

STRANGER = ToolCall("stranger", {"n": 1})


@settings(max_examples=300)
@given(few_calls, trajectories)
def test_calls_match_if_and_only_if_some_assignment_is_allowed(calls, trajectory):
    assert match_trajectory(calls, trajectory).matched is can_match(calls, trajectory)


@given(few_calls, trajectories)
def test_a_match_says_nothing_and_a_mismatch_says_what_and_where(calls, trajectory):
    match = match_trajectory(calls, trajectory)
    found = [*match.missing, *match.extra, *match.misplaced]
    assert match.matched is not bool(found)
    assert match.matched is not bool(match.reason)
    assert match.matched is not bool(match.difference)
    assert match.matched or match.difference.count("\n> ") == 1
    assert all(len(line) <= 100 for line in match.difference.splitlines())
    for placed in [*match.extra, *match.misplaced]:
        assert calls[placed.index] is placed.call
    for missing in match.missing:
        assert trajectory.expected[missing.index] is missing.expectation


@given(few_calls, trajectories)
def test_the_same_calls_are_told_the_same_way(calls, trajectory):
    assert match_trajectory(calls, trajectory) == match_trajectory(calls, trajectory)


@given(rich_calls)
def test_calls_match_strictly_what_is_expected_from_themselves(calls):
    assert match_trajectory(calls, Trajectory("strict", map(exactly, calls)))


@given(rich_calls, st.data())
def test_permuted_calls_match_unordered(calls, data):
    permuted = data.draw(st.permutations(calls))
    assert match_trajectory(permuted, Trajectory("unordered", map(exactly, calls)))


@given(rich_calls.filter(bool), st.sampled_from(["strict", "unordered", "in_order", "contains"]), st.data())
def test_a_dropped_call_is_missing_and_nothing_else_is_wrong(calls, mode, data):
    dropped = data.draw(st.integers(0, len(calls) - 1))
    match = match_trajectory(calls[:dropped] + calls[dropped + 1 :], Trajectory(mode, map(exactly, calls)))
    assert [missing.expectation for missing in match.missing] == [exactly(calls[dropped])]
    assert match.extra == match.misplaced == match.forbidden == ()


@given(rich_calls, st.sampled_from(["strict", "unordered", "within"]), st.data())
def test_an_added_call_is_extra_and_nothing_else_is_wrong(calls, mode, data):
    place = data.draw(st.integers(0, len(calls)))
    match = match_trajectory([*calls[:place], STRANGER, *calls[place:]], Trajectory(mode, map(exactly, calls)))
    assert match.extra == (PlacedCall(place, STRANGER),)
    assert match.missing == match.misplaced == match.forbidden == ()


@given(rich_calls, st.sampled_from(["in_order", "contains"]), st.data())
def test_an_added_call_does_not_matter_where_others_are_allowed(calls, mode, data):
    place = data.draw(st.integers(0, len(calls)))
    assert match_trajectory([*calls[:place], STRANGER, *calls[place:]], Trajectory(mode, map(exactly, calls)))


@given(few_calls, trajectories)
def test_what_matches_a_narrow_mode_matches_the_wider_ones(calls, trajectory):
    matched = {
        mode: match_trajectory(calls, Trajectory(mode, trajectory.expected)).matched
        for mode in ("strict", "unordered", "in_order", "contains", "within")
    }
    for narrow, wide in [
        ("strict", "unordered"),
        ("strict", "in_order"),
        ("unordered", "contains"),
        ("in_order", "contains"),
        ("unordered", "within"),
    ]:
        assert matched[wide] or not matched[narrow], (narrow, wide)


@given(few_calls)
def test_a_missing_call_is_counted(calls):
    asked = Trajectory("contains", [exactly(ToolCall("c"))])
    assert match_trajectory(calls, asked).missing == (MissingCall(0, exactly(ToolCall("c"))),)
