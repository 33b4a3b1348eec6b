"""Trajectories: compares the tool calls an agent made with those expected."""

from offbook.scenarios.trajectory.arguments import Matcher, any_of, anything, is_type, matches, near, satisfies
from offbook.scenarios.trajectory.match import (
    MissingCall,
    PlacedCall,
    TrajectoryMatch,
    assert_trajectory,
    match_trajectory,
)
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory, expected

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
