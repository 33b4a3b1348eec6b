"""Errors of a run that belong together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from offbook.scenarios.judge.found_error import FoundError, found_errors
from offbook.scenarios.result import ConversationResult, ErrorGroup
from offbook.scenarios.severity import SEVERITIES, worst


def group_by_label(results: Iterable[ConversationResult]) -> tuple[ErrorGroup, ...]:
    """The errors of a run, those with equal labels together, the gravest groups first."""
    by_label: dict[str, list[FoundError]] = {}
    for error in found_errors(results):
        by_label.setdefault(error.label, []).append(error)
    return gravest_first(
        ErrorGroup(label, worst(error.severity for error in errors), joined_conversations(errors), errors[0].reason)
        for label, errors in by_label.items()
    )


def gravest_first(groups: Iterable[ErrorGroup]) -> tuple[ErrorGroup, ...]:
    """The groups by severity; those of one severity stay in their order."""
    return tuple(sorted(groups, key=lambda group: -SEVERITIES.index(group.severity)))


def joined_conversations(errors: Sequence[FoundError]) -> tuple[str, ...]:
    """The conversations of all these errors, each once."""
    return tuple(dict.fromkeys(each for error in errors for each in error.conversations))
