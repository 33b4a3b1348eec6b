"""The context manager: sizes, warnings, and when a strategy is asked."""

import gc

import pytest

from offbook import InputError, MemorySink
from offbook.agent.context import (
    MAX_HELD,
    CompactResult,
    CompactStrategy,
    ContextManager,
    NoCompact,
    SlidingWindowCompact,
    TieredCompact,
    TranscriptSummary,
    estimated_tokens,
)
from offbook.agent.message import Transcript
from offbook.events import ContextCompacted, ContextWarned
from tests.agent.transcripts import call, refused, size, system, text, user

HEAD = [system(), user()]
RECENT = [*call("one"), *call("two")]


def sized(tokens):
    """A user message of that many tokens."""
    message = user("x" * 4 * (tokens - 4))
    assert estimated_tokens(message) == tokens
    return message


class Unwilling(CompactStrategy):
    """Finds nothing to do, and counts how often it is asked."""

    def __init__(self, starts_at=0.5):
        self.starts_at, self.calls = starts_at, 0

    def compact(self, messages, *, budget_tokens, size, step_hint=""):
        self.calls += 1
        return CompactResult(messages)


class Counter:
    """Counts tokens, and how often it does."""

    def __init__(self):
        self.calls = 0

    def __call__(self, message):
        self.calls += 1
        return estimated_tokens(message)


def grown(messages, iterations, manager, message=None):
    """Ask the manager before each of so many iterations, each of which adds a call and its result."""
    for step in range(iterations):
        manager.maybe_compact(messages, step_index=step)
        messages += call("ok", step_index=step) if message is None else [message]


def transcript(messages):
    return Transcript([].append, messages)


def extend(messages, new):
    for message in new:
        (messages.append if isinstance(messages, list) else messages.add)(message)


def take_in(messages, smaller):
    messages[:] = smaller
    return messages


def give_way(messages, smaller):
    return smaller


def begin_anew(messages, smaller):
    return transcript(smaller)


WAYS_ON = pytest.mark.parametrize("go_on", [take_in, give_way, begin_anew])
"""What a loop may do with what a compaction has left."""


def compacted(manager, messages, go_on):
    smaller = manager.maybe_compact(messages)
    return messages if smaller is messages else go_on(messages, smaller)


def test_messages_within_the_budget_come_back_as_the_very_same_object():
    for messages in ([*HEAD, *RECENT], tuple(HEAD), transcript(HEAD)):
        assert ContextManager(TieredCompact(), 8192).maybe_compact(messages) is messages


def test_messages_over_the_budget_come_back_smaller_and_as_they_were():
    messages = [*HEAD, *refused("x" * 400), *RECENT]
    before = list(messages)
    smaller = ContextManager(TieredCompact(keep_recent=2), budget_tokens=150).maybe_compact(messages, 3, "Done: all.")
    assert smaller == [*HEAD, *RECENT]
    assert messages == before


def test_the_hint_goes_into_the_summary():
    messages = [*HEAD, *call("x" * 200), *RECENT]
    manager = ContextManager(strategy=TieredCompact(phase_thresholds=(0.1, 0.1, 0.1)), budget_tokens=100)
    smaller = manager.maybe_compact(messages, step_index=1, step_hint="Done: fetch.")
    assert TranscriptSummary.read(smaller[2]).step_hint == "Done: fetch."


def test_no_compact_leaves_everything():
    messages = [*HEAD, *call("x" * 40_000)]
    assert ContextManager(NoCompact(), 1).maybe_compact(messages) is messages


def test_a_compaction_is_reported_to_the_hook_and_the_sink():
    events, sink = [], MemorySink()
    manager = ContextManager(SlidingWindowCompact(2), 200, warn_at=(), on_compact=events.append, sink=sink)
    messages = [*HEAD, *call("x" * 600), *RECENT]
    smaller = manager.maybe_compact(messages, step_index=7)
    event = ContextCompacted(
        step_index=7,
        strategy="SlidingWindowCompact",
        phase=1,
        tokens_before=size(messages),
        tokens_after=size(smaller),
        messages_before=8,
        messages_after=6,
        budget_tokens=200,
    )
    assert events == sink.events == [event]


