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
OnWarning: TypeAlias = Callable[[ContextWarned], None]

REGROWTH_SHARE = 1 / 32
"""By how much a transcript grows until it is looked at again, after nothing in it could be compacted."""


class ContextManager:
    """Has transcripts compacted by a strategy before they outgrow a budget, and warns when they come near it.

    One manager may serve any number of runs, also at the same time: transcripts are told apart by
    identity. They may grow at their end, and each message is counted once.

    Args:
        strategy: how transcripts are made smaller.
        budget_tokens: how large they may be.
        warn_at: the share of the budget at which to warn, or several; none for no warnings.
        on_compact: is told of every compaction.
        on_warning: is told of every warning: once a threshold, until the size is below it again.
        count_tokens: tells how many tokens a message is; without it that is estimated from its length.
        sink: is sent what the other two are told.

    Raises:
        InputError: something that makes no sense.
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
            hint = "such as TieredCompact()"
            raise InputError(f"expected a CompactStrategy, got {strategy!r}", source="strategy", hint=hint)
        self.strategy = strategy
        self.budget_tokens = checked_budget(budget_tokens)
        shares = warn_at if isinstance(warn_at, Iterable) else (warn_at,)
        self._thresholds = sorted({checked_share(share, source="warn_at") for share in shares})
        self._limits = [threshold * budget_tokens for threshold in self._thresholds]
        self._on_compact, self._on_warning = on_compact or _ignore, on_warning or _ignore
        self._count = count_tokens or estimated_tokens
        self._sink = guard_sink(sink)
        self._tallies = LedgerRegistry(self._count)

    def size(self, messages: Sequence[Message]) -> int:
        """How many tokens the messages are: as last reported, and estimated for what has come since."""
        return self._tallies.of(messages).tokens

    def record_usage(self, messages: Sequence[Message], *, prompt_tokens: int, completion_tokens: int = 0) -> None:
        """Take note of what a call with these messages has really used.

        May be called before or after the answer is added to the messages. Where the provider does not
        tell (`prompt_tokens` is 0), the estimate stays; after a compaction, estimates hold again.
        """
        tally = self._tallies.of(messages)
        if prompt_tokens > 0:
            tally.report(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens)

    def maybe_compact(self, messages: Sequence[Message], step_index: int = 0, step_hint: str = "") -> Sequence[Message]:
        """The very same messages if nothing is to be done, else a smaller list to go on with.

        Takes time for new messages only, unless there is something to compact. Where the strategy finds
        nothing, it is asked again after the transcript has grown by a thirty-second, or exceeds the budget.

        Args:
            step_index: the iteration of the agent's loop, for what is told.
            step_hint: which steps are done and which are not, for a summary to tell.
        """
        tally = self._tallies.of(messages)
        self._warn(tally, step_index)
        if not self._is_due(tally):
            return messages
        return self._compacted(messages, tally, step_index=step_index, step_hint=step_hint)

    def _is_due(self, tally: TokenLedger) -> bool:
        if tally.tokens <= self.strategy.starts_at * self.budget_tokens:
            return False
        return tally.tokens > self.budget_tokens or tally.has_grown(REGROWTH_SHARE)

    def _compacted(
        self, messages: Sequence[Message], tally: TokenLedger, *, step_index: int, step_hint: str
    ) -> Sequence[Message]:
        size = self._size_like(tally)
        result = self.strategy.compact(messages, budget_tokens=self.budget_tokens, size=size, step_hint=step_hint)
        if result.phase == 0:
            tally.note_not_compacted()
            self._warn_of_excess(tally, tally.tokens, step_index)
            return messages
        compacted = list(result.messages)
        event = ContextCompacted(
            step_index=step_index,
            strategy=type(self.strategy).__name__,
            phase=result.phase,
            tokens_before=tally.tokens,
            tokens_after=size(compacted),
            messages_before=len(messages),
            messages_after=len(compacted),
            budget_tokens=self.budget_tokens,
        )
        tally.thresholds_told = self._reached(event.tokens_after)
        self._sink.emit(event)
        self._on_compact(event)
        self._warn_of_excess(tally, event.tokens_after, step_index)
        self._tallies.replace(tally, compacted)
        return compacted

    def _warn(self, tally: TokenLedger, step_index: int) -> None:
        """Tell of the thresholds that the size has reached since the last time."""
        told, reached = tally.thresholds_told, self._reached(tally.tokens)
        tally.thresholds_told = reached
        tally.is_excess_told = tally.is_excess_told and tally.tokens > self.budget_tokens
        for threshold in self._thresholds[told:reached]:
            self._emit_warning(ContextWarned(step_index, tally.tokens, self.budget_tokens, threshold))

    def _reached(self, tokens: int) -> int:
        """How many thresholds that size has reached."""
        return bisect_right(self._limits, tokens)

    def _warn_of_excess(self, tally: TokenLedger, tokens: int, step_index: int) -> None:
        """Tell, once, that the size is over the budget even after compaction."""
        is_told, tally.is_excess_told = tally.is_excess_told, tokens > self.budget_tokens
        if tally.is_excess_told and not is_told:
            self._emit_warning(ContextWarned(step_index, tokens, self.budget_tokens, 1.0, is_after_compaction=True))

    def _emit_warning(self, event: ContextWarned) -> None:
        self._sink.emit(event)
        self._on_warning(event)

    def _size_like(self, tally: TokenLedger) -> Size:
        """Sizes in proportion to what was reported, so that those before and after a compaction can be compared."""
        tokens, counted_tokens = tally.tokens, max(tally.counted_tokens, 1)

        def size(messages: Sequence[Message]) -> int:
            return sum(map(self._count, messages)) * tokens // counted_tokens

        return size


def _ignore(event: ContextCompacted | ContextWarned) -> None:
    return None
