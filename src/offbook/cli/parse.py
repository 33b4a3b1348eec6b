"""Parses command arguments: names, workers, and the faults and the state of a workflow."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import orjson

from offbook.errors import InputError
from offbook.faults import FaultPlan, parse_fault
from offbook.faults.site import At
from offbook.files import read_file
from offbook.messages import JsonObject
from offbook.schema_errors import RepeatedKeyError, check_keys
from offbook.text import did_you_mean, did_you_mean_file
from offbook.workflow.file.schema import AnyStep, ModelFields, ToolStep, WorkflowDefinition
from offbook.workflow.file.tree import steps_by_id, steps_without_model, tools_of

if TYPE_CHECKING:
    from offbook.shard import Shard
    from offbook.subjects.executors import AnyWorkers


def parse_names(text: str) -> tuple[str, ...]:
    """Return the names in a list like `refund,pay`."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def check_page(report: str | None) -> None:
    """Raise InputError if the path of --report is not an HTML page."""
    if report is not None and not report.endswith((".html", ".htm")):
        hint = "name it *.html; --reporter writes json=PATH and junit=PATH"
        raise InputError("the report is an HTML page", source=f"--report {report}", hint=hint)


def report_lines(reports: Sequence[str]) -> list[str]:
    """Return reports like `page.html`, `json=PATH` and `github` as reporter declarations: the first is
    `html=page.html`.

    Raises:
        InputError: a path without a format is not an HTML page.
    """
    plain = [each for each in reports if "=" not in each and each != "github"]
    for page in plain:
        check_page(page)
    return [f"html={each}" if each in plain else each for each in reports]


def parse_shard_option(text: str | None, *, reporters: list[str], is_json: bool) -> Shard | None:
    """Return the shard of --shard, if given, and note on stderr if no report for merging is written.

    Raises:
        InputError: it is not a shard.
    """
    from offbook.cli.output.console import print_message
    from offbook.shard import parse_shard

    if text is None:
        return None
    shard = parse_shard(text)
    if not is_json and not any(each.startswith("json=") for each in reporters):
        hint = f"--reporter json=part{shard.number}.json writes what offbook merge reads"
        print_message("note: ", f"the report of this shard cannot be merged: {hint}", is_err=True)
    return shard


def parse_workers(text: str) -> AnyWorkers:
    """Return a number of workers, `auto`, or a Ray cluster: `ray`, or its URL.

    Raises:
        InputError: it is none of these.
    """
    if text == "auto":
        return "auto"
    if text == "ray" or text.startswith("ray://"):
        from offbook.subjects.executors import RayAddress

        return RayAddress("" if text == "ray" else text)
    if not text.isdecimal() or int(text) < 1:
        reason = f"expected a number, auto, ray or ray://HOST:PORT, got {text!r}"
        hint = "did you mean 'ray'?" if sorted(text) == sorted("ray") else did_you_mean(text, ["auto", "ray"])
        raise InputError(reason, source="--workers", hint=hint or "--workers 2")
    return int(text)


def parse_faults(lines: list[str], *, file: str | None, definition: WorkflowDefinition) -> FaultPlan:
    """Return the faults of the lines, followed by those of a file, for a run of the workflow.

    Raises:
        InputError: a line or the file cannot be read, or names a step without a model, or a tool that no step calls.
    """
    plan = FaultPlan() if file is None else FaultPlan.load(file)
    faults = [parse_fault(line) for line in lines]
    for line, planned in zip(lines, faults, strict=True):
        _check_site(planned.at, definition, source=repr(line), place="")
    for index, planned in enumerate(plan):
        _check_site(planned.at, definition, source=str(file), place=f"faults[{index}].at.")
    return FaultPlan([*faults, *plan], chaos=plan.chaos)


def _check_site(at: At, definition: WorkflowDefinition, *, source: str, place: str) -> None:
    """Raise InputError for a site that no call of the workflow can have."""
    try:
        _check_workflow(at, definition)
        _check_tool(at, steps_by_id(definition))
        _check_step(at, steps_by_id(definition))
    except InputError as error:
        raise InputError(error.reason, source=source, place=f"{place}{error.place}", hint=error.hint) from None


def _check_workflow(at: At, definition: WorkflowDefinition) -> None:
    if at.workflow not in (None, definition.name):
        raise InputError(f"the workflow is not {at.workflow!r}", place="workflow", hint=f"it is {definition.name!r}")


