"""Keeps a transcript within a token budget: the context manager, and the compaction strategies that it calls."""

from __future__ import annotations

import json
import re
import weakref
from abc import ABC, abstractmethod
from bisect import bisect_left, bisect_right
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from offbook.errors import InputError
from offbook.events import NULL_SINK, ContextCompacted, ContextWarned, Sink, guard_sink
from offbook.text import estimate_tokens

Size: TypeAlias = Callable[[Sequence[Message]], int]


class CompactResult(Struct, frozen=True):
    """The result of a compaction. `phase` is the last phase that had an effect; 0 if nothing changed."""

    messages: Sequence[Message]
    phase: int = 0


class CompactStrategy(ABC):
    """A way to make a transcript smaller. Strategies have no state and can be shared.

    `starts_at` is the share of the budget above which `compact` is called.
    """

    starts_at: float = 1.0

    @abstractmethod
    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        """Return a smaller transcript, or the same one if nothing can be dropped.

        Never raises, and never changes `messages`.

        Args:
            size: returns the tokens of a sequence of messages.
            step_hint: which steps have been done, for a summary.
        """


class NoCompact(CompactStrategy):
    """Never compacts."""

    starts_at = inf

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        return CompactResult(messages)


def checked_count(count: int, *, source: str) -> int:
    """Return the number. Raises InputError if it is not a positive integer."""
    if type(count) is not int or count < 1:
        raise InputError(f"expected a positive integer, got {count!r}", source=source)
    return count


