"""Whether a run could notice a lie of a tool, and whether it did: a lie that contradicts nothing accuses nobody."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from msgspec import Struct

from offbook.explore.run import Run, ToolRun
from offbook.explore.verdict import Assessment
from offbook.faults import PlannedFault, parse_fault
from offbook.faults.lies import DuplicateItem, Lie, list_in, parsed_result, values_of
from offbook.messages import result_text
from offbook.recording.match.continuation import CONTINUATIONS
from offbook.text import shorten


class ToldLie(Struct, frozen=True):
    """A lie that fired: the call with the lie as its result, and the true result of the run without a fault."""

    line: PlannedFault
    fault: Lie
    call: ToolRun
    truth: str

    def __str__(self) -> str:
        return f"{self.line} said {shorten(' '.join(self.call.result.split()), 160)}"


_LED_ASTRAY = ("wrong effect", "missing effect", "undetected", "different outcome", "different result")
"""The verdicts to which a lie leads a run that believes it."""


def as_far_as_told(run: Run, clean: Run, claims: list[Assessment]) -> list[Assessment]:
    """Return the claims about a run that was told a lie: a believed one is a finding only if something contradicts it.

    What a model makes of a lie is not recorded. Wrong effects are nevertheless the work of the program's own code.
    """
    lies = told_lies(run, clean)
    is_invented = run.continuation in CONTINUATIONS
    astray = [each for each in claims if each.verdict in _LED_ASTRAY]
    if not lies or not (astray or (is_invented and claims[-1].verdict == "recovered")):
        return claims
    evidence = [*map(str, lies)]
    by_code = [each for each in astray if not is_invented or each.verdict == "wrong effect"]
    against = contradictions(run, clean, lies) if by_code else []
    others = [each for each in claims if each not in astray and each.verdict != "recovered"]
    lines = dict.fromkeys(line for each in astray for line in each.evidence)
    if against:
        return [Assessment("undetected", (*evidence, *against, *lines), "believed a lie"), *others]
    why = "only a model saw it, whose answer is not recorded" if is_invented else "nothing in the run contradicts it"
    return [Assessment("not detectable", (*evidence, why, *lines)), *others]


def told_lies(run: Run, clean: Run) -> list[ToldLie]:
    """Return the lies that fired in a run, at calls that the run without a fault makes as well."""
    lies = []
    for line in map(parse_fault, run.fired):
        if not isinstance(line.fault, Lie):
            continue
        call = next((each for each in run.tools if (each.tool, each.call) == (line.at.tool, line.at.call)), None)
        same = [each for each in clean.tools if call is not None and _is_same(each, call)]
        if call is not None and same:
            truth = next((each for each in same if each.call == call.call), same[-1])
            lies.append(ToldLie(line, line.fault, call, truth.result))
    return lies


def contradictions(run: Run, clean: Run, lies: Sequence[ToldLie]) -> list[str]:
    """Describe what in a run contradicts the lies that it was told: what its agent, or its code, could have noticed."""
    found = chain.from_iterable((*_in_itself(lie), *_elsewhere(lie, run, clean)) for lie in lies)
    return list(dict.fromkeys(found))


def _in_itself(lie: ToldLie) -> Iterator[str]:
    """Yield what is wrong with the result of a lie by itself, or with the arguments of its call."""
    tool, told, truth = lie.call.tool, parsed_result(lie.call.result), parsed_result(lie.truth)
    names = {name for name, _ in values_of(told)}
    if missing := [name for name, _ in values_of(truth) if name not in names]:
        yield f"the result of {tool} lacks {missing[0]!r}"
    items, whole = list_in(told) or [], list_in(truth) or []
    if isinstance(lie.fault, DuplicateItem) and items and all(whole.count(each) == 1 for each in whole):
        yield f"the result of {tool} has {shorten(result_text(items[-1]), 60)} twice"
    counts = [name for name, value in values_of(told) if value == str(len(whole))] if len(items) < len(whole) else []
    if counts:
        yield f"the result of {tool} says {counts[0]}={len(whole)}, and has {len(items)}"
    for name, value in lie.call.arguments.items():
        text = result_text(value)
        if len(text) > 1 and text in lie.truth and text not in lie.call.result:
            yield f"{tool} was called with {name}={shorten(text, 60)}, and its result is not about that"


def _elsewhere(lie: ToldLie, run: Run, clean: Run) -> Iterator[str]:
    """Yield what other calls of the run say instead."""
    told = set(values_of(lie.call.result))
    true = {pair for pair in values_of(lie.truth) if pair not in told and len(pair[1]) > 1}
    asked = {result_text(value) for value in lie.call.arguments.values()}
    for each in run.tools:
        if each is lie.call or not each.result:
            continue
        is_about = _is_same(each, lie.call) if each.tool == lie.call.tool else bool(asked & _asked(each))
        for name, value in values_of(each.result) if is_about else ():
            if (name, value) in true:
                yield f"{each.tool} says {name}={shorten(value, 60)}"
    if lie.fault.runs_tool:
        return
    later = run.tools[run.tools.index(lie.call) + 1 :]
    expected = _after(lie.call, clean)
    for each in later:
        before = [other.result for other in expected if _is_same(other, each)]
        if each.tool != lie.call.tool and each.result and before and each.result not in before:
            yield f"{each.tool}, called after {lie.call.tool}, says {shorten(' '.join(each.result.split()), 120)}"


def _after(call: ToolRun, clean: Run) -> Sequence[ToolRun]:
    places = [place for place, each in enumerate(clean.tools) if _is_same(each, call)]
    return clean.tools[places[0] + 1 :] if places else ()


def _asked(call: ToolRun) -> set[str]:
    return {result_text(value) for value in call.arguments.values()}


def _is_same(call: ToolRun, other: ToolRun) -> bool:
    return (call.tool, call.arguments) == (other.tool, other.arguments)
