"""Pairs tool calls of any common shape with a trajectory, and shows the differences."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.messages import ToolCall
from offbook.scenarios.trajectory.arguments import ArgumentDifference, call_text, truncate
from offbook.scenarios.trajectory.trajectory import CallOrder, Expectation, Trajectory
from offbook.text import pluralize

Owners: TypeAlias = list[int | None]
"""For each call, the expectation that it is paired with, or None."""


class Demand(Struct, frozen=True):
    """The minimum and maximum number of calls of an expectation; None means no maximum."""

    least: int
    most: int | None

    def has_room(self, count: int) -> bool:
        """Return whether more than `count` calls are allowed."""
        return self.most is None or count < self.most

    def bare(self) -> Demand:
        """Return the demand with its minimum as maximum."""
        return Demand(self.least, self.least)

    def without(self, count: int) -> Demand:
        """Return what remains after `count` calls."""
        return Demand(max(self.least - count, 0), None if self.most is None else self.most - count)


def demands_of(trajectory: Trajectory) -> list[Demand]:
    """Return the demand of each expectation."""
    uncounted = Demand(0, None) if trajectory.mode == "within" else Demand(1, 1)
    return [Demand(each.at_least or 0, each.at_most) if each.is_counted else uncounted for each in trajectory.expected]


def remaining(demands: Iterable[Demand], *owners: Owners) -> list[Demand]:
    """Return what remains of the demands after these pairings."""
    return [demand.without(sum(each.count(index) for each in owners)) for index, demand in enumerate(demands)]


class _Slot(Struct, frozen=True):
    """A place for one call, or for any number of calls if it `repeats`."""

    expectation: int
    is_required: bool
    repeats: bool = False


def align(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Pair calls with expectations, in the order of both, and leave as few as possible unpaired.

    This counts missing calls of expectations, and calls that must be paired. Among equal solutions, an unpaired call
    and an unpaired expectation are at the same position. The arguments are those of `assign`.
    """
    slots = [slot for index, demand in enumerate(demands) for slot in _slots(index, demand, len(fits))]
    costs = _costs(slots, fits, must)
    owners: Owners = [None] * len(fits)
    row = call = 0
    while row < len(slots) and call < len(fits):
        slot, cost = slots[row], costs[row][call]
        following = row if slot.repeats else row + 1
        if slot.expectation in fits[call] and costs[following][call + 1] == cost:
            owners[call] = slot.expectation
            row, call = following, call + 1
        else:
            skips_call = costs[row][call + 1] + must[call] == cost
            skips_both = slot.is_required and costs[row + 1][call + 1] + 1 + must[call] == cost
            row, call = row + (skips_both or not skips_call), call + (skips_both or skips_call)
    return owners


def _slots(expectation: int, demand: Demand, calls: int) -> Iterator[_Slot]:
    """Yield the slots of a demand: as many as the calls can fill, and one that shows whether more are missing."""
    required = min(demand.least, calls + 1)
    for _ in range(required):
        yield _Slot(expectation, is_required=True)
    if demand.most is None:
        yield _Slot(expectation, is_required=False, repeats=True)
    else:
        for _ in range(min(demand.most, calls) - required):
            yield _Slot(expectation, is_required=False)


def _costs(slots: Sequence[_Slot], fits: Sequence[Sequence[int]], must: Sequence[bool]) -> list[list[int]]:
    """Return, for each slot and call, the least number of unpaired ones from there on."""
    below = [sum(must[call:]) for call in range(len(fits) + 1)]
    table = [below]
    for slot in reversed(slots):
        row = [below[-1] + slot.is_required]
        for call in range(len(fits) - 1, -1, -1):
            cost = min(below[call] + slot.is_required, row[-1] + must[call])
            if slot.expectation in fits[call]:
                cost = min(cost, row[-1] if slot.repeats else below[call + 1])
            row.append(cost)
        below = row[::-1]
        table.append(below)
    return table[::-1]


