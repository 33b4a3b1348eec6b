"""Faults drawn by lot, the same lots every time."""

from __future__ import annotations

import random
from typing import Annotated

from msgspec import Meta, Struct

from understudy.errors import InputError
from understudy.faults.catalog import AnyFault


class Chaos(Struct, frozen=True, forbid_unknown_fields=True):
    """A share `rate` of all attempts fails, each with one of `faults`; `seed` decides which and how.

    What is drawn for a site depends on the seed and the site alone, not on what else happens.
    """

    seed: int
    rate: Annotated[float, Meta(ge=0.0, le=1.0)]
    faults: tuple[AnyFault, ...]

    def __post_init__(self) -> None:
        if not 0.0 <= self.rate <= 1.0:
            raise InputError(f"expected a share from 0 to 1, got {self.rate!r}", source="rate")
        if not self.faults:
            raise InputError("expected at least one fault", source="faults")

    def draw(self, step_id: str | None, call: int, attempt: int) -> AnyFault | None:
        """The fault that strikes this attempt, if one does."""
        lot = random.Random(f"{self.seed}:{step_id}:{call}:{attempt}")  # noqa: S311 - a lot, not a secret
        return lot.choice(self.faults) if lot.random() < self.rate else None

    def __str__(self) -> str:
        kinds = ", ".join(fault.type for fault in self.faults)
        return f"chaos: seed={self.seed} rate={self.rate:g} of {kinds}"
