"""How grave a failure is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

Severity = Literal["low", "medium", "high", "critical"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


def worst(severities: Iterable[Severity]) -> Severity:
    """The gravest of them, of which there must be one."""
    return max(severities, key=SEVERITIES.index)