def assign(fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool]) -> Owners:
    """Pair calls with expectations, and leave as few as possible unpaired.

    This counts missing calls of expectations, and calls that must be paired. Earlier ones take precedence.

    Args:
        fits: the expectations that each call matches, by index.
        demands: the minimum and maximum number of calls of each expectation.
        must: which calls must be paired.
    """
    owners: Owners = [None] * len(fits)
    for receiver, demand in enumerate(demands):
        for _ in range(demand.least):
            if not _supply(receiver, fits, owners):
                break
    for call in range(len(fits)):
        if must[call] and owners[call] is None:
            _place(call, fits, demands, must, owners)
    return owners


def _supply(needy: int, fits: Sequence[Sequence[int]], owners: Owners) -> bool:
    """Find one more call for an expectation by an augmenting path. Return False if no path exists.

    Each expectation on the path hands its call to the one before it, and takes another.
    """
    receivers: dict[int, int] = {}
    released: dict[int, int] = {needy: -1}
    queue = deque([needy])
    while queue:
        receiver = queue.popleft()
        for call in (
            call for call, expectations in enumerate(fits) if receiver in expectations and call not in receivers
        ):
            receivers[call] = receiver
            owner = owners[call]
            if owner is None:
                _shift_calls(call, receivers, released, owners)
                return True
            if owner not in released:
                released[owner] = call
                queue.append(owner)
    return False


def _shift_calls(call: int, receivers: dict[int, int], released: dict[int, int], owners: Owners) -> None:
    while call >= 0:
        owners[call] = receiver = receivers[call]
        call = released[receiver]


def _place(
    unplaced: int, fits: Sequence[Sequence[int]], demands: Sequence[Demand], must: Sequence[bool], owners: Owners
) -> None:
    """Find an expectation for a call, if necessary by moving others. A call that need not be paired may be unpaired."""
    arrivals: dict[int, int] = {}
    queue = deque([unplaced])
    while queue:
        call = queue.popleft()
        for target in (target for target in fits[call] if target not in arrivals):
            arrivals[target] = call
            paired = [each for each, owner in enumerate(owners) if owner == target]
            spare = [each for each in paired if not must[each]]
            if demands[target].has_room(len(paired)) or spare:
                if not demands[target].has_room(len(paired)):
                    owners[spare[-1]] = None
                _shift_owners(target, arrivals, owners)
                return
            queue.extend(paired)


def _shift_owners(target: int | None, arrivals: dict[int, int], owners: Owners) -> None:
    while target is not None:
        call = arrivals[target]
        target, owners[call] = owners[call], target


Relation: TypeAlias = list[list[int]]
"""For each call, the related expectations, in order."""
Differences: TypeAlias = dict[tuple[int, int], list[ArgumentDifference]]
"""The argument differences of each pair of a call and an expectation of the same tool."""


class Pairing(Struct, frozen=True, kw_only=True):
    """The pairs of calls and expectations.

    A call is `fitting`; or `misplaced`, if it matches an expectation at another position; or `differing`, if only its
    arguments differ; or none of these. `must` says which calls must be fitting, `missing` how many calls of each
    expectation are missing, whether or not there are differing ones.
    """

    fits: Relation
    fitting: Owners
    misplaced: Owners
    differing: Owners
    must: list[bool]
    missing: list[int]
    differences: Differences


def pair(calls: Sequence[ToolCall], trajectory: Trajectory, *, forbidden: Collection[int]) -> Pairing:
    """Return the pairing with the fewest unpaired. Forbidden calls may be fitting, but need not be."""
    found = _differences(calls, trajectory.expected)
    fits, near = (_relation(found, len(calls), is_equal=is_equal) for is_equal in (True, False))
    must = [index not in forbidden and _must_fit(fits[index], trajectory) for index in range(len(calls))]
    demands = demands_of(trajectory)
    find = align if trajectory.is_ordered else assign

    fitting = find(fits, demands, must)
    misplaced: Owners = [None] * len(calls)
    if trajectory.is_ordered:
        misplaced = assign(_among_unpaired(fits, forbidden, fitting), remaining(demands, fitting), must)
        near = _between_neighbours(near, fitting)
    lacking = remaining(demands, fitting, misplaced)
    open_to = [demand.bare() for demand in lacking] if trajectory.allows_others else lacking
    differing = find(_among_unpaired(near, forbidden, fitting, misplaced), open_to, must)
    missing = [demand.least for demand in lacking]
    return Pairing(
        fits=fits,
        fitting=fitting,
        misplaced=misplaced,
        differing=differing,
        must=must,
        missing=missing,
        differences=found,
    )


