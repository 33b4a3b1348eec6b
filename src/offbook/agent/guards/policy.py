"""How patient the guards are."""

from __future__ import annotations

from msgspec import Struct

from offbook.argument import check_number, check_whole_number
from offbook.errors import InputError

_COUNTS = (
    "max_retries_per_step",
    "max_premature_ends",
    "max_prerequisite_refusals",
    "max_repetition_refusals",
    "max_tool_errors",
)


class GuardPolicy(Struct, frozen=True):
    """How often a model may break each rule in a row before the run ends, and what a run may use.

    Args:
        max_retries_per_step: answers that are no valid tool call.
        max_premature_ends: attempts to end the run before its required steps.
        max_prerequisite_refusals: calls of a tool before what it needs.
        max_same_calls: how often the same call may have the same outcome before it is refused.
        max_repetition_refusals: calls refused for that.
        max_tool_errors: turns in which a tool failed.
        budget_usd, budget_tokens: what the model calls of one run may cost; None for no limit.
        tool_timeout_s: how long a tool may take that has no timeout of its own; None for no limit.
        rescue: whether calls that a model wrote as text are made all the same.

    Raises:
        InputError: a field is no number, or out of its range.
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
            check_whole_number(getattr(self, name), source=name)
        for name in _COUNTS:
            if not getattr(self, name) >= 0:
                raise InputError(f"expected zero or more, got {getattr(self, name)!r}", source=name)
        for name in ("max_same_calls", "budget_usd", "budget_tokens", "tool_timeout_s"):
            value = getattr(self, name)
            if value is None:
                continue
            check_number(value, source=name)
            if not value > 0:
                raise InputError(f"expected more than zero, got {value!r}", source=name)
