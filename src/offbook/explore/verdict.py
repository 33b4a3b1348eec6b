"""The verdict on a run with a fault, and the evidence for it.

From top to bottom: the names of verdicts, how a run is assessed, how it sent its model calls again, and what its result
says.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import wraps
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import site_of
from offbook.explore.effects import (
    EffectDifference,
    compare_effects,
    net_effects,
    undone_effects,
    used_keys,
    volatile_values,
    without_volatile,
)
from offbook.explore.noise import STATE
from offbook.explore.options import Invariant, broken_invariants
from offbook.explore.run import TOOL_CHUNKS, ModelCall, Run, RunFailure, ToolRun
from offbook.faults import PlannedFault, ToolSite, parse_fault
from offbook.faults.fault import FaultTrait
from offbook.faults.tools import InjectedText
from offbook.session.script import DEFAULT_RESULT, NEAREST_RESULT
from offbook.text import common_start, did_you_mean, pluralize, shorten
from offbook.tools.effects import UNDECLARED, Effect

Verdict = Literal[
    "repeated effect",
    "wrong effect",
    "missing effect",
    "undetected",
    "hung",
    "bad retry",
    "crashed",
    "undecided",
    "failed partway",
    "different result",
    "failed cleanly",
    "recovered",
    "not reached",
]
"""A family of verdicts. `not reached`: the run never reached the site of the fault."""

Reason = Literal[
    "",
    "certain",
    "failed check",
    "lost messages",
    "broken data",
    "went on without",
    "possible",
    "storm",
    "in vain",
    "too soon",
]
"""Why a run has its verdict, in families that have several reasons."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FINDINGS: frozenset[Verdict] = frozenset(VERDICTS[: VERDICTS.index("undecided")])
"""The verdicts that show a defect."""