def _differences(calls: Sequence[ToolCall], expectations: Sequence[Expectation]) -> Differences:
    return {
        (index, each): expectation.differences(call)
        for index, call in enumerate(calls)
        for each, expectation in enumerate(expectations)
        if call.tool == expectation.tool
    }


def _relation(found: Differences, calls: int, *, is_equal: bool) -> Relation:
    """Return the expectations that each call matches fully, or except for its arguments."""
    relation: Relation = [[] for _ in range(calls)]
    for (call, expectation), differences in found.items():
        if is_equal is not bool(differences):
            relation[call].append(expectation)
    return relation


def _must_fit(fits: list[int], trajectory: Trajectory) -> bool:
    """Return whether a call must be paired. Where other calls are allowed, those with a maximum must."""
    return not trajectory.allows_others or any(trajectory.expected[each].at_most is not None for each in fits)


def _among_unpaired(relation: Relation, forbidden: Collection[int], *owners: Owners) -> Relation:
    """Return the relation of only the unpaired calls."""
    return [
        [] if call in forbidden or any(each[call] is not None for each in owners) else related
        for call, related in enumerate(relation)
    ]


def _between_neighbours(relation: Relation, owners: Owners) -> Relation:
    """Return the relation without expectations outside the range between the pairs of the neighbouring calls."""
    known = [owner for owner in owners if owner is not None]
    limited: Relation = []
    passed = 0
    for related, owner in zip(relation, owners, strict=True):
        first, last = (known[passed - 1] if passed else 0), (known[passed] if passed < len(known) else None)
        limited.append([each for each in related if first <= each and (last is None or each <= last)])
        passed += owner is not None
    return limited


_CALL_HINT = 'a call is a ToolCall, or like {"name": "search", "args": {"text": "tea"}}'
_NAME_KEYS = ("name", "tool")
_ARGUMENT_KEYS = ("args", "arguments", "input")


def read_calls(given: Iterable[object]) -> tuple[ToolCall, ...]:
    """Read tool calls in any common shape, in order.

    Each is a ToolCall, or a mapping or an object with the name as `name` or `tool` and the arguments as `args`,
    `arguments` or `input`, optionally inside `function`; arguments are a mapping or JSON text. A message stands for
    its tool calls.

    Raises:
        InputError: an item is not a tool call; the error names its position.
    """
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable):
        raise InputError(f"expected a list of tool calls, got {given!r:.80}", source="calls", hint=_CALL_HINT)
    return tuple(call for index, each in enumerate(given) for call in _calls_in(each, f"[{index}]"))


def _calls_in(given: object, place: str) -> Iterator[ToolCall]:
    if isinstance(given, ToolCall):
        yield given
    elif _has(given, "tool_calls") or _has(given, "role"):
        for index, call in enumerate(_get(given, "tool_calls") or ()):
            yield from _calls_in(call, f"{place}.tool_calls[{index}]")
    else:
        yield _call(_get(given, "function") or given, place)


def _call(given: object, place: str) -> ToolCall:
    name = next((_get(given, key) for key in _NAME_KEYS if _has(given, key)), None)
    key = next((key for key in _ARGUMENT_KEYS if _has(given, key)), "")
    if not isinstance(name, str) or not name or not (key or isinstance(given, Mapping)):
        raise InputError(f"expected a tool call, got {given!r:.80}", source="calls", place=place, hint=_CALL_HINT)
    arguments = _get(given, key)
    if isinstance(arguments, str):
        return ToolCall.parse(name, arguments)
    if arguments is not None and not isinstance(arguments, Mapping):
        reason = f"expected a dict or JSON text, got {arguments!r:.80}"
        raise InputError(reason, source="calls", place=f"{place}.{key}", hint=_CALL_HINT)
    return ToolCall(name, dict(arguments or {}))


