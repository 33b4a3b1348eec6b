"""Regressions: findings that are kept in files, each with all that it takes to see whether it is still there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import chdir
from functools import partial
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.case import Case
from offbook.explore.exploration import Explored, Explorer, Wish
from offbook.explore.minimise import minimised
from offbook.explore.run import Run
from offbook.explore.subject import Subject
from offbook.explore.verdict import Invariant, Verdict, judge
from offbook.faults import FaultPlan, PlannedFault
from offbook.faults.complaint import broken_json, reason_and_path
from offbook.subjects.described import AnyDescribed
from offbook.subjects.invariants import load_invariants
from offbook.subjects.opening import open_subject
from offbook.subjects.regression_mark import is_regression
from offbook.subjects.terms import USUAL_TERMS, Terms


class Regression(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A finding: what was explored, on which terms, with which faults, and what came of it.

    `folder` is the working directory that paths and commands are relative to, seen from the file's own.
    """

    offbook: Literal["regression"]
    verdict: Verdict
    evidence: tuple[str, ...] = ()
    faults: tuple[PlannedFault, ...]
    subject: AnyDescribed
    terms: Terms = USUAL_TERMS
    invariants: str | None = None
    folder: str = "."

    def __str__(self) -> str:
        return "; ".join(str(line) for line in self.faults)

    def reproduced(self) -> Explored:
        """Run the subject once without a fault and once with these, and judge it.

        Raises:
            InputError: something that the subject needs is missing or wrong, or it fails without a fault.
        """
        invariants = [] if self.invariants is None else load_invariants(self.invariants)
        with open_subject(self.subject, self.terms) as subject:
            explorer = Explorer(subject, Wish(dishes=(), invariants=invariants))
            return explorer.explore([Case("", self.faults, ())]).explored[0]


def load_regression(path: str | os.PathLike[str]) -> Regression:
    """The regression in a file.

    Raises:
        InputError: it cannot be read as one; names the file, the place in it and the reason.
    """
    source = os.fspath(path)
    try:
        data = Path(path).read_bytes()
        return msgspec.json.decode(data, type=Regression)
    except OSError as error:
        raise InputError(error.strerror or str(error), source=source) from None
    except msgspec.ValidationError as error:
        reason, place = reason_and_path(error)
        raise InputError(reason, source=source, place=place.removeprefix(".")) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        reason, place = broken_json(data, error)
        raise InputError(reason, source=source, place=place) from None


def reproduced(path: str | os.PathLike[str]) -> Explored:
    """What becomes of the regression in a file now, run in the folder that it names.

    Raises:
        InputError: the file, or something that the regression needs, is missing or wrong.
    """
    regression = load_regression(path)
    folder = Path(path).parent / regression.folder
    if not folder.is_dir():
        raise InputError(f"there is no folder {folder}", source=os.fspath(path), place="folder")
    with chdir(folder):
        return regression.reproduced()


class RegressionFolder:
    """Writes regressions into a folder, those that are there already left as they are."""

    def __init__(self, folder: str | os.PathLike[str], kind: Regression) -> None:
        self._folder, self._kind = Path(folder), kind

    def keep(self, subject: Subject, clean: Run, found: Iterable[Explored]) -> list[Path]:
        """Write a file for each finding, its faults minimised; gives the files of all, new or not.

        Raises:
            InputError: the folder cannot be written to.
        """
        invariants = [] if self._kind.invariants is None else load_invariants(self._kind.invariants)
        kept = _Minimised(subject, clean, invariants)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            known = {file.read_bytes(): file for file in self._files()}
            return [self._written(*each, known) for each in kept.of(found)]
        except OSError as error:
            raise InputError(error.strerror or str(error), source=str(self._folder)) from None

    def _files(self) -> Iterator[Path]:
        return (file for file in sorted(self._folder.glob("*.json")) if is_regression(file))

    def _written(self, explored: Explored, lines: tuple[PlannedFault, ...], known: dict[bytes, Path]) -> Path:
        regression = replace(
            self._kind,
            verdict=explored.verdict,
            evidence=explored.judged.evidence,
            faults=lines,
            folder=os.path.relpath(Path.cwd(), self._folder.resolve()),
        )
        data = msgspec.json.format(msgspec.json.encode(regression), indent=2) + b"\n"
        if data not in known:
            known[data] = self._free(explored.case.id)
            known[data].write_bytes(data)
        return known[data]

    def _free(self, name: str) -> Path:
        """A file that is not there yet: `0007.json`, or `0007-2.json` if another finding has taken that."""
        names = [name, *(f"{name}-{number}" for number in range(2, 1000))]
        return next(file for each in names if not (file := self._folder / f"{each}.json").exists())


class _Minimised:
    """Leaves out of findings the faults that they do not need."""

    def __init__(self, subject: Subject, clean: Run, invariants: Sequence[Invariant]) -> None:
        self._subject, self._clean, self._invariants = subject, clean, invariants

    def of(self, found: Iterable[Explored]) -> Iterator[tuple[Explored, tuple[PlannedFault, ...]]]:
        """Each finding with its lines; those that come down to the same as one before are left out."""
        seen: set[frozenset[str]] = set()
        for explored in found:
            lines = minimised(explored.case.lines, partial(self._is, explored.verdict))
            known = frozenset(str(line) for line in lines)
            if known not in seen:
                seen.add(known)
                yield explored, lines

    def _is(self, verdict: Verdict, lines: tuple[PlannedFault, ...]) -> bool:
        run = self._subject.run(FaultPlan(lines))
        return judge(run, self._clean, invariants=self._invariants).verdict == verdict
