"""Explores an agent of the zoo with all faults, and compares the verdicts with the ledger of what its tools did."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from offbook.explore.cases import FaultCase
from offbook.explore.explorer import CaseResult, Exploration, Explorer, Subject
from offbook.explore.options import VARIANTS, ExploreOptions, gave_up_by, select_variants
from offbook.explore.run import Run
from offbook.faults import FaultPlan
from offbook.recording.match.continuation import Continuation
from tests.explore.zoo.evidence import contradictions
from tests.explore.zoo.ledger import Entry, Ledger, balance
from tests.explore.zoo.planted import Planted, Twin


class Witness:
    """A subject whose tools keep a ledger: every run is noted with what it did."""

    def __init__(self, subject: Subject, ledger: Ledger) -> None:
        self.name, self._subject, self._ledger = subject.name, subject, ledger
        self.seen: list[tuple[Run, list[Entry]]] = []

    def run(self, plan: FaultPlan, continuation: Continuation = "stubborn") -> Run:
        self._ledger.take()
        run = self._subject.run(plan, continuation)
        self.seen.append((run, self._ledger.take()))
        return run

    def effects_of(self, run: Run) -> list[Entry]:
        """What the tools did in that run. What is compared may be without the noise of what was seen."""
        same = [effects for each, effects in self.seen if each == run]
        alike = [effects for each, effects in self.seen if _faults_of(each) == _faults_of(run)]
        return (same or alike)[0]


def _faults_of(run: Run) -> tuple[Sequence[str], str]:
    return run.fired, run.continuation


class Finding(Struct, frozen=True):
    """One case of an exploration, with what the ledger says about it."""

    case: str
    verdict: str
    is_finding: bool
    evidence: str
    continuation: str
    disagreement: str = ""


class Census(Struct, frozen=True, kw_only=True):
    """The exploration of one agent: its verdicts by case, and how long it took."""

    planted: Planted
    twin: Twin
    cases: Sequence[Finding]
    took_s: float

    @property
    def findings(self) -> list[Finding]:
        return [each for each in self.cases if each.is_finding]

    @property
    def counts(self) -> Counter[str]:
        return Counter(each.verdict for each in self.cases)

    @property
    def disagreements(self) -> list[Finding]:
        """The cases whose verdict or evidence does not fit what the tools did."""
        return [each for each in self.cases if each.disagreement]

    @property
    def expected(self) -> Finding | None:
        """The case in which the defect must show: of several, one in which it does, if there is one."""
        there = self.at(self.planted)
        return max(there, key=lambda each: self.planted.is_found(each.verdict), default=None)

    def at(self, planted: Planted) -> list[Finding]:
        """Return the cases in which a defect must show."""
        return [each for each in self.cases if planted.is_at(each.case)]


def explore(planted: Planted, twin: Twin, folder: Path, *, is_quick: bool = False) -> Census:
    """Explore an agent with all faults, or if `is_quick` with the one that shows its defect, wherever it can happen.

    Its ledger is the file `ledger` in the folder.
    """
    start = time.perf_counter()
    with planted.open(twin, folder) as subject:
        witness = Witness(subject, Ledger(folder / "ledger"))
        variants = getattr(subject, "variants", VARIANTS)
        options = ExploreOptions(
            variants=select_variants(planted.faults, variants),
            invariants=planted.invariants,
            optional=frozenset(planted.declares.get("optional", ())),
            gave_up=gave_up_by(planted.declares.get("gave_up")),
        )
        explorer = Explorer(witness, options)
        exploration = explorer.explore(_with_its_fault(planted, explorer.cases) if is_quick else None)
    cases = [_finding(each, planted, witness, exploration) for each in exploration.results]
    return Census(planted=planted, twin=twin, cases=cases, took_s=time.perf_counter() - start)


def _with_its_fault(planted: Planted, cases: Sequence[FaultCase]) -> list[FaultCase]:
    columns = {cell.column for case in cases if planted.is_at(str(case)) for cell in case.cells}
    return [case for case in cases if columns & {cell.column for cell in case.cells}]


COMMON_FAULTS = ("http_error 500", "empty_response", "tool_error", "tool_lost")


def bare_findings(planted: Planted, twin: Twin, folder: Path) -> list[str]:
    """Explore an agent as a newcomer does, with the faults that are tried by default, and return what is found.

    A defect that none of these shows is explored with its own faults. Of a slow agent, only some are tried.
    """
    with planted.bare().open(twin, folder) as subject:
        variants = getattr(subject, "variants", VARIANTS)
        default = [each for each in variants if not each.is_optional]
        if planted.is_slow:
            names = {planted.at.partition(": ")[2].partition(" ")[0], *COMMON_FAULTS}
            default = [each for each in default if each.name in names or each.fault.type in names]
        explorer = Explorer(subject, ExploreOptions(variants=default))
        if not any(planted.is_at(str(case)) for case in explorer.cases):
            explorer = Explorer(subject, ExploreOptions(variants=select_variants(planted.faults, variants)))
        found = explorer.explore().findings
    return [f"{each.case}: {each.title}: {'; '.join(each.evidence)}" for each in found]


def _finding(each: CaseResult, planted: Planted, witness: Witness, exploration: Exploration) -> Finding:
    made = next((other.run for other in exploration.results if other.case.id == each.same_as), each.run)
    entries = planted.done(witness.effects_of(made), made)
    clean = planted.done(witness.effects_of(exploration.clean), exploration.clean)
    known = {tool for _, seen in witness.seen for tool, _ in seen}
    lives = [line for line in each.evidence if line.startswith("it was killed")]  # before its ledger was written
    evidence, told = "; ".join(each.evidence), "; ".join(line for line in each.evidence if line not in lives)
    left = balance(entries, planted.undoes)
    against = list(contradictions(told, Counter(entries), Counter(clean), left=left, known=known))
    if "state" in planted.declares or "state_of" in planted.declares:
        entries = entries[-1:]
        clean = entries if each.title == "failed partway" else clean[-1:]  # of a part, the state may be any
    if "one_more_tool" in str(each.case):
        against += _miscount(each.run, entries)
    elif each.title != "different outcome" or "may have run" not in evidence:
        against += _disagreement(each.title, balance(entries, planted.undoes), balance(clean, planted.undoes))
    return Finding(
        str(each.case),
        each.title,
        each.is_finding,
        evidence,
        getattr(each.run, "continuation", ""),
        "; ".join(against),
    )


def _miscount(run: Run, entries: list[Entry]) -> list[str]:
    """Say how often tools ran if the explorer saw something else. A model that always asks for more may get more."""
    if any(effect.source == "inferred" for effect in run.effects):
        return []
    seen = Counter(effect.tool for effect in run.effects)
    done = Counter(tool for tool, _ in entries)
    return [] if seen == done else [f"the ledger has {dict(done)}, and seen was {dict(seen)}"]


def _disagreement(verdict: str, done: Counter[Entry], wanted: Counter[Entry]) -> list[str]:
    """Say what the ledger has against a verdict; nothing if they agree."""
    more = [each for each in done if done[each] > wanted[each]]
    less = [each for each in wanted if done[each] < wanted[each]]
    repeats = [each for each in more if wanted[each]]
    others = [each for each in more if not wanted[each]]
    holds = {
        "recovered": not more and not less,
        "not reached": not more and not less,
        "different result": not more and not less,
        "different outcome": bool(more or less),
        "left behind": bool(done),
        "undetected (went on without)": not more and not less,
        "failed cleanly": not done or not (more or less),
        "failed partway": bool(done) and not more,
        "repeated effect": bool(more),
        "possible repeated effect": bool(repeats),
        "wrong effect": bool(others),
        "missing effect": bool(less),
    }
    may_repeat = ("repeated effect", "possible repeated effect", "undecided")
    if holds.get(verdict, True) and (verdict in may_repeat or not repeats):
        return []
    return [f"the ledger has {dict(done)}, without the fault {dict(wanted)}"]
