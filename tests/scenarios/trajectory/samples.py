"""Strategies for calls and trajectories, and a brute-force matcher to compare with."""

from itertools import product

from hypothesis import strategies as st

from offbook import ToolCall
from offbook.scenarios import Trajectory, expected

MODES = ["strict", "unordered", "in_order", "contains", "within"]
EXACT = ["strict", "unordered", "within"]
ORDERED = ["strict", "in_order"]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=3,
)
tools = st.sampled_from(["look", "book", "pay"])
rich_calls = st.lists(
    st.builds(ToolCall, tools, st.dictionaries(st.text(max_size=3), json_values, max_size=2)), max_size=4
)
few_calls = st.lists(
    st.builds(ToolCall, st.sampled_from("ab"), st.dictionaries(st.sampled_from("xy"), st.integers(1, 2), max_size=2)),
    max_size=4,
)


@st.composite
def few_expectations(draw):
    """Expectations that overlap, some with counts."""
    args = draw(st.none() | st.dictionaries(st.sampled_from("xy"), st.integers(1, 2), max_size=2))
    counts = draw(
        st.sampled_from([{}, {}, {"exactly": 2}, {"at_most": 1}, {"at_least": 1}, {"at_least": 1, "at_most": 2}])
    )
    return expected(draw(st.sampled_from("ab")), args=args, **counts)


trajectories = st.builds(Trajectory, st.sampled_from(MODES), st.lists(few_expectations(), max_size=3))


def exactly(call):
    return expected(call.tool, args=call.args, match="exact")


def can_match(calls, trajectory):
    """Whether the mode allows some assignment of each call to an expectation or to none."""
    choices = [[None, *(i for i, each in enumerate(trajectory.expected) if each.fits(call))] for call in calls]
    return any(_is_allowed(owners, choices, trajectory) for owners in product(*choices))


def _is_allowed(owners, choices, trajectory):
    owned = [owner for owner in owners if owner is not None]
    if trajectory.mode in ORDERED and owned != sorted(owned):
        return False
    for owner, fitting in zip(owners, choices, strict=True):
        is_limited = any(trajectory.expected[index].at_most is not None for index in fitting[1:])
        if owner is None and (trajectory.mode in EXACT or is_limited):
            return False
    return all(
        _is_counted_right(owned.count(index), each, trajectory.mode) for index, each in enumerate(trajectory.expected)
    )


def _is_counted_right(count, expectation, mode):
    if expectation.at_least is None and expectation.at_most is None:
        return mode == "within" or count == 1
    return (expectation.at_least or 0) <= count and (expectation.at_most is None or count <= expectation.at_most)
