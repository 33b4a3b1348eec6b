"""A planted defect: the verdict that it is to get, where, and what the evidence has to mention."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self

from msgspec import Struct, convert, field
from msgspec.structs import replace

from offbook.explore.explorer import Subject
from offbook.explore.options import Invariant
from offbook.explore.run import Run
from offbook.faults import parse_fault
from offbook.settings import ToolSettings
from offbook.subjects.function import FunctionSubject
from offbook.tools.effects import declared_tools
from tests.explore.zoo.functions.desk import GaveUpError
from tests.explore.zoo.ledger import Entry, would_do

Twin = Literal["defect", "sound"]


class Planted(Struct, frozen=True, kw_only=True):
    """A defect and its sound twin.

    `verdict` is what the defect is to get in the case `at`, and `evidence` what has to be in its evidence. `also` are
    other findings that the same defect leads to elsewhere. An `at` with `*` is several cases.
    `twin_is` is what the sound twin may get in that case, if more is known of it than that it is no finding; of the
    twin, up to `undecided` cases may be undecided. `undoes` maps tools to those whose effects they undo. `faults` are
    those to try, `all` but the optional ones by default. `declares` is what the user declares, by the names of
    `[explore]` in offbook.toml, and `errors` those with which the agent may give up. If its tools are replayed, the
    ledger has the calls that were sent; if it has a `state`, the last entry of the ledger says how that ended.
    """

    name: str
    verdict: str
    at: str
    evidence: str = ""
    also: Sequence[str] = ()
    undoes: Mapping[str, str] = field(default_factory=dict)
    faults: str = "all"
    invariants: Sequence[Invariant] = ()
    twin_is: Sequence[str] = ()
    undecided: float = 0.05
    declares: Mapping[str, Any] = field(default_factory=dict)
    errors: Sequence[Any] = ()
    is_replayed: bool = False

    @property
    @abstractmethod
    def kind(self) -> str:
        """What it is: a function, a workflow, a scenario, or a program in some language."""

    @property
    def missing(self) -> str:
        """What it needs and this machine has not; empty if it can run."""
        return ""

    @property
    @abstractmethod
    def sound_agent(self) -> object:
        """What its sound twin is. Twins that are equal in that have literally the same code, and one is explored."""

    @property
    def is_slow(self) -> bool:
        """Whether of the defect only those cases are explored that have its fault."""
        return False

    @property
    def subject_options(self) -> dict[str, Any]:
        """What is declared to its subject, and not to the exploration of it."""
        return {name: value for name, value in self.declares.items() if name not in ("optional", "gave_up")}

    def is_at(self, case: str) -> bool:
        """Whether the defect is to show in that case."""
        return fnmatchcase(case, self.at)

    def is_found(self, verdict: str) -> bool:
        """Whether a verdict is that of the defect. `undetected` is each of its reasons."""
        return _is_of(verdict, self.verdict)

    def may_get(self, verdict: str) -> bool:
        """Whether the defect may get a verdict somewhere."""
        return any(_is_of(verdict, each) for each in (self.verdict, *self.also))

    @property
    def needs_declarations(self) -> bool:
        """Whether nobody could tell the twins apart if nothing is declared or asserted about them."""
        declared = {*self.declares, *(key for table in self.declares.get("tools", {}).values() for key in table)}
        return self.verdict in ("undecided", "undetected (failed check)") or bool(
            declared & {"gave_up", "state", "state_of", "function", "failed", "may_remain"}
        )

    def bare(self) -> Self:
        """Return it as a newcomer explores it: nothing is declared but what its own code says."""
        return replace(self, declares={}, errors=(), invariants=(), undoes={})

    def done(self, entries: list[Entry], run: Run) -> list[Entry]:
        """Return what was done in a run whose ledger has these entries."""
        if not self.is_replayed:
            return entries
        fired = [parse_fault(line) for line in run.fired]
        faults = [((each.at.tool or "", each.at.call or 0), each.fault.type) for each in fired]
        return would_do(entries, faults, read_only=("desk.find_order",))

    @abstractmethod
    def open(self, twin: Twin, folder: Path) -> AbstractContextManager[Subject]:
        """Open the defect or its twin for a block, with its recording in a folder."""


def _is_of(verdict: str, wanted: str) -> bool:
    return verdict == wanted or verdict.startswith(f"{wanted} (")


def write_recording(folder: Path, answers: Mapping[str, Any]) -> Path:
    """Write a recording by hand."""
    path = folder / "recording.json"
    path.write_text(json.dumps({"_version": 2, **answers}))
    return path


def tool_settings(tables: Mapping[str, Any]) -> dict[str, ToolSettings]:
    """Read `[tools.NAME]`."""
    return convert(tables, dict[str, ToolSettings])


class PlantedFunction(Planted, frozen=True, kw_only=True):
    """A defect of a function: the agent, and the one argument by which the twins differ."""

    agent: Callable[..., Any]
    defect: Mapping[str, Any]
    sound: Mapping[str, Any]
    answers: Mapping[str, Any]
    errors: Sequence[Any] = (GaveUpError,)

    @property
    def kind(self) -> str:
        return "function"

    @property
    def sound_agent(self) -> object:
        return self.agent, self.sound, self.answers, self.invariants, self.faults, self.declares, self.errors

    def open(self, twin: Twin, folder: Path) -> AbstractContextManager[Subject]:
        function = partial(self.agent, **(self.defect if twin == "defect" else self.sound))
        options = self.subject_options
        tools = declared_tools(tool_settings(options.pop("tools", {})))
        recording = write_recording(folder, self.answers)
        return closing(FunctionSubject(function, recording, declared=self.errors, declarations=tools, **options))
