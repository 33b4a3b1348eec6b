"""One level of a workflow under validation: its steps, their tools and the state keys they can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from offbook.workflow.file.graph import Graph
from offbook.workflow.file.problems import DocumentPath
from offbook.workflow.file.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.tree import writes_of


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
        before = self.graph.comes_before
        return self.keys.union(path for writer, path in self._written if before(writer, step.id))

    def keys_after(self) -> frozenset[str]:
        """The paths of the state that are there, or may be, when all steps have run."""
        return self.keys.union(path for _, path in self._written)

    def has_before(self, step: AnyStep, path: str) -> bool:
        """Whether `path`, something around it or something inside it is among `keys_before`; costs a look-up."""
        root = root_of(path)
        if any(overlap(path, key) for key in self._keys_by_root.get(root, ())):
            return True
        writers = self._written_by_root.get(root, ())
        is_whole, before = self.graph.is_whole, self.graph.comes_before
        return any(overlap(path, key) and (not is_whole or before(writer, step.id)) for writer, key in writers)

    def writers_of(self, path: str) -> list[str]:
        """The steps that write `path`, something around it or something inside it, whenever they run."""
        return list(dict.fromkeys(writer for writer, key in self._written if overlap(path, key)))

    @cached_property
    def _written(self) -> list[tuple[str, str]]:
        """Each step and path of the state that it writes."""
        return [(step_id, written.text) for step_id, step in self.graph.steps.items() for written in writes_of(step)]

    @cached_property
    def _written_by_root(self) -> dict[str, list[tuple[str, str]]]:
        found: dict[str, list[tuple[str, str]]] = {}
        for writer, path in self._written:
            found.setdefault(root_of(path), []).append((writer, path))
        return found

    @cached_property
    def _keys_by_root(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self.keys:
            found.setdefault(root_of(path), []).append(path)
        return found


def root_of(path: str) -> str:
    """The key of the state that a path begins with."""
    return path.partition(".")[0]


def overlap(one: str, other: str) -> bool:
    """Whether two paths of the state are the same, or one is inside the other."""
    return one == other or one.startswith(f"{other}.") or other.startswith(f"{one}.")
