"""Checks of templates and expressions: that they can be read, and that what they name is there by then."""

from __future__ import annotations

import re
from collections.abc import Iterable

from msgspec import Struct

from offbook.errors import InputError
from offbook.recording.keys import shown
from offbook.wording import did_you_mean
from offbook.workflow.expression import Expression
from offbook.workflow.level import Level, overlap
from offbook.workflow.positions import DocumentPath
from offbook.workflow.references import Written, expressions_of, templates_of, writes_of
from offbook.workflow.report import Report
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep
from offbook.workflow.template import Template, ValuePath

_DOUBLED = re.compile(r"(?<!\{)\{\{\s*([A-Za-z][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)*)\s*\}\}(?!\})")


def check_reads(level: Level, report: Report) -> None:
    """Note templates and expressions that cannot be read, or that name what no step before has written."""
    for path, step in level.placed():
        known = Known(level, step)
        for written in templates_of(step):
            _check_template(written, path, known, report)
        for written in expressions_of(step):
            _check_expression(written, path, level.names, known, report)
        if isinstance(step, LoopStep):
            _check_loop(step, path, level, report)
        elif isinstance(step, SubworkflowStep):
            _check_passage(step, path, report)


class Known(Struct, frozen=True):
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


def _check_template(written: Written, path: DocumentPath, known: Known, report: Report) -> None:
    place = (*path, *written.place)
    try:
        template = Template.parse(written.text)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    names = known.level.names
    for found in _DOUBLED.finditer(written.text):
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
    written: Written, path: DocumentPath, names: frozenset[str], known: Known, report: Report
) -> None:
    place = (*path, *written.place)
    try:
        expression = Expression.parse(written.text, names=names)
    except InputError as error:
        report.add(place, error.reason, hint=error.hint)
        return
    for named in expression.paths:
        _check_path(named, place, known, report)


def _check_path(named: ValuePath, place: DocumentPath, known: Known, report: Report) -> None:
    """Note a path into the state that nobody has written. How a value looks inside is not known before it runs."""
    path = ".".join(named[1:])
    if named[0] != "state" or not path or known.has(path):
        return
    writer = known.writer_of(path)
    hint = f"{writer!r} writes it: add it to depends_on" if writer else ""
    hint = hint or did_you_mean(path, known.listed(), kind="keys so far")
    reason = f"no step before this one writes {'.'.join(named)}, and 'state' does not declare it"
    report.add(place, reason, hint=hint)


def _check_loop(step: LoopStep, path: DocumentPath, level: Level, report: Report) -> None:
    """Note an `until` or a `collect` about what the rounds do not write."""
    own = frozenset(written.text for inner in step.steps for written in writes_of(inner))
    if step.until is not None:
        known = Known(level, step, own)
        _check_expression(Written(("until",), step.until), path, level.names | {"index"}, known, report)
    if step.collect is not None and not is_among(step.collect, own):
        hint = did_you_mean(step.collect, own, kind="what they write")
        report.add((*path, "collect"), f"no step of the loop writes {shown(step.collect)}", hint=hint)


def _check_passage(step: SubworkflowStep, path: DocumentPath, report: Report) -> None:
    """Note inputs that the sub-workflow does not declare, and outputs that it does not write."""
    if step.workflow is None:
        return
    inside = Level.of(step.workflow, tools=frozenset())
    for key in step.input:
        if key not in step.workflow.state:
            hint = did_you_mean(key, step.workflow.state, kind="its state")
            report.add((*path, "input", key), f"the sub-workflow declares no state {shown(key)}", hint=hint)
    for key, source in step.outputs.items():
        if not is_among(source, inside.keys_after()):
            hint = did_you_mean(source, inside.keys_after(), kind="its state")
            report.add((*path, "outputs", key), f"the sub-workflow has no state {shown(source)}", hint=hint)
