"""Regressions: findings kept in files, with everything needed to run them again."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, minimise
from offbook.explore.explorer import CaseResult, Explorer, Subject, runs_of
from offbook.explore.judge import assess
from offbook.explore.options import ExploreOptions, Invariant, gave_up_by
from offbook.explore.run import Run
from offbook.explore.settings import DEFAULT_SETTINGS, ExploreSettings
from offbook.explore.verdict import Assessment, Reason, Verdict, stored_assessment
from offbook.faults import FaultPlan, PlannedFault
from offbook.files import read_file
from offbook.recording.redact.rules import mask_reported
from offbook.schema_errors import decode_json
from offbook.subjects import is_regression
from offbook.subjects.specs import AnySubjectSpec, load_invariants, open_subject


class Regression(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A finding: the subject, its settings, the faults, and the verdict with its evidence.

    `folder` is the working directory of paths and commands, relative to the folder of the file.
    """

    offbook: Literal["regression"]
    verdict: Verdict
    reason: Reason = ""
    evidence: tuple[str, ...] = ()
    faults: tuple[PlannedFault, ...]
    subject: AnySubjectSpec
    settings: ExploreSettings = field(default=DEFAULT_SETTINGS, name="terms")
    invariants: str | None = None
    folder: str = "."

    @property
    def assessment(self) -> Assessment:
        """The verdict when it was found."""
        return stored_assessment(self.verdict, self.evidence, self.reason)

    def __str__(self) -> str:
        return "; ".join(str(line) for line in self.faults)

    def reproduce(self) -> CaseResult:
        """Run the subject once without a fault and once with these faults, and assess it.

        Raises:
            InputError: something that the subject needs is missing or wrong, or it fails without a fault.
        """
        invariants = [] if self.invariants is None else load_invariants(self.invariants)
        with open_subject(self.subject, self.settings) as subject:
            options = ExploreOptions(
                variants=(),
                invariants=invariants,
                optional=self.settings.optional_names,
                gave_up=gave_up_by(self.settings.gave_up),
                unchecked=frozenset(self.settings.tools),
            )
            explorer = Explorer(subject, options)
            return explorer.explore([FaultCase("", self.faults, ())]).results[0]


def load_regression(path: str | os.PathLike[str]) -> Regression:
    """Load a regression from a file.

    Raises:
        InputError: it is not a regression; names the file, the place in it and the reason.
    """
    source = os.fspath(path)
    try:
        data = read_file(path)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=source) from None
    return decode_json(data, Regression, source=source)


def reproduce(path: str | os.PathLike[str], *, declared: Sequence[str] = ()) -> CaseResult:
    """Run the regression in a file again, in the folder that it names. `declared` are further declared errors.

    Raises:
        InputError: the file, or something that the regression needs, is missing or wrong.
    """
    regression = load_regression(path)
    settings = replace(regression.settings, declared=(*regression.settings.declared, *declared))
    folder = Path(path).parent / regression.folder
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}", source=os.fspath(path), place="folder")
    with chdir(folder):
        return replace(regression, settings=settings).reproduce()


class RegressionFolder:
    """Writes regressions into a folder. Existing files are not changed."""

    def __init__(self, folder: str | os.PathLike[str], kind: Regression) -> None:
        self._folder, self._kind = Path(folder), kind

    def keep(self, subject: Subject, clean: Run, found: Iterable[CaseResult], *, minimises: bool = True) -> list[Path]:
        """Write a file for each finding, and return the files, new or not.

        If it `minimises`, each has as few faults as the finding needs, which takes further runs.

        Raises:
            InputError: the folder cannot be written to.
        """
        invariants = [] if self._kind.invariants is None else load_invariants(self._kind.invariants)
        minimiser = _Minimiser(subject, clean, invariants, settings=self._kind.settings)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            known = {file.read_bytes(): file for file in self._files()}
            kept = minimiser.minimise_all(found) if minimises else ((each, each.case.lines) for each in found)
            return [self._write(*each, known) for each in kept]
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(self._folder)) from None

    def _files(self) -> Iterator[Path]:
        return (file for file in sorted(self._folder.glob("*.json")) if is_regression(file))

    def _write(self, explored: CaseResult, lines: tuple[PlannedFault, ...], known: dict[bytes, Path]) -> Path:
        regression = replace(
            self._kind,
            verdict=explored.verdict,
            reason=explored.reason,
            evidence=explored.evidence,
            faults=lines,
            folder=os.path.relpath(Path.cwd(), self._folder.resolve()),
        )
        data = msgspec.json.format(mask_reported(msgspec.json.encode(regression)), indent=2) + b"\n"
        if data not in known:
            known[data] = self._free(explored.case.id)
            known[data].write_bytes(data)
        return known[data]

    def _free(self, name: str) -> Path:
        """Return a file that does not exist: `0007.json`, or `0007-2.json` if another finding has that name."""
        names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
        return next(file for each in names if not (file := self._folder / f"{each}.json").exists())


class _Minimiser:
    """Drops the unneeded faults of a finding: the rest has the same verdict."""

    def __init__(
        self, subject: Subject, clean: Run, invariants: Sequence[Invariant], *, settings: ExploreSettings
    ) -> None:
        self._subject, self._clean, self._invariants = subject, clean, invariants
        self._optional, self._gave_up = settings.optional_names, gave_up_by(settings.gave_up)

    def minimise_all(self, found: Iterable[CaseResult]) -> Iterator[tuple[CaseResult, tuple[PlannedFault, ...]]]:
        """Yield each finding with its lines, without repetitions."""
        seen: set[frozenset[str]] = set()
        for explored in found:
            lines = minimise(explored.case.lines, partial(self._has_title, explored.title))
            known = frozenset(str(line) for line in lines)
            if known not in seen:
                seen.add(known)
                yield explored, lines

    def _has_title(self, title: str, lines: tuple[PlannedFault, ...]) -> bool:
        worst = min(map(self._assess, runs_of(self._subject, FaultPlan(lines))), key=lambda each: each.severity)
        return worst.title == title

    def _assess(self, run: Run) -> Assessment:
        return assess(run, self._clean, invariants=self._invariants, optional=self._optional, gave_up=self._gave_up)
