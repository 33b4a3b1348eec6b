"""What the tool calls of an agent should be."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, TypeAlias, get_args

from offbook.errors import InputError
from offbook.scenarios.trajectory.expectation import Expectation, expected
from offbook.wording import suggestion

Mode = Literal["strict", "unordered", "in_order", "contains", "within"]
Named: TypeAlias = Expectation | str
Order: TypeAlias = tuple[Expectation, Expectation]


class Trajectory:
    """Which tool calls are expected, in which order, and which are forbidden. It never changes.

    Args:
        mode: `strict`: exactly these calls, in this order. `unordered`: exactly these, in any order.
            `in_order`: all of these, in this order, with any others around them. `contains`: all of
            these, in any order, with any others. `within`: no others than these, each as often as may
            be, or not at all.
        expected: the calls, each as `expected(…)` or just the name of a tool. Each stands for one call
            (`within`: for any number), unless it says how many.
        forbidden: calls of which there must be none.
        before: pairs (first, then): `then` must not be called before `first` has been, at least once.
            There need not be either.

    Raises:
        InputError: something is of the wrong type, or contradicts something else.
    """

    def __init__(
        self,
        mode: Mode,
        expected: Iterable[Named] = (),
        *,
        forbidden: Iterable[Named] = (),
        before: Iterable[tuple[Named, Named]] = (),
    ) -> None:
        if mode not in get_args(Mode):
            hint = suggestion(str(mode), get_args(Mode), kind="modes")
            raise InputError(f"unknown mode {mode!r}", source="Trajectory", place="mode", hint=hint)
        self.mode: Mode = mode
        self.expected = tuple(_expectations(expected, "expected"))
        banned = enumerate(_expectations(forbidden, "forbidden"))
        self.forbidden = tuple(_uncounted(each, f"forbidden[{index}]") for index, each in banned)
        self.before = tuple(_order(pair, f"before[{index}]") for index, pair in enumerate(_items(before, "before")))

    @property
    def is_ordered(self) -> bool:
        """Whether the order of the calls matters."""
        return self.mode in ("strict", "in_order")

    @property
    def allows_others(self) -> bool:
        """Whether there may be calls that are not expected."""
        return self.mode in ("in_order", "contains")

    def __repr__(self) -> str:
        calls = ", ".join(map(str, self.expected))
        return f"Trajectory({self.mode!r}, [{calls}])"


def _items(given: Iterable[object], place: str) -> list[object]:
    if isinstance(given, str | Expectation) or not isinstance(given, Iterable):
        raise InputError(f"expected a list, got {given!r}", source="Trajectory", place=place)
    return list(given)


def _expectations(given: Iterable[object], place: str) -> list[Expectation]:
    return [_expectation(each, f"{place}[{index}]") for index, each in enumerate(_items(given, place))]


def _expectation(given: object, place: str) -> Expectation:
    if isinstance(given, Expectation):
        return given
    if not isinstance(given, str) or not given:
        hint = 'expected("search", args={"text": "tea"}), or just "search"'
        raise InputError(f"expected a tool call, got {given!r}", source="Trajectory", place=place, hint=hint)
    return expected(given)


def _uncounted(expectation: Expectation, place: str) -> Expectation:
    if expectation.is_counted:
        raise InputError(f"a count means nothing here: {expectation}", source="Trajectory", place=place)
    return expectation


def _order(pair: object, place: str) -> Order:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        hint = 'before=[("find_order", "refund")]'
        raise InputError(f"expected a pair of tool calls, got {pair!r}", source="Trajectory", place=place, hint=hint)
    first, then = (_uncounted(_expectation(each, place), place) for each in pair)
    if first == then:
        raise InputError(f"{first} cannot come before itself", source="Trajectory", place=place)
    return first, then