def _has(given: object, key: str) -> bool:
    return key in given if isinstance(given, Mapping) else hasattr(given, key)


def _get(given: object, key: str) -> Any:
    return given.get(key) if isinstance(given, Mapping) else getattr(given, key, None)


MAX_REASON_CHARS = 160


class PlacedCall(Struct, frozen=True):
    """An actual call. `index` is its position among all calls, from 0."""

    index: int
    call: ToolCall

    def __str__(self) -> str:
        return f"call {self.index + 1}, {call_text(self.call)}"


class MissingCall(Struct, frozen=True):
    """A missing call. `index` is its position in the trajectory, from 0; `count` is how many are missing."""

    index: int
    expectation: Expectation
    count: int = 1

    def __str__(self) -> str:
        return f"position {self.index + 1}, {self.expectation}"


class TrajectoryMatch(Struct, frozen=True):
    """The result of comparing calls with a trajectory. It is true if they `matched`.

    A call whose arguments differ is `extra`, unless other calls are allowed, and the expected call is `missing`. A
    forbidden call is not `extra` as well. `reason` is the main problem in one line, and `difference` shows the actual
    calls next to the expected ones; both are empty if there is no problem.
    """

    matched: bool
    missing: tuple[MissingCall, ...] = ()
    extra: tuple[PlacedCall, ...] = ()
    misplaced: tuple[PlacedCall, ...] = ()
    forbidden: tuple[PlacedCall, ...] = ()
    reason: str = ""
    difference: str = ""

    def __bool__(self) -> bool:
        return self.matched

    def __str__(self) -> str:
        return "matched" if self.matched else f"{self.reason}\n{self.difference}"


def match_trajectory(calls: Iterable[object], trajectory: Trajectory) -> TrajectoryMatch:
    """Compare the tool calls of an agent with the expected ones.

    Args:
        calls: the calls in order, each a ToolCall, or in another shape that has the name of the tool and the
            arguments: `{"name": …, "args": …}`, OpenAI's, a transcript's; or a message with tool calls.
        trajectory: the expected calls.

    Raises:
        InputError: an item of `calls` is not a tool call.
    """
    comparison = compare_calls(read_calls(calls), trajectory)
    rows = difference_rows(comparison)
    if not any(row.label for row in rows):
        return TrajectoryMatch(matched=True)
    expected = comparison.trajectory.expected
    counts = enumerate(comparison.pairing.missing)
    elsewhere = {index for index, owner in enumerate(comparison.pairing.misplaced) if owner is not None}
    return TrajectoryMatch(
        matched=False,
        missing=tuple(MissingCall(index, expected[index], count) for index, count in counts if count),
        extra=_placed(_extra_calls(comparison.pairing), comparison),
        misplaced=_placed(elsewhere | comparison.early.keys(), comparison),
        forbidden=_placed(comparison.forbidden, comparison),
        reason=truncate(main_problem(rows).reason, MAX_REASON_CHARS),
        difference=difference_text(rows, comparison),
    )


def _extra_calls(pairing: Pairing) -> set[int]:
    paired = zip(pairing.fitting, pairing.misplaced, pairing.must, strict=True)
    return {index for index, (fit, place, must) in enumerate(paired) if must and fit is None and place is None}


def _placed(indexes: Iterable[int], comparison: TrajectoryComparison) -> tuple[PlacedCall, ...]:
    return tuple(PlacedCall(index, comparison.calls[index]) for index in sorted(indexes))


def assert_trajectory(calls: Iterable[object], trajectory: Trajectory) -> None:
    """Assert that the tool calls match; see `match_trajectory` for the arguments.

    Raises:
        AssertionError: they do not; the message has the main problem, and the actual calls next to the expected ones.
        InputError: an item of `calls` is not a tool call.
    """
    __tracebackhide__ = True
    match = match_trajectory(calls, trajectory)
    if not match:
        raise AssertionError(str(match))


