"""Compares two runs of one kind: their calls, cases, scenarios or steps in pairs, with the differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from difflib import SequenceMatcher
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import Struct

from offbook.comparison import paired
from offbook.errors import InputError
from offbook.files import read_regular
from offbook.recording.compare import comparable_answer, compare_documents
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.report.exploration.json_report import load_exploration
from offbook.report.scenarios.figures import failure_notes, figures_of
from offbook.report.scenarios.json_report import load_suite
from offbook.text import format_usd, pluralize
from offbook.view.calls import CallRow, RecordedCalls
from offbook.view.summary import RunKind, Tone, load_recording, place_of
from offbook.workflow.runs.resumable_run import LOG, read_progress

MAX_ALIGNED = 2_000
"""The number of calls aligned by content. Above it, calls at the same position are paired."""

T = TypeVar("T")


class Side(Struct, frozen=True, omit_defaults=True):
    """One side of a pair: its title, its outcome, and the outcome's style."""

    title: str
    note: str = ""
    tone: Tone = "plain"


class Pair(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Two corresponding parts of runs; None for a missing one. `difference` may have many lines."""

    left: Side | None
    right: Side | None
    is_same: bool = False
    difference: str = ""


class RunComparison:
    """Two runs side by side. The differences of a pair of calls are computed on demand."""

    def __init__(self, left: Path, right: Path, kind: RunKind) -> None:
        self._documents: tuple[RecordedCalls, RecordedCalls] | None = None
        self._places: list[tuple[int | None, int | None]] = []
        if kind == "recording":
            self._documents = RecordedCalls(load_recording(left)), RecordedCalls(load_recording(right))
            self._places = _aligned(*self._documents)
            self.pairs = [self._call_pair(*places) for places in self._places]
        else:
            self.pairs = list(_OTHERS[kind](left, right))
        self.same = sum(pair.is_same for pair in self.pairs)

    def page(self, start: int, count: int, *, only_changed: bool) -> tuple[list[Pair], int]:
        """Return some of the pairs with their differences, and the total number."""
        chosen = [place for place, pair in enumerate(self.pairs) if not (only_changed and pair.is_same)]
        return [self._explained(place) for place in chosen[start : start + count]], len(chosen)

    def _call_pair(self, left: int | None, right: int | None) -> Pair:
        assert self._documents is not None
        ours, theirs = self._documents
        one = None if left is None else _call_side(ours.rows[left])
        other = None if right is None else _call_side(theirs.rows[right])
        if left is None or right is None:
            return Pair(left=one, right=other)
        return Pair(left=one, right=other, is_same=_is_same(ours.exchange(left), theirs.exchange(right)))

    def _differences(self, left: int, right: int) -> list[str]:
        assert self._documents is not None
        one, other = self._documents[0].exchange(left), self._documents[1].exchange(right)
        changes = compare_documents(_alone(one), _alone(other))
        return [f"{_TITLES[change.kind]}\n{change.difference}" for change in changes if change.kind != "wire"]

    def _explained(self, place: int) -> Pair:
        pair = self.pairs[place]
        left, right = self._places[place] if self._places else (None, None)
        if pair.is_same or left is None or right is None:
            return pair
        return msgspec.structs.replace(pair, difference="\n".join(self._differences(left, right)))


_TITLES = {"request": "another request", "answer": "another answer", "added": "added", "removed": "removed"}


def _is_same(one: Exchange | ToolExchange, other: Exchange | ToolExchange) -> bool:
    """Return whether two calls have the same request and answer, apart from times and call ids."""
    if isinstance(one, ToolExchange) or isinstance(other, ToolExchange):
        return one.fingerprint == other.fingerprint and _outcome(one) == _outcome(other)
    has_same_request = one.fingerprint == other.fingerprint or bytes(one.request) == bytes(other.request)
    return has_same_request and _outcome(one) == _outcome(other)


def _outcome(exchange: Exchange | ToolExchange) -> tuple[object, ...]:
    if isinstance(exchange, ToolExchange):
        return exchange.result, exchange.error
    body = exchange.wire.content() if exchange.wire is not None and place_of(exchange) else b""
    return *comparable_answer(exchange), body


def _alone(exchange: Exchange | ToolExchange) -> Document:
    if isinstance(exchange, ToolExchange):
        return Document(tools={"tool": exchange})
    return Document(entries={"call": exchange})


def _call_side(row: CallRow) -> Side:
    figures = (row.failure, f"{row.latency_ms:,.0f} ms", f"{format_usd(row.cost_usd)} $" if row.cost_usd else "")
    note = " · ".join(part for part in figures if part)
    return Side(f"{row.number} {row.title or 'no answer'}", note, "bad" if row.failure else "plain")


def _aligned(ours: RecordedCalls, theirs: RecordedCalls) -> list[tuple[int | None, int | None]]:
    """Return the positions of corresponding calls: equal ones, and those between them in order."""
    left, right = ([_key(calls, place) for place in range(len(calls))] for calls in (ours, theirs))
    if len(left) + len(right) > 2 * MAX_ALIGNED:
        return _side_by_side(range(len(left)), range(len(right)))
    pairs: list[tuple[int | None, int | None]] = []
    for _, i1, i2, j1, j2 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        pairs += _side_by_side(range(i1, i2), range(j1, j2))
    return pairs


def _key(calls: RecordedCalls, place: int) -> tuple[str, str, bool]:
    """Return the common key of corresponding calls. A failed attempt corresponds to no successful one."""
    row = calls.rows[place]
    return row.kind, calls.exchange(place).fingerprint or row.name or row.title, bool(row.failure)


def _side_by_side(left: Sequence[T], right: Sequence[T]) -> list[tuple[T | None, T | None]]:
    size = max(len(left), len(right))
    sides = ([*each, *[None] * (size - len(each))] for each in (left, right))
    return list(zip(*sides, strict=True))


def _explorations(left: Path, right: Path) -> Iterable[Pair]:
    before, after = load_exploration(left), load_exploration(right)
    old, new = ({str(each.case): each for each in exploration.results} for exploration in (before, after))
    for case, *results in paired(old, new):
        sides = [
            None if each is None else Side(case, each.title, "bad" if each.is_finding else "good") for each in results
        ]
        is_same = sides[0] == sides[1]
        evidence = [line for each in results if each is not None for line in each.evidence]
        difference = "" if is_same else "\n".join(dict.fromkeys(evidence))
        yield Pair(left=sides[0], right=sides[1], is_same=is_same, difference=difference)


def _suites(left: Path, right: Path) -> Iterable[Pair]:
    suites = [load_suite(read_regular(path), source=str(path)) for path in (left, right)]
    old, new = ({(each.name, each.agent): each for each in suite.scenarios} for suite in suites)
    for key, *results in paired(old, new):
        sides: list[Side | None] = []
        for found in results:
            figures = None if found is None else figures_of(found)
            note = "" if figures is None else " ".join(filter(None, (figures.passed_of_runs, figures.rate)))
            title = " · ".join(filter(None, key))
            sides.append(None if found is None else Side(title, note, "good" if found.passed else "bad"))
        failures = [note.headline for each in results if each is not None for note in failure_notes(each)]
        yield Pair(left=sides[0], right=sides[1], is_same=sides[0] == sides[1], difference="\n".join(failures))


def _workflows(left: Path, right: Path) -> Iterable[Pair]:
    old, new = (read_progress(path / LOG).results for path in (left, right))
    tones: dict[str, Tone] = {"done": "good", "failed": "bad"}
    for step, *results in paired(old, new):
        sides = [
            None
            if each is None
            else Side(step, f"{each.status}, {pluralize(each.calls, 'call')}", tones.get(each.status, "plain"))
            for each in results
        ]
        outputs = [None if each is None else (each.status, each.output, each.error) for each in results]
        shown = [] if outputs[0] == outputs[1] else [f"{sign} {each}" for sign, each in zip("-+", outputs, strict=True)]
        yield Pair(left=sides[0], right=sides[1], is_same=not shown, difference="\n".join(shown))


_OTHERS: dict[str, Callable[[Path, Path], Iterable[Pair]]] = {
    "exploration": _explorations,
    "scenarios": _suites,
    "workflow": _workflows,
}


def check_comparable(left: RunKind, right: RunKind) -> None:
    """Raise InputError if runs of these kinds cannot be compared."""
    if left != right:
        raise InputError(f"a run of the kind {left} cannot be compared with one of the kind {right}", source="compare")
    if left not in ("recording", *_OTHERS):
        raise InputError("what cannot be read cannot be compared", source="compare")
