"""Validates a workflow beyond its schema: ids, dependencies, routers, tools, templates, expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain, combinations

from msgspec import Struct

from offbook.errors import InputError
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.text import did_you_mean
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.level import Level, overlap, root_of
from offbook.workflow.file.problems import DocumentPath, ProblemReport
from offbook.workflow.file.schema import AgentStep, AnyStep, LoopStep, RouterStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.template import Template, ValuePath
from offbook.workflow.file.tree import StepReference, expressions_of, templates_of, tools_of, writes_of

_DOUBLE_BRACES = re.compile(r"(?<!\{)\{\{\s*([A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*\}\}(?!\})")


def check_reads(level: Level, report: ProblemReport) -> None:
    """Note templates and expressions that cannot be read, or that name what no step before has written."""
    for path, step in level.placed():
        known = ReadableKeys(level, step)
        for written in templates_of(step):
            _check_template(written, path, known, report)
        for written in expressions_of(step):
            _check_expression(written, path, level.names, known, report)
        if isinstance(step, LoopStep):
            _check_loop(step, path, level, report)
        elif isinstance(step, SubworkflowStep):
            _check_subworkflow_io(step, path, report)


class ReadableKeys(Struct, frozen=True):
    """What a step can read: the keys before it, and `more` that come while it runs."""

    level: Level
    step: AnyStep
    more: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether the path, something around it or something inside it is there."""
        return self.level.has_before(self.step, path) or is_among(path, self.more)

    def writer_of(self, path: str) -> str | None:
        """A step that would have written the path if this one waited for it."""
        after = self.level.graph.comes_before
        writers = self.level.writers_of(path) if self.level.graph.is_whole else []
        return next((name for name in writers if name != self.step.id and not after(self.step.id, name)), None)

    def listed(self) -> frozenset[str]:
        """All of them, for hints."""
        return self.level.keys_before(self.step) | self.more


def is_among(path: str, keys: Iterable[str]) -> bool:
    return any(overlap(path, key) for key in keys)


def _check_template(written: StepReference, path: DocumentPath, known: ReadableKeys, report: ProblemReport) -> None:
    place = (*path, *written.place)
    try:
        template = Template.parse(written.text)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    names = known.level.names
    for found in _DOUBLE_BRACES.finditer(written.text):
        if found[1].partition(".")[0] in names:
            hint = f"write {{{found[1]}}}; {{{{ is a literal brace"
            report.add(place, f"{found[0]!r} is no placeholder, and would be sent as it stands", hint=hint)
    for named in template.paths:
        if named[0] in names:
            _check_path(named, place, known, report)
            continue
        hint = did_you_mean(".".join(named), {*names, *(f"state.{key}" for key in known.listed())}, kind="names")
        report.add(place, f"there is no {'.'.join(named)}", hint=hint)


def _check_expression(
    written: StepReference, path: DocumentPath, names: frozenset[str], known: ReadableKeys, report: ProblemReport
) -> None:
    place = (*path, *written.place)
    try:
        expression = Expression.parse(written.text, names=names)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    for named in expression.paths:
        _check_path(named, place, known, report)


def _check_path(named: ValuePath, place: DocumentPath, known: ReadableKeys, report: ProblemReport) -> None:
    """Note a path into the state that nobody has written. How a value looks inside is not known before it runs."""
    path = ".".join(named[1:])
    if named[0] != "state" or not path or known.has(path):
        return
    writer = known.writer_of(path)
    hint = f"{writer!r} writes it: add it to depends_on" if writer else ""
    hint = hint or did_you_mean(path, known.listed(), kind="keys so far")
    reason = f"no step before this one writes {'.'.join(named)}, and 'state' does not declare it"
    report.add(place, reason, hint=hint)


def _check_loop(step: LoopStep, path: DocumentPath, level: Level, report: ProblemReport) -> None:
    """Note an `until` or a `collect` about what the rounds do not write."""
    own = frozenset(written.text for inner in step.steps for written in writes_of(inner))
    if step.until is not None:
        known = ReadableKeys(level, step, own)
        _check_expression(StepReference(("until",), step.until), path, level.names | {"index"}, known, report)
    if step.collect is not None and not is_among(step.collect, own):
        hint = did_you_mean(step.collect, own, kind="what they write")
        report.add((*path, "collect"), f"no step of the loop writes {quote_name(step.collect)}", hint=hint)


def _check_subworkflow_io(step: SubworkflowStep, path: DocumentPath, report: ProblemReport) -> None:
    """Note inputs that the sub-workflow does not declare, and outputs that it does not write."""
    if step.workflow is None:
        return
    inside = Level.of(step.workflow, tools=frozenset())
    for key in step.input:
        if key not in step.workflow.state:
            hint = did_you_mean(key, step.workflow.state, kind="its state")
            report.add((*path, "input", key), f"the sub-workflow declares no state {quote_name(key)}", hint=hint)
    for key, source in step.outputs.items():
        if not is_among(source, inside.keys_after()):
            hint = did_you_mean(source, inside.keys_after(), kind="its state")
            report.add((*path, "outputs", key), f"the sub-workflow has no state {quote_name(source)}", hint=hint)


def check_ids(level: Level, report: ProblemReport, seen: dict[str, DocumentPath]) -> None:
    """Note ids that are there twice, also in loops, or unfit to name a recorded call."""
    for path, step in level.placed():
        if reason := unfit_reason(step.id):
            report.add((*path, "id"), f"the id {quote_name(step.id)} {reason}", hint=KEY_HINT)
        if step.id in seen:
            report.add((*path, "id"), f"the id {quote_name(step.id)} is there twice")
        seen[step.id] = path


