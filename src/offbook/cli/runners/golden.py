"""Golden trajectories on the command line: approving what was recorded, and comparing a run with what was approved."""

from __future__ import annotations

import shlex
from pathlib import Path

from msgspec import Struct

from offbook.cli import FAILED, FINE
from offbook.cli.runners.wire import ExitDecision, WireArguments, WireTally
from offbook.recording.format.document import rules_from_meta
from offbook.recording.stores.locate import open_store
from offbook.scenarios.trajectory.golden import (
    GoldenFile,
    describe_difference,
    golden_path,
    golden_variant,
    load_golden,
    recorded_turns,
    save_golden,
    turn_of,
)


class Approval(Struct, frozen=True):
    """What is approved for a recording: the file, what it holds now, and the number of the variant that was added."""

    path: str
    golden: GoldenFile
    added: int | None = None


def approve(recording: str, *, path: str | None = None, replaces: bool = False) -> Approval:
    """Add the trajectory of a recording to its golden ones, unless one of them is the same.

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
    """Return how the trajectory of a recording differs from the nearest golden one; empty if it is one of them.

    Raises:
        InputError: the recording or the file cannot be read.
    """
    golden = load_golden(golden_path(recording) if path is None else path)
    match = golden.match(recorded_turns(open_store(recording).load()))
    return "" if match else describe_difference(match, golden)


class GoldenCheck(Struct, frozen=True):
    """Compares the tool calls of a run with the golden trajectories at `path`."""

    path: str
    golden: GoldenFile

    @classmethod
    def load(cls, path: str) -> GoldenCheck:
        """Load the file. Raises InputError if it is not one."""
        return cls(path, load_golden(path))

    def decide(self, decision: ExitDecision, tally: WireTally, options: WireArguments) -> ExitDecision:
        """Return the decision about a run; one that succeeded is a failure if its tool calls were not approved."""
        match = self.golden.match([turn_of(turn) for turn in tally.tool_turns])
        if decision.code != FINE or match:
            return decision
        recording = shlex.quote(options.record or options.recording)
        hint = f"approve them: offbook recording approve {recording} --golden {shlex.quote(self.path)}"
        return ExitDecision(FAILED, f"the tool calls are {describe_difference(match, self.golden)}", hint)
