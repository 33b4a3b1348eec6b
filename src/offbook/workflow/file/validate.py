"""Validates a workflow beyond its schema: ids, dependencies, routers, tools, templates, expressions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import chain, combinations

from msgspec import Struct

from offbook.errors import InputError
from offbook.recording.format.keys import KEY_HINT, quote_name, unfit_reason
from offbook.text import did_you_mean
from offbook.workflow.file.expression import Expression
from offbook.workflow.file.graph import Graph
from offbook.workflow.file.problems import DocumentPath, ProblemReport
from offbook.workflow.file.schema import AgentStep, AnyStep, LoopStep, RouterStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.template import Template, ValuePath
from offbook.workflow.file.tree import StepReference, expressions_of, templates_of, tools_of, writes_of

_DOUBLE_BRACES = re.compile(r"(?<!\{)\{\{\s*([A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*\}\}(?!\})")


class Level:
    """The steps of a workflow or of a loop, at `path` in the document.

    `tools` are the tools they may call, `keys` the state paths that exist before they run, `names` the first parts
    that paths in templates and expressions may have. `is_loop` means that they are the steps of a loop.
    """

    def __init__(
        self,
        steps: Sequence[AnyStep],
        *,
        path: DocumentPath,
        tools: frozenset[str],
        keys: frozenset[str],
        names: frozenset[str] = frozenset({"state"}),
        is_loop: bool = False,
    ) -> None:
        self.steps, self.path, self.is_loop = steps, path, is_loop
        self.tools, self.keys, self.names = tools, keys, names
        self.graph = Graph(steps)

    @classmethod
    def of(cls, workflow: WorkflowDefinition, *, path: DocumentPath = (), tools: frozenset[str]) -> Level:
        """Return the outermost level of a workflow, which may also call `tools` from outside."""
        known = tools.union(workflow.tools)
        return cls(workflow.steps, path=(*path, "steps"), tools=known, keys=frozenset(workflow.state))

    def placed(self) -> Iterator[tuple[DocumentPath, AnyStep]]:
        """Yield the steps, each with its path in the document."""
        return (((*self.path, index), step) for index, step in enumerate(self.steps))

    def inner(self) -> Iterator[Level]:
        """Yield the levels of loops and inline sub-workflows; included files are validated on their own."""
        for path, step in self.placed():
            if isinstance(step, LoopStep):
                yield self._loop(step, path)
            elif isinstance(step, SubworkflowStep) and step.workflow is not None and step.path is None:
                yield Level.of(step.workflow, path=(*path, "workflow"), tools=self.tools)

    def _loop(self, step: LoopStep, path: DocumentPath) -> Level:
        bound = frozenset({"index"}) if step.over is None else frozenset({"index", step.variable})
        return Level(
            step.steps,
            path=(*path, "steps"),
            tools=self.tools,
            keys=self.keys_before(step),
            names=self.names | bound,
            is_loop=True,
        )

    def keys_before(self, step: AnyStep) -> frozenset[str]:
        """Return the state paths that may exist when a step runs, because an earlier step on some branch writes them.

        For an invalid graph, whose order is unknown, these are all paths of the level.
        """
        if not self.graph.is_whole:
            return self.keys_after()
        before = self.graph.comes_before
        return self.keys.union(path for writer, path in self._writes if before(writer, step.id))

    def keys_after(self) -> frozenset[str]:
        """Return the state paths that may exist when all steps have run."""
        return self.keys.union(path for _, path in self._writes)

    def has_before(self, step: AnyStep, path: str) -> bool:
        """Whether `path`, a path around it or one inside it is in `keys_before`; takes one look-up."""
        root = root_of(path)
        if any(overlap(path, key) for key in self._keys_by_root.get(root, ())):
            return True
        writers = self._writes_by_root.get(root, ())
        is_whole, before = self.graph.is_whole, self.graph.comes_before
        return any(overlap(path, key) and (not is_whole or before(writer, step.id)) for writer, key in writers)

    def writers_of(self, path: str) -> list[str]:
        """Return the steps that write `path`, a path around it or one inside it."""
        return list(dict.fromkeys(writer for writer, key in self._writes if overlap(path, key)))

    @cached_property
    def _writes(self) -> list[tuple[str, str]]:
        """Each step with each state path that it writes."""
        steps = self.graph.steps.items()
        return [(step_id, reference.text) for step_id, step in steps for reference in writes_of(step)]

    @cached_property
    def _writes_by_root(self) -> dict[str, list[tuple[str, str]]]:
        by_root: dict[str, list[tuple[str, str]]] = {}
        for writer, path in self._writes:
            by_root.setdefault(root_of(path), []).append((writer, path))
        return by_root

    @cached_property
    def _keys_by_root(self) -> dict[str, list[str]]:
        by_root: dict[str, list[str]] = {}
        for path in self.keys:
            by_root.setdefault(root_of(path), []).append(path)
        return by_root


def root_of(path: str) -> str:
    """Return the first key of a state path."""
    return path.partition(".")[0]


def overlap(one: str, other: str) -> bool:
    """Whether two state paths are the same, or one is inside the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")


