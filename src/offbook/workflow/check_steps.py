"""Checks of the graph: ids, dependencies, circles, routers, and who writes what."""

from __future__ import annotations

from itertools import chain, combinations

from offbook.recording.keys import KEY_HINT, shown, unfit_reason
from offbook.wording import did_you_mean
from offbook.workflow.level import Level, overlap, root_of
from offbook.workflow.positions import DocumentPath
from offbook.workflow.references import Written, writes_of
from offbook.workflow.report import Report
from offbook.workflow.schema import AnyStep, SubworkflowStep
from offbook.workflow.step_definition import RouterStep


def check_ids(level: Level, report: Report, seen: dict[str, DocumentPath]) -> None:
    """Note ids that are there twice, also in loops, or unfit to name a recorded call."""
    for path, step in level.placed():
        if reason := unfit_reason(step.id):
            report.add((*path, "id"), f"the id {shown(step.id)} {reason}", hint=KEY_HINT)
        if step.id in seen:
            report.add((*path, "id"), f"the id {shown(step.id)} is there twice")
        seen[step.id] = path


def check_dependencies(level: Level, report: Report) -> None:
    """Note dependencies on steps that are not there, and circles."""
    for path, step in level.placed():
        for at, step_id in enumerate(step.depends_on):
            if step_id not in level.graph.steps:
                hint = did_you_mean(step_id, set(level.graph.steps) - {step.id}, kind="steps beside it")
                report.add((*path, "depends_on", at), f"there is no step {shown(step_id)}", hint=hint)
    if circle := level.graph.cycle:
        at = next(at for at, step in enumerate(level.steps) if step.id == circle[0])
        told = " → ".join(circle)
        report.add((*level.path, at, "depends_on"), f"the steps wait for one another: {told}")


def check_routers(level: Level, report: Report) -> None:
    """Note routers that lead nowhere, to steps that are not there, or to steps that never get their turn."""
    for path, step in level.placed():
        if isinstance(step, RouterStep):
            _check_targets(step, path, level, report)
            _check_branches(step, path, report)


def _check_targets(router: RouterStep, path: DocumentPath, level: Level, report: Report) -> None:
    named: list[tuple[DocumentPath, str]] = [
        (("conditions", at, "target"), condition.target) for at, condition in enumerate(router.conditions)
    ]
    if router.default is not None:
        named.append((("default",), router.default))
    for place, target in named:
        if target not in level.graph.steps:
            hint = did_you_mean(target, set(level.graph.steps) - {router.id}, kind="steps beside it")
            report.add((*path, *place), f"there is no step {shown(target)}", hint=hint)
        elif target == router.id:
            report.add((*path, *place), "the router leads to itself")


def _check_branches(router: RouterStep, path: DocumentPath, report: Report) -> None:
    """Conditions that say `true` or `false` leave some branches out."""
    constants = [condition.expression.strip() for condition in router.conditions]
    taken = constants.index("true") if "true" in constants else len(constants)
    if taken == len(constants) and router.default is None and all(constant == "false" for constant in constants):
        report.add(path, "the router has no branch that can be taken", hint="give it conditions or a default")
    for at, constant in enumerate(constants):
        if at > taken or constant == "false":
            why = "a condition before it is always true" if at > taken else "its condition is always false"
            report.add((*path, "conditions", at), f"this branch is never taken: {why}")
    if taken < len(constants) and router.default is not None:
        report.add((*path, "default"), "this branch is never taken: a condition before it is always true")


def check_writes(level: Level, report: Report) -> None:
    """Note paths of the state that two steps write in no certain order."""
    writers: dict[str, list[tuple[DocumentPath, AnyStep, Written]]] = {}
    for path, step in level.placed():
        for written in writes_of(step):
            writers.setdefault(root_of(written.text), []).append((path, step, written))
    for (_, first, one), (path, second, other) in chain.from_iterable(combinations(of, 2) for of in writers.values()):
        if first is not second and overlap(one.text, other.text) and level.graph.are_parallel(first.id, second.id):
            reason = f"{_told(one, first)} writes {one.text!r} too, and nothing says which of the two runs first"
            hint = f"let one depend on the other, or write to another key than {other.text!r}"
            report.add((*path, *other.place), reason, hint=hint)


def _told(written: Written, step: AnyStep) -> str:
    kind = "sub-workflow" if isinstance(step, SubworkflowStep) and written.place[0] == "outputs" else "step"
    return f"the {kind} {shown(step.id)}"
