"""One level of a workflow that is being checked: its steps, or those of a loop or of a workflow inside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from understudy.workflow.graph import Graph
from understudy.workflow.positions import DocumentPath
from understudy.workflow.references import writes_of
from understudy.workflow.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition


class Level:
    """Steps that may depend on one another, at `path` in the document.

    `tools` are the tools they may call, `keys` the paths that the state has before they run, `names` what
    templates and expressions may begin with. `is_loop` tells whether they are the steps of a loop.
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
        """The outermost level of a workflow, which may also call `tools` of whoever runs it."""
        known = tools.union(workflow.tools)
        return cls(workflow.steps, path=(*path, "steps"), tools=known, keys=frozenset(workflow.state))

    def placed(self) -> Iterator[tuple[DocumentPath, AnyStep]]:
        """The steps, each with its path in the document."""
        return (((*self.path, at), step) for at, step in enumerate(self.steps))

    def inner(self) -> Iterator[Level]:
        """The levels inside: of loops, and of workflows that stand in place."""
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
        """The paths of the state that are there when a step runs, or may be, if a branch before it was taken.

        Of a graph with gaps it is all that are ever there, as what comes before what is not known.
        """
        if not self.graph.is_whole:
            return self.keys_after()
        before = self.graph.ancestors(step.id)
        return self.keys.union(*(self._written[step_id] for step_id in before))

    def keys_after(self) -> frozenset[str]:
        """The paths of the state that are there, or may be, when all steps have run."""
        return self.keys.union(*self._written.values())

    @cached_property
    def _written(self) -> dict[str, frozenset[str]]:
        return {
            step_id: frozenset(written.text for written in writes_of(step))
            for step_id, step in self.graph.steps.items()
        }