class Assessment(Struct, frozen=True):
    """A verdict, the evidence for it, and the reason if its family has several."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()
    reason: Reason = ""

    @property
    def severity(self) -> int:
        """The rank of the verdict and its reason: 0 is the worst."""
        return TITLES.index(self.title)

    @property
    def label(self) -> str:
        """The verdict for symbols and counts. A possible repetition is not counted as a certain one."""
        return f"possible {self.verdict}" if self.reason == "possible" else self.verdict

    @property
    def title(self) -> str:
        """The verdict with its reason: `bad retry (storm)`."""
        is_plain = self.reason in ("", "certain", "possible")
        return self.label if is_plain else f"{self.verdict} ({self.reason})"


# Severity ranks reasons, not families: a certain repetition is worse than anything, a possible one is not.
_BY_SEVERITY = (
    Assessment("repeated effect", reason="certain"),
    Assessment("wrong effect"),
    Assessment("missing effect"),
    Assessment("undetected", reason="failed check"),
    Assessment("bad retry", reason="lost messages"),
    Assessment("undetected", reason="broken data"),
    Assessment("undetected", reason="went on without"),
    Assessment("repeated effect", reason="possible"),
    Assessment("hung"),
    Assessment("bad retry", reason="storm"),
    Assessment("bad retry", reason="in vain"),
    Assessment("bad retry", reason="too soon"),
    Assessment("crashed"),
    Assessment("undecided"),
    Assessment("failed partway"),
    Assessment("different result"),
    Assessment("failed cleanly"),
    Assessment("recovered"),
    Assessment("not reached"),
)

TITLES: tuple[str, ...] = tuple(each.title for each in _BY_SEVERITY)
"""Every verdict with its reason, worst first."""

FINDING_TITLES: frozenset[str] = frozenset(each.title for each in _BY_SEVERITY if each.verdict in FINDINGS)

LABELS: tuple[str, ...] = (*VERDICTS[:4], "possible repeated effect", *VERDICTS[4:])
"""Every label, worst first."""

FINDING_LABELS: frozenset[str] = frozenset(each.label for each in _BY_SEVERITY if each.verdict in FINDINGS)

FormerVerdict = Literal[
    "repeated side effect",
    "possible repeat",
    "wrong",
    "went on without",
    "retry storm",
    "retried in vain",
    "came too soon",
]
"""A verdict in files of earlier versions, which have no reasons."""

_FORMER: dict[str, tuple[Assessment, ...]] = {
    "repeated side effect": (Assessment("repeated effect", reason="certain"),),
    "possible repeat": (Assessment("repeated effect", reason="possible"),),
    "wrong": (Assessment("undetected", reason="failed check"), Assessment("bad retry", reason="lost messages")),
    "undetected": (Assessment("undetected", reason="broken data"),),
    "went on without": (Assessment("undetected", reason="went on without"),),
    "retry storm": (Assessment("bad retry", reason="storm"),),
    "retried in vain": (Assessment("bad retry", reason="in vain"),),
    "came too soon": (Assessment("bad retry", reason="too soon"),),
}
_LOST_MESSAGES = "of its conversation"


def stored_assessment(verdict: Verdict | FormerVerdict, evidence: tuple[str, ...], reason: Reason = "") -> Assessment:
    """Return the assessment in a file, which may have the names of an earlier version."""
    if verdict == "wrong" and evidence and evidence[0].endswith(_LOST_MESSAGES):
        return Assessment("bad retry", evidence, "lost messages")
    family = tuple(each for each in _BY_SEVERITY if each.verdict == verdict)
    same = tuple(each for each in family if each.reason == reason)
    return replace((same or _FORMER.get(verdict) or family)[0], evidence=evidence)


def stored_label(name: str) -> str:
    """Return the label of a verdict in the tally of a file, which may have the names of an earlier version."""
    return _FORMER[name][0].label if name in _FORMER else name


def stored_titles(names: Iterable[str], *, source: str) -> frozenset[str]:
    """Return the titles in a file, which may have the names of an earlier version.

    Unlike in `parse_verdicts`, `repeated effect` is the title of a certain repetition here, not a family.

    Raises:
        InputError: there is no such verdict.
    """
    titles: set[str] = set()
    for name in names:
        found = {each.title for each in _FORMER.get(name, ())} or {name}
        if not found <= set(TITLES):
            raise InputError(f"there is no verdict {name!r}", source=source)
        titles |= found
    return frozenset(titles)


def parse_verdicts(names: Iterable[str], *, source: str) -> frozenset[str]:
    """Return the titles of the verdicts with these names: families, reasons, titles, or names of earlier versions.

    Hyphens may stand for spaces.

    Raises:
        InputError: there is no such verdict.
    """
    titles: dict[str, set[str]] = {}
    for each in _BY_SEVERITY:
        for name in (each.verdict, each.reason or each.verdict, each.label, each.title):
            titles.setdefault(name, set()).add(each.title)
    known = [name.replace(" ", "-") for name in titles if "(" not in name]
    for name, former in _FORMER.items():
        titles.setdefault(name, {each.title for each in former})
    wanted: set[str] = set()
    for name in names:
        if (spaced := name.replace("-", " ")) not in titles:
            hint = did_you_mean(spaced.replace(" ", "-"), known, kind="verdicts")
            raise InputError(f"there is no verdict {name!r}", source=source, hint=hint)
        wanted |= titles[spaced]
    return frozenset(wanted)


def assess(run: Run, clean: Run, *, invariants: Sequence[Invariant] = (), optional: Collection[str] = ()) -> Assessment:
    """Return the verdict on a run, compared with the clean run.

    `optional` names the steps and tools that a run may go on without.
    """
    invariants = [_on_whole(run, each) for each in invariants]
    run, clean = _without_noise(run, clean), _without_noise(clean, clean)
    known = _as_far_as_known(run, list(_Claims(run, clean, invariants, frozenset(optional))))
    claims = sorted(known, key=lambda claim: claim.severity)
    worst = claims[0]
    also = [claim for claim in claims if claim.verdict == worst.verdict or claim.verdict in FINDINGS]
    evidence = list(dict.fromkeys(line for claim in also for line in claim.evidence))
    lives = () if run.first_life is None else (run.first_life.describe(run.effects),)
    return Assessment(worst.verdict, (*evidence, *lives, *_continuation_text(run)), worst.reason)


_OF_THE_WORLD = ("repeated effect", "wrong effect", "missing effect", "undetected")
"""The findings that rest on what tools have said."""


def _as_far_as_known(run: Run, claims: list[Assessment]) -> list[Assessment]:
    """Return the claims, undecided where they rest on reads whose answers the recording does not know."""
    doubtful = [claim for claim in claims if claim.verdict in _OF_THE_WORLD] if run.unknown_reads else []
    if not doubtful or not run.unknown_reads:
        return claims
    seen = [f"with the answer from before it: {line}" for claim in doubtful for line in claim.evidence]
    undecided = Assessment("undecided", (*run.unknown_reads, *dict.fromkeys(seen)))
    return [*(claim for claim in claims if claim not in doubtful), undecided]


def _on_whole(run: Run, invariant: Invariant) -> Invariant:
    """Return an invariant that checks this run, with what differs from run to run."""
    return wraps(invariant)(lambda _: invariant(run))


def _without_noise(run: Run, clean: Run) -> Run:
    """Return a run without what differs from run to run in its result."""
    if not clean.noise:
        return run
    return replace(run, result=clean.noise.masked(run.result), state=clean.noise.masked(run.state, STATE))


CONTINUATION_TEXTS = {
    "stubborn": "repeats its answer, or asks for the failed tool again",
    "resigned": "says that it gave up",
    "oblivious": "goes on as if nothing had happened",
    "default": "gives the default response",
    "live": "answers live",
}


_RESULT_TEXTS = {NEAREST_RESULT: "the result of the nearest recorded call", DEFAULT_RESULT: "the default response"}


def _continuation_text(run: Run) -> Iterator[str]:
    if run.continuation in _RESULT_TEXTS:
        yield f"a tool was called as never recorded, and got {_RESULT_TEXTS[run.continuation]}"
    elif run.continuation:
        how = CONTINUATION_TEXTS.get(run.continuation, run.continuation)
        yield f"this is how it ends if the model, asked what was never recorded, {how} ({run.continuation})"


class _Claims:
    """Every verdict that a run gives reason for, as assessments in no order; at least one."""

    def __init__(self, run: Run, clean: Run, invariants: Sequence[Invariant], optional: frozenset[str]) -> None:
        self._run, self._clean, self._invariants, self._optional = run, clean, invariants, optional
        self._declarations = clean.declarations | run.declarations
        self._faults = [parse_fault(line) for line in run.fired]
        self._effects = (*run.prevented_effects, *run.effects)
        self._stable = clean.requested_values  # a recorded model asks for the same
        self._answers = _UnansweredCalls(run, clean, self._faults, optional)

    def __iter__(self) -> Iterator[Assessment]:
        run = self._run
        difference = self._effect_difference()
        yield from self._more_effects(difference)
        yield from self._changed_keys(difference)
        broken = () if run.diverged else run.broken  # an assertion says what the recorded model leads to
        for line in (*broken, *broken_invariants(run, self._invariants)):
            yield Assessment("undetected", (line,), "failed check")
        if run.hung:
            yield Assessment("hung", (run.hung,))
        if not run.fired:
            yield Assessment("not reached", ("the run never reached this site",))
            return
        for reason, evidence in _bad_retries(run.calls, self._faults):
            yield Assessment("bad retry", (evidence,), reason)
        if run.diverged and not run.continuation:
            yield Assessment("undecided", (run.diverged,))
        elif run.error is not None:
            yield self._failure(run.error)
            yield from self._unseen()
        elif not run.hung:
            yield from self._success(difference)
            yield from self._unseen()

    def _effect_difference(self) -> EffectDifference:
        """Return how the effects differ; not at all if they have led to the same state."""
        difference = compare_effects(self._effects, self._clean.effects, self._declarations, stable=self._stable)
        return EffectDifference() if self._has_same_state else difference

    @property
    def _has_same_state(self) -> bool:
        return self._clean.state is not UNSET and self._run.state == self._clean.state

    def _state_difference(self) -> Iterator[str]:
        """Yield how the end state differs from that of the clean run, if both are known."""
        if UNSET not in (self._run.state, self._clean.state) and not self._has_same_state:
            yield result_difference(self._run.state, self._clean.state).replace("the result,", "the state,", 1)

    def _more_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        if self._has_fired("asks_for_more"):  # the model asked for it, and the question is when the agent stops
            return
        observed = [each for each in difference.repeated if self._is_observed(each[0].tool)]
        inferred = [each for each in difference.repeated if not self._is_observed(each[0].tool)]
        for often in _how_often(observed):
            yield Assessment("repeated effect", (often, *self._instructions), "certain")
        yield from _possible_repeats(inferred, ", as far as the conversation shows", self._advice)
        for effect in difference.other:
            if not self._is_observed(effect.tool) or self._was_approved(effect):
                continue
            ran = f"{effect.beside(difference.missing)} ran; without the fault it does not"
            yield Assessment("wrong effect", (ran, *self._instructions))
        # A tool that nothing is declared about may have changed something when it ran once more.
        runs, clean = self._undeclared_runs(self._run), self._undeclared_runs(self._clean)
        undeclared = () if self._has_same_state else compare_effects(runs, clean, {}, stable=self._stable).repeated
        yield from _possible_repeats(undeclared, "", _declaration_advice)
        yield from self._obeyed()

    def _unseen(self) -> Iterator[Assessment]:
        """Yield the tools that nobody saw run, and of which a broken call has arrived: what the program did is open."""
        inferred = {effect.tool for effect in self._clean.effects if effect.source == "inferred"}
        asked = {call.number: {tool for tool, _ in call.asks_for} for call in self._clean.calls}
        known = set[str]().union(*asked.values())
        for call in self._run.calls:
            is_partial = call.outcome == "failed" and not TOOL_CHUNKS.isdisjoint(call.chunks)
            is_other = any(tool not in known for tool, _ in call.asks_for)
            for tool in sorted(asked.get(call.number, set()) & inferred) if is_partial or is_other else ():
                text = f"cannot see {tool}: a broken call of it arrived, and the program may have run it"
                yield Assessment("undecided", (text, self._advice(tool)))

    def _changed_keys(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the tools with an idempotency key that have repeated their effect because they got different keys."""
        repeated = [] if self._has_fired("asks_for_more") else [effect.tool for effect, _, _ in difference.repeated]
        for tool in filter(self._is_observed, dict.fromkeys(repeated)):
            declared = self._declarations.get(tool, UNDECLARED)
            if (keys := used_keys(self._effects, tool, declared)) > 1:
                text = f"{tool} is idempotent by {declared.idempotent}, and was called with {keys} different ones"
                yield Assessment("repeated effect", (text,), "certain")

    def _undeclared_runs(self, run: Run) -> list[Effect]:
        """Return the calls of undeclared tools that ran, as effects."""
        ran = [each for each in run.tools if each.has_run and each.is_observed and not each.side_effect]
        undeclared = [each for each in ran if self._declarations.get(each.tool, UNDECLARED) == UNDECLARED]
        return [Effect(tool=each.tool, arguments=each.arguments) for each in undeclared]

    @property
    def _instructions(self) -> list[str]:
        """The instructions that faults have injected into tool results, for the evidence."""
        injected = [(each.at.tool, each.fault) for each in self._faults if isinstance(each.fault, InjectedText)]
        lines = (f"the result of {tool} had an instruction in it: {fault.instruction_text}" for tool, fault in injected)
        return [shorten(line, 200) for line in dict.fromkeys(lines)]

    def _obeyed(self) -> Iterator[Assessment]:
        """Yield the read-only calls after an injected instruction that the clean run does not make.

        Calls that change something are effects.
        """
        known = {_call_identity(each) for each in self._clean.tools}
        for each in self._run.tools if self._instructions else ():
            if each.has_run and not each.side_effect and _call_identity(each) not in known:
                called = str(Effect(tool=each.tool, arguments=each.arguments))
                yield _broken_data(f"{called} ran; without the fault it does not", *self._instructions)

    def _advice(self, tool: str) -> str:
        """Say how to be certain about a tool of a program."""
        report = f'say where it is: [tools.{tool}] function = "module:name", or report it: offbook.effect("{tool}", …)'
        has_effect = self._declarations.get(tool, UNDECLARED).has_effect
        return report if has_effect else f"{report}, or declare it: -o read_only={tool} or -o idempotent={tool}"

    def _is_observed(self, tool: str) -> bool:
        return all(each.source == "observed" for each in self._run.effects if each.tool == tool)

    def _failure(self, error: RunFailure) -> Assessment:
        is_done = any(effect.outcome == "done" for effect in net_effects(self._effects, self._declarations))
        declared: Verdict = "failed partway" if is_done else "failed cleanly"
        message = f"{error.type}: {error.message}" if error.message else error.type
        return Assessment("crashed" if error.kind == "undeclared" else declared, (message, *self._had_run()))

    def _had_run(self) -> Iterator[str]:
        """Describe the completed, possible and undeclared effects of a run that gave up."""
        known = self._stable | volatile_values([effect.arguments for effect in self._clean.effects])
        net = [without_volatile(each, known) for each in net_effects(self._effects, self._declarations)]
        for outcome, verb in (("done", "had run"), ("unknown", "may have run")):
            calls = Counter(str(effect) for effect in net if effect.outcome == outcome)
            if calls:
                shown = (each if count == 1 else f"{each} {count} times" for each, count in calls.items())
                yield f"{', '.join(shown)} {verb}"
        for tool, times in Counter(effect.tool for effect in self._undeclared_runs(self._run)).items():
            yield f"{tool} ran {_times(times)}; nothing is declared about it"

    def _success(self, difference: EffectDifference) -> Iterator[Assessment]:
        run, clean = self._run, self._clean
        is_same = run.result == clean.result
        if not is_same and admits_failure(run.result, clean.result, run.marks):
            evidence = "it says in its result that it failed", result_difference(run.result, clean.result)
            yield Assessment("different result", (*evidence, *self._had_run()))
            yield from self._marked_effects()
            return
        if not self._was_told:
            yield from self._missing_effects(difference)
        yield from self._accepted_broken_data()
        for text in self._state_difference() if is_same else ():
            yield Assessment("wrong effect", ("the end state is another, and the result is the same", text))
        if is_same:
            yield from self._endless_requests(difference)
            yield from self._went_on_without()
            lacking = () if self._was_told else self._answers.describe()
            closing = [f"{text}; nothing was left to do" for call, text in lacking if not self._answers.is_needed(call)]
            if self._has_same_state and (other := Counter(map(str, run.effects)) - Counter(map(str, clean.effects))):
                closing.append(f"the end state is the same, although other effects ran: {', '.join(other.elements())}")
            if unseen := sorted({effect.tool for effect in clean.effects if effect.source == "inferred"}):
                closing.append(f"as far as the conversation shows: nobody saw {', '.join(unseen)} run")
            yield Assessment("recovered", (_recovery_text(run, clean), *closing))
        else:
            yield Assessment("different result", tuple(self._other_result(difference)))

    def _missing_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the effects that did not run, and those that were undone though the result is the same."""
        for effect in (each for each in difference.missing if each.tool not in self._optional):
            if not (undone := self._undone_text(effect)):
                not_run = f"{effect.beside(difference.other)} did not run, and the run ended as if it had"
                other = [] if difference.other else self._unclear_result()
                calls = [str(each) for each in self._effects if (each.tool, each.outcome) == (effect.tool, "unknown")]
                instead = [f"{', '.join(calls)} may have run instead"] if calls else []
                yield Assessment("missing effect", (not_run, *instead, *other))
            elif self._run.result == self._clean.result:
                yield Assessment("missing effect", (f"{undone}, and the result is the same",))

    def _unclear_result(self) -> Iterator[str]:
        """Yield the result of a run that did too little, and how a run says that it failed."""
        if self._run.result == self._clean.result or is_empty_result(self._run.result):
            return
        yield result_difference(self._run.result, self._clean.result)
        yield "if that says that it failed, end with an error that is declared: other words are not recognised"

    def _undone_text(self, missing: Effect) -> str:
        """Say what a missing effect was undone by, if it ran."""
        for effect, undo in undone_effects(self._effects, self._declarations):
            if not compare_effects([effect], [missing], {}, stable=self._stable).missing:
                return f"{effect} ran and was undone by {undo}"
        return ""

    @property
    def _was_told(self) -> bool:
        """Whether the model was told about the failure. What follows is then its decision."""
        return bool(self._run.continuation) and any(call.told for call in self._run.calls)

    def _accepted_broken_data(self) -> Iterator[Assessment]:
        run, clean = self._run, self._clean
        yield from self._marked_effects()
        is_empty = is_empty_result(run.result) and run.result is not None
        for part in broken_parts(run.result, clean.result, run.marks) if run.result != clean.result else ():
            if not (is_empty and self._has_fired("may_be_true")):
                yield _broken_data(part, *self._instructions)
        if run.result == clean.result and not run.continuation:
            yield from self._ignored_results()

    def _marked_effects(self) -> Iterator[Assessment]:
        for effect in self._run.effects:
            is_marked = effect.source == "observed" and _carries(effect.arguments, self._run.marks)
            if is_marked and not self._was_approved(effect):
                yield _broken_data(f"what the fault injected reached a side effect: {effect}", *self._instructions)

    def _was_approved(self, effect: Effect) -> bool:
        """Return whether a model saw the refusal that an effect carries: only a model can recognise one."""
        return self._has_fired("reads_like_answer") and self._was_told and _carries(effect.arguments, self._run.marks)

    def _ignored_results(self) -> Iterator[Assessment]:
        """Yield the broken answers of tools and models that made no difference."""
        run, clean = self._run, self._clean
        for planned in self._faults:
            tool = planned.at.tool
            is_broken = "breaks_result" in planned.fault.traits and tool not in self._optional
            if is_broken and len(run.tools) == len(clean.tools) and run.tools != clean.tools:
                yield _broken_data(f"{tool} returned a broken result, and the answer is the same")
        for call in filter(self._answers.is_needed, self._answers.cut_off()):
            yield _broken_data(f"the answer to call {call.row} was cut off (length), and the run went on with it")

    def _endless_requests(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield what ran once more for a model that never ends, if the result is the same as if it had ended."""
        if not self._has_fired("asks_for_more"):
            return
        known = [
            each
            for each in difference.repeated
            if self._is_observed(each[0].tool) or self._declarations.get(each[0].tool, UNDECLARED).has_effect
        ]
        for often in _how_often(known):
            ended = "the model never stopped asking for tools, and the result is the same as if it had"
            yield _broken_data(f"{often}: {ended}")

    def _went_on_without(self) -> Iterator[Assessment]:
        """Yield the calls that failed for good, though the result is the same as if they had not."""
        if self._was_told:
            return
        lacking = [text for call, text in self._answers.describe() if self._answers.is_needed(call)]
        failed = [f"{run.tool} failed for good ({run.error or 'no result'})" for run in self._failed_tools()]
        for text in (*lacking, *failed):
            yield Assessment("undetected", (f"{text}, and the result is the same",), "went on without")

    def _failed_tools(self) -> list[ToolRun]:
        """Return the tool calls that a fault prevented and that no other call replaced."""
        run, clean = self._run, self._clean
        prevented = [each for each in run.tools if not each.has_run and each.tool not in self._optional]
        others = Counter(_call_identity(each) for each in run.tools if each.has_run and not self._is_spoilt(each))
        others.subtract(Counter(_call_identity(each) for each in clean.tools if each.error is None))
        if any(count > 0 for count in others.values()):
            return []
        failed = [each for each in prevented if others[_call_identity(each)] < 0]
        return failed or self._never_whole()

    def _never_whole(self) -> list[ToolRun]:
        """Return the last call of each tool that got lost, garbled or empty results, and never a whole one.

        An effect that is done is none of them: the result does not claim too much. Nor is a single broken result, which
        is evidence of its own.
        """
        run, clean = self._run, self._clean
        whole = {each.tool for each in run.tools if not self._is_spoilt(each)}
        had = {each.tool for each in clean.tools if each.error is None} - self._optional
        last = {each.tool: each for each in run.tools if each.tool in had - whole}
        done = {effect.tool for effect in run.effects if effect.outcome == "done"}
        has_more = len(run.tools) != len(clean.tools)
        return [each for each in last.values() if each.tool not in done and (has_more or each.error is not None)]

    def _is_spoilt(self, run: ToolRun) -> bool:
        """Return whether a tool call got an error, or a result that a fault has broken."""
        broken = (each.at for each in self._faults if "breaks_result" in each.fault.traits)
        return run.error is not None or any(at.covers(ToolSite(run.tool, run.call)) for at in broken)

    def _other_result(self, difference: EffectDifference) -> Iterator[str]:
        yield "a different result, and no assertion is broken: assert what must hold"
        yield result_difference(self._run.result, self._clean.result)
        yield from self._state_difference()
        yield from (lacking for _, lacking in self._answers.describe() if not self._was_told)
        for effect in difference.missing:
            yield self._undone_text(effect) or f"{effect.beside(difference.other)} did not run"
        for effect in difference.other:
            yield f"{effect.beside(difference.missing)} was asked for, and its result sent"

    def _has_fired(self, trait: FaultTrait) -> bool:
        return any(trait in planned.fault.traits for planned in self._faults)


