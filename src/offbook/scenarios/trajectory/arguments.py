"""Compares the arguments of a call with the expected ones: differences, and matchers like `any_of` and `near`."""

from __future__ import annotations

import inspect
import math
import re
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeGuard

from msgspec import Struct, StructMeta

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.text import UserPattern, common_start, compile_pattern, shorten


class _MatcherMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class Matcher(Struct, frozen=True, metaclass=_MatcherMeta):
    """A condition on an expected argument. Its repr is the call that creates it."""

    @abstractmethod
    def mismatch_reason(self, value: object) -> str:
        """Return in a few words why `value` does not match; empty if it does. An exception means that it does not."""

    @abstractmethod
    def __repr__(self) -> str: ...


COMMON_PREFIX_CHARS, MAX_PAIRED_CHARS = 8, 36


def truncate(text: str, limit: int) -> str:
    """Return the text with unprintable characters replaced, cut to `limit` characters with `…` at the end."""
    short = shorten(text, limit)
    return short if short.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in short)


def short_repr(value: object, limit: int = 40) -> str:
    """Return the repr of a value, cut to `limit` characters."""
    return truncate(repr(value), limit)


def short_repr_pair(left: object, right: object) -> tuple[str, str]:
    """Return the reprs of two different values, cut around their first difference: a long common start is left out."""
    texts = repr(left), repr(right)
    equal = common_start(*texts)
    start = equal - COMMON_PREFIX_CHARS if equal > MAX_PAIRED_CHARS - COMMON_PREFIX_CHARS else 0
    one, other = (truncate(f"…{text[start:]}" if start else text, MAX_PAIRED_CHARS) for text in texts)
    return one, other


def arguments_text(arguments: Mapping[str, object]) -> str:
    """Return arguments as they are written in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def call_text(call: ToolCall, limit: int = 60) -> str:
    """Return a call such as `search(text='tea')`; arguments that are not a JSON object are shown as a str."""
    arguments = arguments_text(call.args) if call.raw_arguments is None else repr(call.raw_arguments)
    return truncate(f"{call.tool}({arguments})", limit)


_MAX_ACTUAL_CHARS = 24
_MAX_REASON_CHARS = 60


class ArgumentDifference(Struct, frozen=True):
    """A difference at one place, such as `guests[0].name`; `raised` is the exception of a matcher, if it raised one."""

    path: str
    text: str
    raised: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.text}"


def differences(
    expected: object, actual: object, *, is_partial: bool = False, path: str = ""
) -> Iterator[ArgumentDifference]:
    """Yield the differences between two values, place by place; none if they are equal.

    Mappings are compared key by key; if `is_partial`, `actual` may have keys that `expected` has not. Lists and
    their items are always compared exactly. 1 equals 1.0, but not True.
    """
    if isinstance(expected, Matcher):
        yield from _from_matcher(expected, actual, path)
    elif isinstance(expected, Mapping) and isinstance(actual, Mapping):
        yield from _in_mappings(expected, actual, is_partial, path)
    elif isinstance(expected, list | tuple) and isinstance(actual, list | tuple) and len(expected) == len(actual):
        for index, (left, right) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(left, right, path=f"{path}[{index}]")
    elif isinstance(expected, bool) is not isinstance(actual, bool) or expected != actual:
        left, right = short_repr_pair(expected, actual)
        yield ArgumentDifference(path, f"expected {left}, got {right}")


def _in_mappings(
    expected: Mapping[str, object], actual: Mapping[str, object], is_partial: bool, path: str
) -> Iterator[ArgumentDifference]:
    for name, value in expected.items():
        if name in actual:
            yield from differences(value, actual[name], is_partial=is_partial, path=_inside(path, name))
        else:
            yield ArgumentDifference(_inside(path, name), f"expected {short_repr(value)}, got nothing")
    for name in () if is_partial else actual:
        if name not in expected:
            yield ArgumentDifference(_inside(path, name), f"expected nothing, got {short_repr(actual[name])}")


def _inside(path: str, name: str) -> str:
    return f"{path}.{name}" if path else str(name)


def _from_matcher(matcher: Matcher, actual: object, path: str) -> Iterator[ArgumentDifference]:
    raised = ""
    try:
        reason = matcher.mismatch_reason(actual)
    except Exception as error:  # a user's predicate may raise anything; the difference reports it
        reason = raised = f"raised {type(error).__name__}: {error}"
    if reason:
        got = short_repr(actual, _MAX_ACTUAL_CHARS)
        text = f"expected {short_repr(matcher)}, got {got} ({truncate(reason, _MAX_REASON_CHARS)})"
        yield ArgumentDifference(path, text, raised)


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
