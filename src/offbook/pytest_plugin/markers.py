"""The markers `offbook` and `explore`: their arguments, checked."""

from __future__ import annotations

import os
from typing import Literal

import msgspec
import pytest
from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.monitor import DEFAULT_DEADLINES, Deadlines
from offbook.explore.options import Divergence, OnDivergence
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict
from offbook.pytest_plugin.options import RecordOption
from offbook.text import did_you_mean
from offbook.vendors import CODEC_NAMES

OFFBOOK_MARKER = "offbook"


class OffbookMarker(Struct, frozen=True):
    """What the markers of a test say together. `recording` is relative to the test's folder."""

    recording: str | None = None
    strict: bool = True
    record: RecordOption | None = None
    provider: str | None = None
    unused: Literal["report", "error"] = "report"


def offbook_marker_of(item: pytest.Item) -> OffbookMarker:
    """What the markers of a test, its class and its module say; the nearest one counts.

    Raises:
        InputError: one of them says something that cannot be; names the test.
    """
    said: dict[str, object] = {}
    for mark in reversed(list(item.iter_markers(OFFBOOK_MARKER))):
        if mark.args:
            hint = f"name it: @pytest.mark.offbook(recording={mark.args[0]!r})"
            raise _offbook_error(item, "it takes no arguments without names", hint=hint)
        said |= mark.kwargs
    return _read_offbook(item, said)


def _read_offbook(item: pytest.Item, said: dict[str, object]) -> OffbookMarker:
    for name in said:
        if name not in OffbookMarker.__struct_fields__:
            hint = did_you_mean(name, OffbookMarker.__struct_fields__, kind="arguments")
            raise _offbook_error(item, f"unknown argument {name!r}", hint=hint)
    plain = {name: os.fspath(value) if isinstance(value, os.PathLike) else value for name, value in said.items()}
    try:
        marker = msgspec.convert(plain, OffbookMarker)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`")
        raise _offbook_error(
            item, f"{name}: {reason[:1].lower()}{reason[1:]}", hint=f"given: {plain[name]!r}"
        ) from None
    if marker.provider is not None and marker.provider not in CODEC_NAMES:
        hint = did_you_mean(marker.provider, CODEC_NAMES, kind="providers")
        raise _offbook_error(item, f"provider: there is no {marker.provider!r}", hint=hint)
    return marker


def _offbook_error(item: pytest.Item, reason: str, *, hint: str) -> InputError:
    return InputError(reason, source=item.nodeid, place="mark.offbook", hint=hint)


EXPLORE_MARKER = "explore"


class ExploreMarker(Struct, frozen=True, kw_only=True):
    """What the markers of a test say together. `recording` is relative to the test's folder."""

    recording: str | None = None
    faults: str | tuple[str, ...] = "all"
    budget: int | None = None
    declared: tuple[str, ...] = ()
    fail_on: tuple[Verdict, ...] = tuple(FINDINGS)
    on_divergence: OnDivergence = "stop"
    default_response: str = "Mock response"
    deadline_s: float = DEFAULT_DEADLINES.virtual_s

    @property
    def divergence(self) -> Divergence:
        return Divergence(self.on_divergence, self.default_response)

    @property
    def deadlines(self) -> Deadlines:
        return Deadlines(self.deadline_s)


def explore_marker_of(node: pytest.Item) -> ExploreMarker | None:
    """What the markers of a test, its class and its module say; the nearest one counts. None if there is none.

    Raises:
        InputError: one of them says something that cannot be; names the test.
    """
    marks = list(node.iter_markers(EXPLORE_MARKER))
    if not marks:
        return None
    said: dict[str, object] = {}
    for mark in reversed(marks):
        if mark.args:
            hint = f"name it: @pytest.mark.explore(recording={mark.args[0]!r})"
            raise _explore_error(node, "it takes no arguments without names", hint=hint)
        said |= mark.kwargs
    return _read_explore(node, {name: _plain_value(name, value) for name, value in said.items()})


def _read_explore(node: pytest.Item, said: dict[str, object]) -> ExploreMarker:
    for name in said:
        if name not in ExploreMarker.__struct_fields__:
            hint = did_you_mean(name, ExploreMarker.__struct_fields__, kind="arguments")
            raise _explore_error(node, f"unknown argument {name!r}", hint=hint)
    try:
        return msgspec.convert(said, ExploreMarker)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`").partition("[")[0]
        hint = f"one of: {', '.join(VERDICTS)}" if name == "fail_on" else f"given: {said[name]!r}"
        raise _explore_error(node, f"{name}: {reason[:1].lower()}{reason[1:]}", hint=hint) from None


def _plain_value(name: str, value: object) -> object:
    """A value of the marker as it is checked: paths are texts, classes of errors their names, lists their items."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    items = [value] if isinstance(value, str | type) else value
    if name == "declared" and isinstance(items, list | tuple):
        return [each.__name__ if isinstance(each, type) else each for each in items]
    if name == "fail_on" and isinstance(items, list | tuple):
        return [each.replace("-", " ") if isinstance(each, str) else each for each in items]
    return value


def _explore_error(node: pytest.Item, reason: str, *, hint: str) -> InputError:
    return InputError(reason, source=node.nodeid, place="mark.explore", hint=hint)
