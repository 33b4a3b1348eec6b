"""The verdict on a run with a fault, and the evidence for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, get_args

import msgspec
from msgspec import Struct

from offbook.explore.run import Run
from offbook.text import pluralize


def is_empty_result(result: Any) -> bool:
    """Return whether a result is empty."""
    if isinstance(result, str):
        return not result.strip()
    return result is None or (isinstance(result, dict | list) and not result)


def is_truncated(result: Any, whole: Any) -> bool:
    """Return whether `result` is `whole` with the ends of some strings missing, or all of them, and nothing else."""
    if result == whole or is_empty_result(whole):
        return False
    if is_empty_result(result):
        return True
    if isinstance(result, str) and isinstance(whole, str):
        return _is_truncated_text(result, whole)
    if isinstance(result, dict) and isinstance(whole, dict) and result.keys() == whole.keys():
        return _are_truncated([(result[name], whole[name]) for name in whole])
    if isinstance(result, list) and isinstance(whole, list) and len(result) == len(whole):
        return _are_truncated(list(zip(result, whole, strict=True)))
    return False


def _is_truncated_text(text: str, whole: str) -> bool:
    """Return whether the text is a beginning of the other, or its lines are beginnings of the other's lines."""
    text, whole = text.strip(), whole.strip()
    if whole.startswith(text):
        return text != whole
    lines, whole_lines = text.splitlines(), whole.splitlines()
    pairs = list(zip(lines, whole_lines, strict=False))
    return len(lines) == len(whole_lines) and all(line.startswith(cut.strip()) for cut, line in pairs)


def _are_truncated(pairs: Sequence[tuple[Any, Any]]) -> bool:
    return all(one == other or is_truncated(one, other) for one, other in pairs)


Verdict = Literal[
    "repeated side effect",
    "hung",
    "wrong",
    "crashed",
    "undetected",
    "diverged",
    "degraded",
    "failed cleanly",
    "recovered",
    "not reached",
]
"""Worst first. `not reached`: the run never reached the site of the fault."""

VERDICTS: tuple[Verdict, ...] = get_args(Verdict)
FINDINGS: frozenset[Verdict] = frozenset(("repeated side effect", "hung", "wrong", "crashed", "undetected"))
"""The verdicts that show a defect."""

Invariant: TypeAlias = Callable[[Run], Any]
"""A check that must hold for every run. It fails by raising AssertionError or returning False."""


class Assessment(Struct, frozen=True):
    """A verdict, and the evidence for it."""

    verdict: Verdict
    evidence: tuple[str, ...] = ()


def assess(run: Run, clean: Run, *, invariants: Sequence[Invariant] = ()) -> Assessment:
    """Return the verdict on a run, compared with the clean run."""
    broken = [*run.broken, *broken_invariants(run, invariants)]
    repeated = _repeated_side_effects(run, clean)
    if repeated:
        return Assessment("repeated side effect", tuple(repeated))
    if run.hung:
        return Assessment("hung", (run.hung,))
    if broken and not run.diverged:
        return Assessment("wrong", tuple(broken))
    if not run.fired:
        return Assessment("not reached", ("the run never reached this site",))
    careless = [*_too_soon(run), *_lost_context(run)]
    if careless:
        return Assessment("wrong", tuple(careless))
    return _assess_end(run, clean)


def _assess_end(run: Run, clean: Run) -> Assessment:
    if run.diverged:
        return Assessment("diverged", (run.diverged,))
    if run.error is not None:
        return _assess_failure(run, clean)
    return _assess_same_result(run, clean) if run.result == clean.result else _assess_other_result(run, clean)


def _assess_same_result(run: Run, clean: Run) -> Assessment:
    missing = _missing_side_effects(run, clean)
    if missing:
        return Assessment("wrong", (f"the result is the same, but {', '.join(missing)} did not run",))
    if _without_repeats(run) != _without_repeats(clean):
        return Assessment("degraded", ("the same result by other tool calls",))
    if _was_ignored(run, clean):
        return Assessment("undetected", ("a tool returned a broken result, and the answer is the same",))
    return Assessment("recovered", (_recovery_text(run, clean),))


def _assess_failure(run: Run, clean: Run) -> Assessment:
    assert run.error is not None
    message = f"{run.error.type}: {run.error.message}"
    if run.error.kind == "undeclared":
        return Assessment("crashed", (message,))
    missing = _missing_side_effects(run, clean)
    if run.side_effects and missing:
        half = f"half done: {', '.join(sorted(run.side_effects))} ran, {', '.join(missing)} did not"
        return Assessment("wrong", (half, message))
    return Assessment("failed cleanly", (message,))


def _assess_other_result(run: Run, clean: Run) -> Assessment:
    if _has_fired(run, "tool_empty") or not is_truncated(run.result, clean.result):
        return Assessment("degraded", ("a different result, and no assertion is broken",))
    returned = "nothing" if is_empty_result(run.result) else "only a part of the result"
    return Assessment("undetected", (f"it returned {returned}, and no error",))


def _too_soon(run: Run) -> list[str]:
    return [f"call {call.row} came sooner than the last answer asked for" for call in run.calls if call.is_too_soon][:1]


def _lost_context(run: Run) -> list[str]:
    """Describe the first request that lacks messages. After a context overflow it may."""
    if _has_fired(run, "context_overflow"):
        return []
    return [
        f"the request after the failure lacks {pluralize(call.forgot, 'message')} of its conversation"
        for call in run.calls
        if call.forgot
    ][:1]


def _missing_side_effects(run: Run, clean: Run) -> list[str]:
    """Return the tools with side effects that ran less often than in the clean run."""
    done, wanted = run.side_effects, clean.side_effects
    return [tool for tool in wanted if done[tool] < wanted[tool]]


def _without_repeats(run: Run) -> list[bytes]:
    """Return the tool calls, each once: a repeated call with the same arguments is a retry."""
    return list(dict.fromkeys(msgspec.json.encode(call, order="sorted") for call in run.trajectory))


def _repeated_side_effects(run: Run, clean: Run) -> list[str]:
    """Describe the tools with side effects that ran more often than in the clean run."""
    expected = clean.side_effects
    return [
        f"{tool} ran {pluralize(times, 'time')}, without the fault {pluralize(expected[tool], 'time')}"
        for tool, times in sorted(run.side_effects.items())
        if times > expected[tool]
    ]


def _was_ignored(run: Run, clean: Run) -> bool:
    """Return whether a tool returned a broken result without an error and the run went on as if it were good."""
    is_broken = _has_fired(run, "tool_garbled") or _has_fired(run, "tool_empty")
    return is_broken and len(run.tools) == len(clean.tools) and run.tools != clean.tools


def _has_fired(run: Run, fault: str) -> bool:
    return any(f": {fault}" in line for line in run.fired)


def _recovery_text(run: Run, clean: Run) -> str:
    recovery = f"the same result, with {pluralize(len(run.calls) - len(clean.calls), 'further call')}"
    waited_s = run.took_s - clean.took_s
    return f"{recovery} and {waited_s:.1f} s more" if run.took_s or clean.took_s else recovery


def broken_invariants(run: Run, invariants: Sequence[Invariant]) -> list[str]:
    """Describe the invariants that do not hold."""
    broken = []
    for invariant in invariants:
        name = getattr(invariant, "__name__", "invariant")
        try:
            holds = invariant(run)
        except AssertionError as error:
            broken.append(f"{name}: {error}" if str(error) else name)
            continue
        except Exception as error:
            broken.append(f"{name} raised {type(error).__name__}: {error}")
            continue
        if holds is False:
            broken.append(name)
    return broken