class TrajectoryComparison(Struct, frozen=True):
    """The calls, the trajectory, and their pairing.

    `forbidden` maps each forbidden call to the rule that forbids it, `early` each call that comes too early to the
    call that must come first.
    """

    calls: Sequence[ToolCall]
    trajectory: Trajectory
    pairing: Pairing
    forbidden: dict[int, Expectation]
    early: dict[int, Expectation]


def compare_calls(calls: Sequence[ToolCall], trajectory: Trajectory) -> TrajectoryComparison:
    """Compare the calls with the trajectory."""
    forbidden: dict[int, Expectation] = {}
    for index, call in enumerate(calls):
        for each in trajectory.forbidden:
            if index not in forbidden and each.fits(call):
                forbidden[index] = each
    early = dict(found for order in reversed(trajectory.before) for found in _early(calls, order))
    return TrajectoryComparison(calls, trajectory, pair(calls, trajectory, forbidden=forbidden), forbidden, early)


def _early(calls: Sequence[ToolCall], order: CallOrder) -> list[tuple[int, Expectation]]:
    """Return the first call of `then`, if no call of `first` comes before it."""
    first, then = order
    for index, call in enumerate(calls):
        if then.fits(call):
            return [(index, first)]
        if first.fits(call):
            return []
    return []


class DifferenceRow(Struct, frozen=True):
    """An expectation and a call side by side, or one of them alone, by index.

    `label` names the problem, and `reason` is one sentence about it; both are empty without a problem. `notes` are
    details.
    """

    expectation: int | None
    call: int | None
    label: str = ""
    reason: str = ""
    notes: tuple[str, ...] = ()


def difference_rows(comparison: TrajectoryComparison) -> list[DifferenceRow]:
    """Return all rows: the calls in order, and the missing ones at their position, or last if order does not matter."""
    rows: list[DifferenceRow] = []
    passed = 0
    for call in range(len(comparison.calls)):
        row = _with_violations(_row(call, comparison), comparison)
        if comparison.trajectory.is_ordered and row.expectation is not None:
            rows.extend(_rows_without_call(range(passed, row.expectation), comparison))
            passed = max(passed, row.expectation)
        rows.append(row)
    return [*rows, *_rows_without_call(range(passed, len(comparison.trajectory.expected)), comparison)]


def _row(call: int, comparison: TrajectoryComparison) -> DifferenceRow:
    pairing = comparison.pairing
    if pairing.fitting[call] is not None:
        return DifferenceRow(pairing.fitting[call], call)
    if pairing.misplaced[call] is not None:
        return DifferenceRow(None, call, "misplaced", _misplaced(call, comparison))
    expectation = pairing.differing[call]
    if expectation is not None:
        notes = tuple(str(difference) for difference in pairing.differences[call, expectation])
        reason = f"arguments differ: call {call + 1}, {comparison.calls[call].tool}: {notes[0]}"
        return DifferenceRow(expectation, call, "arguments differ", reason, notes)
    return (
        DifferenceRow(None, call, "extra", _extra(call, comparison))
        if pairing.must[call]
        else DifferenceRow(None, call)
    )


def _with_violations(row: DifferenceRow, comparison: TrajectoryComparison) -> DifferenceRow:
    """Return the row, with the problem if its call is forbidden or comes too early."""
    call = row.call
    if call in comparison.forbidden:
        return replace(row, label="forbidden", reason=_forbidden(call, comparison))
    if call in comparison.early:
        note = f"comes before any {comparison.early[call].text(40)}"
        reason = row.reason or f"misplaced: {_numbered(call, comparison)}, {note}"
        return replace(row, label=row.label or "misplaced", reason=reason, notes=(*row.notes, note))
    return row


def _rows_without_call(expectations: Iterable[int], comparison: TrajectoryComparison) -> Iterator[DifferenceRow]:
    pairing = comparison.pairing
    for index in expectations:
        for call, owner in enumerate(pairing.misplaced):
            if owner == index:
                yield DifferenceRow(index, None, f"misplaced: call {call + 1}", _misplaced(call, comparison))
        if pairing.missing[index] > pairing.differing.count(index):
            expectation = comparison.trajectory.expected[index]
            found = f", found {comparison.pairing.fitting.count(index)}" if expectation.is_counted else ""
            yield DifferenceRow(index, None, "missing", f"missing: {expectation}{found}")


