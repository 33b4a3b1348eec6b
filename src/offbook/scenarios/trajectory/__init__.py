"""Trajectories: the tool calls that an agent made, held against those expected."""

from offbook.scenarios.trajectory.assertion import assert_trajectory
from offbook.scenarios.trajectory.expectation import Expectation, expected
from offbook.scenarios.trajectory.match import MissingCall, PlacedCall, TrajectoryMatch, match_trajectory
from offbook.scenarios.trajectory.matcher import Matcher
from offbook.scenarios.trajectory.matchers import any_of, anything, is_type, matches, near, satisfies
from offbook.scenarios.trajectory.trajectory import Trajectory

__all__ = [
    "Expectation",
    "Matcher",
    "MissingCall",
    "PlacedCall",
    "Trajectory",
    "TrajectoryMatch",
    "any_of",
    "anything",
    "assert_trajectory",
    "expected",
    "is_type",
    "match_trajectory",
    "matches",
    "near",
    "satisfies",
]
