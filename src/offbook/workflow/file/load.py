"""Loads workflows from YAML 1.2, read strictly, and from plain values, with the files that they include."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
import yaml
from msgspec.structs import replace
from yaml import events

from offbook.decoding import convert
from offbook.errors import Problem, WorkflowError
from offbook.files import read_file
from offbook.messages import JsonObject
from offbook.recording.format.foreign import explain_import
from offbook.recording.format.keys import quote_name
from offbook.schema_errors import describe_type, explain_msgspec_error
from offbook.text import did_you_mean_file
from offbook.workflow.file.problems import DocumentPath, Position, Positions, ProblemReport, find_mismatches
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

NULLS = frozenset({"", "~", "null", "Null", "NULL"})
BOOLEANS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
MAX_DIGITS = 19
_INTEGER = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_NUMBER = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def plain_value(word: str) -> str | int | float | bool | None:
    """Return the value of an unquoted scalar: only `true` and `false` are booleans; `yes`, `on` and `1:30` are strings.

    Raises:
        ValueError: it is a number that JSON cannot represent.
    """
    if word in NULLS:
        return None
    if word in BOOLEANS:
        return BOOLEANS[word]
    if _INTEGER.fullmatch(word):
        return _integer(word)
    if _NUMBER.fullmatch(word):
        value = float(word)
        if not isfinite(value):
            raise ValueError(f"the number {word[:20]} is too large")
        return value
    if _NOT_FINITE.fullmatch(word):
        raise ValueError(f"{word} is not a finite number")
    return word


def _integer(word: str) -> int:
    if len(word) > MAX_DIGITS + 2:
        raise ValueError(f"the number {word[:20]}… is too large")
    value = int(word, 0) if word[:2] in ("0o", "0x") else int(word)
    if not -(2**63) <= value < 2**63:
        raise ValueError(f"the number {word} is too large")
    return value


Value: TypeAlias = "str | int | float | bool | list[Value] | dict[str, Value] | None"
MAX_BYTES = 1_000_000
MAX_DEPTH = 50


def read_yaml(text: str, *, source: str) -> tuple[Value, Positions]:
    """Parse the document in `text`, and return it with the positions of its parts.

    Raises:
        WorkflowError: the text is too long, not YAML, or has anchors, aliases, tags, merge keys, keys that are
            duplicates or not strings, numbers that JSON cannot represent, several documents or more than 50 levels.
    """
    size = len(text.encode(errors="replace"))
    if size > MAX_BYTES:
        raise WorkflowError([Problem(f"the file has {size} bytes, more than {MAX_BYTES}", source=source)])
    reader = _Reader(text, source)
    try:
        return reader.read()
    except yaml.YAMLError as error:
        raise WorkflowError([_syntax_problem(error, text, source)]) from None
    except UnicodeEncodeError as error:
        raise WorkflowError([Problem(f"the text is not Unicode: {error.reason}", source=source)]) from None


class _Reader:
    """Builds plain values from the events of the parser; a file cannot name a type to construct."""

    def __init__(self, text: str, source: str) -> None:
        self._text = text
        self._known: dict[DocumentPath, Position] = {}
        self._positions = Positions(self._known)
        self._report = ProblemReport(source=source)

    def read(self) -> tuple[Value, Positions]:
        self._events: Iterator[yaml.Event] = yaml.parse(self._text, Loader=yaml.CSafeLoader)
        next(self._events)
        value: Value = None
        if isinstance(event := next(self._events), events.DocumentStartEvent):
            value = self._value(next(self._events), ())
            next(self._events)
            event = next(self._events)
        if isinstance(event, events.DocumentStartEvent):
            self._refuse(event, (), "a second document begins here", "a file holds one workflow")
        self._report.conclude()
        return value, self._positions

    def _value(self, event: yaml.Event, path: DocumentPath) -> Value:
        self._known.setdefault(path, _position(event))
        self._check(event, path)
        if isinstance(event, events.MappingStartEvent):
            return self._mapping(path)
        if isinstance(event, events.SequenceStartEvent):
            return self._sequence(path)
        return self._scalar(event, path) if isinstance(event, events.ScalarEvent) else None

    def _check(self, event: yaml.Event, path: DocumentPath) -> None:
        if len(path) > MAX_DEPTH:
            self._refuse(event, path[:3], f"nested more than {MAX_DEPTH} levels deep")
            self._report.conclude()
        if isinstance(event, events.AliasEvent):
            self._refuse(event, path, f"the alias *{event.anchor} is not allowed", "write the value out")
        elif anchor := getattr(event, "anchor", None):
            self._refuse(event, path, f"the anchor &{anchor} is not allowed", "write the value out")
        if tag := getattr(event, "tag", None):
            self._refuse(event, path, f"the tag {tag} is not allowed", "write plain YAML; quote strings")

    def _sequence(self, path: DocumentPath) -> Value:
        elements: list[Value] = []
        while not isinstance(event := next(self._events), events.SequenceEndEvent):
            elements.append(self._value(event, (*path, len(elements))))
        return elements

    def _mapping(self, path: DocumentPath) -> Value:
        entries: dict[str, Value] = {}
        while not isinstance(event := next(self._events), events.MappingEndEvent):
            key = self._key(event, path)
            inside = (*path, key)
            if key in entries:
                first = self._known[inside]
                self._refuse(event, inside, f"duplicate key {key!r}, first in line {first.line}")
            else:
                self._known[inside] = _position(event)
            entries[key] = self._value(next(self._events), inside)
        return entries

    def _key(self, event: yaml.Event, path: DocumentPath) -> str:
        is_nested = isinstance(event, events.CollectionStartEvent)
        key = self._value(event, (*path, "") if is_nested else path)
        if key == "<<":
            self._refuse(event, path, "the merge key << is not allowed", "write the entries out")
        elif not isinstance(key, str):
            self._refuse(event, path, f"the key {_show_key(key)} is not a string", "quote it to make it a string")
        return str(key)

    def _scalar(self, event: events.ScalarEvent, path: DocumentPath) -> Value:
        if not event.implicit[0]:
            return str(event.value)
        try:
            return plain_value(event.value)
        except ValueError as error:
            self._refuse(event, path, str(error), "quote it to make it a string")
            return None

    def _refuse(self, event: yaml.Event, path: DocumentPath, reason: str, hint: str = "") -> None:
        """Report a problem at the position of the event, which may differ from that of `path`."""
        self._report.add(path, reason, hint=hint, position=_position(event))


def _position(event: yaml.Event) -> Position:
    mark = event.start_mark
    return Position() if mark is None else Position(mark.line + 1, mark.column + 1)


def _show_key(key: Value) -> str:
    return "with several parts" if isinstance(key, list | dict) else json.dumps(key)


def _syntax_problem(error: yaml.YAMLError, text: str, source: str) -> Problem:
    """Return the parser's error in one line."""
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or getattr(error, "reason", None) or "syntax error"
    if mark is None:
        return Problem(f"not YAML: {reason}", source=source)
    lines = text.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else ""
    hint = "indent with spaces, not with tabs" if "\t" in line[: mark.column + 1] else ""
    if "mapping values are not allowed" in reason:
        hint = hint or "quote the string: a colon followed by a space starts a mapping"
    if reason.endswith(("expected key", "'-' indicator")):
        hint = hint or "indent this line like those that it belongs to"
    return Problem(f"not YAML: {reason}", line=mark.line + 1, column=mark.column + 1, hint=hint, source=source)


