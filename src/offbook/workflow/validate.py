"""Checks of what a workflow means, beyond its shape."""

from __future__ import annotations

from collections.abc import Iterable

from offbook.workflow.check_reads import check_reads
from offbook.workflow.check_steps import check_dependencies, check_ids, check_routers, check_writes
from offbook.workflow.check_tools import check_tools
from offbook.workflow.level import Level
from offbook.workflow.positions import DocumentPath
from offbook.workflow.report import Report
from offbook.workflow.schema import SubworkflowStep, WorkflowDefinition

MAX_SUBWORKFLOWS = 8


def validate(definition: WorkflowDefinition, *, tools: Iterable[str] = ()) -> None:
    """Check a workflow: ids, dependencies, routers, tools, templates, expressions, outputs, also inside.

    `tools` are further tools, beside those that it declares, that its steps may call.

    Raises:
        WorkflowError: something is wrong; it holds all problems.
    """
    report = Report()
    level = Level.of(definition, tools=frozenset(tools))
    _check_level(level, report, seen={}, depth=0)
    _check_loaded(level, report)
    report.conclude()


def check_meaning(definition: WorkflowDefinition, report: Report, *, tools: frozenset[str]) -> None:
    """Note everything that is wrong with what a workflow means."""
    _check_level(Level.of(definition, tools=tools), report, seen={}, depth=0)


def _check_level(level: Level, report: Report, *, seen: dict[str, DocumentPath], depth: int) -> None:
    check_ids(level, report, seen)
    check_dependencies(level, report)
    check_routers(level, report)
    check_tools(level, report)
    check_reads(level, report)
    if level.graph.is_whole:
        check_writes(level, report)
    for inner in level.inner():
        nested = depth if inner.is_loop else depth + 1
        if nested > MAX_SUBWORKFLOWS:
            report.add(inner.path, f"sub-workflows are nested more than {MAX_SUBWORKFLOWS} deep")
        else:
            _check_level(inner, report, seen=seen if inner.is_loop else {}, depth=nested)


def _check_loaded(level: Level, report: Report) -> None:
    """Note sub-workflows in files that nobody has put in place."""
    for path, step in level.placed():
        if isinstance(step, SubworkflowStep) and step.workflow is None:
            report.add((*path, "path"), "the sub-workflow is not loaded", hint="load the file with load_workflow()")
    for inner in level.inner():
        _check_loaded(inner, report)