def test_nothing_is_reported_where_nothing_was_done():
    events = []
    manager = ContextManager(SlidingWindowCompact(2), 10, warn_at=(), on_compact=events.append)
    manager.maybe_compact([*HEAD, *RECENT])
    assert events == []


def test_the_size_is_what_the_messages_are_estimated_at():
    messages = [*HEAD]
    manager = ContextManager(NoCompact(), 100)
    assert manager.size(messages) == size(messages)
    messages += RECENT
    assert manager.size(messages) == size(messages)


def test_a_count_of_the_users_replaces_the_estimate():
    messages = [*HEAD, *RECENT]
    assert ContextManager(NoCompact(), 100, count_tokens=lambda message: 7).size(messages) == 7 * len(messages)


def test_what_a_call_used_replaces_the_estimate_of_what_was_sent():
    messages = [*HEAD]
    manager = ContextManager(NoCompact(), 10_000)
    manager.record_usage(messages, prompt_tokens=900)
    assert manager.size(messages) == 900
    messages += RECENT
    assert manager.size(messages) == 900 + size(RECENT)


@pytest.mark.parametrize("is_added_first", [True, False])
def test_the_answer_itself_is_counted_once_whenever_usage_is_reported(is_added_first):
    messages, turn = [*HEAD], call("x" * 400)
    manager = ContextManager(NoCompact(), 10_000)
    if is_added_first:
        messages.append(turn[0])
    manager.record_usage(messages, prompt_tokens=900, completion_tokens=50)
    if not is_added_first:
        messages.append(turn[0])
    assert manager.size(messages) == 950
    messages.append(turn[1])
    messages.append(text("z" * 400))
    assert manager.size(messages) == 950 + size([turn[1], messages[-1]])


def test_a_provider_that_does_not_tell_leaves_the_estimate():
    manager = ContextManager(NoCompact(), 10_000)
    manager.record_usage(HEAD, prompt_tokens=0, completion_tokens=50)
    assert manager.size(HEAD) == size(HEAD)


def test_a_compaction_is_measured_by_what_was_really_used():
    messages, events = [*HEAD, *call("x" * 400), *RECENT], []
    manager = ContextManager(SlidingWindowCompact(2), 1000, warn_at=(), on_compact=events.append)
    assert manager.maybe_compact(messages) is messages
    manager.record_usage(messages, prompt_tokens=10 * size(messages))
    smaller = manager.maybe_compact(messages)
    assert events[0].tokens_before == 10 * size(messages)
    assert events[0].tokens_after == 10 * size(smaller)


def test_after_a_compaction_estimates_hold_until_usage_is_sent_again():
    messages = [*HEAD, *call("x" * 400), *RECENT]
    manager = ContextManager(SlidingWindowCompact(2), 1000)
    manager.record_usage(messages, prompt_tokens=5000)
    smaller = manager.maybe_compact(messages)
    messages[:] = smaller
    assert manager.size(messages) == manager.size(smaller) == manager.size(transcript(smaller)) == size(smaller)


def test_a_count_of_nothing_does_no_harm():
    messages = [*HEAD, *RECENT]
    manager = ContextManager(TieredCompact(keep_recent=1), 10, count_tokens=lambda message: 0)
    manager.record_usage(messages, prompt_tokens=100)
    assert manager.maybe_compact(messages) is messages


def test_messages_that_have_gone_are_not_counted_any_more():
    messages = [*HEAD, *RECENT]
    manager = ContextManager(NoCompact(), 100)
    manager.size(messages)
    del messages[3:]
    assert manager.size(messages) == size(messages)


