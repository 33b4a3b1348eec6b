"""Golden trajectories: a file with the approved tool calls of runs, and the differences of other runs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec
import orjson
from msgspec import Struct, field

from offbook.errors import InputError
from offbook.files import read_file, replace_file
from offbook.messages import JsonObject, Message, ToolCall
from offbook.recording.format.document import Document, rules_from_meta
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules, apply_rules, check_rules
from offbook.recording.redact.rules import redactor_in_force
from offbook.recording.stores.locate import open_store
from offbook.scenarios.trajectory.match import TrajectoryMatch, match_trajectory, read_calls
from offbook.scenarios.trajectory.trajectory import Expectation, Trajectory, parse_assertions
from offbook.schema_errors import decode_json
from offbook.text import did_you_mean_file, pluralize

Turn: TypeAlias = tuple[ToolCall, ...]
"""The tool calls of one answer of a model. They have no order."""

_RAW = "(not JSON)"
"""The name for arguments that are not a JSON object."""


class GoldenVariant(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One accepted trajectory: calls as in declared assertions, and their recording."""

    turns: list[list[JsonObject]]
    recording: str = field(default="", name="from")

    def describe(self) -> str:
        """Return its tools on one line, like `find_order, refund + mail`."""
        named = (" + ".join(str(call.get("tool", "?")) for call in turn) for turn in self.turns)
        return ", ".join(named) or "no tool calls"


