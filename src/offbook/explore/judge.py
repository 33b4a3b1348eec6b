"""The judgement of a run with a fault: one rule for each family of verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, wraps

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from offbook.explore.effects import (
    EffectDifference,
    compare_effects,
    is_idempotent,
    net_effects,
    undone_effects,
    used_keys,
    volatile_values,
    without_volatile,
)
from offbook.explore.lies import as_far_as_told
from offbook.explore.noise import STATE
from offbook.explore.options import GaveUp, Invariant, broken_invariants
from offbook.explore.results import (
    broken_parts,
    claims_effect,
    denies_success,
    is_empty_result,
    is_given_up,
    names_effect,
    own_values,
    result_difference,
    takes_error_for_data,
)
from offbook.explore.retries import UnansweredCalls, bad_retries, refusals
from offbook.explore.run import TOOL_CHUNKS, ModelCall, Run, RunFailure, ToolRun
from offbook.explore.verdict import FINDINGS, Assessment
from offbook.faults import AnyPlannedFault, parse_fault
from offbook.faults.fault import FaultTrait
from offbook.faults.tools import FailedCall, InjectedText
from offbook.session.script import DEFAULT_RESULT, NEAREST_RESULT
from offbook.text import pluralize, shorten
from offbook.tools.effects import UNDECLARED, Effect, ToolDeclaration


def assess(
    run: Run,
    clean: Run,
    *,
    invariants: Sequence[Invariant] = (),
    optional: Collection[str] = (),
    gave_up: GaveUp | None = None,
    max_recovery_calls: int | None = None,
) -> Assessment:
    """Return the verdict on a run, compared with the clean run.

    `optional` names the steps and tools that a run may go on without. `gave_up` tests whether a result means that the
    run gave up. More than `max_recovery_calls` further calls are a finding.
    """
    invariants = [_on_whole(run, each) for each in invariants]
    run, clean = _without_noise(run, clean), _without_noise(clean, clean)
    judge = _Judge(run, clean, invariants, frozenset(optional), gave_up)
    known = _as_far_as_known(run, list(judge))
    if judge.has_fired("lies"):
        known = as_far_as_told(run, clean, known)
    known += _dear_recovery(run, clean, max_recovery_calls)
    claims = sorted(known, key=lambda claim: claim.severity)
    worst = claims[0]
    also = [claim for claim in claims if claim.verdict == worst.verdict or claim.verdict in FINDINGS]
    evidence = list(dict.fromkeys(line for claim in also for line in claim.evidence))
    lives = () if run.first_life is None else (run.first_life.describe(run.effects),)
    notes = (*refusals(run, got_out=True), *lives, *_continuation_text(run))
    return Assessment(worst.verdict, (*evidence, *notes), worst.reason)


def _on_whole(run: Run, invariant: Invariant) -> Invariant:
    """Return an invariant that checks this run including its noise."""
    return wraps(invariant)(lambda _: invariant(run))


def _without_noise(run: Run, clean: Run) -> Run:
    """Return a run without the noise of its result."""
    if not clean.noise:
        return run
    return replace(run, result=clean.noise.masked(run.result), state=clean.noise.masked(run.state, STATE))


_OF_THE_WORLD = ("repeated effect", "wrong effect", "missing effect", "undetected")
"""The findings that rest on tools' statements."""


def _as_far_as_known(run: Run, claims: list[Assessment]) -> list[Assessment]:
    """Return the claims, undecided where they rest on reads with unknown answers."""
    doubtful = [claim for claim in claims if claim.verdict in _OF_THE_WORLD] if run.unknown_reads else []
    if not doubtful or not run.unknown_reads:
        return claims
    seen = [f"with the answer from before it: {line}" for claim in doubtful for line in claim.evidence]
    undecided = Assessment("undecided", (*run.unknown_reads, *dict.fromkeys(seen)))
    return [*(claim for claim in claims if claim not in doubtful), undecided]


