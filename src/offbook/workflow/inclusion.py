"""Sub-workflows in files of their own: which files may be included, and putting them in place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from offbook.errors import WorkflowError
from offbook.recording.keys import shown
from offbook.workflow.positions import DocumentPath
from offbook.workflow.report import Report
from offbook.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.validate import MAX_SUBWORKFLOWS

Parse: TypeAlias = "Callable[[Path, Inclusion, frozenset[str]], WorkflowDefinition]"


class Inclusion:
    """Puts the files that a workflow includes in their place.

    Every file is read once, whoever includes it, and must be inside the folder of the first.
    """

    def __init__(self, parse: Parse, *, file: Path | None = None, folder: Path | None = None) -> None:
        self._parse = parse
        self._folder = folder if file is None else file.parent
        self._root = None if self._folder is None else self._folder.resolve()
        self._chain: tuple[Path, ...] = () if file is None else (file.resolve(),)
        self._read: dict[tuple[Path, frozenset[str]], WorkflowDefinition | None] = {}

    def included(
        self, workflow: WorkflowDefinition, report: Report, *, tools: frozenset[str], path: DocumentPath = ()
    ) -> WorkflowDefinition:
        """The workflow with every sub-workflow that is a file put in place, as far as they can be."""
        known = tools.union(workflow.tools)
        steps = self._steps(workflow.steps, (*path, "steps"), report, known)
        return workflow.model_copy(update={"steps": steps})

    def _steps(
        self, steps: tuple[AnyStep, ...], path: DocumentPath, report: Report, tools: frozenset[str]
    ) -> tuple[AnyStep, ...]:
        return tuple(self._step(step, (*path, at), report, tools) for at, step in enumerate(steps))

    def _step(self, step: AnyStep, path: DocumentPath, report: Report, tools: frozenset[str]) -> AnyStep:
        if isinstance(step, LoopStep):
            return step.model_copy(update={"steps": self._steps(step.steps, (*path, "steps"), report, tools)})
        if not isinstance(step, SubworkflowStep):
            return step
        inner: WorkflowDefinition | None
        if step.workflow is not None:
            inner = self.included(step.workflow, report, tools=tools, path=(*path, "workflow"))
        else:
            inner = self._file(str(step.path), (*path, "path"), report, tools)
        return step.model_copy(update={"workflow": inner})

    def _file(self, named: str, path: DocumentPath, report: Report, tools: frozenset[str]) -> WorkflowDefinition | None:
        file, reason = self._located(named)
        if file is None or reason:
            report.add(path, reason)
            return None
        if (file, tools) not in self._read:
            self._read[file, tools] = None
            try:
                self._read[file, tools] = self._parse(file, self._inside(file), tools)
            except WorkflowError as error:
                report.include(error)
        return self._read[file, tools]

    def _located(self, named: str) -> tuple[Path | None, str]:
        """The file that a path names, or why it may not be included."""
        if self._folder is None or self._root is None:
            return None, "a path needs a folder that it is relative to: load the workflow from a file"
        if Path(named).is_absolute():
            return None, f"the path {shown(named)} is not relative to this file"
        try:
            file = (self._folder / named).resolve()
            return file, self._refusal(file, named)
        except (OSError, ValueError, RuntimeError):
            return None, f"the path {shown(named)} leads nowhere"

    def _refusal(self, file: Path, named: str) -> str:
        if self._root is not None and not file.is_relative_to(self._root):
            return f"the path {shown(named)} leaves the folder of the workflow"
        if file in self._chain:
            names = [before.name for before in self._chain[self._chain.index(file) :]]
            return f"the workflow includes itself: {' → '.join([*names, file.name])}"
        if len(self._chain) > MAX_SUBWORKFLOWS:
            return f"sub-workflows are nested more than {MAX_SUBWORKFLOWS} deep"
        return "" if file.is_file() else f"there is no file {shown(named)}"

    def _inside(self, file: Path) -> Inclusion:
        """The same for what the file includes in turn."""
        inner = Inclusion(self._parse, file=file)
        inner._root, inner._read, inner._chain = self._root, self._read, (*self._chain, file)
        return inner
