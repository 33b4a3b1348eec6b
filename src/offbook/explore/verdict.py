"""The verdict on a run with a fault, and the evidence for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Literal, get_args

import msgspec
from msgspec import Struct

from offbook.explore.broken_result import admits_failure, broken_parts, is_empty_result, result_difference
from offbook.explore.effects import (
    EffectDifference,
    compare_effects,
    net_effects,
    undone_effects,
    used_keys,
    volatile_values,
    without_volatile,
)
from offbook.explore.options import Invariant, broken_invariants
from offbook.explore.retries import UnansweredCalls, careless_calls
from offbook.explore.run import Run, ToolRun
from offbook.faults import parse_fault
from offbook.faults.fault import FaultTrait
from offbook.faults.tools import InjectedText
from offbook.text import pluralize, shorten
from offbook.tools.effects import UNDECLARED, Effect

Verdict = Literal[
    "repeated side effect",
    "wrong effect",
    "missing effect",
    "wrong",
    "undetected",
    "went on without",
    "possible repeat",
    "hung",
    "retry storm",
    "retried in vain",
    "came too soon",
    "crashed",
    "undecided",
    "failed partway",
    "different result",
    "failed cleanly",
    "recovered",
    "not reached",
]
"""Worst first. `not reached`: the run never reached the site of the fault."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FINDINGS: frozenset[Verdict] = frozenset(VERDICTS[: VERDICTS.index("undecided")])
"""The verdicts that show a defect."""


