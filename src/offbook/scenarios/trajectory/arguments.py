"""Compares the arguments of a call with the expected ones, and formats values for messages."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterator, Mapping

from msgspec import Struct, StructMeta

from offbook.messages import ToolCall
from offbook.text import shorten


class _MatcherMeta(StructMeta, ABCMeta):
    """Lets a Struct have abstract methods."""


class Matcher(Struct, frozen=True, metaclass=_MatcherMeta):
    """A condition on an expected argument. Its repr is the call that creates it."""

    @abstractmethod
    def mismatch_reason(self, value: object) -> str:
        """Return in a few words why `value` does not match; empty if it does. An exception means that it does not."""

    @abstractmethod
    def __repr__(self) -> str: ...


COMMON_PREFIX_CHARS = 8


def truncate(text: str, limit: int) -> str:
    """Return the text with unprintable characters replaced, cut to `limit` characters with `…` at the end."""
    short = shorten(text, limit)
    return short if short.isprintable() else "".join(letter if letter.isprintable() else "·" for letter in short)


def short_repr(value: object, limit: int = 40) -> str:
    """Return the repr of a value, cut to `limit` characters."""
    return truncate(repr(value), limit)


def short_repr_pair(left: object, right: object, limit: int = 36) -> tuple[str, str]:
    """Return the reprs of two different values, cut around their first difference: a long common start is left out."""
    texts = repr(left), repr(right)
    pairs = enumerate(zip(*texts, strict=False))
    equal = next((place for place, (one, other) in pairs if one != other), min(map(len, texts)))
    start = equal - COMMON_PREFIX_CHARS if equal > limit - COMMON_PREFIX_CHARS else 0
    one, other = (truncate(f"…{text[start:]}" if start else text, limit) for text in texts)
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
