"""A line of the comparison of a trajectory with the calls that were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from offbook.scenarios.trajectory.judgement import Judgement
from offbook.scenarios.trajectory.shown import shown_call


class Row(Struct, frozen=True):
    """An expectation and a call side by side, or one alone, by index.

    What is wrong is told in a word, `label`, and in a sentence, `reason`; both are empty if all is
    well. `notes` say more.
    """

    expectation: int | None
    call: int | None
    label: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


def rows_of(judgement: Judgement) -> list[Row]:
    """All lines: the calls in their order, and what is not there, in its place if there is an order, else last."""
    rows: list[Row] = []
    passed = 0
    for call in range(len(judgement.calls)):
        row = _with_vetoes(_row(call, judgement), judgement)
        if judgement.trajectory.is_ordered and row.expectation is not None:
            rows.extend(_rows_without_call(range(passed, row.expectation), judgement))
            passed = max(passed, row.expectation)
        rows.append(row)
    return [*rows, *_rows_without_call(range(passed, len(judgement.trajectory.expected)), judgement)]


def _row(call: int, judgement: Judgement) -> Row:
    pairing = judgement.pairing
    if pairing.fitting[call] is not None:
        return Row(pairing.fitting[call], call)
    if pairing.misplaced[call] is not None:
        return Row(None, call, "misplaced", _misplaced(call, judgement))
    expectation = pairing.differing[call]
    if expectation is not None:
        notes = tuple(str(difference) for difference in pairing.differences[call, expectation])
        reason = f"arguments differ: call {call + 1}, {judgement.calls[call].tool}: {notes[0]}"
        return Row(expectation, call, "arguments differ", reason, notes)
    return Row(None, call, "extra", _extra(call, judgement)) if pairing.must[call] else Row(None, call)


def _with_vetoes(row: Row, judgement: Judgement) -> Row:
    """The row, if its call is forbidden or comes too early, with that told."""
    call = row.call
    if call in judgement.forbidden:
        return replace(row, label="forbidden", reason=_forbidden(call, judgement))
    if call in judgement.early:
        note = f"comes before any {judgement.early[call].text(40)}"
        reason = row.reason or f"misplaced: {_numbered(call, judgement)}, {note}"
        return replace(row, label=row.label or "misplaced", reason=reason, notes=(*row.notes, note))
    return row


def _rows_without_call(expectations: Iterable[int], judgement: Judgement) -> Iterator[Row]:
    pairing = judgement.pairing
    for index in expectations:
        for call, owner in enumerate(pairing.misplaced):
            if owner == index:
                yield Row(index, None, f"misplaced: call {call + 1}", _misplaced(call, judgement))
        if pairing.missing[index] > pairing.differing.count(index):
            yield Row(index, None, "missing", _missing(index, judgement))


def _numbered(call: int, judgement: Judgement) -> str:
    return f"call {call + 1}, {shown_call(judgement.calls[call], 40)}"


def _missing(index: int, judgement: Judgement) -> str:
    expectation = judgement.trajectory.expected[index]
    found = f", found {judgement.pairing.fitting.count(index)}" if expectation.is_counted else ""
    return f"missing: {expectation}{found}"


def _misplaced(call: int, judgement: Judgement) -> str:
    owner = judgement.pairing.misplaced[call]
    return f"misplaced: {_numbered(call, judgement)}, is expected as number {(owner or 0) + 1}"


def _extra(call: int, judgement: Judgement) -> str:
    expected = (judgement.trajectory.expected[index] for index in judgement.pairing.fits[call])
    limit = next((each for each in expected if each.is_counted), None)
    return f"extra: {_numbered(call, judgement)}" + (f"; expected {limit.text(40)}" if limit else "")


def _forbidden(call: int, judgement: Judgement) -> str:
    rule = judgement.forbidden[call]
    return f"forbidden: {_numbered(call, judgement)}" + (f", by {rule.text(40)}" if rule.args else "")
