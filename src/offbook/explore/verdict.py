"""The verdict on a run that met a fault, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from offbook.explore.cut_result import is_cut, is_nothing
from offbook.explore.run import Run
from offbook.explore.site import row_of
from offbook.wording import counted

Verdict = Literal[
    "repeated side effect",
    "hung",
    "wrong",
    "crashed",
    "silent",
    "diverged",
    "degraded",
    "failed cleanly",
    "recovered",
    "not struck",
]
"""Worst first. `not struck`: the run never came by the place where the fault was to strike."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FINDINGS: frozenset[Verdict] = frozenset(("repeated side effect", "hung", "wrong", "crashed", "silent"))
"""The verdicts that tell of a defect."""

Invariant: TypeAlias = Callable[[Run], Any]
"""Must hold for every run: raises AssertionError, or returns False, where it does not."""


class Judged(Struct, frozen=True):
    """A verdict, and what it rests on."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()


def judge(run: Run, clean: Run, *, invariants: Sequence[Invariant] = ()) -> Judged:
    """The verdict on a run, beside the run without a fault."""
    broken = [*run.broken, *broken_invariants(run, invariants)]
    repeated = _repeated(run, clean)
    if repeated:
        return Judged("repeated side effect", tuple(repeated))
    if run.hung:
        return Judged("hung", (run.hung,))
    if broken and not run.diverged:
        return Judged("wrong", tuple(broken))
    if not run.struck:
        return Judged("not struck", ("the run never came by this place",))
    careless = [*_too_soon(run), *_forgetful(run)]
    if careless:
        return Judged("wrong", tuple(careless))
    return _ended(run, clean)


def _ended(run: Run, clean: Run) -> Judged:
    if run.diverged:
        return Judged("diverged", (run.diverged,))
    if run.error is not None:
        return _failed(run, clean)
    return _same_result(run, clean) if run.result == clean.result else _other_result(run, clean)


def _same_result(run: Run, clean: Run) -> Judged:
    missing = _missing(run, clean)
    if missing:
        return Judged("wrong", (f"it says the same, and {', '.join(missing)} did not run",))
    if _without_repeats(run) != _without_repeats(clean):
        return Judged("degraded", ("the same result by other calls of tools",))
    if _was_ignored(run, clean):
        return Judged("silent", ("a tool gave something broken, and the answer is the same",))
    return Judged("recovered", (_recovery(run, clean),))


def _failed(run: Run, clean: Run) -> Judged:
    assert run.error is not None
    told = f"{run.error.type}: {run.error.message}"
    if run.error.kind == "undeclared":
        return Judged("crashed", (told,))
    missing = _missing(run, clean)
    if run.side_effects and missing:
        half = f"half done: {', '.join(sorted(run.side_effects))} ran, {', '.join(missing)} did not"
        return Judged("wrong", (half, told))
    return Judged("failed cleanly", (told,))


def _other_result(run: Run, clean: Run) -> Judged:
    if _struck_by(run, "tool_empty") or not is_cut(run.result, clean.result):
        return Judged("degraded", ("another result, and no assertion is broken",))
    given = "nothing" if is_nothing(run.result) else "only a part of the result"
    return Judged("silent", (f"it gave {given}, and no error",))


def _too_soon(run: Run) -> list[str]:
    return [
        f"call {row_of(call)} came sooner than the answer before had asked for"
        for call in run.calls
        if call.is_too_soon
    ][:1]


def _forgetful(run: Run) -> list[str]:
    """The call that lacks messages for no reason: after an overflow it would have one."""
    if _struck_by(run, "context_overflow"):
        return []
    return [
        f"after the failure it asked without {counted(call.forgot, 'message')} of its conversation"
        for call in run.calls
        if call.forgot
    ][:1]


def _missing(run: Run, clean: Run) -> list[str]:
    """The tools whose side effects came less often than in the clean run."""
    done, wanted = run.side_effects, clean.side_effects
    return [tool for tool in wanted if done[tool] < wanted[tool]]


def _without_repeats(run: Run) -> list[bytes]:
    """The calls of tools, each as often as one: what is called again with the same arguments is tried again."""
    return list(dict.fromkeys(msgspec.json.encode(call, order="sorted") for call in run.trajectory))


def _repeated(run: Run, clean: Run) -> list[str]:
    """The tools whose side effects came more often than in the clean run."""
    usual = clean.side_effects
    return [
        f"{tool} ran {counted(times, 'time')}, without the fault {counted(usual[tool], 'time')}"
        for tool, times in sorted(run.side_effects.items())
        if times > usual[tool]
    ]


def _was_ignored(run: Run, clean: Run) -> bool:
    """Whether a tool's result was broken, told to the agent as good, and nothing came of it."""
    is_broken = _struck_by(run, "tool_garbled") or _struck_by(run, "tool_empty")
    return is_broken and len(run.tools) == len(clean.tools) and run.tools != clean.tools


def _struck_by(run: Run, fault: str) -> bool:
    return any(f": {fault}" in line for line in run.struck)


def _recovery(run: Run, clean: Run) -> str:
    told = f"the same result, with {counted(len(run.calls) - len(clean.calls), 'further call')}"
    waited_s = run.took_s - clean.took_s
    return f"{told} and {waited_s:.1f} s more" if run.took_s or clean.took_s else told


def broken_invariants(run: Run, invariants: Sequence[Invariant]) -> list[str]:
    """What the invariants that do not hold say."""
    told = []
    for invariant in invariants:
        name = getattr(invariant, "__name__", "invariant")
        try:
            holds = invariant(run)
        except AssertionError as error:
            told.append(f"{name}: {error}" if str(error) else name)
            continue
        except Exception as error:
            told.append(f"{name} raised {type(error).__name__}: {error}")
            continue
        if holds is False:
            told.append(name)
    return told
