"""The limits of a run: how often each rule may be broken, the budget, and tool errors in a row."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite

from msgspec import Struct

from offbook.agent.errors import AgentBudgetError, ToolExecutionError
from offbook.errors import InputError, ToolResolutionError
from offbook.messages import Response
from offbook.schema_errors import check_int, check_number
from offbook.tools import ToolOutcome

_COUNTS = (
    "max_retries_per_step",
    "max_premature_ends",
    "max_prerequisite_refusals",
    "max_repetition_refusals",
    "max_tool_errors",
)


class GuardPolicy(Struct, frozen=True):
    """How often in a row a model may break each rule before the run ends, and what a run may spend.

    Args:
        max_retries_per_step: answers without a valid tool call.
        max_premature_ends: attempts to end the run before its required steps.
        max_prerequisite_refusals: calls of a tool before its prerequisites.
        max_same_calls: how often the same call may have the same outcome before it is refused.
        max_repetition_refusals: calls that are refused for repetition.
        max_tool_errors: turns in which a tool failed.
        budget_usd, budget_tokens: the limits on the model calls of one run; None for no limit.
        tool_timeout_s: the timeout of tools that have none of their own; None for no limit.
        rescue: whether to run calls that a model wrote as text.

    Raises:
        InputError: a field is not a number, or out of range.
    """

    max_retries_per_step: int = 3
    max_premature_ends: int = 3
    max_prerequisite_refusals: int = 3
    max_same_calls: int = 5
    max_repetition_refusals: int = 3
    max_tool_errors: int = 2
    budget_usd: float | None = None
    budget_tokens: int | None = None
    tool_timeout_s: float | None = None
    rescue: bool = True

    def __post_init__(self) -> None:
        for name in (*_COUNTS, "max_same_calls"):
            check_int(getattr(self, name), source=name)
        for name in _COUNTS:
            if not getattr(self, name) >= 0:
                raise InputError(f"expected at least 0, got {getattr(self, name)!r}", source=name)
        for name in ("max_same_calls", "budget_usd", "budget_tokens", "tool_timeout_s"):
            value = getattr(self, name)
            if value is None:
                continue
            check_number(value, source=name)
            if not value > 0:
                raise InputError(f"expected more than 0, got {value!r}", source=name)


class RunBudget:
    """Adds up the cost of the model calls of one run, in US dollars and in tokens.

    A spent budget prevents the next model call, never a tool call that has been paid for.
    """

    def __init__(self, limit_usd: float | None = None, limit_tokens: int | None = None) -> None:
        self._limit_usd, self._limit_tokens = limit_usd, limit_tokens
        self.spent_usd, self.spent_tokens = 0.0, 0

    def spend(self, response: Response) -> None:
        """Add the cost of a model call. A cost that is not finite counts as 0: NaN would disable the budget."""
        self.spent_usd += response.cost_usd if isfinite(response.cost_usd) else 0.0
        self.spent_tokens += response.usage.total_tokens

    def check(self) -> AgentBudgetError | None:
        """Return the error that ends the run, if the budget is spent."""
        if self._limit_usd is not None and self.spent_usd >= self._limit_usd:
            return AgentBudgetError(spent=self.spent_usd, limit=self._limit_usd, unit="USD")
        if self._limit_tokens is not None and self.spent_tokens >= self._limit_tokens:
            return AgentBudgetError(spent=self.spent_tokens, limit=self._limit_tokens, unit="tokens")
        return None


class ToolErrors:
    """Counts turns in a row in which a tool failed; a turn without a failure resets the count.

    A ToolResolutionError does not count: the tool works, and the model may try other arguments.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.failures = 0

    def record(self, outcomes: Iterable[ToolOutcome]) -> ToolExecutionError | None:
        """Record the outcomes of a turn, and return the error that ends the run, if too many turns failed."""
        failed = None
        for outcome in outcomes:
            if outcome.error is not None and not isinstance(outcome.error, ToolResolutionError):
                failed = outcome
                break
        if failed is None or failed.error is None:
            self.failures = 0
            return None
        self.failures += 1
        return ToolExecutionError(failed.call.tool, failed.error) if self.failures > self.limit else None