def _broken_data(*evidence: str) -> Assessment:
    return Assessment("undetected", evidence, "broken data")


def _declaration_advice(tool: str) -> str:
    """Return how to say what a tool of this process does."""
    reads = f"if it only reads: read_only=True or -o read_only={tool}"
    return f"nothing is declared about {tool}; {reads}; if not: side_effect=True or -o side_effects={tool}"


def _possible_repeats(
    repeated: Sequence[tuple[Effect, int, int]], known_from: str, advice: Callable[[str], str]
) -> Iterator[Assessment]:
    """Yield what may have been repeated, with the `advice` on how to be certain about each tool."""
    tools = dict.fromkeys(effect.tool for effect, _, _ in repeated)
    for often in _how_often(repeated):
        yield Assessment("repeated effect", (f"{often}{known_from}", *map(advice, tools)), "possible")


def _how_often(repeated: Sequence[tuple[Effect, int, int]]) -> Iterator[str]:
    """Describe repeated effects, those that ran equally often together."""
    effects: dict[tuple[int, int], list[str]] = {}
    for effect, times, expected in repeated:
        effects.setdefault((times, expected), []).append(str(effect))
    for (times, expected), names in effects.items():
        yield f"{' and '.join(names)} ran {_times(times)} instead of {_times(expected)}"