class Assessment(Struct, frozen=True):
    """A verdict, and the evidence for it."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()

    @property
    def severity(self) -> int:
        """The rank of the verdict: 0 is the worst."""
        return VERDICTS.index(self.verdict)


def assess(run: Run, clean: Run, *, invariants: Sequence[Invariant] = (), optional: Collection[str] = ()) -> Assessment:
    """Return the verdict on a run, compared with the clean run.

    `optional` names the steps and tools that a run may go on without.
    """
    claims = sorted(_Claims(run, clean, invariants, frozenset(optional)), key=lambda claim: claim.severity)
    worst = claims[0]
    also = [claim for claim in claims if claim.verdict == worst.verdict or claim.verdict in FINDINGS]
    evidence = list(dict.fromkeys(line for claim in also for line in claim.evidence))
    lives = () if run.first_life is None else (run.first_life.describe(run.effects),)
    return Assessment(worst.verdict, (*evidence, *lives, *_continuation_text(run)))


CONTINUATION_TEXTS = {
    "stubborn": "repeats its answer, or asks for the failed tool again",
    "resigned": "says that it gave up",
    "oblivious": "goes on as if nothing had happened",
    "default": "gives the default response",
    "live": "answers live",
}


NEAREST_RESULT, DEFAULT_RESULT = "nearest result", "default result"
"""What answered a tool that was called as it never was when it was recorded, if no model was asked anything new."""

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
        self._answers = UnansweredCalls(run, clean, self._faults, optional)

    def __iter__(self) -> Iterator[Assessment]:
        run = self._run
        difference = compare_effects(self._effects, self._clean.effects, self._declarations, stable=self._stable)
        yield from self._more_effects(difference)
        yield from self._changed_keys(difference)
        yield from self._broken_checks()
        if run.hung:
            yield Assessment("hung", (run.hung,))
        if not run.fired:
            yield Assessment("not reached", ("the run never reached this site",))
            return
        for verdict, evidence in careless_calls(run.calls, self._faults):
            yield Assessment(verdict, (evidence,))
        if run.diverged and not run.continuation:
            yield Assessment("undecided", (run.diverged,))
        elif run.error is not None:
            yield self._failure()
        elif not run.hung:
            yield from self._success(difference)

    def _more_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        if self._has_fired("asks_for_more"):  # the model asked for it, and the question is when the agent stops
            return
        observed = [each for each in difference.repeated if self._is_observed(each[0].tool)]
        inferred = [each for each in difference.repeated if not self._is_observed(each[0].tool)]
        for often in _how_often(observed):
            yield Assessment("repeated side effect", (often, *self._instructions))
        yield from _possible_repeats(inferred, ", as far as the conversation shows", self._advice)
        for effect in difference.other:
            if not self._is_observed(effect.tool) or self._was_approved(effect):
                continue
            ran = f"{effect.beside(difference.missing)} ran; without the fault it does not"
            yield Assessment("wrong effect", (ran, *self._instructions))
        yield from self._undeclared_repeats()
        yield from self._obeyed()

    def _changed_keys(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield why a tool with an idempotency key has repeated its effect: it got another key each time."""
        repeated = [] if self._has_fired("asks_for_more") else [effect.tool for effect, _, _ in difference.repeated]
        for tool in filter(self._is_observed, dict.fromkeys(repeated)):
            declared = self._declarations.get(tool, UNDECLARED)
            if (keys := used_keys(self._effects, tool, declared)) > 1:
                text = f"{tool} is idempotent by {declared.idempotent}, and was called with {keys} different ones"
                yield Assessment("repeated side effect", (text,))

    def _undeclared_repeats(self) -> Iterator[Assessment]:
        """Yield what ran once more of tools that nothing is declared about: it may have changed something."""
        runs, clean = self._undeclared_runs(self._run), self._undeclared_runs(self._clean)
        repeated = compare_effects(runs, clean, {}, stable=self._stable).repeated
        yield from _possible_repeats(repeated, "", _declaration_advice)

    def _undeclared_runs(self, run: Run) -> list[Effect]:
        """Return the calls that ran, of tools that nothing is declared about, as if they had an effect."""
        ran = [each for each in run.tools if each.has_run and each.is_observed and not each.side_effect]
        undeclared = [each for each in ran if self._declarations.get(each.tool, UNDECLARED) == UNDECLARED]
        return [Effect(tool=each.tool, arguments=each.arguments) for each in undeclared]

    @property
    def _instructions(self) -> list[str]:
        """The instructions that faults have injected into results of tools, for the evidence."""
        injected = [(each.at.tool, each.fault) for each in self._faults if isinstance(each.fault, InjectedText)]
        lines = (f"the result of {tool} had an instruction in it: {fault.instruction_text}" for tool, fault in injected)
        return [shorten(line, 200) for line in dict.fromkeys(lines)]

    def _obeyed(self) -> Iterator[Assessment]:
        """Yield the calls of tools that only read and that the clean run does not make, after an injected instruction.

        Those that change something are effects.
        """
        known = {_call_identity(each) for each in self._clean.tools}
        for each in self._run.tools if self._instructions else ():
            if each.has_run and not each.side_effect and _call_identity(each) not in known:
                called = str(Effect(tool=each.tool, arguments=each.arguments))
                yield Assessment("undetected", (f"{called} ran; without the fault it does not", *self._instructions))

    def _advice(self, tool: str) -> str:
        """Return how to be certain about a tool of a program."""
        report = f'report what {tool} really does with offbook.effect("{tool}", …)'
        has_effect = self._declarations.get(tool, UNDECLARED).has_effect
        return report if has_effect else f"{report}, or declare it: --read-only {tool} or --idempotent {tool}"

    def _is_observed(self, tool: str) -> bool:
        return all(each.source == "observed" for each in self._run.effects if each.tool == tool)

    def _broken_checks(self) -> Iterator[Assessment]:
        run = self._run
        broken = () if run.diverged else run.broken  # an assertion says what the recorded model leads to
        for line in (*broken, *broken_invariants(run, self._invariants)):
            yield Assessment("wrong", (line,))

    def _failure(self) -> Assessment:
        error = self._run.error
        assert error is not None
        message = f"{error.type}: {error.message}" if error.message else error.type
        if error.kind == "undeclared":
            return Assessment("crashed", (message, *self._had_run()))
        is_done = any(effect.outcome == "done" for effect in net_effects(self._effects, self._declarations))
        return Assessment("failed partway" if is_done else "failed cleanly", (message, *self._had_run()))

    def _had_run(self) -> Iterator[str]:
        """Yield what had been changed when the run gave up, what may have been, and of what nobody knows whether."""
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
        if is_same:
            yield from self._endless_requests(difference)
            yield from self._went_on_without()
            yield Assessment("recovered", (_recovery_text(run, clean), *self._closing_turns()))
        else:
            yield Assessment("different result", tuple(self._other_result(difference)))

    def _missing_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the effects that did not run, and those that were undone though the result says nothing of it."""
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
        """Yield the result of a run that did too little, and how one says that it failed, if this is to say so."""
        if self._run.result == self._clean.result or is_empty_result(self._run.result):
            return
        yield result_difference(self._run.result, self._clean.result)
        yield "if that says that it failed, end with an error that is declared: other words are not recognised"

    def _undone_text(self, missing: Effect) -> str:
        """Return by what a missing effect was undone, if it ran."""
        for effect, undo in undone_effects(self._effects, self._declarations):
            if not compare_effects([effect], [missing], {}, stable=self._stable).missing:
                return f"{effect} ran and was undone by {undo}"
        return ""

    @property
    def _was_told(self) -> bool:
        """Whether the model was told about the failure, so that what follows is its decision."""
        return bool(self._run.continuation) and any(call.told for call in self._run.calls)

    def _accepted_broken_data(self) -> Iterator[Assessment]:
        run, clean = self._run, self._clean
        yield from self._marked_effects()
        is_empty = is_empty_result(run.result) and run.result is not None
        for part in broken_parts(run.result, clean.result, run.marks) if run.result != clean.result else ():
            if not (is_empty and self._has_fired("may_be_true")):
                yield Assessment("undetected", (part, *self._instructions))
        if run.result == clean.result and not run.continuation:
            yield from self._ignored_results()

    def _marked_effects(self) -> Iterator[Assessment]:
        for effect in self._run.effects:
            is_marked = effect.source == "observed" and _carries(effect.arguments, self._run.marks)
            if is_marked and not self._was_approved(effect):
                yield Assessment(
                    "undetected", (f"what the fault injected reached a side effect: {effect}", *self._instructions)
                )

    def _was_approved(self, effect: Effect) -> bool:
        """Return whether a model saw the refusal that stands in an effect: nothing but a model can tell what it is."""
        return self._has_fired("reads_like_answer") and self._was_told and _carries(effect.arguments, self._run.marks)

    def _ignored_results(self) -> Iterator[Assessment]:
        """Yield what shows that a broken answer of a tool or a model made no difference."""
        run, clean = self._run, self._clean
        for planned in self._faults:
            tool = planned.at.tool
            is_broken = "breaks_result" in planned.fault.traits and tool not in self._optional
            if is_broken and len(run.tools) == len(clean.tools) and run.tools != clean.tools:
                yield Assessment("undetected", (f"{tool} returned a broken result, and the answer is the same",))
        for call in filter(self._answers.is_needed, self._answers.cut_off()):
            cut = f"the answer to call {call.row} was cut off (length), and the run went on with it"
            yield Assessment("undetected", (cut,))

    def _endless_requests(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield what ran once more for a model that never ends, if the result is the same as if it had ended."""
        known = [each for each in difference.repeated if self._is_observed(each[0].tool) or self._is_declared(each[0])]
        for often in _how_often(known) if self._has_fired("asks_for_more") else ():
            ended = "the model never stopped asking for tools, and the result is the same as if it had"
            yield Assessment("undetected", (f"{often}: {ended}",))

    def _is_declared(self, effect: Effect) -> bool:
        return self._declarations.get(effect.tool, UNDECLARED).has_effect

    def _went_on_without(self) -> Iterator[Assessment]:
        """Yield the calls that failed for good, though the result is the same as if they had not."""
        if self._was_told:
            return
        for call, lacking in self._answers.describe():
            if self._answers.is_needed(call):
                yield Assessment("went on without", (f"{lacking}, and the result is the same",))
        for run in self._failed_tools():
            failed = f"{run.tool} failed for good ({run.error or 'no result'}), and the result is the same"
            yield Assessment("went on without", (failed,))

    def _closing_turns(self) -> Iterator[str]:
        """Yield the calls that failed for good when all was done."""
        for call, lacking in () if self._was_told else self._answers.describe():
            if not self._answers.is_needed(call):
                yield f"{lacking}; nothing was left to do"

    def _failed_tools(self) -> list[ToolRun]:
        """Return the calls of tools that a fault prevented and that nothing replaced."""
        run, clean = self._run, self._clean
        prevented = [each for each in run.tools if not each.has_run and each.tool not in self._optional]
        others = Counter(_call_identity(each) for each in run.tools if each.has_run)
        others.subtract(Counter(_call_identity(each) for each in clean.tools))
        has_replacement = any(count > 0 for count in others.values())
        return [each for each in prevented if not has_replacement and others[_call_identity(each)] < 0]

    def _other_result(self, difference: EffectDifference) -> Iterator[str]:
        yield "a different result, and no assertion is broken: assert what must hold"
        yield result_difference(self._run.result, self._clean.result)
        yield from (lacking for _, lacking in self._answers.describe() if not self._was_told)
        for effect in difference.missing:
            yield self._undone_text(effect) or f"{effect.beside(difference.other)} did not run"
        for effect in difference.other:
            yield f"{effect.beside(difference.missing)} was asked for, and its result sent"

    def _has_fired(self, trait: FaultTrait) -> bool:
        return any(trait in planned.fault.traits for planned in self._faults)


def _declaration_advice(tool: str) -> str:
    """Return how to say what a tool of this process does."""
    reads = f"if it only reads: read_only=True or --read-only {tool}"
    return f"nothing is declared about {tool}; {reads}; if not: side_effect=True or --side-effects {tool}"


def _possible_repeats(
    repeated: Sequence[tuple[Effect, int, int]], known_from: str, advice: Callable[[str], str]
) -> Iterator[Assessment]:
    """Yield what may have been repeated, with the `advice` on how to be certain about each tool."""
    tools = dict.fromkeys(effect.tool for effect, _, _ in repeated)
    for often in _how_often(repeated):
        yield Assessment("possible repeat", (f"{often}{known_from}", *map(advice, tools)))


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
