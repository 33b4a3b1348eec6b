"""What went wrong in a run, each thing once, with the conversations in which it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from offbook.scenarios.result import ConversationResult, Failure, Judgement
from offbook.scenarios.severity import SEVERITIES, Severity

FAILURE_SEVERITY: Severity = "high"
"""The severity of what failed a conversation without a judge's saying how grave it is."""


class FoundError(Struct, frozen=True):
    """A failure that judges found, or that a conversation did not pass for.

    `label` is what kind of failure it is, `conversations` are the ids of those in which it happened.
    """

    label: str
    reason: str
    severity: Severity
    conversations: tuple[str, ...]


def found_errors(results: Iterable[ConversationResult]) -> tuple[FoundError, ...]:
    """All errors, in the order in which they were found; equal ones are one, at the place of the first.

    A failure of the kind `severity` tells of a judgement, which counts itself.
    """
    conversations: dict[tuple[str, str, Severity], dict[str, None]] = {}
    for result in results:
        for found in _of_conversation(result):
            conversations.setdefault(found, {})[result.id] = None
    return tuple(FoundError(*found, tuple(ids)) for found, ids in conversations.items())


def _of_conversation(result: ConversationResult) -> Iterator[tuple[str, str, Severity]]:
    for judgement in result.judgements:
        if judgement.severity is not None and judgement.error is None:
            yield _label_of(judgement), judgement.reason, _severity_of(judgement)
    for failure in result.failures:
        if failure.kind != "severity":
            yield _kind_of(failure), failure.reason, FAILURE_SEVERITY


def _label_of(judgement: Judgement) -> str:
    return f"{judgement.metric}: {judgement.value}"


def _kind_of(failure: Failure) -> str:
    return f"{failure.kind}: {failure.reason}"


def _severity_of(judgement: Judgement) -> Severity:
    return judgement.severity if judgement.severity in SEVERITIES else FAILURE_SEVERITY
