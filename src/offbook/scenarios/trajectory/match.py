"""Reads tool calls in any common shape and matches or asserts them against a trajectory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import call_text, truncate
from offbook.scenarios.trajectory.difference import (
    TrajectoryComparison,
    compare_calls,
    difference_rows,
    difference_text,
    main_problem,
)
from offbook.scenarios.trajectory.pairing import Pairing
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory

_CALL_HINT = 'a call is a ToolCall, or like {"name": "search", "args": {"text": "tea"}}'
_NAME_KEYS = ("name", "tool")
_ARGUMENT_KEYS = ("args", "arguments", "input")


def read_calls(given: Iterable[object]) -> tuple[ToolCall, ...]:
    """Read tool calls in any common shape, in order.

    Each is a ToolCall, or a mapping or an object with the name as `name` or `tool` and the arguments as `args`,
    `arguments` or `input`, optionally inside `function`; arguments are a mapping or JSON text. A message stands for
    its tool calls.

    Raises:
        InputError: an item is not a tool call; the error names its position.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a list of tool calls, got {given!r:.80}", source="calls", hint=_CALL_HINT)
    return tuple(call for index, each in enumerate(given) for call in _calls_in(each, f"[{index}]"))


def _calls_in(given: object, place: str) -> Iterator[ToolCall]:
    if isinstance(given, ToolCall):
        yield given
    elif _has(given, "tool_calls") or _has(given, "role"):
        for index, call in enumerate(_get(given, "tool_calls") or ()):
            yield from _calls_in(call, f"{place}.tool_calls[{index}]")
    else:
        yield _call(_get(given, "function") or given, place)


def _call(given: object, place: str) -> ToolCall:
    name = next((_get(given, key) for key in _NAME_KEYS if _has(given, key)), None)
    key = next((key for key in _ARGUMENT_KEYS if _has(given, key)), "")
    if not isinstance(name, str) or not name or not (key or isinstance(given, Mapping)):
        raise InputError(f"expected a tool call, got {given!r:.80}", source="calls", place=place, hint=_CALL_HINT)
    arguments = _get(given, key)
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    if arguments is not None and not isinstance(arguments, Mapping):
        reason = f"expected a dict or JSON text, got {arguments!r:.80}"
        raise InputError(reason, source="calls", place=f"{place}.{key}", hint=_CALL_HINT)
    return ToolCall(name, dict(arguments or {}))


def _has(given: object, key: str) -> bool:
    return key in given if isinstance(given, Mapping) else hasattr(given, key)


def _get(given: object, key: str) -> Any:
    return given.get(key) if isinstance(given, Mapping) else getattr(given, key, None)


MAX_REASON_CHARS = 160


class PlacedCall(Struct, frozen=True):
    """An actual call. `index` is its position among all calls, from 0."""

    index: int
    call: ToolCall

    def __str__(self) -> str:
        return f"call {self.index + 1}, {call_text(self.call)}"


class MissingCall(Struct, frozen=True):
    """A missing call. `index` is its position in the trajectory, from 0; `count` is how many are missing."""

    index: int
    expectation: Expectation
    count: int = 1

    def __str__(self) -> str:
        return f"position {self.index + 1}, {self.expectation}"


class TrajectoryMatch(Struct, frozen=True):
    """The result of comparing calls with a trajectory. It is true if they `matched`.

    A call whose arguments differ is `extra`, unless other calls are allowed, and the expected call is `missing`. A
    forbidden call is not `extra` as well. `reason` is the main problem in one line, and `difference` shows the actual
    calls next to the expected ones; both are empty if there is no problem.
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
    """Compare the tool calls of an agent with the expected ones.

    Args:
        calls: the calls in order, each a ToolCall, or in another shape that has the name of the tool and the
            arguments: `{"name": …, "args": …}`, OpenAI's, a transcript's; or a message with tool calls.
        trajectory: the expected calls.

    Raises:
        InputError: an item of `calls` is not a tool call.
    """
    comparison = compare_calls(read_calls(calls), trajectory)
    rows = difference_rows(comparison)
    if not any(row.label for row in rows):
        return TrajectoryMatch(matched=True)
    return TrajectoryMatch(
        matched=False,
        missing=_missing(comparison),
        extra=_placed(_extra(comparison.pairing), comparison),
        misplaced=_placed(_misplaced(comparison), comparison),
        forbidden=_placed(comparison.forbidden, comparison),
        reason=truncate(main_problem(rows).reason, MAX_REASON_CHARS),
        difference=difference_text(rows, comparison),
    )


def _missing(comparison: TrajectoryComparison) -> tuple[MissingCall, ...]:
    expected = comparison.trajectory.expected
    counts = enumerate(comparison.pairing.missing)
    return tuple(MissingCall(index, expected[index], count) for index, count in counts if count)


def _extra(pairing: Pairing) -> set[int]:
    paired = zip(pairing.fitting, pairing.misplaced, pairing.must, strict=True)
    return {index for index, (fit, place, must) in enumerate(paired) if must and fit is None and place is None}


def _misplaced(comparison: TrajectoryComparison) -> set[int]:
    elsewhere = {index for index, owner in enumerate(comparison.pairing.misplaced) if owner is not None}
    return elsewhere | comparison.early.keys()


def _placed(indexes: Iterable[int], comparison: TrajectoryComparison) -> tuple[PlacedCall, ...]:
    return tuple(PlacedCall(index, comparison.calls[index]) for index in sorted(indexes))


def assert_trajectory(calls: Iterable[object], trajectory: Trajectory) -> None:
    """Assert that the tool calls match; see `match_trajectory` for the arguments.

    Raises:
        AssertionError: they do not; the message has the main problem, and the actual calls next to the expected ones.
        InputError: an item of `calls` is not a tool call.
    """
    __tracebackhide__ = True
    match = match_trajectory(calls, trajectory)
    if not match:
        raise AssertionError(str(match))
