"""The sizes of transcripts in tokens: estimated for each message, corrected by reported usage."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TypeAlias

from offbook.agent.message import Message, MessageRole
from offbook.text import estimate_tokens

CountTokens: TypeAlias = Callable[[Message], int]
Size: TypeAlias = Callable[[Sequence[Message]], int]

TOKENS_PER_MESSAGE = 4
"""The tokens of a message beside its text: its role and its delimiters."""


def estimated_tokens(message: Message) -> int:
    """Return about how many tokens a message has, from the length of its content, tool names and arguments."""
    chars = len(message.content)
    for call in message.tool_calls:
        chars += len(call.name) + len(str(call.args))
    return TOKENS_PER_MESSAGE + estimate_tokens(chars)


class TokenLedger:
    """The size of one transcript, of which each message is counted once.

    Attributes:
        counted_tokens: the sum of the counts.
        tokens: the usage reported for the last call, plus the counts of later messages.
        thresholds_warned: how many thresholds a warning was emitted for.
        is_excess_warned: whether a warning was emitted that the size exceeds the budget after compaction.
        is_compacted: whether the transcript is the result of a compaction.
        notices: texts for the model that are not in the transcript yet.

    Args:
        predecessor: the ledger of the transcript that this one continues; its warnings are not repeated, and its
            notices are those of both.
    """

    __slots__ = (
        "_awaits_answer",
        "_count",
        "_messages",
        "_stuck_messages",
        "_stuck_tokens",
        "counted_tokens",
        "is_compacted",
        "is_excess_warned",
        "notices",
        "thresholds_warned",
        "tokens",
    )

    def __init__(
        self, count: CountTokens, *, predecessor: TokenLedger | None = None, is_compacted: bool = False
    ) -> None:
        self._count = count
        self.is_compacted = is_compacted
        self.thresholds_warned: int = 0 if predecessor is None else predecessor.thresholds_warned
        self.is_excess_warned: bool = False if predecessor is None else predecessor.is_excess_warned
        self.notices: list[str] = [] if predecessor is None else predecessor.notices
        self.restart()

    def restart(self) -> None:
        """Reset the counts and the reported usage, because the messages were replaced."""
        self._messages = self.counted_tokens = self.tokens = 0
        self._stuck_messages = self._stuck_tokens = 0
        self._awaits_answer = False

    def update(self, messages: Sequence[Message]) -> None:
        """Count the messages since the last update, or all of them if the transcript is shorter now."""
        if len(messages) < self._messages:
            self.restart()
        for message in messages[self._messages :]:
            self._add(message)
        self._messages = len(messages)

    def report(self, *, prompt_tokens: int, completion_tokens: int) -> None:
        """Set the size to the usage of a call with these messages.

        The messages of its answer, if they follow, are part of the completion and add nothing.
        """
        self.tokens = prompt_tokens + completion_tokens
        self._awaits_answer = completion_tokens > 0

    def note_not_compacted(self) -> None:
        """Record that nothing could be compacted at this size."""
        self._stuck_messages, self._stuck_tokens = self._messages, self.tokens

    def has_grown(self, share: float) -> bool:
        """Whether messages or tokens have grown by that share since nothing could be compacted."""
        factor = 1 + share
        return self._messages >= factor * self._stuck_messages or self.tokens >= factor * self._stuck_tokens

    def _add(self, message: Message) -> None:
        tokens = self._count(message)
        self.counted_tokens += tokens
        if self._awaits_answer and message.role == MessageRole.ASSISTANT:
            return
        self._awaits_answer = False
        self.tokens += tokens


MAX_HELD = 64


class LedgerRegistry:
    """The ledgers of transcripts, one each.

    The registry holds a weak reference to a transcript where it can. A list allows none, so the registry
    holds the last `MAX_HELD` lists; an older one is counted again.
    """

    def __init__(self, count: CountTokens) -> None:
        self._count = count
        self._weak: dict[int, tuple[weakref.ref[Sequence[Message]], TokenLedger]] = {}
        self._held: OrderedDict[int, tuple[Sequence[Message], TokenLedger]] = OrderedDict()

    def of(self, messages: Sequence[Message]) -> TokenLedger:
        """Return the ledger of a transcript, updated."""
        ledger = self._known(id(messages))
        if ledger is None:
            ledger = self._keep(messages, TokenLedger(self._count, predecessor=self._predecessor(messages)))
        ledger.update(messages)
        return ledger

    def replace(self, ledger: TokenLedger, compacted: Sequence[Message]) -> None:
        """Continue with the messages that a transcript was compacted to, without repeating its warnings.

        The same holds for a new transcript that begins with the compacted messages. The old transcript is
        counted again if it is used again, because it may now contain them.
        """
        ledger.restart()
        self._keep(compacted, TokenLedger(self._count, predecessor=ledger, is_compacted=True))

    def _known(self, key: int) -> TokenLedger | None:
        if key in self._weak:
            return self._weak[key][1]
        if key not in self._held:
            return None
        self._held.move_to_end(key)
        return self._held[key][1]

    def _keep(self, messages: Sequence[Message], ledger: TokenLedger) -> TokenLedger:
        key = id(messages)
        try:
            self._weak[key] = weakref.ref(messages, lambda _: self._weak.pop(key)), ledger
        except TypeError:
            self._held[key] = messages, ledger
            if len(self._held) > MAX_HELD:
                self._held.popitem(last=False)
        return ledger

    def _predecessor(self, messages: Sequence[Message]) -> TokenLedger | None:
        """Return the ledger of the compacted messages that a transcript begins with, if it does."""
        held = reversed(self._held.values())
        return next((ledger for start, ledger in held if ledger.is_compacted and _begins_with(messages, start)), None)


def _begins_with(messages: Sequence[Message], start: Sequence[Message]) -> bool:
    """Whether `messages` begins with `start`, judged by the first and last message of `start`."""
    return 0 < len(start) <= len(messages) and messages[0] is start[0] and messages[len(start) - 1] is start[-1]