def test_a_warning_comes_once_when_the_threshold_is_reached():
    events, sink, messages = [], MemorySink(), [sized(79)]
    manager = ContextManager(NoCompact(), 100, on_warning=events.append, sink=sink)
    manager.maybe_compact(messages, step_index=1)
    assert events == []
    messages.append(sized(4))
    manager.maybe_compact(messages, step_index=2)
    messages.append(sized(4))
    manager.maybe_compact(messages, step_index=3)
    assert events == sink.events == [ContextWarned(step_index=2, tokens=83, budget_tokens=100, threshold=0.8)]


def test_each_of_several_thresholds_warns_in_its_turn():
    events, messages = [], [sized(10)]
    manager = ContextManager(NoCompact(), 100, warn_at=[0.9, 0.2, 0.5], on_warning=events.append)
    grown(messages, 12, manager, sized(10))
    assert [(warning.threshold, warning.tokens) for warning in events] == [(0.2, 20), (0.5, 50), (0.9, 90)]


def test_thresholds_that_are_leapt_over_all_warn():
    events = []
    ContextManager(NoCompact(), 100, warn_at=(0.2, 0.5), on_warning=events.append).maybe_compact([sized(99)])
    assert [warning.threshold for warning in events] == [0.2, 0.5]


@WAYS_ON
def test_a_threshold_warns_again_after_the_size_was_below_it(go_on):
    events, messages = [], [*HEAD, *call("x" * 400), *RECENT]
    manager = ContextManager(SlidingWindowCompact(2), 150, on_warning=events.append)
    for _ in range(3):
        messages = compacted(manager, messages, go_on)
        extend(messages, [*call("x" * 400), *RECENT])
    assert [warning.threshold for warning in events] == [0.8] * 3


def test_what_is_too_large_even_after_compaction_warns_once():
    events, messages = [], [*HEAD, *call("x" * 40), *call("y" * 4000)]
    manager = ContextManager(SlidingWindowCompact(1), 500, warn_at=(), on_warning=events.append)
    smaller = manager.maybe_compact(messages, step_index=4)
    excess = ContextWarned(4, size(smaller), 500, 1.0, is_after_compaction=True)
    assert events == [excess]
    assert manager.maybe_compact(smaller, step_index=5) is smaller
    assert events == [excess]


@WAYS_ON
def test_what_stays_too_large_is_not_warned_of_again(go_on):
    events, messages = [], [*HEAD, *call("x" * 4000), *call("x" * 4000)]
    manager = ContextManager(SlidingWindowCompact(1), 100, on_warning=events.append)
    for step in range(4):
        messages = compacted(manager, messages, go_on)
        extend(messages, call("y" * 4000, step_index=step))
    assert [(warning.threshold, warning.is_after_compaction) for warning in events] == [(0.8, False), (1.0, True)]


@WAYS_ON
def test_what_becomes_too_large_again_is_warned_of_again(go_on):
    events, messages = [], [*HEAD, *call("x" * 4000)]
    manager = ContextManager(SlidingWindowCompact(1), 100, warn_at=(), on_warning=events.append)
    for length in (1, 4000, 1, 4000, 4000):
        messages = compacted(manager, messages, go_on)
        extend(messages, call("y" * length))
    assert [warning.is_after_compaction for warning in events] == [True, True, True]


@WAYS_ON
def test_a_run_that_goes_on_from_a_compaction_is_counted_right(go_on):
    messages = [*HEAD, *call("x" * 4000), *RECENT]
    manager = ContextManager(TieredCompact(), 600)
    for step in range(20):
        messages = compacted(manager, messages, go_on)
        extend(messages, call("y" * 400, step_index=step))
        assert manager.size(messages) == size(messages)


def test_an_unrelated_run_does_not_inherit_what_was_reported():
    events, messages = [], [*HEAD, *call("x" * 4000), *call("y" * 4000)]
    manager = ContextManager(SlidingWindowCompact(1), 100, on_warning=events.append)
    smaller = manager.maybe_compact(messages)
    before = len(events)
    manager.maybe_compact([*HEAD, *call("y" * 4000)])
    assert len(events) == before + 2
    assert len(smaller) == 4