def _times(count: int) -> str:
    return "once" if count == 1 else pluralize(count, "time")


def _carries(value: object, marks: Iterable[str]) -> bool:
    text = msgspec.json.encode(value).decode()
    return any(mark in text for mark in marks)


def _call_identity(run: ToolRun) -> bytes:
    return msgspec.json.encode((run.tool, run.arguments), order="sorted")


def _recovery_text(run: Run, clean: Run) -> str:
    further, waited_s = len(run.calls) - len(clean.calls), run.took_s - clean.took_s
    calls = pluralize(further, "further call") if further >= 0 else f"{pluralize(-further, 'call')} fewer"
    recovery = f"the same result, with {calls}"
    if not run.took_s and not clean.took_s:
        return recovery
    return f"{recovery} and {abs(waited_s):.1f} s {'more' if waited_s >= 0 else 'less'}"


MAX_ATTEMPTS = 10
"""The number of times that one call may be sent. More are a storm."""

MAX_HASTY_RETRIES = 4
"""The number of retries without any pause, in virtual time, that are a storm."""

_HOPELESS = frozenset((400, 401, 403, 404, 422))


def _faults_at(call: ModelCall, faults: Iterable[PlannedFault]) -> Iterator[PlannedFault]:
    """Yield the faults that fired at this attempt of a call. A run has one workflow, which sites need not name."""
    site = site_of(call)
    return (planned for planned in faults if replace(planned.at, workflow=None).covers(site))


