"""What is known of one transcript: how large it is, and what was said about that already."""

from __future__ import annotations

from collections.abc import Sequence

from offbook.agent.context.size import CountTokens
from offbook.agent.message import Message, MessageRole


class Tally:
    """Counts the messages of one transcript, each once.

    Attributes:
        counted_tokens: what counting gave.
        tokens: what was reported of the last call plus what was counted since.
        thresholds_told: how many thresholds the size is known to have reached.
        is_excess_told: whether it is known that compaction did not help enough.
        is_compacted: whether the transcript is the result of a compaction.

    Args:
        predecessor: the tally of the transcript that this one goes on from: what was told of it need not be told again.
    """

    __slots__ = (
        "_awaits_answer",
        "_count",
        "_messages",
        "_unhelped_messages",
        "_unhelped_tokens",
        "counted_tokens",
        "is_compacted",
        "is_excess_told",
        "thresholds_told",
        "tokens",
    )

    def __init__(self, count: CountTokens, *, predecessor: Tally | None = None, is_compacted: bool = False) -> None:
        self._count = count
        self.is_compacted = is_compacted
        self.thresholds_told: int = 0 if predecessor is None else predecessor.thresholds_told
        self.is_excess_told: bool = False if predecessor is None else predecessor.is_excess_told
        self.restart()

    def restart(self) -> None:
        """Forget the counts and the report: the messages have become others."""
        self._messages = self.counted_tokens = self.tokens = 0
        self._unhelped_messages = self._unhelped_tokens = 0
        self._awaits_answer = False

    def update(self, messages: Sequence[Message]) -> None:
        """Count the messages that have come since the last time; all of them, if some have gone."""
        if len(messages) < self._messages:
            self.restart()
        for message in messages[self._messages :]:
            self._add(message)
        self._messages = len(messages)

    def report(self, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Take what a call with these messages used for their size.

        The messages of the answer, if they follow, are the completion and add nothing.
        """
        self.tokens = prompt_tokens + completion_tokens
        self._awaits_answer = completion_tokens > 0

    def note_unhelped(self) -> None:
        """Remember that nothing could be compacted at this size."""
        self._unhelped_messages, self._unhelped_tokens = self._messages, self.tokens

    def has_grown(self, share: float) -> bool:
        """Whether messages or tokens are more by that share than when nothing could be compacted."""
        more = 1 + share
        return self._messages >= more * self._unhelped_messages or self.tokens >= more * self._unhelped_tokens

    def _add(self, message: Message) -> None:
        tokens = self._count(message)
        self.counted_tokens += tokens
        if self._awaits_answer and message.role == MessageRole.ASSISTANT:
            return
        self._awaits_answer = False
        self.tokens += tokens