def read_definition(document: object, report: ProblemReport | None = None) -> WorkflowDefinition:
    """Return the definition in a document. `validate` checks whether its steps make sense.

    Raises:
        WorkflowError: the document is not JSON or does not fit the schema; the error has all problems.
    """
    report = report or ProblemReport()
    _check_json(document, (), report)
    if document is None:
        report.add((), "the workflow is empty", hint="it needs a name and steps: offbook init FOLDER --sdk yaml")
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
    """Return a workflow with its short forms expanded, such as a tool given only as `module:function`."""
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
        case "tool":
            return _whole_tool_step(declared)
        case "loop" if "steps" in declared:
            return {**declared, "steps": _whole_steps(declared["steps"])}
        case "subworkflow" if "workflow" in declared:
            return {**declared, "workflow": _whole_workflow(declared["workflow"])}
    return declared


def _whole_tool_step(declared: JsonObject) -> JsonObject:
    """Return a step with AgentLoom's `tool_name` and `tool_args` under their names here.

    There, an argument like `state.url` is a value of the state. Here it would be a text, so that it stays an error.
    """
    names = {"tool_name": "tool", "tool_args": "args"}
    args = declared.get("tool_args")
    if isinstance(args, dict) and any(isinstance(each, str) and each.startswith("state.") for each in args.values()):
        del names["tool_args"]
    return {name if (own := names.get(name)) is None or own in declared else own: declared[name] for name in declared}


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
    """Return the part of the path that exists in the document with its short forms."""
    for depth, part in enumerate(path):
        has_part = part in document if isinstance(document, dict) else isinstance(document, list | tuple)
        if not has_part:
            return path[:depth]
        document = document[part]
    return path


def _report_conflicts(whole: object, report: ProblemReport, misfits: Sequence[DocumentPath]) -> None:
    """Report configs and steps with contradictory fields, unless a field is wrong by itself."""
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
    """Read a UTF-8 file. For a file that is too long, read one byte beyond the limit, for `read_yaml` to refuse."""
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
