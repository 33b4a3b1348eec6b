"""Whether the tool calls of an agent are those expected, and if not, what is wrong."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from offbook.messages import ToolCall
from offbook.scenarios.trajectory.calls import read_calls
from offbook.scenarios.trajectory.difference import difference_text, most_telling
from offbook.scenarios.trajectory.expectation import Expectation
from offbook.scenarios.trajectory.judgement import Judgement, judge
from offbook.scenarios.trajectory.pairing import Pairing
from offbook.scenarios.trajectory.row import rows_of
from offbook.scenarios.trajectory.shown import cut, shown_call
from offbook.scenarios.trajectory.trajectory import Trajectory

MAX_REASON_CHARS = 160


class PlacedCall(Struct, frozen=True):
    """A call that was made. `index` is its place among all calls, from 0."""

    index: int
    call: ToolCall

    def __str__(self) -> str:
        return f"call {self.index + 1}, {shown_call(self.call)}"


class MissingCall(Struct, frozen=True):
    """A call that was expected. `index` is its place in the trajectory, from 0, `count` how many more are needed."""

    index: int
    expectation: Expectation
    count: int = 1

    def __str__(self) -> str:
        return f"number {self.index + 1}, {self.expectation}"


class TrajectoryMatch(Struct, frozen=True):
    """How calls compare with a trajectory. It is true if they `matched`.

    A call whose arguments differ is `extra`, where others are not allowed, and what was expected in its
    place is `missing`. A call that is forbidden is not `extra` as well. `reason` is what is wrong, on one
    line, and `difference` all calls beside those expected; both are empty if nothing is wrong.
    """

    matched: bool
    missing: tuple[MissingCall, ...] = ()
    extra: tuple[PlacedCall, ...] = ()
    misplaced: tuple[PlacedCall, ...] = ()
    forbidden: tuple[PlacedCall, ...] = ()
    reason: str = ""
    difference: str = ""

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        return "matched" if self.matched else f"{self.reason}\n{self.difference}"


def match_trajectory(calls: Iterable[object], trajectory: Trajectory) -> TrajectoryMatch:
    """Compare the tool calls that an agent made, in order, with those expected.

    Args:
        calls: each a ToolCall, or in another shape that says the name of the tool and the arguments:
            `{"name": …, "args": …}`, OpenAI's, a transcript's; or a message with tool calls.
        trajectory: what is expected.

    Raises:
        InputError: something in `calls` is no tool call.
    """
    judgement = judge(read_calls(calls), trajectory)
    rows = rows_of(judgement)
    if not any(row.label for row in rows):
        return TrajectoryMatch(matched=True)
    return TrajectoryMatch(
        matched=False,
        missing=_missing(judgement),
        extra=_placed(_extra(judgement.pairing), judgement),
        misplaced=_placed(_misplaced(judgement), judgement),
        forbidden=_placed(judgement.forbidden, judgement),
        reason=cut(most_telling(rows).reason, MAX_REASON_CHARS),
        difference=difference_text(rows, judgement),
    )


def _missing(judgement: Judgement) -> tuple[MissingCall, ...]:
    expected = judgement.trajectory.expected
    lacking = enumerate(judgement.pairing.missing)
    return tuple(MissingCall(index, expected[index], count) for index, count in lacking if count)


def _extra(pairing: Pairing) -> set[int]:
    paired = zip(pairing.fitting, pairing.misplaced, pairing.must, strict=True)
    return {index for index, (fit, place, must) in enumerate(paired) if must and fit is None and place is None}


def _misplaced(judgement: Judgement) -> set[int]:
    elsewhere = {index for index, owner in enumerate(judgement.pairing.misplaced) if owner is not None}
    return elsewhere | judgement.early.keys()


def _placed(indexes: Iterable[int], judgement: Judgement) -> tuple[PlacedCall, ...]:
    return tuple(PlacedCall(index, judgement.calls[index]) for index in sorted(indexes))
