"""A limit on what all calls together may cost."""

from math import isfinite

from offbook.errors import BudgetExceededError, InputError


class Budget:
    """Adds up costs in US dollars. A call is refused once the limit is reached; calls under way still count."""

    def __init__(self, limit_usd: float | None) -> None:
        if limit_usd is not None and not limit_usd >= 0:
            raise InputError(f"expected US dollars of zero or more, got {limit_usd!r}", source="budget_usd")
        self.limit_usd = limit_usd
        self.spent_usd = 0.0

    def check(self) -> None:
        """Raises BudgetExceededError if nothing is left."""
        if self.limit_usd is not None and self.spent_usd >= self.limit_usd:
            raise BudgetExceededError(spent_usd=self.spent_usd, limit_usd=self.limit_usd)

    def spend(self, cost_usd: float) -> None:
        """Add a cost. One that is no number counts as nothing: it would make the budget endless."""
        self.spent_usd += cost_usd if isfinite(cost_usd) else 0.0