def check_reads(level: Level, report: ProblemReport) -> None:
    """Report templates and expressions that are invalid, or that read what no earlier step writes."""
    for path, step in level.placed():
        known = ReadableKeys(level, step)
        for template in templates_of(step):
            _check_template(template, path, known, report)
        for expression in expressions_of(step):
            _check_expression(expression, path, level.names, known, report)
        if isinstance(step, LoopStep):
            _check_loop(step, path, level, report)
        elif isinstance(step, SubworkflowStep):
            _check_subworkflow_io(step, path, report)


class ReadableKeys(Struct, frozen=True):
    """The state paths that a step can read: those that exist before it, and those of its own rounds."""

    level: Level
    step: AnyStep
    in_rounds: frozenset[str] = frozenset()

    def has(self, path: str) -> bool:
        """Whether the path, a path around it or one inside it can be read."""
        return self.level.has_before(self.step, path) or is_among(path, self.in_rounds)

    def writer_of(self, path: str) -> str | None:
        """Return a step that writes the path and that this step could depend on."""
        after = self.level.graph.comes_before
        writers = self.level.writers_of(path) if self.level.graph.is_whole else []
        return next((name for name in writers if name != self.step.id and not after(self.step.id, name)), None)

    def listed(self) -> frozenset[str]:
        """Return all of them, for hints."""
        return self.level.keys_before(self.step) | self.in_rounds


def is_among(path: str, keys: Iterable[str]) -> bool:
    return any(overlap(path, key) for key in keys)


def _check_template(reference: StepReference, path: DocumentPath, known: ReadableKeys, report: ProblemReport) -> None:
    place = (*path, *reference.place)
    try:
        template = Template.parse(reference.text)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    names = known.level.names
    for match in _DOUBLE_BRACES.finditer(reference.text):
        if match[1].partition(".")[0] in names:
            hint = f"write {{{match[1]}}}; {{{{ is a literal brace"
            report.add(place, f"{match[0]!r} is not a placeholder, and would be sent unchanged", hint=hint)
    for value_path in template.paths:
        if value_path[0] in names:
            _check_path(value_path, place, known, report)
            continue
        name = ".".join(value_path)
        hint = did_you_mean(name, {*names, *(f"state.{key}" for key in known.listed())}, kind="names")
        report.add(place, f"there is no {name}", hint=hint)


def _check_expression(
    reference: StepReference, path: DocumentPath, names: frozenset[str], known: ReadableKeys, report: ProblemReport
) -> None:
    place = (*path, *reference.place)
    try:
        expression = Expression.parse(reference.text, names=names)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    for value_path in expression.paths:
        _check_path(value_path, place, known, report)


def _check_path(value_path: ValuePath, place: DocumentPath, known: ReadableKeys, report: ProblemReport) -> None:
    """Report a state path that no step before writes; the inner structure of values is unknown before a run."""
    path = ".".join(value_path[1:])
    if value_path[0] != "state" or not path or known.has(path):
        return
    writer = known.writer_of(path)
    hint = f"{writer!r} writes it: add it to depends_on" if writer else ""
    hint = hint or did_you_mean(path, known.listed(), kind="keys so far")
    reason = f"no step before this one writes {'.'.join(value_path)}, and 'state' does not declare it"
    report.add(place, reason, hint=hint)


def _check_loop(step: LoopStep, path: DocumentPath, level: Level, report: ProblemReport) -> None:
    """Report an `until` or a `collect` that reads what the rounds do not write."""
    own = frozenset(reference.text for inner in step.steps for reference in writes_of(inner))
    if step.until is not None:
        known = ReadableKeys(level, step, own)
        _check_expression(StepReference(("until",), step.until), path, level.names | {"index"}, known, report)
    if step.collect is not None and not is_among(step.collect, own):
        hint = did_you_mean(step.collect, own, kind="what they write")
        report.add((*path, "collect"), f"no step of the loop writes {quote_name(step.collect)}", hint=hint)


def _check_subworkflow_io(step: SubworkflowStep, path: DocumentPath, report: ProblemReport) -> None:
    """Report inputs that the sub-workflow does not declare, and outputs that it does not write."""
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
    """Report ids that are duplicates, including those in loops, or not valid as keys of a recording."""
    for path, step in level.placed():
        if reason := unfit_reason(step.id):
            report.add((*path, "id"), f"the id {quote_name(step.id)} {reason}", hint=KEY_HINT)
        if step.id in seen:
            report.add((*path, "id"), f"duplicate id {quote_name(step.id)}")
        seen[step.id] = path


def check_dependencies(level: Level, report: ProblemReport) -> None:
    """Report dependencies on unknown steps, and cycles."""
    for path, step in level.placed():
        for index, step_id in enumerate(step.depends_on):
            if step_id not in level.graph.steps:
                hint = did_you_mean(step_id, set(level.graph.steps) - {step.id}, kind="other steps here")
                report.add((*path, "depends_on", index), f"there is no step {quote_name(step_id)}", hint=hint)
    if cycle := level.graph.cycle:
        index = next(index for index, step in enumerate(level.steps) if step.id == cycle[0])
        report.add((*level.path, index, "depends_on"), f"the steps form a cycle: {' → '.join(cycle)}")


