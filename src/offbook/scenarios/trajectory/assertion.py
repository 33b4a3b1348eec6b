"""The assertion for tests that the calls of an agent are those expected."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.scenarios.trajectory.match import match_trajectory
from offbook.scenarios.trajectory.trajectory import Trajectory


def assert_trajectory(calls: Iterable[object], trajectory: Trajectory) -> None:
    """Assert that the tool calls are those expected; `match_trajectory` says which shapes they may have.

    Raises:
        AssertionError: they are not; its message says what is wrong, and shows all calls beside those expected.
        InputError: something in `calls` is no tool call.
    """
    __tracebackhide__ = True
    match = match_trajectory(calls, trajectory)
    if not match:
        raise AssertionError(str(match))