def checked_share(share: float, *, source: str) -> float:
    """Return the share of the budget. Raises InputError if it is not above 0 and at most 1."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= 1:
        raise InputError(f"expected a share of the budget, above 0 and at most 1, got {share!r}", source=source)
    return share


NUDGES = frozenset(
    {
        MessageType.RETRY_NUDGE,
        MessageType.STEP_NUDGE,
        MessageType.PREREQUISITE_NUDGE,
        MessageType.REPETITION_NUDGE,
    }
)


class Unit(Struct, frozen=True):
    """A call with its reasoning and results, an answer with the nudge after it, or a single message.

    A pinned unit is a system prompt or the first user message, and is never dropped.
    """

    messages: tuple[Message, ...]
    is_pinned: bool = False

    @property
    def is_refused(self) -> bool:
        """Whether it has nudges: a turn with a refused call is refused as a whole."""
        return any(is_nudge(message) for message in self.messages)

    @property
    def is_warning(self) -> bool:
        """Whether it is a warning about the size of an earlier transcript."""
        return self.messages[0].metadata.type == MessageType.CONTEXT_WARNING


def split_units(messages: Iterable[Message]) -> list[Unit]:
    """Split a transcript into units, in order; `join_units` is the inverse. Takes linear time."""
    groups: list[list[Message]] = []
    for message in messages:
        if groups and _belongs(message, groups[-1]):
            groups[-1].append(message)
        else:
            groups.append([message])
    first_user = next((group[0] for group in groups if _is_users(group[0])), None)
    return [Unit(tuple(group), _is_system(group[0]) or group[0] is first_user) for group in groups]


def join_units(units: Iterable[Unit]) -> list[Message]:
    """Return the messages of the units, in order."""
    return [message for unit in units for message in unit.messages]


def first_recent(units: Sequence[Unit], keep_recent: int) -> int:
    """Return the position of the first of the last `keep_recent` units; pinned ones and warnings are not counted."""
    loose = [position for position, unit in enumerate(units) if not unit.is_pinned and not unit.is_warning]
    return loose[-keep_recent] if len(loose) >= keep_recent else 0


def is_nudge(message: Message) -> bool:
    return message.metadata.type in NUDGES


def _belongs(message: Message, group: Sequence[Message]) -> bool:
    """Whether the message belongs to the preceding group."""
    last = group[-1]
    if message.role == MessageRole.TOOL:
        return bool(last.tool_calls) or (last.role == MessageRole.TOOL and len(group) > 1)
    if message.role == MessageRole.ASSISTANT:
        return last.metadata.type == MessageType.REASONING
    return is_nudge(message) and (last.role == MessageRole.ASSISTANT or is_nudge(last))


def _is_system(message: Message) -> bool:
    return message.role == MessageRole.SYSTEM and not is_nudge(message)


def _is_users(message: Message) -> bool:
    return message.role == MessageRole.USER and not is_nudge(message) and message.metadata.type not in _NOTES


_NOTES = (MessageType.SUMMARY, MessageType.CONTEXT_WARNING)


class SlidingWindowCompact(CompactStrategy):
    """Keeps system prompts, the first user message and the last units, once `threshold` of the budget is exceeded.

    Args:
        keep_recent: how many units are kept, at least 1. A call and its results are one unit.
        threshold: a share of the budget.

    Raises:
        InputError: a number is out of range.
    """

    def __init__(self, keep_recent: int = 8, *, threshold: float = 0.75) -> None:
        self._keep_recent = checked_count(keep_recent, source="keep_recent")
        self.starts_at = checked_share(threshold, source="threshold")

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        if size(messages) <= self.starts_at * budget_tokens:
            return CompactResult(messages)
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        window = [unit for unit in units[:recent] if unit.is_pinned] + units[recent:]
        return CompactResult(messages) if len(window) == len(units) else CompactResult(join_units(window), phase=1)


_SUMMARY_TEXT = re.compile(
    r"Earlier messages left out here to save space: (\d+)\. Tool calls in them: (\{.*\})\.(?:\n((?s:.*)))?"
)


class TranscriptSummary(Struct, frozen=True):
    """The number of dropped messages, the number of calls of each tool in them, and the steps that have been done."""

    left_out: int
    calls: Mapping[str, int]
    step_hint: str = ""

    @classmethod
    def read(cls, message: Message) -> TranscriptSummary | None:
        """Parse the summary in a message, or return None for a message without one or another program's."""
        match = _SUMMARY_TEXT.fullmatch(message.content) if message.metadata.type == MessageType.SUMMARY else None
        if match is None:
            return None
        left_out, calls, step_hint = match.groups(default="")
        return cls(int(left_out), json.loads(calls), step_hint)

    @classmethod
    def of(cls, dropped: Iterable[Message], *, step_hint: str) -> TranscriptSummary:
        """Return the summary of messages, including earlier summaries; their hint is used if `step_hint` is empty."""
        left_out, calls, older_hint = 0, Counter[str](), ""
        for message in dropped:
            older = cls.read(message)
            if older is not None:
                left_out, older_hint = left_out + older.left_out, older.step_hint
                calls.update(older.calls)
                continue
            left_out += 1
            if message.metadata.type == MessageType.TOOL_RESULT and message.tool_name is not None:
                calls[message.tool_name] += 1
        return cls(left_out, calls, step_hint or older_hint)

    def to_message(self, *, step_index: int | None) -> Message:
        """Return the message to the model."""
        calls = json.dumps(self.calls)
        text = f"Earlier messages left out here to save space: {self.left_out}. Tool calls in them: {calls}."
        content = f"{text}\n{self.step_hint}" if self.step_hint else text
        return Message(MessageRole.USER, content, MessageMeta(MessageType.SUMMARY, step_index))


Phase: TypeAlias = Callable[[Sequence[Unit]], Sequence[Unit]]

HEAD_CHARS = 200
LONG_CHARS = 300
"""Results above this length are shortened: the first `HEAD_CHARS` and the note about the rest are always shorter."""