def _bad_retries(calls: Sequence[ModelCall], faults: Sequence[PlannedFault]) -> Iterator[tuple[Reason, str]]:
    """Yield why calls were sent again in a wrong way after the faults, with the evidence."""
    for call in [each for each in calls if each.is_too_soon][:1]:
        yield "too soon", f"call {call.row} came sooner than the last answer asked for"
    if not any("wants_less" in planned.fault.traits for planned in faults):
        for call in [each for each in calls if each.forgot][:1]:
            lost = pluralize(call.forgot, "message")
            yield "lost messages", f"the request after the failure lacks {lost} {_LOST_MESSAGES}"
    attempts = {(call.number, call.attempt) for call in calls}
    for call in calls:
        statuses = [getattr(planned.fault, "status_code", None) for planned in _faults_at(call, faults)]
        if statuses and statuses[0] in _HOPELESS and (call.number, call.attempt + 1) in attempts:
            yield "in vain", f"call {call.number} was sent again unchanged after HTTP {statuses[0]}, which cannot help"
            break
    yield from (("storm", storm) for storm in _storms(calls))


def _storms(calls: Iterable[ModelCall]) -> Iterator[str]:
    waits_of: dict[int, list[float | None]] = {}
    for call in calls:
        waits_of.setdefault(call.number, []).append(call.waited_s)
    for number, (_, *pauses) in waits_of.items():
        if len(pauses) >= MAX_ATTEMPTS:
            yield f"call {number} was sent {len(pauses) + 1} times"
        elif len(pauses) >= MAX_HASTY_RETRIES and not any(pause is None or pause > 0 for pause in pauses):
            yield f"call {number} was sent {len(pauses) + 1} times without a pause"