CONTINUATION_TEXTS = {
    "stubborn": "repeats its answer, or asks for the failed tool again",
    "resigned": "says that it gave up",
    "oblivious": "goes on as if nothing had happened",
    "obedient": "obeys the instruction",
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


class _Judge:
    """Every verdict that a run justifies, as assessments in no order; at least one.

    Each rule is a method with the name of its family. What they have in common follows them.
    """

    def __init__(
        self,
        run: Run,
        clean: Run,
        invariants: Sequence[Invariant],
        optional: frozenset[str],
        gave_up: GaveUp | None,
    ) -> None:
        self._run, self._clean, self._invariants, self._optional = run, clean, invariants, optional
        self._gave_up = gave_up
        self._declarations = clean.declarations | run.declarations
        self._faults = [parse_fault(line) for line in run.fired]
        self._effects = (*run.prevented_effects, *run.effects)
        self._stable = clean.requested_values  # a recorded model asks for the same
        self._answers = UnansweredCalls(run, clean, self._faults, optional)

    def __iter__(self) -> Iterator[Assessment]:
        run = self._run
        if not self.has_fired("asks_for_more"):  # the model asked for it, and the question is when the agent stops
            yield from self._repeated_effect()
            yield from self._wrong_effect()
            yield from self._remedy()
            yield from self._obeyed()
        yield from self._failed_check()
        if run.hung:
            yield Assessment("hung", (run.hung,))
        if not run.fired:
            yield Assessment("not reached", ("the run never reached this site",))
            return
        yield from (Assessment("refused by the API", (line,)) for line in refusals(run, got_out=False))
        for reason, evidence in bad_retries(run.calls, self._faults):
            yield Assessment("bad retry", (evidence,), reason)
        if run.diverged and not run.continuation:
            yield Assessment("undecided", (run.diverged,))
        elif run.error is not None or not run.hung:
            yield from self._ending()

    def _ending(self) -> Iterator[Assessment]:
        """The run ended by itself: it crashed, gave up, or returned a result."""
        run = self._run
        if run.error is not None and run.error.kind == "undeclared":
            yield Assessment("crashed", (self._error_text(run.error), *self._had_run()))
        elif self._gave_up_in_the_end:
            yield self._giving_up()
            yield from self._marked_effects() if run.error is None else ()
        else:
            if not self._was_told or run.continuation == "resigned":  # a model that gave up has claimed nothing
                yield from self._missing_effect()
            yield from self._broken_data()
            yield from self._same_result() if self._is_same_result else self._other_result()
        yield from self._unseen()

    # The rules.

    def _repeated_effect(self) -> Iterator[Assessment]:
        """The run changed something once more than the clean one, with the same arguments."""
        repeated = self._difference.repeated
        certain = [each for each in repeated if self._is_certain(*each)]
        for often in _how_often(certain):
            yield Assessment("repeated effect", (often, *self._instructions), "certain")
        for tool in filter(self._is_observed, dict.fromkeys(effect.tool for effect, _, _ in repeated)):
            declared = self._declared(tool)
            if (keys := used_keys(self._effects, tool, declared)) > 1:
                text = f"{tool} is idempotent by {declared.idempotent}, and was called with {keys} different ones"
                yield Assessment("repeated effect", (text,), "certain")
        possible = [each for each in repeated if each not in certain]
        yield from _possible_repeats(possible, ", as far as the conversation shows", self._advice)
        # A tool that nothing is declared about may have changed something when it ran once more.
        runs, clean = self._undeclared_runs(self._run), self._undeclared_runs(self._clean)
        undeclared = () if self._has_same_state else compare_effects(runs, clean, {}, stable=self._stable).repeated
        yield from _possible_repeats(undeclared, "", _declaration_advice)

    def _wrong_effect(self) -> Iterator[Assessment]:
        """The run changed something else, or left another end state with the same result.

        If the state is known, it decides what a run that gave up has left behind, however its calls differ.
        """
        for effect in self._others:
            if not self._is_observed(effect.tool) or self._was_approved(effect):
                continue
            ran = f"{effect.beside(self._difference.missing)} ran; without the fault it does not"
            yield Assessment("wrong effect", (ran, *self._instructions))

    @property
    def _others(self) -> list[Effect]:
        """The effects that the clean run lacks, without those of a run that gave up which are its last word."""
        if self._gave_up_in_the_end and self._knows_state:
            return []
        remedies = self._remedies
        others = [each for each in self._difference.other if each not in remedies]
        return [each for each in others if not (self._gave_up_in_the_end and self._may_remain(each.tool))]

    def _missing_effect(self) -> Iterator[Assessment]:
        """An effect did not run or was undone, although the result is equal or claims it."""
        run, clean, is_same = self._run, self._clean, self._is_same_result
        for effect in (each for each in self._known_missing if each.tool not in self._optional):
            if not is_same and not claims_effect(run.result, clean, effect):
                continue
            ending = "the result is the same" if is_same else "the result claims it as that of the clean run does"
            if undone := self._undone_text(effect):
                yield Assessment("missing effect", (f"{undone}, and {ending}",))
                continue
            not_run = f"{effect.beside(self._difference.other)} did not run, and {ending}"
            calls = [str(each) for each in self._effects if (each.tool, each.outcome) == (effect.tool, "unknown")]
            instead = [f"{', '.join(calls)} may have run instead"] if calls else []
            shown = [] if is_same else [result_difference(run.result, clean.result)]
            yield Assessment("missing effect", (not_run, *instead, *shown))

    def _giving_up(self) -> Assessment:
        """The run gave up, by an error or by its result: cleanly, after effects, or leaving some behind."""
        run, error = self._run, self._run.error
        if error is not None:
            how: tuple[str, ...] = (self._error_text(error),)
        else:
            how = "its result says that it gave up", result_difference(run.result, self._clean.result)
        missing = [each for each in self._known_missing if each.tool not in self._optional]
        is_partial = bool(missing or self._known(self._difference.other)) if error is not None else not self._was_told
        if is_partial and not is_given_up(run.result) and (left := self._left_behind):  # those words are no agent's
            names, stands = ", ".join(dict.fromkeys(map(str, left))), "stands" if len(left) == 1 else "stand"
            what = f"{names} {stands}, and the run gave up without naming that"
            return Assessment("left behind", (what, f"what would name it: {self._names_of(left)}", *how))
        is_done = any(effect.outcome == "done" for effect in net_effects(self._effects, self._declarations))
        is_all = is_done and error is not None and self._known(self._clean.effects) and not missing
        closing = ["it had changed all that the clean run changes"] if is_all else []
        return Assessment("failed partway" if is_done else "failed cleanly", (*how, *self._had_run(), *closing))

    def _failed_check(self) -> Iterator[Assessment]:
        """The run broke an assertion or an invariant. An assertion says what the recorded model leads to."""
        broken = () if self._run.diverged else self._run.broken
        for line in (*broken, *broken_invariants(self._run, self._invariants)):
            yield Assessment("undetected", (line,), "failed check")

    def _broken_data(self) -> Iterator[Assessment]:
        """The run took broken or missing data for whole: it is in an effect, in the result, or made no difference."""
        run, clean = self._run, self._clean
        yield from self._marked_effects()
        if not self._is_same_result:
            marks = run.marks if self._takes_marks_for_data else ()
            is_known_gap = is_empty_result(run.result) and run.result is not None and self.has_fired("may_be_true")
            is_gap = is_known_gap or self._may_lack_parts
            for part in broken_parts(run.result, clean.result, marks, is_gap=is_gap):
                yield _broken_data(part, *self._instructions)
        elif not run.continuation:
            for each in self._failed_tools():
                if self._is_garbled(each):
                    yield _broken_data(f"{each.tool} returned a broken result, and the answer is the same")
            for call in filter(self._answers.is_needed, self._answers.cut_off()):
                yield _broken_data(f"the answer to call {call.row} was cut off (length), and the run went on with it")

    def _marked_effects(self) -> Iterator[Assessment]:
        for effect in self._run.effects:
            is_marked = effect.source == "observed" and _carries(effect.arguments, self._run.marks)
            if is_marked and not self._was_approved(effect):
                yield _broken_data(f"what the fault injected reached a side effect: {effect}", *self._instructions)

    def _obeyed(self) -> Iterator[Assessment]:
        """The run made read-only calls after an injected instruction. Calls that change something are effects."""
        known = {_call_identity(each) for each in self._clean.tools}
        for each in self._run.tools if self._instructions else ():
            if each.has_run and not each.side_effect and _call_identity(each) not in known:
                called = str(Effect(tool=each.tool, arguments=each.arguments))
                yield _broken_data(f"{called} ran; without the fault it does not", *self._instructions)

    def _went_on_without(self) -> Iterator[Assessment]:
        """A call failed for good, and the result is the same. For a test ended by a broken assertion, nobody knows."""
        if self._was_told or self._run.broken:
            return
        lacking = [text for call, text in self._answers.describe() if self._is_lacking(call)]
        failed = [
            f"{each.tool} failed for good ({each.error or 'no result'})"
            for each in self._failed_tools()
            if not self._is_garbled(each)
        ]
        for text in dict.fromkeys((*lacking, *failed)):
            yield Assessment("undetected", (f"{text}, and the result is the same",), "went on without")

    def _same_result(self) -> Iterator[Assessment]:
        """The run returned the same result: it recovered, unless the world, or what it did for that, is another."""
        run, clean = self._run, self._clean
        for text in self._state_difference():
            yield Assessment("wrong effect", ("the end state is another, and the result is the same", text))
        for effect in self._difference.missing if not self._was_told else ():
            if effect not in self._known_missing and effect.tool not in self._optional:
                text = f"{effect} did not run, and the result is the same; nothing is declared about {effect.tool}"
                yield Assessment("undecided", (text, self._advice(effect.tool)))
        if self.has_fired("asks_for_more"):
            ended = "the model never stopped asking for tools, and the result is the same as if it had"
            known = [each for each in self._difference.repeated if self._known(each[:1])]
            for often in _how_often(known):
                yield _broken_data(f"{often}: {ended}")
        yield from self._went_on_without()
        lacking = () if self._was_told else self._answers.describe()
        closing = [f"{text}; nothing was left to do" for call, text in lacking if not self._answers.is_needed(call)]
        if self._has_same_state and (other := Counter(map(str, run.effects)) - Counter(map(str, clean.effects))):
            closing.append(f"the end state is the same, although other effects ran: {', '.join(other.elements())}")
        if unseen := sorted({effect.tool for effect in clean.effects if effect.source != "observed"}):
            closing.append(f"as far as the conversation shows; not observed: {', '.join(unseen)}")
        yield Assessment("recovered", (_recovery_text(run, clean), *closing))

    def _other_result(self) -> Iterator[Assessment]:
        """The run returned another result. With other effects it is another outcome, which only the user can judge."""
        run, clean, difference = self._run, self._clean, self._difference
        shown = result_difference(run.result, clean.result)
        lacking = [] if self._was_told else [text for _, text in self._answers.describe()]
        is_other_outcome = bool(self._known((*difference.missing, *difference.other)))
        missing = self._known_missing if is_other_outcome else difference.missing
        not_run = [self._undone_text(each) or f"{each.beside(difference.other)} did not run" for each in missing]
        if is_other_outcome:
            first = "it changed something else, and says something else: nothing says which of them is right"
            declare = (
                [] if self._was_told else ["if that result says that the run gave up, declare it: --gave-up 'REGEX'"]
            )
            yield Assessment("different outcome", (first, shown, *not_run, *self._had_run(), *lacking, *declare))
            return
        first = "a different result, and no assertion is broken: assert what must hold"
        asked = [f"{each.beside(difference.missing)} was asked for, and its result sent" for each in difference.other]
        yield Assessment("different result", (first, shown, *self._state_difference(), *lacking, *not_run, *asked))

    def _remedy(self) -> Iterator[Assessment]:
        """A run that gave up used a tool that nobody has declared, which may have taken something back."""
        for effect in self._remedies:
            text = f"{effect} ran, and the run gave up: it may take something back, or tell somebody"
            declare = f"-o undoes={effect.tool}=TOOL, or [tools.{effect.tool}] may_remain = true"
            yield Assessment("undecided", (text, f"declare it: {declare}"))

    def _unseen(self) -> Iterator[Assessment]:
        """A tool with an effect may have run unseen.

        The model asked for it again before its result came, its result was sent twice, or a broken call has arrived.
        """
        inferred = {effect.tool for effect in self._clean.effects if effect.source != "observed"}
        unseen = Counter((each.tool, each.outcome == "done") for each in self._run.unseen if self._may_harm(each))
        before = Counter((each.tool, each.outcome == "done") for each in self._clean.unseen)
        for tool, has_result in sorted(unseen - before):
            asked_again = "the model asked for it again before its result came"
            why = "the same result was sent twice" if has_result else asked_again
            text = f"cannot see {tool}: {why}, and it may have run twice"
            yield Assessment("undecided", (text, self._advice(tool)))
        asked = {call.number: {tool for tool, _ in call.asks_for} for call in self._clean.calls}
        known = set[str]().union(*asked.values())
        for call in self._run.calls:
            is_partial = call.outcome == "failed" and not TOOL_CHUNKS.isdisjoint(call.chunks)
            is_other = any(tool not in known for tool, _ in call.asks_for)
            for tool in sorted(asked.get(call.number, set()) & inferred) if is_partial or is_other else ():
                if is_other or not self._was_answered(call, tool):
                    text = f"cannot see {tool}: a broken call of it arrived, and the program may have run it"
                    yield Assessment("undecided", (text, self._advice(tool)))

    # The effects of the run, and the state that it left.

    @cached_property
    def _difference(self) -> EffectDifference:
        """The difference of the effects; none if they led to an equal state."""
        difference = compare_effects(self._effects, self._clean.effects, self._declarations, stable=self._stable)
        return EffectDifference() if self._has_same_state else difference

    @property
    def _knows_state(self) -> bool:
        return UNSET not in (self._run.state, self._clean.state)

    @property
    def _has_same_state(self) -> bool:
        return self._knows_state and self._run.state == self._clean.state

    def _state_difference(self) -> Iterator[str]:
        """Yield the difference of the end state from the clean run's, if both are known."""
        if self._knows_state and not self._has_same_state:
            yield result_difference(self._run.state, self._clean.state).replace("the result,", "the state,", 1)

    def _declared(self, tool: str) -> ToolDeclaration:
        return self._declarations.get(tool, UNDECLARED)

    def _may_remain(self, tool: str) -> bool:
        return self._declared(tool).may_remain

    def _known(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return the certain effects: observed ones, and those of declared tools."""
        return [each for each in effects if each.source == "observed" or self._declared(each.tool).has_effect]

    @property
    def _known_missing(self) -> list[Effect]:
        return self._known(self._difference.missing)

    def _is_observed(self, tool: str) -> bool:
        return all(each.source == "observed" for each in self._run.effects if each.tool == tool)

    def _is_certain(self, effect: Effect, times: int, wanted: int) -> bool:
        """Return whether a repetition was observed, or is of a declared tool whose results are in one request.

        A result proves that an inferred call ran, and two results in one conversation prove two runs.
        """
        if self._is_observed(effect.tool):
            return True
        shown = [each for each in self._run.effects if each.tool == effect.tool and each.source == "shown"]
        same = compare_effects(shown, [effect] * wanted, {}, stable=self._stable).repeated
        return self._declared(effect.tool).has_effect and bool(same)

    def _undeclared_runs(self, run: Run) -> list[Effect]:
        """Return the calls of undeclared tools that ran, as effects."""
        ran = [each for each in run.tools if each.has_run and each.is_observed and not each.has_failed]
        declared = {
            each.tool for each in ran if self._declared(each.tool).has_effect or self._declared(each.tool).read_only
        }
        undeclared = [each for each in ran if not (each.side_effect or each.tool in declared)]
        return [Effect(tool=each.tool, arguments=each.arguments) for each in undeclared]

    def _undone_text(self, missing: Effect) -> str:
        """Return what undid a missing effect, if it ran."""
        for effect, undo in undone_effects(self._effects, self._declarations):
            if not compare_effects([effect], [missing], {}, stable=self._stable).missing:
                return f"{effect} ran and was undone by {undo}"
        return ""

    def _had_run(self) -> Iterator[str]:
        """Describe the completed, possible and undeclared effects of a run that gave up."""
        known = self._stable | volatile_values([effect.arguments for effect in self._clean.effects])
        net = [without_volatile(each, known) for each in net_effects(self._effects, self._declarations)]
        for outcome, source in (("done", "observed"), ("done", ""), ("unknown", "observed"), ("unknown", "")):
            chosen = (each for each in net if each.outcome == outcome and (each.source == "observed") == bool(source))
            calls: dict[int, list[str]] = {}
            for call, count in Counter(map(str, chosen)).items():
                calls.setdefault(count, []).append(call)
            for count, names in calls.items():
                often = f" {_times(count)}" if count > 1 else ""
                if outcome == "unknown":
                    told = f"may have run{often}"
                elif source:
                    told = f"had run{often}"
                else:
                    verb, results = ("was", "its result") if len(names) == 1 else ("were", "their results")
                    told = f"{verb} asked for, and {results} sent{often}"
                yield f"{', '.join(names)} {told}"
        for tool, times in Counter(effect.tool for effect in self._undeclared_runs(self._run)).items():
            yield f"{tool} ran {_times(times)}; nothing is declared about it"

    def _may_harm(self, call: Effect) -> bool:
        """Return whether an unseen call may have changed something: it is not known to be harmless."""
        declared = self._declared(call.tool)
        same = [each for each in (*self._clean.effects, *self._effects) if each.tool == call.tool]
        is_repeated = is_idempotent(call, [each for each in self._effects if each.tool == call.tool], declared)
        is_known = declared.has_effect or any(each.tool == call.tool for each in self._clean.effects)
        is_unobserved = all(each.source != "observed" for each in same)
        return is_known and not declared.read_only and not is_repeated and is_unobserved

    def _was_answered(self, call: ModelCall, tool: str) -> bool:
        """Return whether a truncated answer was accepted: not asked again, and the tool has a result."""
        is_last = not any(each.number == call.number and each.attempt > call.attempt for each in self._run.calls)
        return is_last and any(each.tool == tool and each.result for each in self._run.tools)

    def _advice(self, tool: str) -> str:
        """Return how to become certain about a program's tool."""
        report = f'say where it is: [tools.{tool}] function = "module:name", or report it: offbook.effect("{tool}", …)'
        is_declared = self._declared(tool).has_effect
        return report if is_declared else f"{report}, or declare it: -o read_only={tool} or -o idempotent={tool}"

    # How it gave up, and what it named then.

    @cached_property
    def _is_same_result(self) -> bool:
        return bool(self._run.result == self._clean.result)

    @cached_property
    def _gave_up_in_the_end(self) -> bool:
        """Whether the run gave up, by an error or by its result: as `gave_up` declares it, or by its structure.

        It also did if it passes on that the model gave up, without claiming what did not happen.
        """
        run, clean = self._run, self._clean
        if run.error is not None:
            return run.error.kind != "undeclared"
        if run.hung or self._is_same_result:
            return False
        is_declared = self._gave_up is not None and self._gave_up(run.result)
        if is_declared or denies_success(run.result, clean.result, run.marks):
            return True
        return is_given_up(run.result) and not any(self._missing_effect())

    @cached_property
    def _remedies(self) -> list[Effect]:
        """The single runs of undeclared tools that only a run that gave up uses.

        They may cancel a booking, or call a person. Nothing declares that they do, or do not.
        """
        if not self._gave_up_in_the_end or self._instructions or self.has_fired("asks_for_more"):
            return []
        known = {each.tool for each in self._clean.effects}
        often = Counter(map(_call_identity, self._run.effects))
        return [
            each
            for each in self._difference.other
            if each.tool not in known
            and each.source == "observed"
            and often[_call_identity(each)] == 1
            and not self._declared(each.tool).undoes
            and not self._may_remain(each.tool)
        ]

    @property
    def _left_behind(self) -> list[Effect]:
        """The effects that remain at the end without permission, and that neither the result nor the error names.

        A cancelled run has not given up, and one whose call got no result cannot know what remains. A remedy may have
        taken back what else would stand.
        """
        run = self._run
        if self._remedies or any(planned.fault.type == "cancelled" for planned in self._faults):
            return []
        net = net_effects(self._effects, self._declarations)
        standing = [each for each in self._known(net) if each.outcome == "done" and not self._may_remain(each.tool)]
        lost = {_call_identity(each) for each in run.tools if each.has_run and self._was_lost(each)}
        return [
            each
            for each in standing
            if _call_identity(each) not in lost
            and not names_effect(run, each, missing=self._known_missing, standing=standing, gives_up=self._gives_up)
        ]

    def _gives_up(self, sentence: str) -> bool:
        """Return whether a sentence itself says that the run gave up, as declared."""
        try:
            return self._gave_up is not None and bool(self._gave_up(sentence))
        except Exception:  # a function of the user, for whole results
            return False

    def _was_lost(self, call: ToolRun) -> bool:
        """Return whether the run did not get a call's result, so it cannot know what it has changed."""
        is_hit = any((each.at.tool, each.at.call) == (call.tool, call.call) for each in self._faults)
        return call.error is not None or is_hit

    def _names_of(self, effects: Iterable[Effect]) -> str:
        """Return what in a text would name these effects: their tools, and the values that are theirs alone."""
        masked = [without_volatile(each, self._stable) for each in effects]
        values = {value: None for each in masked for value in sorted(own_values(each, self._run, given=True))}
        tools = dict.fromkeys(each.tool.rpartition(".")[2] for each in masked)
        return ", ".join([*tools, *(each for each in values if "…" not in each and each not in tools)])

    @staticmethod
    def _error_text(error: RunFailure) -> str:
        return f"{error.type}: {error.message}" if error.message else error.type

    # What the fault did, and what became of it.

    def has_fired(self, trait: FaultTrait) -> bool:
        """Return whether a fault with that trait has fired."""
        return any(trait in planned.fault.traits for planned in self._faults)

    @cached_property
    def _instructions(self) -> list[str]:
        """The instructions that faults have injected into tool results, for the evidence."""
        injected = [(each.at.tool, each.fault) for each in self._faults if isinstance(each.fault, InjectedText)]
        lines = (f"the result of {tool} had an instruction in it: {fault.instruction_text}" for tool, fault in injected)
        return [shorten(line, 200) for line in dict.fromkeys(lines)]

    @property
    def _was_told(self) -> bool:
        """Whether the model was told about the failure. Everything after that is its decision."""
        return bool(self._run.continuation) and any(call.told for call in self._run.calls)

    def _was_approved(self, effect: Effect) -> bool:
        """Return whether a model saw the refusal that an effect carries: only a model can recognise one."""
        return self.has_fired("reads_like_answer") and self._was_told and _carries(effect.arguments, self._run.marks)

    @property
    def _takes_marks_for_data(self) -> bool:
        """Whether the result treats injected text as data. Errors may be quoted, and refusals passed on."""
        if self.has_fired("reads_like_answer") or is_given_up(self._run.result):
            return False
        return not self._are_errors or takes_error_for_data(self._run.result, self._clean.result, self._run.marks)

    @property
    def _are_errors(self) -> bool:
        """Whether all faults fail calls with errors, which their callers see, and may quote."""
        faults = [planned.fault for planned in self._faults]
        return all(
            isinstance(fault, FailedCall) or hasattr(fault, "status_code") or "loses_answer" in fault.traits
            for fault in faults
        )

    @property
    def _may_lack_parts(self) -> bool:
        """Whether the result may honestly lack a part: that of an effect which failed with an error.

        Text that says nothing is no such result.
        """
        result = self._run.result
        is_silent = is_empty_result(result) and result not in (None, [], {})
        has_failed = any(each.side_effect and each.error is not None for each in self._run.tools)
        return self._are_errors and not is_silent and bool(has_failed or self._known_missing)

    def _is_lacking(self, call: ModelCall) -> bool:
        """Return whether the run needed an answer, and did not run the tools that a cut one requested."""
        asked = [each.asks_for for each in self._clean.calls if each.number == call.number and each.asks_for][:1]
        ran = [(each.tool, each.arguments) for each in self._run.tools if each.result]
        has_arrived = not TOOL_CHUNKS.isdisjoint(call.chunks)
        has_run = bool(asked) and has_arrived and all(each in ran for each in asked[0])
        return not has_run and self._answers.is_needed(call)

    def _failed_tools(self) -> list[ToolRun]:
        """Return the clean run's tool calls that never got a whole result, and were not replaced by another call.

        The call may have been prevented, its answer lost, or its result empty or broken. A completed effect is not
        among them: a result that claims it is true. A read that is repeated with one result is needed once.
        """
        done = {effect.tool for effect in self._run.effects if effect.outcome == "done"}
        wanted = Counter(_call_identity(each) for each in self._clean.tools if each.has_run and each.error is None)
        whole = Counter(_call_identity(each) for each in self._run.tools if self._is_whole(each))
        if whole - wanted:
            return []
        for identity in {_call_identity(each) for each in self._clean.tools if self._declared(each.tool).read_only}:
            if len({each.result for each in self._clean.tools if _call_identity(each) == identity}) == 1:
                wanted[identity] = min(wanted[identity], 1)
        whole.subtract(wanted)
        later = set[bytes]()
        lacking = list[ToolRun]()
        for each in reversed(self._run.tools):
            if self._is_whole(each):
                later.add(_call_identity(each))
            elif whole[_call_identity(each)] < 0 and _call_identity(each) not in later:
                lacking.insert(0, each)
        return [each for each in lacking if each.tool not in self._optional | done]

    def _is_whole(self, call: ToolRun) -> bool:
        """Return whether a call got a result that no fault has broken."""
        if not call.has_run or call.error is not None:
            return False
        results = {each.result for each in self._clean.tools if _call_identity(each) == _call_identity(call)}
        return call.result in results or not self._breaking(call)

    def _is_garbled(self, call: ToolRun) -> bool:
        """Return whether a call got a broken result, as opposed to a missing one."""
        return call.error is None and not any("may_be_true" in each.traits for each in self._breaking(call))

    def _breaking(self, call: ToolRun) -> list[AnyPlannedFault]:
        """Return the faults that break results of this tool."""
        at_tool = (each.fault for each in self._faults if each.at.tool == call.tool)
        return [fault for fault in at_tool if "breaks_result" in fault.traits]


def _carries(value: object, marks: Iterable[str]) -> bool:
    text = msgspec.json.encode(value).decode()
    return any(mark in text for mark in marks)


def _call_identity(call: ToolRun | Effect) -> bytes:
    return msgspec.json.encode((call.tool, call.arguments), order="sorted")


def _broken_data(*evidence: str) -> Assessment:
    return Assessment("undetected", evidence, "broken data")


def _declaration_advice(tool: str) -> str:
    """Return how to declare a tool of this process."""
    reads = f"if it only reads: read_only=True or -o read_only={tool}"
    return f"nothing is declared about {tool}; {reads}; if not: side_effect=True or -o side_effects={tool}"


def _possible_repeats(
    repeated: Sequence[tuple[Effect, int, int]], known_from: str, advice: Callable[[str], str]
) -> Iterator[Assessment]:
    """Yield the possible repetitions, with the `advice` on how to become certain about each tool."""
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


def _dear_recovery(run: Run, clean: Run, most: int | None) -> Iterator[Assessment]:
    further = len(run.calls) - len(clean.calls)
    if most is not None and run.fired and further > most:
        text = f"it took {pluralize(further, 'further call')}, and max_recovery_calls allows {most}"
        yield Assessment("bad retry", (text,), "storm")


def _times(count: int) -> str:
    return "once" if count == 1 else pluralize(count, "time")


def _recovery_text(run: Run, clean: Run) -> str:
    further, waited_s = len(run.calls) - len(clean.calls), run.took_s - clean.took_s
    calls = pluralize(further, "further call") if further >= 0 else f"{pluralize(-further, 'call')} fewer"
    recovery = f"the same result, with {calls}"
    if not run.took_s and not clean.took_s:
        return recovery
    return f"{recovery} and {abs(waited_s):.1f} s {'more' if waited_s >= 0 else 'less'}"