def test_a_long_run_counts_each_message_once():
    count = Counter()
    messages, manager = transcript(HEAD), ContextManager(TieredCompact(), 10**9, count_tokens=count)
    for step in range(10_000):
        assert manager.maybe_compact(messages, step_index=step) is messages
        extend(messages, call("ok", step_index=step))
    assert count.calls == len(messages) - 2


def test_a_strategy_that_finds_nothing_is_asked_ever_more_rarely():
    strategy = Unwilling(starts_at=0.01)
    messages = [*HEAD]
    grown(messages, 5000, ContextManager(strategy, 1_000_000))
    assert 20 < strategy.calls < 200


def test_a_strategy_that_found_nothing_is_asked_again_after_a_leap_in_size():
    strategy, messages = Unwilling(starts_at=0.01), [sized(5)] * 1000
    manager = ContextManager(strategy, 10_000)
    for _ in range(3):
        manager.maybe_compact(messages)
    assert strategy.calls == 1
    messages.append(sized(1000))
    manager.maybe_compact(messages)
    assert strategy.calls == 2


def test_over_the_budget_a_strategy_is_asked_every_time():
    strategy, messages = Unwilling(), [sized(1000)]
    manager = ContextManager(strategy, 999)
    for _ in range(3):
        manager.maybe_compact(messages)
    assert strategy.calls == 3


@pytest.mark.parametrize(("tokens", "calls"), [(50, 0), (51, 1)])
def test_a_strategy_is_asked_above_the_share_where_it_starts(tokens, calls):
    strategy = Unwilling(starts_at=0.5)
    ContextManager(strategy, 100).maybe_compact([sized(tokens)])
    assert strategy.calls == calls


@pytest.mark.parametrize("kind", [list, transcript])
def test_runs_at_the_same_time_do_not_mix_up_their_counts(kind):
    manager = ContextManager(NoCompact(), 10_000)
    runs = [[*HEAD] for _ in range(2 * MAX_HELD)]
    transcripts = [kind(run) for run in runs]
    for step in range(3):
        for place in range(len(runs)):
            message = user("x" * place * step)
            runs[place].append(message)
            extend(transcripts[place], [message])
            assert manager.size(transcripts[place]) == size(runs[place])


def test_runs_at_the_same_time_are_warned_separately():
    events = []
    manager = ContextManager(NoCompact(), 100, on_warning=events.append)
    for _ in range(2):
        for run in (first := [sized(90)], second := [sized(91)]):
            for _ in range(3):
                manager.maybe_compact(run)
        assert first != second
    assert [warning.tokens for warning in events] == [90, 91, 90, 91]


def test_a_list_that_is_still_asked_for_is_not_counted_anew():
    count = Counter()
    manager, messages = ContextManager(NoCompact(), 10_000, count_tokens=count), [*HEAD]
    others = [[user()] for _ in range(2 * MAX_HELD)]
    for other in others:
        manager.size(messages)
        manager.size(other)
    assert count.calls == len(messages) + len(others)


def test_runs_that_begin_with_the_same_messages_are_warned_separately():
    events, beginning = [], [sized(90)]
    manager = ContextManager(NoCompact(), 100, on_warning=events.append)
    for messages in (beginning, [*beginning], transcript(beginning)):
        manager.maybe_compact(messages)
    assert len(events) == 3


def test_runs_one_after_another_do_not_mix_up_their_counts():
    manager = ContextManager(NoCompact(), 10_000)
    for length in range(300):
        for kind in (list, transcript):
            messages = kind([user("x" * length)])
            manager.record_usage(messages, prompt_tokens=length)
            assert manager.size(messages) == (length or size(messages))


def test_a_transcript_is_not_kept_alive():
    manager = ContextManager(NoCompact(), 10_000)
    ended = []
    messages = transcript(HEAD)
    messages.guard = Guard(ended)
    manager.size(messages)
    del messages
    gc.collect()
    assert ended == ["gone"]


class Guard:
    """Tells when it is gone."""

    def __init__(self, events):
        self.events = events

    def __del__(self):
        self.events.append("gone")


