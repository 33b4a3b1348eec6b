"""A call that a run has taken on: what it asks, and where it stands among the run's calls."""

from __future__ import annotations

from msgspec import Struct

from understudy.faults import AnyFault
from understudy.faults.site import Site
from understudy.wire.asked import Asked


class Taken(Struct, frozen=True, gc=False):
    """A call of a run. `number` counts the run's calls, `attempt` the tries of one; `fault` is to strike it.

    `site` is its place among the run's calls of models, where those are counted.
    """

    asked: Asked
    number: int
    attempt: int
    step_id: str | None = None
    fault: AnyFault | None = None
    site: Site | None = None
