"""The marker `explore`: a test that is run again with each fault at each place of its recording."""

from __future__ import annotations

import os

import msgspec
import pytest
from msgspec import Struct

from offbook.errors import InputError
from offbook.explore.divergence import Divergence, OnDivergence
from offbook.explore.performance import USUAL, Deadlines
from offbook.explore.verdict import FINDINGS, VERDICTS, Verdict
from offbook.wording import did_you_mean

NAME = "explore"


class ExploreMarker(Struct, frozen=True, kw_only=True):
    """What the markers of a test say together. `recording` is relative to the test's folder."""

    recording: str | None = None
    faults: str | tuple[str, ...] = "all"
    budget: int | None = None
    declared: tuple[str, ...] = ()
    fail_on: tuple[Verdict, ...] = tuple(FINDINGS)
    on_divergence: OnDivergence = "stop"
    default_response: str = "Mock response"
    deadline_s: float = USUAL.virtual_s

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
    marks = list(node.iter_markers(NAME))
    if not marks:
        return None
    said: dict[str, object] = {}
    for mark in reversed(marks):
        if mark.args:
            hint = f"name it: @pytest.mark.explore(recording={mark.args[0]!r})"
            raise _wrong(node, "it takes no arguments without names", hint=hint)
        said |= mark.kwargs
    return _read(node, {name: _plain(name, value) for name, value in said.items()})


def _read(node: pytest.Item, said: dict[str, object]) -> ExploreMarker:
    for name in said:
        if name not in ExploreMarker.__struct_fields__:
            hint = did_you_mean(name, ExploreMarker.__struct_fields__, kind="arguments")
            raise _wrong(node, f"unknown argument {name!r}", hint=hint)
    try:
        return msgspec.convert(said, ExploreMarker)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at `$.")
        name = place.removesuffix("`").partition("[")[0]
        hint = f"one of: {', '.join(VERDICTS)}" if name == "fail_on" else f"given: {said[name]!r}"
        raise _wrong(node, f"{name}: {reason[:1].lower()}{reason[1:]}", hint=hint) from None


def _plain(name: str, value: object) -> object:
    """A value of the marker as it is checked: paths are texts, classes of errors their names, lists their items."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    items = [value] if isinstance(value, str | type) else value
    if name == "declared" and isinstance(items, list | tuple):
        return [each.__name__ if isinstance(each, type) else each for each in items]
    if name == "fail_on" and isinstance(items, list | tuple):
        return [each.replace("-", " ") if isinstance(each, str) else each for each in items]
    return value


def _wrong(node: pytest.Item, reason: str, *, hint: str) -> InputError:
    return InputError(reason, source=node.nodeid, place="mark.explore", hint=hint)