def test_a_spy_in_its_place_sees_every_call():
    manager, seen = ContextManager(NoCompact(), 100), []
    original = manager.maybe_compact

    def spy(messages, step_index=0, step_hint=""):
        seen.append((len(messages), step_index, step_hint))
        return original(messages, step_index=step_index, step_hint=step_hint)

    manager.maybe_compact = spy
    assert manager.maybe_compact(HEAD, step_index=2, step_hint="Done.") is HEAD
    assert seen == [(2, 2, "Done.")]


def test_what_a_hook_raises_reaches_the_caller():
    def refuse(event):
        raise RuntimeError("too dear")

    with pytest.raises(RuntimeError, match="too dear"):
        ContextManager(NoCompact(), 10, on_warning=refuse).maybe_compact(HEAD)


@pytest.mark.parametrize("budget_tokens", [0, -1, 1.5, True, None, "8192"])
def test_a_budget_that_makes_no_sense_is_refused(budget_tokens):
    with pytest.raises(InputError, match=r"^budget_tokens: expected a positive integer, got"):
        ContextManager(NoCompact(), budget_tokens)


@pytest.mark.parametrize("warn_at", [0, 1.5, [0.5, -1], "0.8", None])
def test_a_warning_threshold_that_is_no_share_is_refused(warn_at):
    with pytest.raises(InputError, match=r"^warn_at: expected a share of the budget"):
        ContextManager(NoCompact(), 100, warn_at=warn_at)


def test_what_is_no_strategy_is_refused():
    with pytest.raises(InputError, match=r"^strategy: expected a CompactStrategy, got <class"):
        ContextManager(NoCompact, 100)


def spent(warning):
    return f"{warning.threshold:.0%} spent"


def test_what_a_warning_says_to_the_model_is_taken_once():
    messages = [sized(60)]
    manager = ContextManager(NoCompact(), 100, warn_at=(0.5, 0.8), on_warning=spent)
    assert manager.maybe_compact(messages) is messages
    assert manager.take_notices(messages) == ["50% spent"]
    messages.append(sized(30))
    manager.maybe_compact(messages)
    assert manager.take_notices(messages) == ["80% spent"]
    assert manager.take_notices(messages) == []


def test_a_warning_that_says_nothing_is_no_notice():
    manager, messages = ContextManager(NoCompact(), 100, on_warning=lambda warning: None), [sized(99)]
    manager.maybe_compact(messages)
    assert manager.take_notices(messages) == []


def test_notices_are_for_the_conversation_that_they_are_about():
    manager = ContextManager(NoCompact(), 100, on_warning=spent)
    long, short = [sized(99)], [sized(9)]
    manager.maybe_compact(long)
    manager.maybe_compact(short)
    assert manager.take_notices(short) == []
    assert manager.take_notices(long) == ["80% spent"]


@WAYS_ON
def test_a_notice_outlives_the_compaction_that_follows_it(go_on):
    manager = ContextManager(SlidingWindowCompact(2), 150, on_warning=spent)
    smaller = compacted(manager, [*HEAD, *call("x" * 400), *RECENT], go_on)
    assert manager.take_notices(smaller) == ["80% spent"]
    assert manager.take_notices(smaller) == []


@pytest.mark.parametrize(("chars", "tokens"), [(0, 4), (1, 5), (4, 5), (5, 6), (400, 104)])
def test_a_message_is_a_quarter_of_its_characters_and_a_little_more(chars, tokens):
    assert estimated_tokens(user("x" * chars)) == tokens


def test_the_name_and_arguments_of_a_call_count():
    bare, full = (call("", args=args)[0] for args in ({}, {"text": "x" * 400}))
    assert estimated_tokens(bare) == 4 + 2
    assert 100 <= estimated_tokens(full) - estimated_tokens(bare) <= 104


def test_arguments_that_are_no_object_count_as_they_are_written():
    assert estimated_tokens(call("", args="x" * 395)[0]) == 4 + 100