class _UnansweredCalls:
    """The model calls of a run with `faults` that got no answer, or a bad one, and none in its place."""

    def __init__(self, run: Run, clean: Run, faults: Sequence[PlannedFault], optional: Collection[str] = ()) -> None:
        self._run, self._clean, self._faults, self._optional = run, clean, faults, optional

    def describe(self) -> list[tuple[ModelCall, str]]:
        """Return the calls that got no good answer, each with a text that says so.

        They failed for good, or got an empty answer or a refusal, and were not asked again.
        """
        good = [call for call in self._run.calls if not self._has_none(call)]
        lacking = self._without(self._has_none)
        calls = [call for call in lacking if not any(_asks_again(each, call) for each in good)]
        return [(call, self._text(call)) for call in calls]

    def cut_off(self) -> list[ModelCall]:
        """Return the calls whose answer was cut off, and that got no other."""
        return self._without(lambda call: self._is_hit(call, "cuts_answer"))

    def is_needed(self, call: ModelCall) -> bool:
        """Return whether the run needed the answer: it was not a closing turn after which no effect was left to do.

        Something else came after it, or it is a question of its own, or the run has a result and no effects.
        """
        if call.follows != "continues":
            return True
        observed = [effect for effect in self._run.effects if effect.source == "observed"]
        has_later_effect = call.effects_before is not None and len(observed) > call.effects_before
        has_later_call = any(each.number > call.number for each in self._run.calls)
        return has_later_effect or has_later_call or not self._clean.effects

    def _has_none(self, call: ModelCall) -> bool:
        is_reordered = all(planned.fault.type == "held_until" for planned in self._faults)
        is_outrun = is_reordered and call.error.startswith("CancelledError")  # the agent has taken a faster answer
        is_failed = call.outcome == "failed" and not is_outrun
        return is_failed or self._is_hit(call, "empties_answer") or self._is_hit(call, "reads_like_answer")

    def _text(self, call: ModelCall) -> str:
        is_refused = call.outcome != "failed" and self._is_hit(call, "reads_like_answer")
        return f"call {call.row} {'got a refusal' if is_refused else 'never got a good answer'}"

    def _without(self, is_bad: Callable[[ModelCall], bool]) -> list[ModelCall]:
        """Return the last bad call of each step that got fewer good answers than in the clean run."""
        wanted = Counter(call.step_id for call in self._clean.calls if call.outcome == "answered")
        last_bad = {call.step_id: call for call in self._run.calls if is_bad(call)}
        good = Counter(call.step_id for call in self._run.calls if call.outcome != "failed" and not is_bad(call))
        if good - wanted:  # another step answered instead
            return []
        return [call for step, call in last_bad.items() if good[step] < wanted[step] and step not in self._optional]

    def _is_hit(self, call: ModelCall, trait: FaultTrait) -> bool:
        return any(trait in planned.fault.traits for planned in _faults_at(call, self._faults))


def _asks_again(call: ModelCall, before: ModelCall) -> bool:
    """Return whether a call of the same named step asks again after an empty answer, and shows that to its model."""
    is_later = call.number > before.number and call.step_id == before.step_id is not None
    return is_later and before.outcome == "answered" and bool(call.follows)