def check_dependencies(level: Level, report: ProblemReport) -> None:
    """Note dependencies on steps that are not there, and circles."""
    for path, step in level.placed():
        for at, step_id in enumerate(step.depends_on):
            if step_id not in level.graph.steps:
                hint = did_you_mean(step_id, set(level.graph.steps) - {step.id}, kind="steps beside it")
                report.add((*path, "depends_on", at), f"there is no step {quote_name(step_id)}", hint=hint)
    if circle := level.graph.cycle:
        at = next(at for at, step in enumerate(level.steps) if step.id == circle[0])
        told = " → ".join(circle)
        report.add((*level.path, at, "depends_on"), f"the steps wait for one another: {told}")


def check_routers(level: Level, report: ProblemReport) -> None:
    """Note routers that lead nowhere, to steps that are not there, or to steps that never get their turn."""
    for path, step in level.placed():
        if isinstance(step, RouterStep):
            _check_targets(step, path, level, report)
            _check_branches(step, path, report)


def _check_targets(router: RouterStep, path: DocumentPath, level: Level, report: ProblemReport) -> None:
    named: list[tuple[DocumentPath, str]] = [
        (("conditions", at, "target"), condition.target) for at, condition in enumerate(router.conditions)
    ]
    if router.default is not None:
        named.append((("default",), router.default))
    for place, target in named:
        if target not in level.graph.steps:
            hint = did_you_mean(target, set(level.graph.steps) - {router.id}, kind="steps beside it")
            report.add((*path, *place), f"there is no step {quote_name(target)}", hint=hint)
        elif target == router.id:
            report.add((*path, *place), "the router leads to itself")


def _check_branches(router: RouterStep, path: DocumentPath, report: ProblemReport) -> None:
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


def check_writes(level: Level, report: ProblemReport) -> None:
    """Note paths of the state that two steps write in no certain order."""
    writers: dict[str, list[tuple[DocumentPath, AnyStep, StepReference]]] = {}
    for path, step in level.placed():
        for written in writes_of(step):
            writers.setdefault(root_of(written.text), []).append((path, step, written))
    for (_, first, one), (path, second, other) in chain.from_iterable(combinations(of, 2) for of in writers.values()):
        if first is not second and overlap(one.text, other.text) and level.graph.are_parallel(first.id, second.id):
            reason = (
                f"{_writer_label(one, first)} writes {one.text!r} too, and nothing says which of the two runs first"
            )
            hint = f"let one depend on the other, or write to another key than {other.text!r}"
            report.add((*path, *other.place), reason, hint=hint)


def _writer_label(written: StepReference, step: AnyStep) -> str:
    kind = "sub-workflow" if isinstance(step, SubworkflowStep) and written.place[0] == "outputs" else "step"
    return f"the {kind} {quote_name(step.id)}"


def check_tools(level: Level, report: ProblemReport) -> None:
    """Note tools that the workflow does not have, and rules about tools that the agent does not have."""
    for path, step in level.placed():
        for named in tools_of(step):
            if named.text not in level.tools:
                hint = did_you_mean(named.text, level.tools, kind="tools")
                report.add((*path, *named.place), f"there is no tool {quote_name(named.text)}", hint=hint)
        if isinstance(step, AgentStep):
            own = {*step.tools, *step.terminal_tool}
            for named in _rule_references(step):
                if named.text not in own:
                    reason = f"{quote_name(named.text)} is none of the tools of this step"
                    report.add((*path, *named.place), reason, hint=did_you_mean(named.text, own, kind="its tools"))


def _rule_references(step: AgentStep) -> Iterator[StepReference]:
    """Every tool that a rule of an agent names."""
    for at, name in enumerate(step.required_steps):
        yield StepReference(("required_steps", at), name)
    for tool, prerequisites in step.prerequisites.items():
        yield StepReference(("prerequisites", tool), tool)
        for at, prerequisite in enumerate(prerequisites):
            yield StepReference(("prerequisites", tool, at), prerequisite.tool)


MAX_SUBWORKFLOWS = 8


def validate(definition: WorkflowDefinition, *, tools: Iterable[str] = ()) -> None:
    """Check a workflow: ids, dependencies, routers, tools, templates, expressions, outputs, also inside.

    `tools` are further tools, beside those that it declares, that its steps may call.

    Raises:
        WorkflowError: something is wrong; it holds all problems.
    """
    report = ProblemReport()
    level = Level.of(definition, tools=frozenset(tools))
    _check_level(level, report, seen={}, depth=0)
    _check_loaded(level, report)
    report.conclude()


def check_meaning(definition: WorkflowDefinition, report: ProblemReport, *, tools: frozenset[str]) -> None:
    """Note everything that is wrong with what a workflow means."""
    _check_level(Level.of(definition, tools=tools), report, seen={}, depth=0)


def _check_level(level: Level, report: ProblemReport, *, seen: dict[str, DocumentPath], depth: int) -> None:
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


def _check_loaded(level: Level, report: ProblemReport) -> None:
    """Note sub-workflows in files that nobody has put in place."""
    for path, step in level.placed():
        if isinstance(step, SubworkflowStep) and step.workflow is None:
            report.add((*path, "path"), "the sub-workflow is not loaded", hint="load the file with load_workflow()")
    for inner in level.inner():
        _check_loaded(inner, report)