class TieredCompact(CompactStrategy):
    """Compacts old units in three phases; each runs only while the size exceeds its threshold.

    1. Drop nudges and the turns that they answered, and warnings about the size.
    2. Also shorten long tool results, and drop reasoning.
    3. Also drop whole units, oldest first, until the size is at most the first threshold, and put one
       summary in their place.

    A phase that would not make the transcript smaller is skipped. System prompts, the first user message and
    the recent units are never changed, even if they exceed the budget.

    Args:
        keep_recent: how many units at the end are never changed, at least 1.
        phase_thresholds: three shares of the budget, in ascending order.

    Raises:
        InputError: a number is out of range.
    """

    def __init__(self, keep_recent: int = 2, phase_thresholds: tuple[float, float, float] = (0.75, 0.85, 0.95)) -> None:
        self._keep_recent = checked_count(keep_recent, source="keep_recent")
        shares = tuple(checked_share(share, source="phase_thresholds") for share in phase_thresholds)
        if len(shares) != 3 or list(shares) != sorted(shares):
            raise InputError(
                f"expected three shares in ascending order, got {phase_thresholds!r}", source="phase_thresholds"
            )
        self._thresholds = shares
        self.starts_at = self._thresholds[0]

    def compact(
        self, messages: Sequence[Message], *, budget_tokens: int, size: Size, step_hint: str = ""
    ) -> CompactResult:
        tokens = size(messages)
        old, recent = self._split(messages)

        def size_of(units: Sequence[Unit]) -> int:
            return size([*join_units(units), *recent])

        def is_small(units: Sequence[Unit]) -> bool:
            return size_of(units) <= self.starts_at * budget_tokens

        phases: tuple[Phase, ...] = (_drop_refused, _shorten_units, partial(_summarise, is_small, step_hint))
        reached = 0
        for phase, (threshold, compact_units) in enumerate(zip(self._thresholds, phases, strict=True), start=1):
            if tokens <= threshold * budget_tokens:
                break
            smaller = compact_units(old)
            if smaller != old and (smaller_tokens := size_of(smaller)) < tokens:
                old, tokens, reached = smaller, smaller_tokens, phase
        return CompactResult([*join_units(old), *recent], reached) if reached else CompactResult(messages)

    def _split(self, messages: Sequence[Message]) -> tuple[Sequence[Unit], Sequence[Message]]:
        """Return the old units, and the messages of the recent ones."""
        units = split_units(messages)
        recent = first_recent(units, self._keep_recent)
        return units[:recent], join_units(units[recent:])


def _drop_refused(old: Sequence[Unit]) -> list[Unit]:
    return [unit for unit in old if not unit.is_refused and not unit.is_warning]


def _shorten_units(old: Sequence[Unit]) -> list[Unit]:
    shortened = (unit if unit.is_pinned else _shorten_unit(unit) for unit in old)
    return [unit for unit in shortened if unit.messages]


def _shorten_unit(unit: Unit) -> Unit:
    without_reasoning = (message for message in unit.messages if message.metadata.type != MessageType.REASONING)
    messages = tuple(_shorten_result(message) for message in without_reasoning)
    return unit if messages == unit.messages else Unit(messages)


def _shorten_result(message: Message) -> Message:
    length = len(message.content)
    if message.role != MessageRole.TOOL or length <= LONG_CHARS:
        return message
    note = f"[{length - HEAD_CHARS} of {length} characters left out to save space]"
    return replace(message, content=f"{message.content[:HEAD_CHARS]}… {note}")


def _summarise(is_small: Callable[[Sequence[Unit]], bool], step_hint: str, old: Sequence[Unit]) -> Sequence[Unit]:
    """Drop as few of the oldest units as it takes to make the transcript small, or all if that is not enough."""
    summaries = {position for position, unit in enumerate(old) if TranscriptSummary.read(unit.messages[0]) is not None}
    loose = [position for position, unit in enumerate(old) if not unit.is_pinned and position not in summaries]
    if not loose:
        return old

    def without(count: int) -> list[Unit]:
        return _replace_by_summary(old, sorted({*summaries, *loose[:count]}), step_hint)

    fewer = range(1, len(loose))
    return without(1 + bisect_left(fewer, True, key=lambda count: is_small(without(count))))


def _replace_by_summary(units: Sequence[Unit], positions: Sequence[int], step_hint: str) -> list[Unit]:
    """Return the units with one summary in place of those at the positions."""
    dropped = join_units(units[position] for position in positions)
    summary = TranscriptSummary.of(dropped, step_hint=step_hint).to_message(step_index=dropped[-1].metadata.step_index)
    dropped_positions = set(positions)
    remaining = [unit for position, unit in enumerate(units) if position not in dropped_positions]
    remaining.insert(positions[0], Unit((summary,)))
    return remaining


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
    """The size of one transcript. Each message is counted once.

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


def warning_text(warning: ContextWarned) -> str:
    """Return what to tell a model whose context fills up: `ContextManager(…, on_warning=warning_text)`."""
    share = warning.tokens / warning.budget_tokens
    return (
        f"[Context] {share:.0%} of the context is used: {warning.tokens:,} of {warning.budget_tokens:,} tokens. "
        "Finish with what you have, and keep tool calls and answers short."
    )


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
