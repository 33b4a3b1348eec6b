"""The verdict on a run with a fault, and the evidence for it.

From top to bottom: the names of verdicts, the assessment of a run, and the judgement of its repeated model calls.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property, partial, wraps
from typing import Literal, get_args

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import site_of
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
from offbook.explore.noise import STATE
from offbook.explore.options import GaveUp, Invariant, broken_invariants
from offbook.explore.results import (
    Claim,
    broken_parts,
    denies_success,
    is_empty_result,
    is_given_up,
    repeats_claims,
    result_difference,
    result_text,
    sentences_of,
    takes_error_for_data,
)
from offbook.explore.run import TOOL_CHUNKS, ModelCall, Run, RunFailure, ToolRun
from offbook.faults import AnyPlannedFault, PlannedFault, parse_fault
from offbook.faults.fault import FaultTrait
from offbook.faults.http import HOPELESS_STATUSES
from offbook.faults.tools import FailedCall, InjectedText
from offbook.session.script import DEFAULT_RESULT, NEAREST_RESULT
from offbook.text import did_you_mean, pluralize, shorten
from offbook.tools.effects import UNDECLARED, Effect

Verdict = Literal[
    "repeated effect",
    "wrong effect",
    "missing effect",
    "left behind",
    "refused by the API",
    "undetected",
    "hung",
    "bad retry",
    "crashed",
    "undecided",
    "failed partway",
    "different outcome",
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
    Assessment("left behind"),
    Assessment("refused by the API"),
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
    Assessment("different outcome"),
    Assessment("different result"),
    Assessment("failed cleanly"),
    Assessment("recovered"),
    Assessment("not reached"),
)

TITLES: tuple[str, ...] = tuple(each.title for each in _BY_SEVERITY)
"""Every verdict with its reason, worst first."""

FINDING_TITLES: frozenset[str] = frozenset(each.title for each in _BY_SEVERITY if each.verdict in FINDINGS)

LABELS: tuple[str, ...] = (*VERDICTS[:5], "possible repeated effect", *VERDICTS[5:])
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
    """Return the titles in a file, which may have an earlier version's names.

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
    """Return the titles of the verdicts with these names: families, reasons, titles, or former names.

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
    titles["repeated side effect"] = titles["repeated effect"]  # a gate must not let through what is only possible
    wanted: set[str] = set()
    for name in names:
        if (spaced := name.replace("-", " ")) not in titles:
            hint = did_you_mean(spaced.replace(" ", "-"), known, kind="verdicts")
            raise InputError(f"there is no verdict {name!r}", source=source, hint=hint)
        wanted |= titles[spaced]
    return frozenset(wanted)


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
    known = _as_far_as_known(run, list(_Claims(run, clean, invariants, frozenset(optional), gave_up)))
    known += _dear_recovery(run, clean, max_recovery_calls)
    claims = sorted(known, key=lambda claim: claim.severity)
    worst = claims[0]
    also = [claim for claim in claims if claim.verdict == worst.verdict or claim.verdict in FINDINGS]
    evidence = list(dict.fromkeys(line for claim in also for line in claim.evidence))
    lives = () if run.first_life is None else (run.first_life.describe(run.effects),)
    notes = (*_refusals(run, got_out=True), *lives, *_continuation_text(run))
    return Assessment(worst.verdict, (*evidence, *notes), worst.reason)


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


def _on_whole(run: Run, invariant: Invariant) -> Invariant:
    """Return an invariant that checks this run including its noise."""
    return wraps(invariant)(lambda _: invariant(run))


def _without_noise(run: Run, clean: Run) -> Run:
    """Return a run without the noise of its result."""
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
    """Every verdict that a run justifies, as assessments in no order; at least one."""

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
        yield from (Assessment("refused by the API", (line,)) for line in _refusals(run, got_out=False))
        for reason, evidence in _bad_retries(run.calls, self._faults):
            yield Assessment("bad retry", (evidence,), reason)
        if run.diverged and not run.continuation:
            yield Assessment("undecided", (run.diverged,))
        elif run.error is not None:
            yield self._failure(run.error, difference)
            yield from self._unseen()
        elif not run.hung:
            yield from self._success(difference)
            yield from self._unseen()

    def _effect_difference(self) -> EffectDifference:
        """Return the difference of the effects, or none if they led to an equal state."""
        difference = compare_effects(self._effects, self._clean.effects, self._declarations, stable=self._stable)
        return EffectDifference() if self._has_same_state else difference

    @property
    def _has_same_state(self) -> bool:
        return self._clean.state is not UNSET and self._run.state == self._clean.state

    def _state_difference(self) -> Iterator[str]:
        """Yield the difference of the end state from the clean run's, if both are known."""
        if UNSET not in (self._run.state, self._clean.state) and not self._has_same_state:
            yield result_difference(self._run.state, self._clean.state).replace("the result,", "the state,", 1)

    def _more_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        if self._has_fired("asks_for_more"):  # the model asked for it, and the question is when the agent stops
            return
        observed = [each for each in difference.repeated if self._is_certain(*each)]
        inferred = [each for each in difference.repeated if not self._is_certain(*each)]
        for often in _how_often(observed):
            yield Assessment("repeated effect", (often, *self._instructions), "certain")
        yield from _possible_repeats(inferred, ", as far as the conversation shows", self._advice)
        remedies = self._remedies(difference)
        for effect in remedies:
            text = f"{effect} ran, and the run gave up: it may take something back, or tell somebody"
            declare = f"-o undoes={effect.tool}=TOOL, or [tools.{effect.tool}] may_remain = true"
            yield Assessment("undecided", (text, f"declare it: {declare}"))
        for effect in (each for each in difference.other if each not in remedies and not self._is_last_word(each)):
            if not self._is_observed(effect.tool) or self._was_approved(effect):
                continue
            ran = f"{effect.beside(difference.missing)} ran; without the fault it does not"
            yield Assessment("wrong effect", (ran, *self._instructions))
        # A tool that nothing is declared about may have changed something when it ran once more.
        runs, clean = self._undeclared_runs(self._run), self._undeclared_runs(self._clean)
        undeclared = () if self._has_same_state else compare_effects(runs, clean, {}, stable=self._stable).repeated
        yield from _possible_repeats(undeclared, "", _declaration_advice)
        yield from self._obeyed()

    def _remedies(self, difference: EffectDifference) -> list[Effect]:
        """Return the single runs of undeclared tools that only a run that gave up uses.

        They may cancel a booking, or call a person. Nothing declares that they do, or do not.
        """
        if not self._gave_up_in_the_end or self._instructions or self._has_fired("asks_for_more"):
            return []
        known = {each.tool for each in self._clean.effects}
        often = Counter(map(_call_identity, self._run.effects))
        return [
            each
            for each in difference.other
            if each.tool not in known
            and each.source == "observed"
            and often[_call_identity(each)] == 1
            and not self._declarations.get(each.tool, UNDECLARED).undoes
            and not self._may_remain(each.tool)
        ]

    def _is_last_word(self, effect: Effect) -> bool:
        """Return whether an effect may stand when a run gives up, and this run has."""
        return self._gave_up_in_the_end and self._may_remain(effect.tool)

    @cached_property
    def _gave_up_in_the_end(self) -> bool:
        error = self._run.error
        if error is not None:
            return error.kind != "undeclared"
        return not self._run.hung and self._run.result != self._clean.result and self._says_it_gave_up

    def _unseen(self) -> Iterator[Assessment]:
        """Yield the tools with an effect that may have run unseen.

        The model asked for one again before its result came, its result was sent twice, or a broken call has arrived.
        """
        inferred = {effect.tool for effect in self._clean.effects if effect.source != "observed"}
        unseen = Counter((each.tool, each.outcome == "done") for each in self._run.unseen if self._may_harm(each))
        before = Counter((each.tool, each.outcome == "done") for each in self._clean.unseen)
        for tool, has_result in sorted(unseen - before):
            why = (
                "the same result was sent twice"
                if has_result
                else "the model asked for it again before its result came"
            )
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

    def _may_harm(self, call: Effect) -> bool:
        """Return whether an unseen call may have changed something: it is not known to be harmless."""
        declared = self._declarations.get(call.tool, UNDECLARED)
        is_repeated = is_idempotent(call, [each for each in self._effects if each.tool == call.tool], declared)
        is_known = declared.has_effect or any(each.tool == call.tool for each in self._clean.effects)
        return is_known and not declared.read_only and not is_repeated and self._is_unobserved(call.tool)

    def _is_unobserved(self, tool: str) -> bool:
        return all(each.source != "observed" for each in (*self._clean.effects, *self._effects) if each.tool == tool)

    def _was_answered(self, call: ModelCall, tool: str) -> bool:
        """Return whether a truncated answer was accepted: not asked again, and the tool has a result."""
        is_last = not any(each.number == call.number and each.attempt > call.attempt for each in self._run.calls)
        return is_last and any(each.tool == tool and each.result for each in self._run.tools)

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
        ran = [each for each in run.tools if each.has_run and each.is_observed and not each.has_failed]
        undeclared = [each for each in ran if not (each.side_effect or self._is_declared(each.tool))]
        return [Effect(tool=each.tool, arguments=each.arguments) for each in undeclared]

    def _is_declared(self, tool: str) -> bool:
        """Return whether the tool is declared."""
        declared = self._declarations.get(tool, UNDECLARED)
        return declared.has_effect or declared.read_only

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
        """Return how to become certain about a program's tool."""
        report = f'say where it is: [tools.{tool}] function = "module:name", or report it: offbook.effect("{tool}", …)'
        has_effect = self._declarations.get(tool, UNDECLARED).has_effect
        return report if has_effect else f"{report}, or declare it: -o read_only={tool} or -o idempotent={tool}"

    def _is_certain(self, effect: Effect, times: int, wanted: int) -> bool:
        """Return whether a repetition was observed, or is of a declared tool whose results are in one request.

        A result proves that an inferred call ran, and two results in one conversation prove two runs.
        """
        if self._is_observed(effect.tool):
            return True
        shown = [each for each in self._run.effects if each.tool == effect.tool and each.source == "shown"]
        same = compare_effects(shown, [effect] * wanted, {}, stable=self._stable).repeated
        return self._declarations.get(effect.tool, UNDECLARED).has_effect and bool(same)

    def _is_observed(self, tool: str) -> bool:
        return all(each.source == "observed" for each in self._run.effects if each.tool == tool)

    def _failure(self, error: RunFailure, difference: EffectDifference) -> Assessment:
        message = f"{error.type}: {error.message}" if error.message else error.type
        if error.kind == "undeclared":
            return Assessment("crashed", (message, *self._had_run()))
        missing = [each for each in self._known(difference.missing) if each.tool not in self._optional]
        if (missing or self._known(difference.other)) and (left := self._left_behind):
            return self._leaving(left, message)
        if not any(effect.outcome == "done" for effect in net_effects(self._effects, self._declarations)):
            return Assessment("failed cleanly", (message, *self._had_run()))
        is_all = self._known(self._clean.effects) and not missing
        closing = ["it had changed all that the clean run changes"] if is_all else []
        return Assessment("failed partway", (message, *self._had_run(), *closing))

    def _denial(self) -> Iterator[Assessment]:
        """Yield the verdict on a run whose result says that it gave up: by `gave_up`, or by its structure."""
        run, clean = self._run, self._clean
        evidence = "its result says that it gave up", result_difference(run.result, clean.result)
        if (left := self._left_behind) and not self._was_told:
            yield self._leaving(left, *evidence)
        else:
            is_done = any(each.outcome == "done" for each in net_effects(self._effects, self._declarations))
            yield Assessment("failed partway" if is_done else "failed cleanly", (*evidence, *self._had_run()))
        yield from self._marked_effects()

    def _leaving(self, left: Sequence[Effect], *how: str) -> Assessment:
        names = ", ".join(dict.fromkeys(map(str, left)))
        stands = "stands" if len(left) == 1 else "stand"
        return Assessment("left behind", (f"{names} {stands}, and the run gave up without naming that", *how))

    @property
    def _left_behind(self) -> list[Effect]:
        """The effects that remain at the end without permission, and that neither the result nor the error names.

        A cancelled run has not given up, and one whose call got no result cannot know what remains.
        """
        if any(planned.fault.type == "cancelled" for planned in self._faults):
            return []
        if self._remedies(self._effect_difference()):  # which may have taken back what else would stand
            return []
        run = self._run
        net = net_effects(self._effects, self._declarations)
        standing = [each for each in self._known(net) if each.outcome == "done" and not self._may_remain(each.tool)]
        lost = {_call_identity(each) for each in run.tools if each.has_run and self._was_lost(each)}
        unnamed = [each for each in standing if not _names_effect(self._said, each, run)]
        return [each for each in unnamed if _call_identity(each) not in lost and not self._implies(each, standing)]

    @property
    def _said(self) -> str:
        """The text of the error, if any, and of the result."""
        text = result_text(self._run.result)
        return text if self._run.error is None else f"{self._run.error.message}\n{text}"

    def _implies(self, effect: Effect, standing: Sequence[Effect]) -> bool:
        """Return whether a run that gave up implies an effect without one of its unique values.

        It does if a sentence has a word of the tool's name and a value of an argument, or just the word, and does not
        itself give up: `Nothing was charged` says the contrary. Words shared with missing effects do not count. It also
        does if it lists all missing effects of this tool, which implies the others.
        """
        missing = self._known(self._effect_difference().missing)
        words = _words_of(effect.tool).difference(*(_words_of(each.tool) for each in missing))
        if any(self._says(sentence, words, effect) for sentence in self._sentences):
            return True
        known = result_text([each.arguments for each in standing])
        listed = [
            any(
                _has_word(self._said, each) and not _has_word(known, each)
                for each in _own_values(lacking, self._run, min_digits=1)
            )
            for lacking in missing
            if lacking.tool == effect.tool
        ]
        return bool(listed) and all(listed)

    @property
    def _sentences(self) -> Iterator[str]:
        yield from () if self._run.error is None else [self._run.error.message]
        yield from sentences_of(self._run.result)

    def _says(self, sentence: str, words: Collection[str], effect: Effect) -> bool:
        said = _words_of(sentence)
        if any(_has_word(sentence, each) for each in _values_of(effect, min_digits=1)):
            return any(one[:_STEM_LENGTH] == other[:_STEM_LENGTH] for one in words for other in said)
        return not said.isdisjoint(words) and self._is_neutral(sentence)

    def _is_neutral(self, sentence: str) -> bool:
        """Return whether another sentence of a result says that the run gave up."""
        try:
            return self._gave_up is None or not self._gave_up(sentence)
        except Exception:  # a function of the user, for whole results
            return True

    def _was_lost(self, call: ToolRun) -> bool:
        """Return whether the run did not get a call's result, so it cannot know what it has changed."""
        is_hit = any((each.at.tool, each.at.call) == (call.tool, call.call) for each in self._faults)
        return call.error is not None or is_hit

    def _may_remain(self, tool: str) -> bool:
        return self._declarations.get(tool, UNDECLARED).may_remain

    def _known(self, effects: Iterable[Effect]) -> list[Effect]:
        """Return the certain effects: observed ones, and those of declared tools."""
        return [
            each
            for each in effects
            if each.source == "observed" or self._declarations.get(each.tool, UNDECLARED).has_effect
        ]

    def _had_run(self) -> Iterator[str]:
        """Describe the completed, possible and undeclared effects of a run that gave up."""
        known = self._stable | volatile_values([effect.arguments for effect in self._clean.effects])
        net = [without_volatile(each, known) for each in net_effects(self._effects, self._declarations)]
        kinds = (("done", True, "had run"), ("done", False, "was called, as the conversation shows"))
        for outcome, is_observed, verb in (
            *kinds,
            ("unknown", True, "may have run"),
            ("unknown", False, "may have run"),
        ):
            chosen = (each for each in net if (each.outcome, each.source == "observed") == (outcome, is_observed))
            calls = Counter(map(str, chosen))
            if calls:
                shown = (each if count == 1 else f"{each} {count} times" for each, count in calls.items())
                yield f"{', '.join(shown)} {verb}"
        for tool, times in Counter(effect.tool for effect in self._undeclared_runs(self._run)).items():
            yield f"{tool} ran {_times(times)}; nothing is declared about it"

    def _success(self, difference: EffectDifference) -> Iterator[Assessment]:
        run, clean = self._run, self._clean
        is_same = run.result == clean.result
        if not is_same and self._says_it_gave_up:
            yield from self._denial()
            return
        if not self._was_told or run.continuation == "resigned":  # a model that gave up has claimed nothing
            yield from self._missing_effects(difference)
        yield from self._accepted_broken_data()
        for text in self._state_difference() if is_same else ():
            yield Assessment("wrong effect", ("the end state is another, and the result is the same", text))
        if is_same:
            yield from self._missing_undeclared(difference)
            yield from self._endless_requests(difference)
            yield from self._went_on_without()
            lacking = () if self._was_told else self._answers.describe()
            closing = [f"{text}; nothing was left to do" for call, text in lacking if not self._answers.is_needed(call)]
            if self._has_same_state and (other := Counter(map(str, run.effects)) - Counter(map(str, clean.effects))):
                closing.append(f"the end state is the same, although other effects ran: {', '.join(other.elements())}")
            if unseen := sorted({effect.tool for effect in clean.effects if effect.source != "observed"}):
                closing.append(f"as far as the conversation shows; not observed: {', '.join(unseen)}")
            yield Assessment("recovered", (_recovery_text(run, clean), *closing))
        elif self._known((*difference.missing, *difference.other)):
            yield Assessment("different outcome", tuple(self._other_outcome(difference)))
        else:
            yield Assessment("different result", tuple(self._other_result(difference)))

    @property
    def _says_it_gave_up(self) -> bool:
        """Whether the result says so: as `gave_up` declares it, or by its structure."""
        result = self._run.result
        is_declared = self._gave_up is not None and self._gave_up(result)
        return bool(is_declared) or denies_success(result, self._clean.result, self._run.marks)

    def _missing_effects(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the effects that did not run or were undone, although the result is equal or claims them."""
        run, clean = self._run, self._clean
        for effect in (each for each in self._known(difference.missing) if each.tool not in self._optional):
            is_same = run.result == clean.result
            if not is_same and not repeats_claims(run.result, clean.result, partial(_speaks_of, effect, clean)):
                continue
            ending = "the result is the same" if is_same else "the result claims it as that of the clean run does"
            if undone := self._undone_text(effect):
                yield Assessment("missing effect", (f"{undone}, and {ending}",))
                continue
            not_run = f"{effect.beside(difference.other)} did not run, and {ending}"
            calls = [str(each) for each in self._effects if (each.tool, each.outcome) == (effect.tool, "unknown")]
            instead = [f"{', '.join(calls)} may have run instead"] if calls else []
            shown = [] if is_same else [result_difference(run.result, clean.result)]
            yield Assessment("missing effect", (not_run, *instead, *shown))

    def _missing_undeclared(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the undeclared tools that did not run, although the result is equal."""
        known = self._known(difference.missing)
        for effect in difference.missing if not self._was_told else ():
            if effect not in known and effect.tool not in self._optional:
                text = f"{effect} did not run, and the result is the same; nothing is declared about {effect.tool}"
                yield Assessment("undecided", (text, self._advice(effect.tool)))

    def _undone_text(self, missing: Effect) -> str:
        """Return what undid a missing effect, if it ran."""
        for effect, undo in undone_effects(self._effects, self._declarations):
            if not compare_effects([effect], [missing], {}, stable=self._stable).missing:
                return f"{effect} ran and was undone by {undo}"
        return ""

    @property
    def _was_told(self) -> bool:
        """Whether the model was told about the failure. Everything after that is its decision."""
        return bool(self._run.continuation) and any(call.told for call in self._run.calls)

    def _accepted_broken_data(self) -> Iterator[Assessment]:
        run, clean = self._run, self._clean
        yield from self._marked_effects()
        is_empty = is_empty_result(run.result) and run.result is not None
        marks = run.marks if self._takes_marks_for_data else ()
        for part in broken_parts(run.result, clean.result, marks) if run.result != clean.result else ():
            if not (is_empty and self._has_fired("may_be_true")):
                yield _broken_data(part, *self._instructions)
        if run.result == clean.result and not run.continuation:
            yield from self._ignored_results()

    @property
    def _takes_marks_for_data(self) -> bool:
        """Whether the result treats injected text as data. Errors may be quoted, and refusals passed on."""
        if self._has_fired("reads_like_answer") or is_given_up(self._run.result):
            return False
        are_errors = all(_is_error(planned.fault) for planned in self._faults)
        return not are_errors or takes_error_for_data(self._run.result, self._clean.result, self._run.marks)

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
        for each in self._failed_tools():
            if self._is_garbled(each):
                yield _broken_data(f"{each.tool} returned a broken result, and the answer is the same")
        for call in filter(self._answers.is_needed, self._answers.cut_off()):
            yield _broken_data(f"the answer to call {call.row} was cut off (length), and the run went on with it")

    def _endless_requests(self, difference: EffectDifference) -> Iterator[Assessment]:
        """Yield the calls that ran once more for an endless model, if the result is equal to an ended one's."""
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
        """Yield the calls that failed for good, although the result is equal.

        For a test ended by a broken assertion, that is unknown.
        """
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
        among them: a result that claims it is true.
        """
        done = {effect.tool for effect in self._run.effects if effect.outcome == "done"}
        wanted = Counter(_call_identity(each) for each in self._clean.tools if each.has_run and each.error is None)
        whole = Counter(_call_identity(each) for each in self._run.tools if self._is_whole(each))
        whole.subtract(wanted)
        if any(count > 0 for count in whole.values()):
            return []
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

    def _other_outcome(self, difference: EffectDifference) -> Iterator[str]:
        """Describe a run with other effects and another result: what is missing, remains and was denied."""
        yield "it changed something else, and says something else: nothing says which of them is right"
        yield result_difference(self._run.result, self._clean.result)
        for effect in self._known(difference.missing):
            yield self._undone_text(effect) or f"{effect.beside(difference.other)} did not run"
        yield from self._had_run()
        yield from (lacking for _, lacking in self._answers.describe() if not self._was_told)
        if not self._was_told:
            yield "if that result says that the run gave up, declare it: --gave-up 'REGEX'"

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


def _is_error(fault: AnyPlannedFault) -> bool:
    """Return whether a fault fails a call with an error, whose text the run may quote."""
    return isinstance(fault, FailedCall) or hasattr(fault, "status_code") or "loses_answer" in fault.traits


# Between the words of some scripts stands no space: `フライトLH-77は予約済み` has the word `LH-77`.
_UNSPACED = "\u0e00-\u0e7f\u3005-\u30ff\u3400-\u9fff\uac00-\ud7af\uff66-\uff9f"
_SIGN = rf"[^\W{_UNSPACED}]"
_TOKEN = re.compile(rf"(?:{_SIGN}|-)*\d(?:{_SIGN}|-)*")
_NAME_PART = re.compile(r"[^\W_]+?(?=[A-Z]|_|$)")


def _has_word(text: str, word: str) -> bool:
    return re.search(rf"(?<!{_SIGN}){re.escape(word)}(?!{_SIGN})", text, re.IGNORECASE) is not None


def _values_of(effect: Effect, *, min_digits: int = 2) -> set[str]:
    """Return the values of arguments that can stand in a text: words, numbers and short phrases."""
    values = (each for each in effect.arguments.values() if not isinstance(each, bool | dict | list | type(None)))
    return {str(each) for each in values if len(str(each)) >= (2 if isinstance(each, str) else min_digits)}


def _returned_ids(effect: Effect, run: Run) -> set[str]:
    """Return the words with digits in the tool's result for this effect."""
    results = (each.result for each in run.tools if each.tool == effect.tool and each.arguments == effect.arguments)
    return {token for text in results for token in _TOKEN.findall(text) if len(token) > 1}


def _names_effect(text: str, effect: Effect, run: Run) -> bool:
    """Return whether a text names the effect: its tool, or one of its unique values."""
    tool = effect.tool.rpartition(".")[2]
    name = "[ _-]?".join(map(re.escape, re.split("[ _-]", tool)))
    if re.search(rf"(?<!{_SIGN}){name}(?!{_SIGN})", text, re.IGNORECASE):
        return True
    return any(_has_word(text, each) for each in _own_values(effect, run))


def _own_values(effect: Effect, run: Run, *, min_digits: int = 2) -> set[str]:
    """Return the values of an effect that no other tool had or returned."""
    others = [each for each in run.tools if each.tool != effect.tool]
    shared = result_text([[each.arguments, each.result] for each in others])
    own = _values_of(effect, min_digits=min_digits) | _returned_ids(effect, run)
    return {each for each in own if not _has_word(shared, each)}


_LETTERS = re.compile(rf"[^\W\d_{_UNSPACED}]+|[{_UNSPACED}]+")
_STEM_LENGTH = 4
"""The minimum common length of words on the same subject: `refund` and `refunded`."""


def _words_of(text: str) -> set[str]:
    """Return the words of a text, or of a tool's name, that are long enough to be informative."""
    words = [part for word in _LETTERS.findall(text) for part in (word, *_NAME_PART.findall(word))]
    return {word.casefold() for word in words if len(word) >= _STEM_LENGTH}


def _speaks_of(effect: Effect, clean: Run, claim: Claim) -> bool:
    """Return whether a claim of the clean result concerns an effect.

    A sentence does if it has a value of its arguments. Both do if they have a word of the tool's name, or of its
    result. A field with only an argument's value may merely repeat the request.
    """
    words = {part.casefold() for part in _NAME_PART.findall(effect.tool.rpartition(".")[2]) if len(part) > 2}
    if any(word.startswith(part) for word in re.findall(rf"{_SIGN}+", claim.text) for part in words):
        return True
    asked, returned = _values_of(effect), _returned_ids(effect, clean)
    is_echo = claim.text.rpartition(": ")[2].strip('"') in {each.casefold() for each in asked}
    values = returned - asked if claim.is_field or is_echo else returned | asked
    return any(_has_word(claim.text, each) for each in values)


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


def _carries(value: object, marks: Iterable[str]) -> bool:
    text = msgspec.json.encode(value).decode()
    return any(mark in text for mark in marks)


def _call_identity(call: ToolRun | Effect) -> bytes:
    return msgspec.json.encode((call.tool, call.arguments), order="sorted")


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
        if statuses and statuses[0] in HOPELESS_STATUSES and (call.number, call.attempt + 1) in attempts:
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


def _refusals(run: Run, *, got_out: bool) -> Iterator[str]:
    """Describe the first request that the API refuses, its cause, and the fate of the conversation.

    It is one of those that the run `got_out` of, or one of the others.
    """
    refused = [call for call in run.calls if call.refusal and call.got_out is got_out]
    if not refused:
        return
    further = len(refused) - 1
    if got_out:
        end = "a later request was accepted"
    elif further:
        verb = "was" if further == 1 else "were"
        end = f"permanently: {pluralize(further, 'further request')} {verb} also refused"
    else:
        end = "no later request was accepted"
    cause = ", ".join(run.fired) if run.first_life is None else f"killed {run.first_life.killed}, started again"
    yield f"{refused[0].refusal} (after: {cause}; {end})"


class _UnansweredCalls:
    """The model calls of a run with `faults` that got no answer, or a bad one, and no replacement."""

    def __init__(self, run: Run, clean: Run, faults: Sequence[PlannedFault], optional: Collection[str] = ()) -> None:
        self._run, self._clean, self._faults, self._optional = run, clean, faults, optional

    def describe(self) -> list[tuple[ModelCall, str]]:
        """Return the calls without a good answer, each with a description.

        They failed for good, or got an empty answer or a refusal, and were not asked again.
        """
        good = [call for call in self._run.calls if not self._has_none(call)]
        lacking = self._without(self._has_none)
        calls = [call for call in lacking if not any(_asks_again(each, call) for each in good)]
        return [(call, self._text(call)) for call in calls]

    def cut_off(self) -> list[ModelCall]:
        """Return the calls whose answer was cut off and not replaced."""
        return self._without(lambda call: self._is_hit(call, "cuts_answer"))

    def is_needed(self, call: ModelCall) -> bool:
        """Return whether the run needed the answer: it was not a closing turn after all effects.

        Something else followed it, or it is a separate question, or the run has a result and no effects.
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
    """Return whether the same named step asks again after an empty answer, and shows that to its model."""
    is_later = call.number > before.number and call.step_id == before.step_id is not None
    return is_later and before.outcome == "answered" and bool(call.follows)