def _numbered(call: int, comparison: TrajectoryComparison) -> str:
    return f"call {call + 1}, {call_text(comparison.calls[call], 40)}"


def _misplaced(call: int, comparison: TrajectoryComparison) -> str:
    owner = comparison.pairing.misplaced[call]
    return f"misplaced: {_numbered(call, comparison)}, is expected at position {(owner or 0) + 1}"


def _extra(call: int, comparison: TrajectoryComparison) -> str:
    expected = (comparison.trajectory.expected[index] for index in comparison.pairing.fits[call])
    limit = next((each for each in expected if each.is_counted), None)
    return f"extra: {_numbered(call, comparison)}" + (f"; expected {limit.text(40)}" if limit else "")


def _forbidden(call: int, comparison: TrajectoryComparison) -> str:
    rule = comparison.forbidden[call]
    return f"forbidden: {_numbered(call, comparison)}" + (f", by {rule.text(40)}" if rule.args else "")


MAX_COLUMNS = 100
MAX_LINES = 60
MAX_NOTES = 5
CELL_COLUMNS = 38
ROWS_AROUND = 2


def difference_text(rows: Sequence[DifferenceRow], comparison: TrajectoryComparison) -> str:
    """Format the rows as lines of at most 100 columns: the expected call, the actual call, and the problem.

    `>` marks the main problem. Rows without a problem are omitted if they are far from the others.
    """
    problem = main_problem(rows)
    header = [f"expected ({comparison.trajectory.mode})", "actual"]
    cells = [_cells(row, comparison) for row in rows]
    widths = [max(len(cell[side]) for cell in [header, *cells]) for side in (0, 1)]
    lines = [_line("  ", header, widths, "")]
    for index in _visible_rows(rows):
        if index is None:
            lines.append("  …")
            continue
        lines.append(_line("> " if rows[index] is problem else "  ", cells[index], widths, rows[index].label))
        lines.extend(_notes(rows[index]))
    more = [f"  … {pluralize(len(lines) - MAX_LINES, 'more line')}"] if len(lines) > MAX_LINES else []
    return "\n".join([*lines[:MAX_LINES], *more])


def main_problem(rows: Sequence[DifferenceRow]) -> DifferenceRow:
    """Return the row of the first forbidden call, or else the first row with a problem."""
    wrong = [row for row in rows if row.label]
    return next((row for row in wrong if row.label == "forbidden"), wrong[0])


def _cells(row: DifferenceRow, comparison: TrajectoryComparison) -> list[str]:
    left = right = ""
    if row.expectation is not None:
        number = f"{row.expectation + 1}. "
        left = number + comparison.trajectory.expected[row.expectation].text(CELL_COLUMNS - len(number))
    if row.call is not None:
        number = f"{row.call + 1}. "
        right = number + call_text(comparison.calls[row.call], CELL_COLUMNS - len(number))
    return [left, right]


def _line(mark: str, cells: list[str], widths: list[int], label: str) -> str:
    left, right = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return f"{mark}{left}  {right}  {label}".rstrip()


def _notes(row: DifferenceRow) -> Iterator[str]:
    for note in row.notes[:MAX_NOTES]:
        yield truncate(f"      {note}", MAX_COLUMNS)
    if len(row.notes) > MAX_NOTES:
        yield f"      … {len(row.notes) - MAX_NOTES} more"


def _visible_rows(rows: Sequence[DifferenceRow]) -> Iterator[int | None]:
    """Yield the indexes of the rows to show; None stands for omitted rows."""
    wrong = [index for index, row in enumerate(rows) if row.label]
    near = {index + step for index in wrong for step in range(-ROWS_AROUND, ROWS_AROUND + 1)}
    is_omitted = False
    for index in range(len(rows)):
        if index in near:
            yield index
        elif not is_omitted:
            yield None
        is_omitted = index not in near
