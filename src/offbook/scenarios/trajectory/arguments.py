"""How the arguments of a call differ from those expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from offbook.scenarios.trajectory.matcher import Matcher
from offbook.scenarios.trajectory.shown import cut, shown, shown_pair

_GOT_CHARS = 24
_NOTE_CHARS = 60


class Difference(Struct, frozen=True):
    """What differs at one place. `path` is like `guests[0].name`; `raised` is what a matcher raised, if it did."""

    path: str
    told: str
    raised: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.told}"


def differences(expected: object, actual: object, *, is_partial: bool = False, path: str = "") -> Iterator[Difference]:
    """What differs between two values, place by place; nothing if they are equal.

    Mappings are compared name by name; if `is_partial`, `actual` may have names that `expected` has
    not. Lists, and what is in them, are always compared exactly. 1 equals 1.0, but not True.
    """
    if isinstance(expected, Matcher):
        yield from _from_matcher(expected, actual, path)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _in_mappings(expected, actual, is_partial, path)
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple) and len(expected) == len(actual):
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, path=f"{path}[{index}]")
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        left, right = shown_pair(expected, actual)
        yield Difference(path, f"expected {left}, got {right}")


def _in_mappings(
    expected: Mapping[str, object], actual: Mapping[str, object], is_partial: bool, path: str
) -> Iterator[Difference]:
    for name, value in expected.items():
        if name in actual:
            yield from differences(value, actual[name], is_partial=is_partial, path=_inside(path, name))
        else:
            yield Difference(_inside(path, name), f"expected {shown(value)}, got nothing")
    for name in () if is_partial else actual:
        if name not in expected:
            yield Difference(_inside(path, name), f"expected nothing, got {shown(actual[name])}")


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _from_matcher(matcher: Matcher, actual: object, path: str) -> Iterator[Difference]:
    raised = ""
    try:
        reason = matcher.unfit_reason(actual)
    except Exception as error:  # a predicate of the user's may raise anything, and that is told
        reason = raised = f"raised {type(error).__name__}: {error}"
    if reason:
        told = f"expected {shown(matcher)}, got {shown(actual, _GOT_CHARS)} ({cut(reason, _NOTE_CHARS)})"
        yield Difference(path, told, raised)
