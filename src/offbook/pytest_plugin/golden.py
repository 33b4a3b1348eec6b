"""The golden trajectories of tests: compared with a test's tool calls, and approved by an option."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from msgspec import Struct

from offbook.errors import InputError
from offbook.pytest_plugin.recordings import file_name
from offbook.recording.format.document import rules_from_meta
from offbook.recording.format.exchange import RecordedToolCall
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.stores.locate import open_store
from offbook.scenarios.trajectory.golden import (
    GoldenFile,
    Turn,
    describe_difference,
    golden_path,
    golden_variant,
    load_golden,
    save_golden,
    turn_of,
    turns_in,
)

APPROVE_OPTION = "--offbook-approve"


class ComparedRun(Struct, frozen=True):
    """The tool calls of a test and their golden file. `problem` is the difference, or ""."""

    path: Path
    turns: list[Turn]
    golden: GoldenFile
    problem: str = ""


class GoldenTrajectories:
    """The golden trajectories of one test, in files next to its `recording`."""

    def __init__(self, recording: str, node_id: str) -> None:
        self._recording, self._node_id = recording, node_id
        self._to_approve: list[ComparedRun] = []

    def check(
        self,
        recorded: Sequence[Sequence[RecordedToolCall]] | None,
        calls: Iterable[object] | None,
        *,
        name: str,
        approves: bool = False,
    ) -> None:
        """Compare `calls`, or else the `recorded` ones, with the file of that name. Note a difference for approval.

        Raises:
            AssertionError: they differ.
            InputError: there are no calls, one of them is invalid, or the file cannot be read.
        """
        __tracebackhide__ = True
        if calls is None and recorded is None:
            hint = "offbook.assert_golden(calls), with a list of tool calls or the messages of the agent"
            raise InputError("the tool calls of the test are not known", source="offbook.assert_golden", hint=hint)
        turns = turns_in(calls) if calls is not None else [turn_of(turn) for turn in recorded or ()]
        run = self._compare(turns, name)
        if run.problem and not approves:
            raise AssertionError(run.problem)
        if run.problem:
            self._to_approve.append(run)

    def approve(self) -> int:
        """Add the differing trajectories to the files, and return the number of added variants.

        Raises:
            InputError: a file cannot be written.
        """
        for run in self._to_approve:
            rules = run.golden.normalise if run.golden.variants else self._rules()
            variant = golden_variant(run.turns, rules, recording=self._recording)
            save_golden(run.path, run.golden.with_variant(variant, rules))
        return len(self._to_approve)

    def _compare(self, turns: list[Turn], name: str) -> ComparedRun:
        path = golden_path(self._recording)
        path = path.with_name(f"{path.stem}.{file_name(name)}.golden") if name else path
        hint = f"  hint: approve them: pytest {self._node_id} {APPROVE_OPTION}"
        if not path.exists():
            return ComparedRun(path, turns, GoldenFile(), f"{path.name}: no tool calls were approved yet\n{hint}")
        golden = load_golden(path)
        match = golden.match(turns)
        problem = "" if match else f"{path.name}: the tool calls are {describe_difference(match, golden)}\n{hint}"
        return ComparedRun(path, turns, golden, problem)

    def _rules(self) -> NormaliseRules:
        store = open_store(self._recording)
        return rules_from_meta(store.read().meta, source=self._recording) if store.exists() else NO_RULES
