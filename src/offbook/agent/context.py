"""The context manager: counts the tokens of a transcript, and keeps the messages that are sent within a budget."""

from __future__ import annotations

import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from offbook.agent.compaction import CompactStrategy, Size, checked_count, checked_share
from offbook.agent.message import Message, MessageRole
from offbook.errors import InputError
from offbook.events import NULL_SINK, ContextCompacted, ContextWarned, Sink, guard_sink
from offbook.text import estimate_tokens

CountTokens: TypeAlias = Callable[[Message], int]

TOKENS_PER_MESSAGE = 4
"""The tokens of a message in addition to its text, for its role and delimiters."""


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


OnCompact: TypeAlias = Callable[[ContextCompacted], None]
OnWarning: TypeAlias = Callable[[ContextWarned], str | None]

REGROWTH_SHARE = 1 / 32
"""The share by which a transcript must grow before compaction is tried again after it found nothing."""


class ContextManager:
    """Compacts transcripts with a strategy before they exceed a budget, and warns when they come close to it.

    One manager can serve any number of runs, also concurrently: transcripts are distinguished by identity.
    They may grow at their end; each message is counted once.

    Args:
        strategy: how transcripts are compacted.
        budget_tokens: the size that they may have.
        warn_at: the share of the budget at which to warn, or several shares; empty for no warnings.
        on_compact: called with every ContextCompacted event.
        on_warning: called with every ContextWarned event: once per threshold, until the size is below it again. The
            model gets the text that it returns, if it returns one.
        count_tokens: returns the tokens of a message; by default they are estimated from its length.
        sink: gets both kinds of events.

    Raises:
        InputError: an argument has the wrong type, or a number is out of range.
    """

    def __init__(
        self,
        strategy: CompactStrategy,
        budget_tokens: int,
        *,
        warn_at: float | Iterable[float] = 0.8,
        on_compact: OnCompact | None = None,
        on_warning: OnWarning | None = None,
        count_tokens: CountTokens | None = None,
        sink: Sink = NULL_SINK,
    ) -> None:
        if not isinstance(strategy, CompactStrategy):
            hint = "for example TieredCompact()"
            raise InputError(f"expected a CompactStrategy, got {strategy!r}", source="strategy", hint=hint)
        self.strategy = strategy
        self.budget_tokens = checked_count(budget_tokens, source="budget_tokens")
        shares = warn_at if isinstance(warn_at, Iterable) else (warn_at,)
        self._thresholds = sorted({checked_share(share, source="warn_at") for share in shares})
        self._limits = [threshold * budget_tokens for threshold in self._thresholds]
        self._on_compact, self._on_warning = on_compact or _ignore, on_warning or _ignore
        self._count = count_tokens or estimated_tokens
        self._sink = guard_sink(sink)
        self._ledgers = LedgerRegistry(self._count)

    def size(self, messages: Sequence[Message]) -> int:
        """Return the tokens of the messages: the last reported usage, plus an estimate for later messages."""
        return self._ledgers.of(messages).tokens

    def record_usage(self, messages: Sequence[Message], *, prompt_tokens: int, completion_tokens: int = 0) -> None:
        """Record the reported usage of a call with these messages.

        May be called before or after the answer is added to the messages. The estimate stays if the provider
        reports nothing (`prompt_tokens` is 0), and applies again after a compaction.
        """
        ledger = self._ledgers.of(messages)
        if prompt_tokens > 0:
            ledger.report(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)

    def maybe_compact(self, messages: Sequence[Message], step_index: int = 0, step_hint: str = "") -> Sequence[Message]:
        """Return `messages` itself if nothing is to be done, otherwise a smaller list to continue with.

        Takes time in proportion to the new messages, unless there is something to compact. A strategy that finds
        nothing is called again after the transcript has grown by a thirty-second, or exceeds the budget.

        Args:
            step_index: the iteration of the agent's loop, for events.
            step_hint: which steps have been done, for a summary.
        """
        ledger = self._ledgers.of(messages)
        warned, reached = ledger.thresholds_warned, self._reached(ledger.tokens)
        ledger.thresholds_warned = reached
        ledger.is_excess_warned = ledger.is_excess_warned and ledger.tokens > self.budget_tokens
        for threshold in self._thresholds[warned:reached]:
            self._emit_warning(ledger, ContextWarned(step_index, ledger.tokens, self.budget_tokens, threshold))
        if not self._is_due(ledger):
            return messages
        return self._compact(messages, ledger, step_index=step_index, step_hint=step_hint)

    def take_notices(self, messages: Sequence[Message]) -> list[str]:
        """Return, once, the texts for the model that `on_warning` has returned for these messages."""
        notices = self._ledgers.of(messages).notices
        taken = list(notices)
        notices.clear()
        return taken

    def _is_due(self, ledger: TokenLedger) -> bool:
        if ledger.tokens <= self.strategy.starts_at * self.budget_tokens:
            return False
        return ledger.tokens > self.budget_tokens or ledger.has_grown(REGROWTH_SHARE)

    def _compact(
        self, messages: Sequence[Message], ledger: TokenLedger, *, step_index: int, step_hint: str
    ) -> Sequence[Message]:
        size = self._size_like(ledger)
        result = self.strategy.compact(messages, budget_tokens=self.budget_tokens, size=size, step_hint=step_hint)
        if result.phase == 0:
            ledger.note_not_compacted()
            self._warn_of_excess(ledger, ledger.tokens, step_index)
            return messages
        compacted = list(result.messages)
        event = ContextCompacted(
            step_index=step_index,
            strategy=type(self.strategy).__name__,
            phase=result.phase,
            tokens_before=ledger.tokens,
            tokens_after=size(compacted),
            messages_before=len(messages),
            messages_after=len(compacted),
            budget_tokens=self.budget_tokens,
        )
        ledger.thresholds_warned = self._reached(event.tokens_after)
        self._sink.emit(event)
        self._on_compact(event)
        self._warn_of_excess(ledger, event.tokens_after, step_index)
        self._ledgers.replace(ledger, compacted)
        return compacted

    def _reached(self, tokens: int) -> int:
        """Return how many thresholds that size reaches."""
        return bisect_right(self._limits, tokens)

    def _warn_of_excess(self, ledger: TokenLedger, tokens: int, step_index: int) -> None:
        """Warn, once, that the size exceeds the budget even after compaction."""
        was_warned, ledger.is_excess_warned = ledger.is_excess_warned, tokens > self.budget_tokens
        if ledger.is_excess_warned and not was_warned:
            warning = ContextWarned(step_index, tokens, self.budget_tokens, 1.0, is_after_compaction=True)
            self._emit_warning(ledger, warning)

    def _emit_warning(self, ledger: TokenLedger, event: ContextWarned) -> None:
        self._sink.emit(event)
        notice = self._on_warning(event)
        if isinstance(notice, str) and notice:
            ledger.notices.append(notice)

    def _size_like(self, ledger: TokenLedger) -> Size:
        """Return a size function scaled to the reported usage, to compare sizes before and after a compaction."""
        tokens, counted_tokens = ledger.tokens, max(ledger.counted_tokens, 1)

        def size(messages: Sequence[Message]) -> int:
            return sum(map(self._count, messages)) * tokens // counted_tokens

        return size


def _ignore(event: ContextCompacted | ContextWarned) -> None:
    return None
