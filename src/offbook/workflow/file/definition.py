"""Turns the plain values of a workflow file into its definition, or reports what is wrong with their shape."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import msgspec

from offbook.messages import JsonObject
from offbook.schema_errors import describe_type, explain_msgspec_error
from offbook.workflow.file.problems import DocumentPath, ProblemReport
from offbook.workflow.file.schema import (
    STEP_TYPES,
    ConfigDefinition,
    Definition,
    PythonFunctionTool,
    WorkflowDefinition,
)


def read_definition(document: object, report: ProblemReport | None = None) -> WorkflowDefinition:
    """Return the definition in a document. Whether its steps make sense is for `validate` to say.

    Raises:
        WorkflowError: the document is not JSON or does not fit the schema; the error has all problems.
    """
    report = report or ProblemReport()
    _check_json(document, (), report)
    report.conclude()
    whole = _whole_workflow(document)
    try:
        definition = msgspec.convert(whole, WorkflowDefinition)
    except msgspec.ValidationError as error:
        misfits = _report_mismatches(whole, document, report)
        if not misfits:
            report.add((), explain_msgspec_error(error)[0])
        _report_conflicts(whole, report, misfits)
        report.conclude()
        raise
    _report_conflicts(whole, report, ())
    report.conclude()
    return definition


def _check_json(value: object, path: DocumentPath, report: ProblemReport) -> None:
    """Report values that no file can have. Definitions are allowed: they were read before."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                report.add(path, f"expected names as keys, got {key!r}")
            _check_json(inner, (*path, key if isinstance(key, str) else repr(key)), report)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_json(inner, (*path, index), report)
    elif isinstance(value, float) and not isfinite(value):
        report.add(path, f"expected a finite number, got {value}")
    elif not (value is None or isinstance(value, str | int | float | Definition)):
        report.add(path, f"expected JSON, got {describe_type(value)}")


def _whole_workflow(declared: object) -> object:
    """Return a workflow with its short forms written out, such as a tool that is only a `module:function`."""
    if not isinstance(declared, dict):
        return declared
    whole = {**declared}
    if isinstance(tools := declared.get("tools"), dict):
        whole["tools"] = {name: _whole_tool(tool) for name, tool in tools.items()}
    if "steps" in declared:
        whole["steps"] = _whole_steps(declared["steps"])
    return whole


def _whole_tool(declared: object) -> object:
    function = {"function": declared} if isinstance(declared, str) else declared
    return {"builtin": PythonFunctionTool.TAG, **function} if isinstance(function, dict) else declared


def _whole_steps(declared: object) -> object:
    return [_whole_step(step) for step in declared] if isinstance(declared, list | tuple) else declared


def _whole_step(declared: object) -> object:
    if not isinstance(declared, dict):
        return declared
    match declared.get("type"):
        case "agent":
            return {**declared, **_whole_agent_fields(declared)}
        case "loop" if "steps" in declared:
            return {**declared, "steps": _whole_steps(declared["steps"])}
        case "subworkflow" if "workflow" in declared:
            return {**declared, "workflow": _whole_workflow(declared["workflow"])}
    return declared


def _whole_agent_fields(declared: JsonObject) -> JsonObject:
    """Return the fields of an agent that have a short form, written out."""
    fields: JsonObject = {}
    if isinstance(tool := declared.get("terminal_tool"), str):
        fields["terminal_tool"] = [tool]
    if isinstance(rules := declared.get("prerequisites"), dict):
        fields["prerequisites"] = {name: _whole_rules(needed) for name, needed in rules.items()}
    return fields


def _whole_rules(declared: object) -> object:
    if not isinstance(declared, list | tuple):
        return declared
    return [{"tool": rule} if isinstance(rule, str) else rule for rule in declared]


def _report_mismatches(whole: object, document: object, report: ProblemReport) -> list[DocumentPath]:
    """Report every mismatch with the schema, and return their places."""
    from offbook.workflow.file.mismatches import find_mismatches  # noqa: PLC0415 - only errors need it

    places: list[DocumentPath] = []
    for mismatch in find_mismatches(whole, WorkflowDefinition):
        places.append(_written_part(mismatch.path, document))
        report.add(places[-1], mismatch.reason, hint=mismatch.hint)
    return places


def _written_part(path: DocumentPath, document: Any) -> DocumentPath:
    """Return as much of the path as the document has, whose short forms are not written out."""
    for depth, part in enumerate(path):
        has_part = part in document if isinstance(document, dict) else isinstance(document, list | tuple)
        if not has_part:
            return path[:depth]
        document = document[part]
    return path


def _report_conflicts(whole: object, report: ProblemReport, misfits: Sequence[DocumentPath]) -> None:
    """Report configs and steps whose fields do not fit together, except where a field is wrong by itself."""
    steps = list(_declared_steps(whole, ()))
    conflicts = [(path, STEP_TYPES[step["type"]].conflict(step)) for path, step in steps]
    for path, config in _declared_configs(whole, steps):
        conflicts.append((path, ConfigDefinition.conflict(config)))
    for path, conflict in conflicts:
        if conflict and not any(misfit[: len(path)] == path for misfit in misfits):
            report.add(path, conflict)


def _declared_configs(
    whole: object, steps: Sequence[tuple[DocumentPath, JsonObject]]
) -> Iterator[tuple[DocumentPath, JsonObject]]:
    """Yield the config of a workflow, and those of the workflows inside."""
    inner = [((*path, "workflow"), step.get("workflow")) for path, step in steps]
    for path, workflow in [((), whole), *inner]:
        config = workflow.get("config") if isinstance(workflow, dict) else None
        if isinstance(config, dict):
            yield (*path, "config"), config


def _declared_steps(declared: object, path: DocumentPath) -> Iterator[tuple[DocumentPath, JsonObject]]:
    """Yield every step of a known type in a workflow or loop, and in those inside."""
    steps = declared.get("steps") if isinstance(declared, dict) else None
    for index, step in enumerate(steps if isinstance(steps, list) else ()):
        if isinstance(step, dict) and isinstance(step.get("type"), str) and step["type"] in STEP_TYPES:
            inside = (*path, "steps", index)
            yield inside, step
            yield from _declared_steps(step, inside)
            yield from _declared_steps(step.get("workflow"), (*inside, "workflow"))
