"""Matchers for expected arguments: `anything`, `any_of`, `is_type`, `matches`, `near` and `satisfies`."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable
from typing import Any, TypeGuard

from offbook.errors import InputError
from offbook.scenarios.trajectory.arguments import Matcher, differences
from offbook.user_patterns import UserPattern, compile_pattern

_ROUNDING = 1e-9
_FLAGS = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "a": re.ASCII}


class Anything(Matcher, frozen=True):
    """Matches every value."""

    def mismatch_reason(self, value: object) -> str:
        return ""

    def __repr__(self) -> str:
        return "anything()"


class AnyOf(Matcher, frozen=True):
    """Matches a value that one of its options matches."""

    options: tuple[object, ...]

    def mismatch_reason(self, value: object) -> str:
        found = [list(differences(option, value)) for option in self.options]
        if [] in found:
            return ""
        return next((difference.raised for each in found for difference in each if difference.raised), "none of them")

    def __repr__(self) -> str:
        return f"any_of({', '.join(map(repr, self.options))})"


class IsType(Matcher, frozen=True):
    """Matches values of a type."""

    kind: type

    def mismatch_reason(self, value: object) -> str:
        kinds: tuple[type, ...] = (int, float) if self.kind is float else (self.kind,)
        fits = isinstance(value, kinds) and (self.kind is bool or not isinstance(value, bool))
        return "" if fits else f"its type is {type(value).__name__}"

    def __repr__(self) -> str:
        return f"is_type({self.kind.__name__})"


class Matches(Matcher, frozen=True):
    """Matches a str that contains a match of a pattern."""

    pattern: UserPattern
    description: str

    def mismatch_reason(self, value: object) -> str:
        if not isinstance(value, str):
            return "not a str"
        return "" if self.pattern.is_in(value) else "no match in it"

    def __repr__(self) -> str:
        return f"matches({self.description!r})"


class Near(Matcher, frozen=True):
    """Matches numbers close to another."""

    number: float
    within: float

    def mismatch_reason(self, value: object) -> str:
        if not _is_number(value):
            return "not a number"
        off = abs(value - self.number)
        return "" if off <= self.within or math.isclose(off, self.within, rel_tol=_ROUNDING) else f"off by {off:g}"

    def __repr__(self) -> str:
        return f"near({self.number!r}, within={self.within!r})"


class Satisfies(Matcher, frozen=True):
    """Matches values for which a predicate is true."""

    predicate: Callable[[Any], object]
    description: str

    def mismatch_reason(self, value: object) -> str:
        result = self.predicate(value)
        if inspect.iscoroutine(result):
            result.close()
            raise TypeError("the predicate is async")
        return "" if result else "it is false"

    def __repr__(self) -> str:
        return f"satisfies({self.description})"


def anything() -> Anything:
    """Match any value; the argument must be present."""
    return Anything()


def any_of(*options: object) -> AnyOf:
    """Match a value that equals one of the options, or that an option matches if it is a matcher.

    Raises:
        InputError: there are no options.
    """
    if not options:
        raise InputError("expected at least one option", source="any_of", hint='any_of("09:00", "10:00")')
    return AnyOf(options)


def is_type(kind: type) -> IsType:
    """Match a value of that type. `float` also matches an int; `int` does not match a bool.

    Raises:
        InputError: `kind` is not a type.
    """
    if not isinstance(kind, type):
        raise InputError(f"expected a type, got {kind!r}", source="is_type", hint="is_type(int)")
    return IsType(kind)


def matches(pattern: str | re.Pattern[str]) -> Matches:
    """Match a str that contains a match of the pattern, anywhere; write `^…$` to match all of it.

    Raises:
        InputError: `pattern` is not a regular expression.
    """
    text, flags = pattern, ""
    if isinstance(pattern, re.Pattern):
        text, flags = pattern.pattern, "".join(name for name, flag in _FLAGS.items() if pattern.flags & flag)
    if not isinstance(text, str):
        hint = r'matches(r"^\d\d:\d\d$")'
        raise InputError(f"expected a regular expression, got {pattern!r}", source="matches", hint=hint)
    return Matches(compile_pattern(f"(?{flags}){text}" if flags else text, source="matches"), text)


def near(number: float, *, within: float) -> Near:
    """Match a number that differs from `number` by at most `within`.

    Raises:
        InputError: `number` or `within` is not a finite number, or `within` is negative.
    """
    for name, given in (("number", number), ("within", within)):
        if not _is_number(given) or not math.isfinite(given):
            raise InputError(f"expected a finite number, got {given!r}", source="near", place=name)
    if within < 0:
        raise InputError(f"expected at least 0, got {within!r}", source="near", place="within")
    return Near(number, within)


def satisfies(predicate: Callable[[Any], object], description: str = "") -> Satisfies:
    """Match a value for which `predicate` is true. If it raises, the value does not match; the error is reported.

    `description` is used in messages; the default is the name of the predicate.

    Raises:
        InputError: `predicate` is not callable, or is async.
    """
    if not callable(predicate) or inspect.iscoroutinefunction(predicate):
        hint = 'satisfies(lambda value: value > 3, "more than 3")'
        raise InputError(f"expected a sync function, got {predicate!r}", source="satisfies", hint=hint)
    return Satisfies(predicate, description or getattr(predicate, "__name__", type(predicate).__name__))


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
