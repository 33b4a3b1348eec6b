"""Compares the arguments of a call with those expected, and formats values for messages."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping

from msgspec import Struct, StructMeta

from offbook.messages import ToolCall


class _MatcherMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class Matcher(Struct, frozen=True, metaclass=_MatcherMeta):
    """A demand on a value. It is shown as the call that makes it."""

    @abstractmethod
    def unfit_reason(self, value: object) -> str:
        """What is wrong with `value`, in few words; empty if it fits. Whatever it raises means that it does not fit."""

    @abstractmethod
    def __repr__(self) -> str: ...


COMMON_PREFIX_CHARS = 8


def truncate(text: str, limit: int) -> str:
    """The text, printable, and with `…` at its end where it is longer than `limit` characters."""
    kept = text if len(text) <= limit else f"{text[: limit - 1]}…"
    return kept if kept.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in kept)


def short_repr(value: object, limit: int = 40) -> str:
    """A value as Python writes it, cut."""
    return truncate(repr(value), limit)


def short_repr_pair(left: object, right: object, limit: int = 36) -> tuple[str, str]:
    """Two values that differ, cut to where they do so: what both begin with is left out if it takes up the room."""
    texts = repr(left), repr(right)
    pairs = enumerate(zip(*texts, strict=False))
    equal = next((place for place, (one, other) in pairs if one != other), min(map(len, texts)))
    start = equal - COMMON_PREFIX_CHARS if equal > limit - COMMON_PREFIX_CHARS else 0
    one, other = (truncate(f"…{text[start:]}" if start else text, limit) for text in texts)
    return one, other


def arguments_text(arguments: Mapping[str, object]) -> str:
    """Arguments as they stand in a call."""
    return ", ".join(f"{name}={value!r}" for name, value in arguments.items())


def call_text(call: ToolCall, limit: int = 60) -> str:
    """A call like `search(text='tea')`; arguments that are no JSON object stand there as the text that they are."""
    arguments = arguments_text(call.args) if call.raw_arguments is None else repr(call.raw_arguments)
    return truncate(f"{call.tool}({arguments})", limit)


_MAX_ACTUAL_CHARS = 24
_MAX_REASON_CHARS = 60


class ArgumentDifference(Struct, frozen=True):
    """What differs at one place. `path` is like `guests[0].name`; `raised` is what a matcher raised, if it did."""

    path: str
    told: str
    raised: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.told}"


def differences(
    expected: object, actual: object, *, is_partial: bool = False, path: str = ""
) -> Iterator[ArgumentDifference]:
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
        reason = matcher.unfit_reason(actual)
    except Exception as error:  # a predicate of the user's may raise anything, and that is told
        reason = raised = f"raised {type(error).__name__}: {error}"
    if reason:
        got = short_repr(actual, _MAX_ACTUAL_CHARS)
        text = f"expected {short_repr(matcher)}, got {got} ({truncate(reason, _MAX_REASON_CHARS)})"
        yield ArgumentDifference(path, text, raised)