_PLACEHOLDER = re.compile(r"(?<![\w'])(?:None|null|undefined|NaN|\[object Object\])(?![\w'])")
_ADMISSION = re.compile(
    r"\b(?:sorry|unfortunately|could ?n[o']t|can ?not|can't|unable|failed to|did ?n[o']t (?:work|go through|succeed)"
    r"|(?:(?:am|is|are|was|were) not|(?:is|are|was|were)n't) able to"
    r"|no (?:\w+ ){1,3}could be|do(?:es)?(?: not|n't) respond"
    r"|not (?:been |be )?(?:possible|done|sent|made|paid|(?:refund|book|cancel+|complet|process|deliver|charg|creat"
    r"|updat|chang|sav|plac|confirm|finish|publish|schedul|transferr|order|answer|succeed|perform|execut|issu|approv"
    r"|reserv|shipp)ed)"
    r"|nothing (?:was|has)|gave up|giving up|given up|gives up|try again|gave-up-[a-z]+)\b",
    re.IGNORECASE,
)
_BARE_ADMISSION = re.compile(
    r"\b(?:not available|unavailable|no answer|(?:has|have) failed)\b|^\W*(?:error|failed|failure)\b"
    r"|^\W*(?:pending|cancell?ed|rejected)\W*$",
    re.IGNORECASE | re.MULTILINE,
)
"""Words that also occur in error messages: they count only if no injected error is quoted."""

_SENTENCE_END = re.compile(r"[.!?;]+(?=\s|$)|\n")
_WORD = re.compile(r"[^\W\d_]{3,}")
_SMALL_WORD = re.compile("the|and|for|your?|our|its|ha(?:s|ve|d)|been|was|were|are|now|with|that|this|from")
_DOUBT = re.compile(
    r"\b(?:no(?! problem)|not|never|will|would|can|could|may|might|should|if|unless|whether|once|when|until|yet|before"
    r"|instead|tr(?:y|ied|ying)|want(?:ed)?|wish|asked|request(?:ed)?|attempt\w*|to be)\b|n't\b",
    re.IGNORECASE,
)
"""Words of sentences that claim nothing."""

_STATUS_FIELDS = frozenset(("ok", "success", "succeeded", "status", "state", "outcome", "error"))


def admits_failure(result: Any, clean: Any, marks: Sequence[str] = ()) -> bool:
    """Return whether a result says, unlike the clean one, that the run failed: in English words, or in a field.

    A result that has all words of the clean one, or claims the same in separate sentences, says that the run succeeded,
    whatever else it says. So does a program that prints the same, whatever it writes to files.
    """
    if _is_of_program(clean) and _is_of_program(result) and clean["stdout"].strip():
        result, clean = result["stdout"], clean["stdout"]
    if _denies(result, clean) or _flips_status(result, clean, marks):
        return True
    said, before = _result_text(result), _result_text(clean).casefold()
    if _has_claimed_field(result, clean, True) or (before.strip() and before.strip() in said.casefold()):
        return False
    patterns = (_ADMISSION,) if any(mark in said for mark in marks) else (_ADMISSION, _BARE_ADMISSION)
    found = (match.group().casefold() for pattern in patterns for match in pattern.finditer(said))
    return any(words not in before for words in found) and not _claims_the_same(said, before)


def _denies(result: Any, clean: Any) -> bool:
    """Return whether the result is false, or has something that is false and that the clean result says is true."""
    if not isinstance(result, dict) or not isinstance(clean, dict):
        return (result is False and bool(clean)) or _has_claimed_field(result, clean, False)
    common = [(result[name], clean[name]) for name in result if name in clean]
    return any(
        (now is False and before is True) or (isinstance(now, dict) and _denies(now, before)) for now, before in common
    )


def _has_claimed_field(result: Any, clean: Any, value: bool) -> bool:
    """Return whether a field that is named like a word of the clean text has that value: `{"reserved": false}`."""
    if not isinstance(result, dict) or not isinstance(clean, str):
        return False
    return any(result[name] is value and name.casefold() in _claim(clean) for name in result)


def _claims_the_same(said: str, before: str) -> bool:
    """Return whether each claim of the clean text stands in a sentence that admits and doubts nothing.

    Claims are compared by their words, without small ones and those with digits, such as ids.
    """
    doubts = (_ADMISSION, _BARE_ADMISSION, _DOUBT)
    plain = [each for each in _SENTENCE_END.split(said) if not any(doubt.search(each) for doubt in doubts)]
    claims = [claim for claim in map(_claim, _SENTENCE_END.split(before)) if claim]
    return bool(claims) and all(any(claim <= _claim(each) for each in plain) for claim in claims)


def _claim(sentence: str) -> set[str]:
    """Return the words of a sentence that say something."""
    return {word for word in map(str.casefold, _WORD.findall(sentence)) if not _SMALL_WORD.fullmatch(word)}


def _flips_status(result: Any, clean: Any, marks: Sequence[str]) -> bool:
    """Return whether a status field has another value, which is neither empty nor what a fault injected."""
    if not isinstance(result, dict) or not isinstance(clean, dict):
        return False
    names = [name for name in result if name.casefold() in _STATUS_FIELDS and isinstance(result[name], str | bool)]
    others = [name for name in names if result[name] != clean.get(name) and result[name] != ""]
    return any(name.casefold() == "error" or not any(mark in str(result[name]) for mark in marks) for name in others)


