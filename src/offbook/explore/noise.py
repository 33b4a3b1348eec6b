"""The differences of two runs without a fault, such as times and process ids, which comparisons ignore."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.text import pluralize, shorten

_CHUNK = re.compile(r"(\w+(?:[-:.+/,]\w+)*)")
"""A unit of replacement: a word, a number, a time, a UUID, a path."""
_ANY_CHUNK, _CHUNK_WITH_DIGIT = r"[\w:.+/,-]+", r"(?=[\w:.+/,-]*\d)[\w:.+/,-]+"
MASK = "…"
MAX_SHOWN = 3


class NoisyLine(Struct, frozen=True, omit_defaults=True):
    """A line of a text whose chunks differ from run to run.

    `path` is the place of the text, `pattern` the form of such lines, `shown` the line with `…` for these chunks.
    Without a constant word, it is only that `line`, counted from 1.
    """

    path: str
    pattern: str
    shown: str
    line: int = 0


class Noise(Struct, frozen=True, omit_defaults=True):
    """The places of a result that differ from run to run: lines of texts, and paths of numbers.

    `problem` is a difference that cannot be masked, or the failure of the second run.
    """

    lines: tuple[NoisyLine, ...] = ()
    values: tuple[str, ...] = ()
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.lines or self.values or self.problem)

    def with_others(self, others: Noise) -> Noise:
        """Return this noise combined with other noise."""
        problem = "; ".join(filter(None, [self.problem, others.problem]))
        return Noise((*self.lines, *others.lines), (*self.values, *others.values), problem)

    def masked(self, value: Any, path: str = "") -> Any:
        """Return a result with `…` in these places."""
        if not (self.lines or self.values):
            return value
        if isinstance(value, str):
            return self._masked_text(value, path)
        if isinstance(value, dict):
            return {name: self.masked(each, _join(path, name)) for name, each in value.items()}
        if isinstance(value, list):
            return [self.masked(each, _join(path, "*")) for each in value]
        return MASK if path in self.values and _is_number(value) else value

    def _masked_text(self, text: str, path: str) -> str:
        patterns = [(each, re.compile(each.pattern)) for each in self.lines if each.path == path]
        if not patterns:
            return text
        lines = text.split("\n")
        for place, line in enumerate(lines):
            fitting = (each for each, pattern in patterns if each.line in (0, place + 1) and pattern.fullmatch(line))
            lines[place] = next((each.shown for each in fitting), line)
        return "\n".join(lines)

    def describe(self) -> Iterator[str]:
        """Yield notes on it for the user."""
        shown = [*dict.fromkeys(each.shown.strip() for each in self.lines), *self.values]
        if shown:
            more = len(shown) - MAX_SHOWN
            listed = [*(shorten(each, 80) for each in shown[:MAX_SHOWN]), *([f"and {more} more"] if more > 0 else [])]
            places = pluralize(len(shown), "place")
            verbs = ("differs", "is") if len(shown) == 1 else ("differ", "are")
            yield f"{places} of the result {verbs[0]} from run to run and {verbs[1]} not compared: {'; '.join(listed)}"
        if self.problem:
            yield self.problem


NO_NOISE = Noise()


STATE = "$state"
"""The path of the state that a run has left."""

MIN_ID_CHARS = 8
"""The minimum length of ids and times. Shorter values may count something."""


def state_noise(first: Any, second: Any, *, now: datetime) -> Noise:
    """Return the ids and times that differ between two states without a fault; a problem if they differ in more."""
    noise = _noise_of(_Comparison(now, is_state=True).differences(first, second, STATE))
    if noise.masked(first, STATE) == noise.masked(second, STATE):
        return noise
    problem = "two runs without a fault leave different states, which are not compared: each run must begin with"
    return Noise(
        problem=f"{problem} the same state (a file of state_of in the working directory does, --keep FOLDER does)"
    )


def noise_between(first: Any, second: Any, *, now: datetime) -> Noise:
    """Return the differences of two results without a fault, made about `now`.

    That time is noise, even if both were made in the same second.
    """
    noise = _noise_of(_Comparison(now).differences(first, second, ""))
    if noise.masked(first) == noise.masked(second):
        return noise
    problem = "the results of two runs without a fault differ in more than numbers, times and ids"
    return replace(noise, problem=f"{problem}: a different result may also occur without a fault")


def _noise_of(differences: Iterable[NoisyLine | str]) -> Noise:
    found = dict.fromkeys(differences)
    lines = tuple(each for each in found if isinstance(each, NoisyLine))
    return Noise(lines, tuple(each for each in found if isinstance(each, str)))


_TIME_OF_DAY = re.compile(r"(?:(\d{4}-\d\d-\d\d)[T_-]?)?(\d\d):(\d\d):(\d\d)")
_EPOCH = re.compile(r"(\d{10})(?:\d{3}|\d{6}|\d{9})?(?:\.\d+)?")
_NEAR = timedelta(seconds=90)


class _Comparison:
    """Compares the results of two runs that were made about `now`. Of a state, only ids and times may differ."""

    def __init__(self, now: datetime, *, is_state: bool = False) -> None:
        self._now, self._is_state = now, is_state

    def differences(self, first: Any, second: Any, path: str) -> Iterator[NoisyLine | str]:
        """Yield the lines and the paths of numbers that differ, as far as they can be masked."""
        if isinstance(first, str) and isinstance(second, str):
            pairs = zip(first.split("\n"), second.split("\n"), strict=False)
            for number, (one, other) in enumerate(pairs, 1):
                line = self._noisy_line(one, other, path, number)
                yield from () if line is None else (line,)
        elif isinstance(first, Mapping) and isinstance(second, Mapping):
            for name in (each for each in first if each in second):
                yield from self.differences(first[name], second[name], _join(path, name))
        elif isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
            for one, other in zip(first, second, strict=True):
                yield from self.differences(one, other, _join(path, "*"))
        elif _is_number(first) and _is_number(second) and self._is_noise(str(first), str(second)):
            yield path

    def _noisy_line(self, one: str, other: str, path: str, number: int) -> NoisyLine | None:
        """Return the common part of two lines, or None if they are equal, or have different words or signs."""
        parts, others = _CHUNK.split(one), _CHUNK.split(other)
        is_noisy = [self._is_noise(part, its) for part, its in zip(parts, others, strict=False)]
        if not any(is_noisy) or len(parts) != len(others) or parts[::2] != others[::2]:
            return None
        words = [part for part, is_other in zip(parts[1::2], is_noisy[1::2], strict=True) if not is_other]
        has_word = any(char.isalpha() for word in words for char in word)
        pattern, shown = "", ""
        for part, its, is_other in zip(parts, others, is_noisy, strict=True):
            are_numbers = any(map(str.isdigit, part)) and any(map(str.isdigit, its))
            if is_other and not are_numbers and not has_word:
                return None  # a word that stands alone says what happened
            any_such = _CHUNK_WITH_DIGIT if are_numbers else _ANY_CHUNK
            pattern, shown = pattern + (any_such if is_other else re.escape(part)), shown + (MASK if is_other else part)
        return NoisyLine(path, pattern, shown, 0 if has_word else number)

    def _is_noise(self, one: str, other: str) -> bool:
        is_long = not self._is_state or min(len(one), len(other)) >= MIN_ID_CHARS
        return (one != other and is_long) or self._is_now(one)

    def _is_now(self, chunk: str) -> bool:
        """Return whether this is the time of now, here or in UTC, or the seconds since 1970."""
        if found := _TIME_OF_DAY.match(chunk):
            return any(self._is_near(found, now) for now in (self._now, self._now.astimezone().replace(tzinfo=UTC)))
        found = _EPOCH.fullmatch(chunk)
        return found is not None and abs(int(found[1]) - self._now.timestamp()) < _NEAR.seconds

    @staticmethod
    def _is_near(found: re.Match[str], now: datetime) -> bool:
        day, *parts = found.groups()
        hour, minute, second = map(int, parts)
        if hour > 23 or minute > 59 or second > 59 or (day and day != now.date().isoformat()):
            return False
        then = now.replace(hour=hour, minute=minute, second=second)
        return abs(then - now) < _NEAR


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)