def _check_tool(at: At, steps: Mapping[str, AnyStep]) -> None:
    called = {named.text for step in steps.values() for named in tools_of(step)}
    if at.tool is not None and at.tool not in called:
        raise InputError(
            f"no step calls a tool {at.tool!r}", place="tool", hint=did_you_mean(at.tool, called, kind="tools")
        )


def _check_step(at: At, steps: Mapping[str, AnyStep]) -> None:
    if at.step_id is None:
        return
    with_model = [step_id for step_id, step in steps.items() if isinstance(step, ModelFields)]
    step = steps.get(at.step_id)
    if step is None:
        hint = did_you_mean(at.step_id, with_model, kind="steps")
        raise InputError(f"there is no step {at.step_id!r}", place="step", hint=hint)
    if at.step_id not in with_model:
        its_tool = f"'tool={step.tool}: tool_error' fails its tool; " if isinstance(step, ToolStep) else ""
        hint = f"{its_tool}steps with a model: {', '.join(with_model) or 'none'}"
        reason = f"the step {at.step_id!r} has no model: it is a {step.type} step"
        raise InputError(reason, place="step", hint=hint)


def parse_state(declared: JsonObject, *, settings: list[str], file: str | None) -> JsonObject:
    """Return the keys of a JSON file, overridden by `key=value` settings; the last setting of a key wins.

    A dotted key is set inside the file's or the declared value. A value is parsed as JSON if possible, else it is text;
    if the declared value is text, it stays text.

    Raises:
        InputError: the file is not a JSON object, a setting is not `key=value`, or a key is not declared.
    """
    state = {} if file is None else _read_state_file(file)
    for key in state:
        _check_key(key, declared, source=str(file))
    for setting in settings:
        _set(state, setting, declared)
    return state


def _read_state_file(file: str) -> JsonObject:
    try:
        data = read_file(file)
        check_keys(data)
        state = orjson.loads(data)
    except OSError as error:
        hint = f"--state takes a JSON file; for one key: --set {shlex.quote(file)}" if "=" in file else ""
        raise InputError(error.strerror or str(error), source=file, hint=hint or did_you_mean_file(file)) from None
    except RepeatedKeyError as error:
        raise InputError(str(error), source=file) from None
    except orjson.JSONDecodeError as error:
        raise InputError(f"not JSON: {error}", source=file) from None
    if not isinstance(state, dict):
        raise InputError("expected a JSON object", source=file, hint='{"key": "value"}')
    return state


def _set(state: JsonObject, setting: str, declared: JsonObject) -> None:
    path, separator, text = setting.partition("=")
    first, *rest = path.split(".")
    if not separator or not all((first, *rest)):
        raise InputError(f"expected key=value, got {setting!r}", source="--set", hint="--set name=Ada, or --set a.b=1")
    _check_key(first, declared, source=f"--set {path}")
    if not rest:
        state[first] = _value(text, declared[first])
        return
    inner = state[first] = deepcopy(state.get(first, declared[first]))
    *between, last = rest
    for key in between:
        inner = _mapping(inner, path).setdefault(key, {})
    _mapping(inner, path)[last] = _value(text, _declared(declared, path.split(".")))


def _mapping(value: Any, path: str) -> JsonObject:
    if not isinstance(value, dict):
        excerpt = orjson.dumps(value).decode()[:40]
        raise InputError(f"there is {excerpt} where a mapping is expected", source=f"--set {path}")
    return value


def _declared(declared: Any, keys: list[str]) -> Any:
    """Return the declared value at the path, or None."""
    for key in keys:
        declared = declared.get(key) if isinstance(declared, dict) else None
    return declared


def _value(text: str, declared: Any) -> Any:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return text
    return text if isinstance(declared, str) and not isinstance(value, str) else value


def _check_key(key: str, declared: JsonObject, *, source: str) -> None:
    if key not in declared:
        hint = did_you_mean(key, declared, kind="declared")
        raise InputError(f"the workflow's state has no key {key!r}", source=source, hint=hint)


def check_models(definition: WorkflowDefinition, flow: str) -> None:
    """Check that every step that calls a model has one. `flow` is the file of the workflow.

    Raises:
        InputError: a step has none.
    """
    unnamed = steps_without_model(definition)
    if unnamed:
        hint = "config: {model: …} in the file, or offbook run --model NAME"
        raise InputError("the step has no model", source=flow, place=f"steps.{unnamed[0]}", hint=hint)