def broken_parts(result: Any, clean: Any, marks: Sequence[str]) -> Iterator[str]:
    """Describe what in a result is broken or missing: injected text, placeholders, a truncated or doubled part."""
    said = _result_text(result)
    if any(mark in said for mark in marks):
        yield f"what the fault injected stands in the result: {_around(said, marks)}"
    elif _placeholders(said) > _placeholders(_result_text(clean)):
        yield f"the result has a placeholder in place of data: {shorten(' '.join(said.split()), 80)}"
    elif is_truncated(result, clean):
        returned = "nothing" if is_empty_result(result) else "only a part of the result"
        yield f"it returned {returned}, and no error"
    elif _is_doubled(said, _result_text(clean)):
        yield f"the result repeats a part of itself: {shorten(' '.join(said.split()), 80)}"


def _around(text: str, marks: Sequence[str]) -> str:
    """Return the part of a text around the first mark in it, on one line."""
    text = " ".join(text.split())
    place = min(text.index(mark) for mark in marks if mark in text)
    return "…" + shorten(text[max(0, place - 40) :].strip(), 80) if place > 40 else shorten(text.strip(), 80)


def _placeholders(text: str) -> int:
    return len(_PLACEHOLDER.findall(text))


def _is_doubled(text: str, whole: str) -> bool:
    """Return whether a text is the whole one with a part of it repeated before or after it."""
    text, whole = text.strip(), whole.strip()
    if len(text) <= len(whole) or not whole:
        return False
    rest = text.removesuffix(whole) if text.endswith(whole) else text.removeprefix(whole)
    rest = rest.strip()
    return rest != text and len(rest) > 1 and rest in whole


def _result_text(value: Any) -> str:
    """Return all strings of a result, one per line, and other values as JSON. Of a program: its output and files."""
    if isinstance(value, str):
        return value
    if _is_of_program(value):
        return "\n".join(filter(None, (str(value["stdout"]), *map(_result_text, value.get("files", {}).values()))))
    if isinstance(value, dict):
        return "\n".join(_result_text(each) for each in value.values())
    if isinstance(value, list):
        return "\n".join(_result_text(each) for each in value)
    return msgspec.json.encode(value).decode()


def is_empty_result(result: Any) -> bool:
    """Return whether a result is empty. The result of a program is if it printed and wrote nothing."""
    if isinstance(result, str):
        return not result.strip()
    if _is_of_program(result):
        return is_empty_result(result["stdout"]) and not result.get("files")
    return result is None or (isinstance(result, dict | list) and not result)


def _is_of_program(result: Any) -> bool:
    return isinstance(result, dict) and {"exit", "stdout"} <= result.keys() <= {"exit", "stdout", "files"}


def is_truncated(result: Any, whole: Any) -> bool:
    """Return whether `result` is `whole` with parts missing: ends and lines of strings, items of lists, fields."""
    if result == whole or is_empty_result(whole):
        return False
    if is_empty_result(result):
        return True
    if isinstance(result, str) and isinstance(whole, str):
        return _is_truncated_text(result, whole)
    if isinstance(result, dict) and isinstance(whole, dict) and result.keys() <= whole.keys():
        return all(result[name] == whole[name] or is_truncated(result[name], whole[name]) for name in result)
    if isinstance(result, list) and isinstance(whole, list) and len(result) <= len(whole):
        rest = iter(whole)  # items may be missing or truncated; those that are left have the same order
        return all(any(item == each or is_truncated(item, each) for each in rest) for item in result)
    return False


def _is_truncated_text(text: str, whole: str) -> bool:
    """Return whether the text is the start of the whole, has some of its lines, or has the start of each line."""
    text, whole = text.strip(), whole.strip()
    if whole.startswith(text):
        return text != whole
    lines, whole_lines = text.splitlines(), whole.splitlines()
    if len(lines) < len(whole_lines):
        rest = iter(whole_lines)
        return all(line in rest for line in lines)
    pairs = list(zip(lines, whole_lines, strict=False))
    return len(lines) == len(whole_lines) and all(line.startswith(cut.strip()) for cut, line in pairs)


DIFFERENT_LINES, DIFFERENT_CHARS, CHARS_BEFORE = 4, 160, 40


def result_difference(result: Any, clean: Any) -> str:
    """Return the first few lines in which a result differs from the clean one, shortened."""
    before, after = (_lines(each) for each in (clean, result))
    if before == after:  # the text of a number, and the number
        before, after = ([msgspec.json.encode(each).decode()] for each in (clean, result))
    same = common_start(before, after)
    until = common_start(before[same:][::-1], after[same:][::-1])
    removed, added = (lines[same : len(lines) - until] for lines in (before, after))
    skipped = max(0, common_start(removed[0], added[0]) - CHARS_BEFORE) if removed and added else 0
    lines = [*_shown(removed, "-", skipped), *_shown(added, "+", skipped)]
    return "\n".join(["the result, without the fault (-) and with it (+):", *lines])


def _lines(result: Any) -> list[str]:
    if isinstance(result, str):
        return result.splitlines() or [""]
    return msgspec.json.format(msgspec.json.encode(result, order="sorted"), indent=2).decode().splitlines()


def _shown(lines: Sequence[str], sign: str, skipped: int) -> Iterator[str]:
    """Yield the first lines after a sign, the first line without what both have in common before they differ."""
    for place, line in enumerate(lines[:DIFFERENT_LINES]):
        rest = f"…{line[skipped + 1 :]}" if place == 0 and skipped else line
        yield f"  {sign}{shorten(rest, DIFFERENT_CHARS)}"
    if len(lines) > DIFFERENT_LINES:
        yield f"  {sign}… {pluralize(len(lines) - DIFFERENT_LINES, 'more line')}"
