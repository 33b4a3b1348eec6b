"""Faults drawn by lot, the same lots every time."""

from __future__ import annotations

import random
from typing import Annotated

from msgspec import Meta, Struct

from offbook.faults.catalog import AnyFault
from offbook.faults.site import Site


class Chaos(Struct, frozen=True, forbid_unknown_fields=True):
    """A share `rate` of all attempts fails, each with one of `faults`; `seed` decides which and how.

    What is drawn for a site depends on the seed and the site alone, not on what else happens.
    """

    seed: int
    rate: Annotated[float, Meta(ge=0.0, le=1.0)]
    faults: Annotated[tuple[AnyFault, ...], Meta(min_length=1)]

    def draw(self, site: Site) -> AnyFault | None:
        """The fault that strikes at `site`, if one does."""
        place = (self.seed, site.workflow, site.step_id, site.call, site.attempt)
        lot = random.Random(repr(place))  # noqa: S311 - a lot, not a secret
        return lot.choice(self.faults) if lot.random() < self.rate else None

    def __str__(self) -> str:
        return f"chaos seed={self.seed} rate={self.rate!r}: {' | '.join(str(fault) for fault in self.faults)}"
