"""Matchers for expected arguments: `anything`, `any_of`, `is_type`, `matches`, `near` and `satisfies`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, TypeGuard

from offbook.errors import InputError
from offbook.scenarios.trajectory.arguments import Matcher, differences

_ROUNDING = 1e-9


class Anything(Matcher, frozen=True):
    """Fits every value."""

    def unfit_reason(self, value: object) -> str:
        return ""

    def __repr__(self) -> str:
        return "anything()"


class AnyOf(Matcher, frozen=True):
    """Fits what one of its options fits."""

    options: tuple[object, ...]

    def unfit_reason(self, value: object) -> str:
        found = [list(differences(option, value)) for option in self.options]
        if [] in found:
            return ""
        return next((difference.raised for each in found for difference in each if difference.raised), "none of them")

    def __repr__(self) -> str:
        return f"any_of({', '.join(map(repr, self.options))})"


class IsType(Matcher, frozen=True):
    """Fits values of a type."""

    kind: type

    def unfit_reason(self, value: object) -> str:
        kinds: tuple[type, ...] = (int, float) if self.kind is float else (self.kind,)
        fits = isinstance(value, kinds) and (self.kind is bool or not isinstance(value, bool))
        return "" if fits else f"its type is {type(value).__name__}"

    def __repr__(self) -> str:
        return f"is_type({self.kind.__name__})"


class Matches(Matcher, frozen=True):
    """Fits texts in which a pattern is found."""

    pattern: re.Pattern[str]

    def unfit_reason(self, value: object) -> str:
        if not isinstance(value, str):
            return "not a text"
        return "" if self.pattern.search(value) else "not found in it"

    def __repr__(self) -> str:
        return f"matches({self.pattern.pattern!r})"


class Near(Matcher, frozen=True):
    """Fits numbers close to another."""

    number: float
    within: float

    def unfit_reason(self, value: object) -> str:
        if not _is_number(value):
            return "not a number"
        off = abs(value - self.number)
        return "" if off <= self.within or math.isclose(off, self.within, rel_tol=_ROUNDING) else f"off by {off:g}"

    def __repr__(self) -> str:
        return f"near({self.number!r}, within={self.within!r})"


class Satisfies(Matcher, frozen=True):
    """Fits values of which a predicate is true."""

    predicate: Callable[[Any], object]
    description: str

    def unfit_reason(self, value: object) -> str:
        answer = self.predicate(value)
        if inspect.iscoroutine(answer):
            answer.close()
            raise TypeError("the predicate is async, and has no answer yet")
        return "" if answer else "it is not so"

    def __repr__(self) -> str:
        return f"satisfies({self.description})"


def anything() -> Anything:
    """Any value, but one must be there."""
    return Anything()


def any_of(*options: object) -> AnyOf:
    """What equals one of the options, or fits it if it is a matcher.

    Raises:
        InputError: there are no options.
    """
    if not options:
        raise InputError("there is nothing to choose from", source="any_of", hint='any_of("09:00", "10:00")')
    return AnyOf(options)


def is_type(kind: type) -> IsType:
    """A value of that type. `float` takes whole numbers too; `int` takes no bool.

    Raises:
        InputError: `kind` is no type.
    """
    if not isinstance(kind, type):
        raise InputError(f"expected a type, got {kind!r}", source="is_type", hint="is_type(int)")
    return IsType(kind)


def matches(pattern: str | re.Pattern[str]) -> Matches:
    """A text in which the pattern is found, anywhere: write `^…$` for the whole of it.

    Raises:
        InputError: `pattern` is no regular expression.
    """
    try:
        return Matches(re.compile(pattern))
    except (re.error, TypeError) as error:
        hint = r'matches(r"^\d\d:\d\d$")'
        raise InputError(f"{pattern!r} is no regular expression: {error}", source="matches", hint=hint) from None


def near(number: float, *, within: float) -> Near:
    """A number that is at most `within` away.

    Raises:
        InputError: one of them is no finite number, or `within` is negative.
    """
    for name, given in (("number", number), ("within", within)):
        if not _is_number(given) or not math.isfinite(given):
            raise InputError(f"expected a finite number, got {given!r}", source="near", place=name)
    if within < 0:
        raise InputError(f"expected at least 0, got {within!r}", source="near", place="within")
    return Near(number, within)


def satisfies(predicate: Callable[[Any], object], description: str = "") -> Satisfies:
    """A value of which `predicate` is true. If it raises, the value does not fit, and the error is told.

    `description` is what messages say of it; the name of the predicate if left out.

    Raises:
        InputError: `predicate` cannot be called, or only awaited.
    """
    if not callable(predicate) or inspect.iscoroutinefunction(predicate):
        hint = 'satisfies(lambda value: value > 3, "more than 3")'
        raise InputError(f"expected a plain function, got {predicate!r}", source="satisfies", hint=hint)
    return Satisfies(predicate, description or getattr(predicate, "__name__", type(predicate).__name__))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
