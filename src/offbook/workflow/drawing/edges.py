"""The arrows of a picture."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec import Struct

from offbook.workflow.graph import Graph
from offbook.workflow.step_definition import RouterStep


class Edge(Struct, frozen=True):
    """An arrow from a step to one that runs after it; the label says when, if a router decides."""

    source: str
    target: str
    label: str = ""


def edges_of(graph: Graph) -> Iterator[Edge]:
    """Every arrow, by the step it leads to."""
    for target, sources in graph.dependencies.items():
        for source in sources:
            router = graph.routers.get(source)
            yield Edge(source, target, "" if router is None else _label(router, target))


def _label(router: RouterStep, target: str) -> str:
    conditions = [condition.expression for condition in router.conditions if condition.target == target]
    if router.default == target:
        conditions.append("else")
    return " or ".join(conditions)
