"""The size of transcripts in tokens: estimated for each message, corrected by reported usage."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import ceil
from typing import TypeAlias

from offbook.agent.message import Message, MessageRole

CountTokens: TypeAlias = Callable[[Message], int]
Size: TypeAlias = Callable[[Sequence[Message]], int]

CHARS_PER_TOKEN = 4
TOKENS_PER_MESSAGE = 4
"""What a message costs beside its text: its role, and the marks around it."""


def estimated_tokens(message: Message) -> int:
    """About how many tokens a message is, from the characters of its content, tool names and arguments."""
    chars = len(message.content)
    for call in message.tool_calls:
        chars += len(call.name) + len(str(call.args))
    return TOKENS_PER_MESSAGE + ceil(chars / CHARS_PER_TOKEN)


class TokenLedger:
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

    def __init__(
        self, count: CountTokens, *, predecessor: TokenLedger | None = None, is_compacted: bool = False
    ) -> None:
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

    def note_not_compacted(self) -> None:
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


MAX_HELD = 64


class LedgerRegistry:
    """One tally a transcript.

    A transcript is not kept alive for its tally where it can be referred to weakly. A list cannot,
    and so the `HELD` lists that were last asked for are held; an older one is counted anew.
    """

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._weak: dict[int, tuple[weakref.ref[Sequence[Message]], TokenLedger]] = {}
        self._held: OrderedDict[int, tuple[Sequence[Message], TokenLedger]] = OrderedDict()

    def of(self, messages: Sequence[Message]) -> TokenLedger:
        """The tally of a transcript, up to date."""
        tally = self._known(id(messages))
        if tally is None:
            tally = self._keep(messages, TokenLedger(self._count, predecessor=self._predecessor(messages)))
        tally.update(messages)
        return tally

    def replace(self, tally: TokenLedger, compacted: Sequence[Message]) -> None:
        """Go over to what a transcript was compacted to: what was said of the one is said of the other.

        That holds for a new transcript that begins with the compacted messages, too. The old one is
        counted anew if it is met again, as it may have taken them in.
        """
        tally.restart()
        self._keep(compacted, TokenLedger(self._count, predecessor=tally, is_compacted=True))

    def _known(self, key: int) -> TokenLedger | None:
        if key in self._weak:
            return self._weak[key][1]
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][1]

    def _keep(self, messages: Sequence[Message], tally: TokenLedger) -> TokenLedger:
        key = id(messages)
        try:
            self._weak[key] = weakref.ref(messages, lambda _: self._weak.pop(key)), tally
        except TypeError:
            self._held[key] = messages, tally
            if len(self._held) > MAX_HELD:
                self._held.popitem(last=False)
        return tally

    def _predecessor(self, messages: Sequence[Message]) -> TokenLedger | None:
        """The tally of the compacted messages that a transcript begins with, if it does."""
        held = reversed(self._held.values())
        return next((tally for start, tally in held if tally.is_compacted and _begins_with(messages, start)), None)


def _begins_with(messages: Sequence[Message], start: Sequence[Message]) -> bool:
    """Whether the messages begin with those others, as the first and the last of them tell."""
    return 0 < len(start) <= len(messages) and messages[0] is start[0] and messages[len(start) - 1] is start[-1]
