"""A planted defect: the verdict that it is to get, where, and what the evidence has to mention."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, field

from offbook.explore.explorer import Subject
from offbook.explore.options import Invariant
from offbook.explore.run import Run
from offbook.subjects.function import FunctionSubject
from tests.explore.zoo.functions.desk import GaveUpError
from tests.explore.zoo.ledger import Entry

Twin = Literal["defect", "sound"]


class Planted(Struct, frozen=True, kw_only=True):
    """A defect and its sound twin.

    `verdict` is what the defect is to get in the case `at`, and `evidence` what has to be in its evidence. `also` are
    other findings that the same defect leads to elsewhere. `undoes` maps tools to those whose effects they undo.
    `faults` are those to try, `all` but the optional ones by default.
    """

    name: str
    verdict: str
    at: str
    evidence: str = ""
    also: Sequence[str] = ()
    undoes: Mapping[str, str] = field(default_factory=dict)
    faults: str = "all"
    invariants: Sequence[Invariant] = ()

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

    def done(self, entries: list[Entry], run: Run) -> list[Entry]:
        """Return what was done in a run whose ledger has these entries."""
        return entries

    @abstractmethod
    def open(self, twin: Twin, folder: Path) -> AbstractContextManager[Subject]:
        """Open the defect or its twin for a block, with its recording in a folder."""


def write_recording(folder: Path, answers: Mapping[str, Any]) -> Path:
    """Write a recording by hand."""
    path = folder / "recording.json"
    path.write_text(json.dumps({"_version": 2, **answers}))
    return path


class PlantedFunction(Planted, frozen=True, kw_only=True):
    """A defect of a function: the agent, and the one argument by which the twins differ."""

    agent: Callable[..., Any]
    defect: Mapping[str, Any]
    sound: Mapping[str, Any]
    answers: Mapping[str, Any]

    @property
    def kind(self) -> str:
        return "function"

    @property
    def sound_agent(self) -> object:
        return self.agent, self.sound, self.answers, self.invariants, self.faults

    def open(self, twin: Twin, folder: Path) -> AbstractContextManager[Subject]:
        function = partial(self.agent, **(self.defect if twin == "defect" else self.sound))
        return closing(FunctionSubject(function, write_recording(folder, self.answers), declared=[GaveUpError]))
