"""An account of an exploration: all that its reports need to know."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from offbook.explore.case import Case
from offbook.explore.comparison import Comparison, compared
from offbook.explore.exploration import Exploration

Reproduce = Callable[[Case], str]
"""Gives the command that runs a case again."""


class Account(Struct, frozen=True, kw_only=True):
    """An exploration, how its cases are run again, and what differs from an earlier one, if there is one.

    What was cut off is not complete.
    """

    exploration: Exploration
    reproduce: Reproduce
    comparison: Comparison | None = None
    is_complete: bool = True


class Manner(Struct, frozen=True):
    """How explorations are told: by which commands their cases run again, and beside which earlier one."""

    reproduce: Reproduce
    before: Exploration | None = None

    def account(self, exploration: Exploration, *, is_complete: bool = True) -> Account:
        """The account of an exploration in this manner."""
        return Account(
            exploration=exploration,
            reproduce=self.reproduce,
            comparison=None if self.before is None else compared(self.before, exploration),
            is_complete=is_complete,
        )
