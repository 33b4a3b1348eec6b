"""One level of a workflow under validation: its steps, their tools and the state keys they can read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from offbook.workflow.file.graph import Graph
from offbook.workflow.file.problems import DocumentPath
from offbook.workflow.file.schema import AnyStep, LoopStep, SubworkflowStep, WorkflowDefinition
from offbook.workflow.file.tree import writes_of


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
        """Return the state paths that may exist when a step runs: on some branch, a step before it writes them.

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
