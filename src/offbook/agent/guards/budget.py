"""The guard that ends a run which has cost what it may."""

from __future__ import annotations

from math import isfinite

from offbook.errors import AgentBudgetError
from offbook.messages import Response


class RunBudget:
    """Adds up what the model calls of one run cost, in US dollars and in tokens.

    It stops the next model call, never a tool call that is already paid for.
    """

    def __init__(self, limit_usd: float | None = None, limit_tokens: int | None = None) -> None:
        self._limit_usd, self._limit_tokens = limit_usd, limit_tokens
        self.spent_usd, self.spent_tokens = 0.0, 0

    def spend(self, response: Response) -> None:
        """Add what a model call cost. A cost that is no number counts as nothing: it would make the budget endless."""
        self.spent_usd += response.cost_usd if isfinite(response.cost_usd) else 0.0
        self.spent_tokens += response.usage.total_tokens

    def check(self) -> AgentBudgetError | None:
        """The error to end the run with, if nothing is left."""
        if self._limit_usd is not None and self.spent_usd >= self._limit_usd:
            return AgentBudgetError(spent=self.spent_usd, limit=self._limit_usd, unit="USD")
        if self._limit_tokens is not None and self.spent_tokens >= self._limit_tokens:
            return AgentBudgetError(spent=self.spent_tokens, limit=self._limit_tokens, unit="tokens")
        return None
