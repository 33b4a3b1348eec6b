"""A call that a run has taken on: what it asks, and where it stands among the run's calls."""

from __future__ import annotations

from msgspec import Struct

from offbook.faults import AnyFault
from offbook.faults.site import Site
from offbook.wire.asked import Asked


class Taken(Struct, frozen=True, gc=False):
    """A try of a call of a run. `number` counts all that is asked; `fault` is to strike it.

    `call` counts the run's calls of models, and is 0 for others; `attempt` counts the tries of one. `site` is its place
    among the calls of models, where faults may strike.
    """

    asked: Asked
    number: int
    attempt: int
    step_id: str | None = None
    fault: AnyFault | None = None
    site: Site | None = None
    call: int = 0
