"""The context manager: keeps the messages that are sent to a model within a token budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from offbook.agent.context.strategies import CompactStrategy, checked_budget, checked_share
from offbook.agent.context.token_ledger import CountTokens, LedgerRegistry, Size, TokenLedger, estimated_tokens
from offbook.agent.message import Message
from offbook.errors import InputError
from offbook.events import NULL_SINK, ContextCompacted, ContextWarned, Sink, guard_sink

OnCompact: TypeAlias = Callable[[ContextCompacted], None]
OnWarning: TypeAlias = Callable[[ContextWarned], str | None]

REGROWTH_SHARE = 1 / 32
"""How much a transcript must grow before compaction is tried again, after nothing could be compacted."""


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
        self.budget_tokens = checked_budget(budget_tokens)
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
        self._warn(ledger, step_index)
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

    def _warn(self, ledger: TokenLedger, step_index: int) -> None:
        """Warn of the thresholds that the size has newly reached."""
        warned, reached = ledger.thresholds_warned, self._reached(ledger.tokens)
        ledger.thresholds_warned = reached
        ledger.is_excess_warned = ledger.is_excess_warned and ledger.tokens > self.budget_tokens
        for threshold in self._thresholds[warned:reached]:
            self._emit_warning(ledger, ContextWarned(step_index, ledger.tokens, self.budget_tokens, threshold))

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
