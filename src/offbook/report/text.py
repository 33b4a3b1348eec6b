"""Text and values as reports write them: printable, short, safe in a terminal, and JSON that never fails to encode."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from offbook.scenarios.result import SuiteResult
from offbook.scenarios.statistics import Interval
from offbook.text import format_usd, pluralize, printable, shorten
from offbook.tools.result_text import result_text


def log_safe(text: str) -> str:
    """The text without what a terminal, or GitHub's log, could take for a command; lines stay."""
    return printable(text).replace("##[", "## [")


def one_line(text: str, limit: int) -> str:
    """The text on one line, printable, and cut to so many characters."""
    return shorten(" ".join(log_safe(text[: 4 * limit]).split()), limit)


def cut_lines(text: str, *, lines: int, columns: int) -> list[str]:
    """The lines of the text, printable, as far as they are not too many, each cut to so many characters."""
    kept = text.split("\n", lines)
    left = kept.pop().count("\n") + 1 if len(kept) > lines else 0
    shown = [log_safe(line[:columns] + "…" if len(line) > columns else line) for line in kept]
    return [*shown, f"… {pluralize(left, 'more line')}"] if left else shown


def rate_and_interval(rate: float, interval: Interval) -> str:
    """`67 % (30–90 %)`: the pass rate, and where it truly lies with 95 % confidence."""
    return f"{rate:.0%} ({interval.low * 100:.0f}–{interval.high:.0%})".replace("%", " %")


def suite_totals(result: SuiteResult) -> str:
    """How many scenarios and conversations passed, and what the run took."""
    scenarios, conversations = result.scenarios, [each for one in result.scenarios for each in one.conversations]
    parts = [
        f"{sum(each.passed for each in scenarios):,} of {pluralize(len(scenarios), 'scenario')} passed",
        f"{sum(each.passed for each in conversations):,} of {pluralize(len(conversations), 'conversation')}",
        *([pluralize(result.tokens, "token")] if result.tokens else []),
        *([f"{format_usd(result.cost_usd)} $"] if result.cost_usd else []),
        f"{result.latency_s:.2f} s",
    ]
    return ", ".join(parts)


MAX_DEPTH = 100
Plain: TypeAlias = str | int | float | bool | list["Plain"] | dict[str, "Plain"] | None


def encode_json(value: object) -> bytes:
    """The value as JSON: fields of Structs as they are declared, other keys and sets sorted.

    What JSON does not know is told as text: numbers that are not finite are null, half characters are marked,
    and what is nested too deep, or inside itself, is cut.
    """
    try:
        return msgspec.json.encode(value, enc_hook=result_text, order="deterministic")
    except (TypeError, ValueError, RecursionError):
        return msgspec.json.encode(_plain(value, MAX_DEPTH))


def _plain(value: object, depth: int) -> Plain:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, Struct | Mapping | list | tuple):
        return _plain_parts(value, depth - 1) if depth else "…"
    return _valid_unicode(result_text(value))


def _plain_parts(value: Struct | Mapping[object, object] | list[object] | tuple[object, ...], depth: int) -> Plain:
    if isinstance(value, Struct):
        return {name: _plain(each, depth) for name, each in _fields(value)}
    if isinstance(value, Mapping):
        plain = {_valid_unicode(result_text(key)): _plain(each, depth) for key, each in value.items()}
        return dict(sorted(plain.items()))
    return [_plain(each, depth) for each in value]


def _fields(value: Struct) -> Iterator[tuple[str, object]]:
    """The fields as they are named in JSON, behind what tells the type where that is told."""
    if value.__struct_config__.tag_field is not None:
        yield value.__struct_config__.tag_field, value.__struct_config__.tag
    for name, told_as in zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True):
        yield told_as, getattr(value, name)


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