def check_routers(level: Level, report: ProblemReport) -> None:
    """Report routers without a branch, and branches to unknown steps or that can never be taken."""
    for path, step in level.placed():
        if isinstance(step, RouterStep):
            _check_targets(step, path, level, report)
            _check_branches(step, path, report)


def _check_targets(router: RouterStep, path: DocumentPath, level: Level, report: ProblemReport) -> None:
    targets: list[tuple[DocumentPath, str]] = [
        (("conditions", index, "target"), condition.target) for index, condition in enumerate(router.conditions)
    ]
    if router.default is not None:
        targets.append((("default",), router.default))
    for place, target in targets:
        if target not in level.graph.steps:
            hint = did_you_mean(target, set(level.graph.steps) - {router.id}, kind="other steps here")
            report.add((*path, *place), f"there is no step {quote_name(target)}", hint=hint)
        elif target == router.id:
            report.add((*path, *place), "the router is its own target")


def _check_branches(router: RouterStep, path: DocumentPath, report: ProblemReport) -> None:
    """Report branches that are never taken because a condition is the constant `true` or `false`."""
    constants = [condition.expression.strip() for condition in router.conditions]
    first_true = constants.index("true") if "true" in constants else len(constants)
    if first_true == len(constants) and router.default is None and all(constant == "false" for constant in constants):
        report.add(path, "the router has no branch that can be taken", hint="give it conditions or a default")
    for index, constant in enumerate(constants):
        if index > first_true or constant == "false":
            why = "a condition before it is always true" if index > first_true else "its condition is always false"
            report.add((*path, "conditions", index), f"this branch is never taken: {why}")
    if first_true < len(constants) and router.default is not None:
        report.add((*path, "default"), "this branch is never taken: a condition before it is always true")


def check_writes(level: Level, report: ProblemReport) -> None:
    """Report state paths that two steps write in an undefined order."""
    writers: dict[str, list[tuple[DocumentPath, AnyStep, StepReference]]] = {}
    for path, step in level.placed():
        for reference in writes_of(step):
            writers.setdefault(root_of(reference.text), []).append((path, step, reference))
    for (_, first, one), (path, second, other) in chain.from_iterable(combinations(of, 2) for of in writers.values()):
        if first is not second and overlap(one.text, other.text) and level.graph.are_parallel(first.id, second.id):
            reason = f"{_writer_label(one, first)} writes {one.text!r} too, and the order of the two is undefined"
            hint = f"let one depend on the other, or write to another key than {other.text!r}"
            report.add((*path, *other.place), reason, hint=hint)


def _writer_label(reference: StepReference, step: AnyStep) -> str:
    kind = "sub-workflow" if isinstance(step, SubworkflowStep) and reference.place[0] == "outputs" else "step"
    return f"the {kind} {quote_name(step.id)}"


def check_tools(level: Level, report: ProblemReport) -> None:
    """Report tools that the workflow does not have, and rules about tools that the agent does not have."""
    for path, step in level.placed():
        for tool in tools_of(step):
            if tool.text not in level.tools:
                hint = did_you_mean(tool.text, level.tools, kind="tools")
                report.add((*path, *tool.place), f"there is no tool {quote_name(tool.text)}", hint=hint)
        if isinstance(step, AgentStep):
            own = {*step.tools, *step.terminal_tool}
            for tool in _rule_references(step):
                if tool.text not in own:
                    reason = f"{quote_name(tool.text)} is not a tool of this step"
                    report.add((*path, *tool.place), reason, hint=did_you_mean(tool.text, own, kind="its tools"))


def _rule_references(step: AgentStep) -> Iterator[StepReference]:
    """Yield every tool that a rule of an agent names."""
    for index, name in enumerate(step.required_steps):
        yield StepReference(("required_steps", index), name)
    for tool, prerequisites in step.prerequisites.items():
        yield StepReference(("prerequisites", tool), tool)
        for index, prerequisite in enumerate(prerequisites):
            yield StepReference(("prerequisites", tool, index), prerequisite.tool)


MAX_SUBWORKFLOWS = 8


def validate(definition: WorkflowDefinition, *, tools: Iterable[str] = ()) -> None:
    """Check the ids, dependencies, routers, tools, templates, expressions and outputs of a workflow, at all levels.

    `tools` are tools that its steps may call in addition to those that it declares.

    Raises:
        WorkflowError: the workflow is invalid; the error has all problems.
    """
    report = ProblemReport()
    level = Level.of(definition, tools=frozenset(tools))
    _check_level(level, report, seen={}, depth=0)
    _check_loaded(level, report)
    report.conclude()


def check_meaning(definition: WorkflowDefinition, report: ProblemReport, *, tools: frozenset[str]) -> None:
    """Report all problems of a workflow that its schema does not catch."""
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
    """Report sub-workflows whose file is not loaded."""
    for path, step in level.placed():
        if isinstance(step, SubworkflowStep) and step.workflow is None:
            report.add((*path, "path"), "the sub-workflow is not loaded", hint="load the file with load_workflow()")
    for inner in level.inner():
        _check_loaded(inner, report)