class GoldenFile(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The accepted trajectories of a run. Anything that the recording's `normalise` rules ignore is no difference.

    A call without `args` may have any; `"match": "partial"` allows further ones.
    """

    golden: Literal[1] = 1
    variants: list[GoldenVariant] = field(default_factory=list)
    normalise: NormaliseRules = NO_RULES

    def match(self, turns: Iterable[Turn]) -> TrajectoryMatch:
        """Compare the tool calls of a run with the accepted ones, and return the match with the nearest variant."""
        made = [normalised_turn(turn, self.normalise) for turn in turns]
        found = [_match_variant(made, _expected_turns(each)) for each in self.variants]
        return min(found, key=_distance, default=TrajectoryMatch(False, reason="there is no golden trajectory"))

    def with_variant(self, variant: GoldenVariant, rules: NormaliseRules) -> GoldenFile:
        """Return the file with another variant. Its rules are those that the run was recorded with."""
        return GoldenFile(variants=[*self.variants, variant], normalise=rules)


def golden_path(recording: str | os.PathLike[str]) -> Path:
    """Return where the golden trajectory of a recording is: `runs/today.golden` for `runs/today.json`.

    Raises:
        InputError: the recording is not a file.
    """
    if "://" in os.fspath(recording):
        raise InputError("there is no file next to this recording", source=os.fspath(recording), hint="name the file")
    return Path(recording).with_suffix(".golden")


def load_golden(path: str | os.PathLike[str]) -> GoldenFile:
    """Load a file of golden trajectories.

    Raises:
        InputError: it cannot be read, or is not such a file.
    """
    source = os.fspath(path)
    try:
        data = read_file(path)
    except OSError as error:
        hint = did_you_mean_file(source, "offbook recording approve PATH")
        raise InputError(error.strerror or str(error), source=source, hint=hint) from None
    found = decode_json(data, GoldenFile, source=source, hint=_EXAMPLE)
    check_rules(found.normalise, source=source)
    for index, variant in enumerate(found.variants):
        _check_variant(variant, source=source, place=f"variants[{index}]")
    return found


_EXAMPLE = '{"golden": 1, "variants": [{"turns": [[{"tool": "search", "args": {"text": "tea"}}]]}]}'


def _check_variant(variant: GoldenVariant, *, source: str, place: str) -> None:
    try:
        _expected_turns(variant)
    except InputError as error:
        raise InputError(error.reason, source=source, place=place, hint=error.hint) from None


def save_golden(path: str | os.PathLike[str], golden: GoldenFile) -> None:
    """Write a file of golden trajectories, a turn on each line. An existing file is replaced as a whole.

    Raises:
        InputError: it cannot be written.
    """
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        replace_file(Path(path), _rendered(golden).encode())
    except OSError as error:
        raise InputError(error.strerror or str(error), source=os.fspath(path)) from None


def _rendered(golden: GoldenFile) -> str:
    variants = ",\n".join(_rendered_variant(each) for each in golden.variants)
    rules = (
        "" if golden.normalise == NO_RULES else f'  "normalise": {msgspec.json.encode(golden.normalise).decode()},\n'
    )
    return f'{{\n  "golden": {golden.golden},\n{rules}  "variants": [\n{variants}\n  ]\n}}\n'


def _rendered_variant(variant: GoldenVariant) -> str:
    turns = ",\n".join(f"        {orjson.dumps(turn).decode()}" for turn in variant.turns)
    lines = f"[\n{turns}\n      ]" if turns else "[]"
    return f'    {{\n      "from": {orjson.dumps(variant.recording).decode()},\n      "turns": {lines}\n    }}'


def recorded_turns(document: Document) -> list[Turn]:
    """Return the tool calls of each answer of a recording, in the order of the conversation; failures have none."""
    exchanges = sorted((exchange for _, exchange in document), key=lambda each: each.recorded_at or "")
    return [turn for exchange in exchanges if exchange.fault is None and (turn := turn_of(exchange.tool_calls))]


def turn_of(calls: Iterable[RecordedToolCall] | None) -> Turn:
    """Return recorded tool calls as those of one answer."""
    exchange = Exchange(tool_calls=list(calls or ()) or None)
    return exchange.response(model="", provider="").tool_calls


def turns_in(calls: Iterable[object]) -> list[Turn]:
    """Return tool calls in any common shape as turns: those of a message together, others one by one.

    Raises:
        InputError: an item is not a tool call, nor a message.
    """
    given = list(calls) if not isinstance(calls, str | bytes | dict) else calls
    read_calls(given)  # its error names the place of what is not a call
    return [turn for each in given if (turn := read_calls([each]))]


def golden_variant(turns: Iterable[Turn], rules: NormaliseRules = NO_RULES, *, recording: str = "") -> GoldenVariant:
    """Return a run as an accepted trajectory."""
    made = [[{"tool": call.tool, "args": call.args} for call in normalised_turn(turn, rules)] for turn in turns]
    return GoldenVariant(made, Path(recording).name)


def normalised_turn(turn: Iterable[ToolCall], rules: NormaliseRules) -> Turn:
    """Return tool calls normalised like requests: without ids, ignored parts and secrets."""
    message = redactor_in_force().value(Message("assistant", tool_calls=tuple(turn)).to_dict())
    fields = apply_rules({"messages": [message]}, rules)
    return tuple(
        ToolCall(call.tool, call.args if call.raw_arguments is None else {_RAW: call.raw_arguments})
        for call in read_calls(fields["messages"])
    )


def _expected_turns(variant: GoldenVariant) -> list[list[Expectation]]:
    return [_expectations(turn) for turn in variant.turns]


def _expectations(turn: Sequence[JsonObject]) -> list[Expectation]:
    """Return the calls of a turn. Their arguments must be equal, unless the file says otherwise."""
    calls: list[dict[str, Any]] = [({"match": "exact"} if "args" in call else {}) | call for call in turn]
    return list(parse_assertions({"toolCalls": {"matchMode": "strict", "expected": calls}})[0].expected)


def _match_variant(made: Sequence[Turn], accepted: Sequence[Sequence[Expectation]]) -> TrajectoryMatch:
    """Compare a run with one variant. Turns are in order; the calls of one answer are in any order."""
    waiting, expected, calls = [list(turn) for turn in accepted], list[Expectation](), list[ToolCall]()
    for turn in made:
        left = list(turn)
        while left:
            waiting = [group for group in waiting if group]
            call, fit = _next_pair(left, waiting[0] if waiting else [])
            left.remove(call)
            calls.append(call)
            if fit is not None:
                waiting[0].remove(fit)
                expected.append(fit)
    rest = [each for group in waiting for each in group]
    return match_trajectory(calls, Trajectory("strict", [*expected, *rest]))


def _next_pair(left: Sequence[ToolCall], group: Sequence[Expectation]) -> tuple[ToolCall, Expectation | None]:
    """Return the next call of an answer, and the expectation that it fits, preferring an awaited one."""
    for call in left:
        fit = next((each for each in group if each.fits(call)), None)
        if fit is not None:
            return call, fit
    return left[0], None


def _distance(match: TrajectoryMatch) -> int:
    return 0 if match.matched else 1 + len(match.missing) + len(match.extra) + len(match.misplaced)


def describe_difference(match: TrajectoryMatch, golden: GoldenFile) -> str:
    """Return the difference between a run and the nearest golden trajectory."""
    count = len(golden.variants)
    nearest = "" if count < 2 else f" (nearest of {pluralize(count, 'variant')})"
    return f"not as approved{nearest}: {match}"


class Approval(Struct, frozen=True):
    """The approval of a recording: the golden file, its content now, and the number of the variant that was added."""

    path: str
    golden: GoldenFile
    added: int | None = None


def approve_recording(recording: str, *, path: str | None = None, replaces: bool = False) -> Approval:
    """Add the trajectory of a recording to its golden ones, unless it is already one of them.

    With `replaces`, it becomes the only one.

    Raises:
        InputError: the recording or the file cannot be read, or the file cannot be written.
    """
    file = golden_path(recording) if path is None else Path(path)
    document = open_store(recording).load()
    rules, turns = rules_from_meta(document.meta, source=recording), recorded_turns(document)
    before = GoldenFile() if replaces or not file.exists() else load_golden(file)
    if before.variants and before.match(turns):
        return Approval(str(file), before)
    rules = before.normalise if before.variants else rules
    golden = before.with_variant(golden_variant(turns, rules, recording=recording), rules)
    save_golden(file, golden)
    return Approval(str(file), golden, added=len(golden.variants))


def compare_recording(recording: str, *, path: str | None = None) -> str:
    """Return the difference between a recording's trajectory and the nearest golden one, or "" for a golden one.

    Raises:
        InputError: the recording or the file cannot be read.
    """
    golden = load_golden(golden_path(recording) if path is None else path)
    match = golden.match(recorded_turns(open_store(recording).load()))
    return "" if match else describe_difference(match, golden)
