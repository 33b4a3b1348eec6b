"""Loads workflows from files, strings and plain values, with the files that they include."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from offbook.decoding import convert
from offbook.errors import Problem, WorkflowError
from offbook.files import read_file
from offbook.messages import JsonObject
from offbook.recording.format.foreign import explain_import
from offbook.recording.format.keys import quote_name
from offbook.schema_errors import describe_type, explain_msgspec_error
from offbook.text import did_you_mean_file
from offbook.workflow.file.problems import DocumentPath, ProblemReport, find_mismatches
from offbook.workflow.file.schema import (
    STEP_TYPES,
    AnyStep,
    ConfigDefinition,
    Definition,
    LoopStep,
    PythonFunctionTool,
    SubworkflowStep,
    WorkflowDefinition,
)
from offbook.workflow.file.validate import MAX_SUBWORKFLOWS, check_meaning
from offbook.workflow.file.yaml_reader import MAX_BYTES, read_yaml


def read_definition(document: object, report: ProblemReport | None = None) -> WorkflowDefinition:
    """Return the definition in a document. Whether its steps make sense is for `validate` to say.

    Raises:
        WorkflowError: the document is not JSON or does not fit the schema; the error has all problems.
    """
    report = report or ProblemReport()
    _check_json(document, (), report)
    if isinstance(document, dict) and "_version" in document and "steps" not in document:
        report.add((), "this is a recording, not a workflow", hint="offbook replay FLOW --recording PATH")
    report.conclude()
    whole = _whole_workflow(document)
    try:
        definition = convert(whole, WorkflowDefinition)
    except msgspec.ValidationError as error:
        misfits: list[DocumentPath] = []
        for mismatch in find_mismatches(whole, WorkflowDefinition):
            misfits.append(_written_part(mismatch.path, document))
            report.add(misfits[-1], mismatch.reason, hint=mismatch.hint)
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


Parse: TypeAlias = "Callable[[Path, Inclusion, frozenset[str]], WorkflowDefinition]"


class Inclusion:
    """Loads the files that a workflow includes.

    Every file is read once, however often it is included, and must be inside the folder of the first.
    """

    def __init__(self, parse: Parse, *, file: Path | None = None, folder: Path | None = None) -> None:
        self._parse = parse
        self._folder = folder if file is None else file.parent
        self._root = None if self._folder is None else self._folder.resolve()
        self._chain: tuple[Path, ...] = () if file is None else (file.resolve(),)
        self._read: dict[tuple[Path, frozenset[str]], WorkflowDefinition | None] = {}

    def included(
        self, workflow: WorkflowDefinition, report: ProblemReport, *, tools: frozenset[str], path: DocumentPath = ()
    ) -> WorkflowDefinition:
        """Return the workflow with every included file loaded; problems go to `report`."""
        known = tools.union(workflow.tools)
        steps = self._steps(workflow.steps, (*path, "steps"), report, known)
        return replace(workflow, steps=steps)

    def _steps(
        self, steps: tuple[AnyStep, ...], path: DocumentPath, report: ProblemReport, tools: frozenset[str]
    ) -> tuple[AnyStep, ...]:
        return tuple(self._step(step, (*path, index), report, tools) for index, step in enumerate(steps))

    def _step(self, step: AnyStep, path: DocumentPath, report: ProblemReport, tools: frozenset[str]) -> AnyStep:
        if isinstance(step, LoopStep):
            return replace(step, steps=self._steps(step.steps, (*path, "steps"), report, tools))
        if not isinstance(step, SubworkflowStep):
            return step
        inner: WorkflowDefinition | None
        if step.workflow is not None:
            inner = self.included(step.workflow, report, tools=tools, path=(*path, "workflow"))
        else:
            inner = self._file(str(step.path), (*path, "path"), report, tools)
        return replace(step, workflow=inner)

    def _file(
        self, name: str, path: DocumentPath, report: ProblemReport, tools: frozenset[str]
    ) -> WorkflowDefinition | None:
        file, reason = self._locate(name)
        if file is None or reason:
            report.add(path, reason)
            return None
        if (file, tools) not in self._read:
            self._read[file, tools] = None
            try:
                inner = Inclusion(self._parse, file=file)
                inner._root, inner._read, inner._chain = self._root, self._read, (*self._chain, file)
                self._read[file, tools] = self._parse(file, inner, tools)
            except WorkflowError as error:
                report.include(error)
        return self._read[file, tools]

    def _locate(self, name: str) -> tuple[Path | None, str]:
        """Return the file of a path, and why it may not be included, if so."""
        if self._folder is None or self._root is None:
            return None, "a relative path needs a folder: load the workflow from a file"
        if Path(name).is_absolute():
            return None, f"the path {quote_name(name)} is not relative to this file"
        try:
            file = (self._folder / name).resolve()
            return file, self._refusal(file, name)
        except (OSError, ValueError, RuntimeError):
            return None, f"the path {quote_name(name)} cannot be resolved"

    def _refusal(self, file: Path, name: str) -> str:
        if self._root is not None and not file.is_relative_to(self._root):
            return f"the path {quote_name(name)} leaves the folder of the workflow"
        if file in self._chain:
            names = [before.name for before in self._chain[self._chain.index(file) :]]
            return f"the workflow includes itself: {' → '.join([*names, file.name])}"
        if len(self._chain) > MAX_SUBWORKFLOWS:
            return f"sub-workflows are nested more than {MAX_SUBWORKFLOWS} deep"
        return "" if file.is_file() else f"there is no file {quote_name(name)}"


def load_workflow(path: str | os.PathLike[str], *, tools: Iterable[str] = ()) -> WorkflowDefinition:
    """Load and validate the workflow in a YAML file, with the sub-workflows that it includes.

    `tools` are tools that its steps may call in addition to those that the file declares.

    Raises:
        WorkflowError: the file, or one that it includes, cannot be read or is not a valid workflow.
            The error has all problems, each with its file, line and place.
    """
    file = Path(path)
    return _load(file, Inclusion(_load, file=file), frozenset(tools))


def parse_workflow(
    text: str, *, source: str = "<text>", folder: str | os.PathLike[str] | None = None, tools: Iterable[str] = ()
) -> WorkflowDefinition:
    """Parse and validate a workflow in YAML. The paths of sub-workflows are relative to `folder`.

    Raises:
        WorkflowError: the workflow is invalid; the error has all problems.
    """
    inclusion = Inclusion(_load, folder=None if folder is None else Path(folder))
    return _parse(text, source, inclusion, frozenset(tools))


def _load(file: Path, inclusion: Inclusion, tools: frozenset[str]) -> WorkflowDefinition:
    return _parse(_read_text(file), str(file), inclusion, tools)


def _parse(text: str, source: str, inclusion: Inclusion, tools: frozenset[str]) -> WorkflowDefinition:
    document, positions = read_yaml(text, source=source)
    if isinstance(document, Mapping) and "steps" not in document:  # it may be a file of another tool
        explained = explain_import(text.encode(), source=source, expected="a workflow")
        if explained is not None:
            raise WorkflowError([Problem(explained[0], source=source, hint=explained[1])])
    report = ProblemReport(source=source, positions=positions)
    whole = inclusion.included(read_definition(document, report), report, tools=tools)
    check_meaning(whole, report, tools=tools)
    report.conclude()
    return whole


def _read_text(file: Path) -> str:
    """Read a UTF-8 file; of a file that is too long, one byte more than the limit, for `read_yaml` to refuse."""
    try:
        data = read_file(file, limit=MAX_BYTES + 1)
        return data.decode("utf-8-sig")
    except OSError as error:
        hint = did_you_mean_file(file)
        raise WorkflowError([Problem(error.strerror or str(error), source=str(file), hint=hint)]) from None
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        column = error.start - data.rfind(b"\n", 0, error.start)
        reason, hint = "the file is not UTF-8", "save it as UTF-8"
        problem = Problem(reason, line=line, column=column, hint=hint, source=str(file))
        raise WorkflowError([problem]) from None
