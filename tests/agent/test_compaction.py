"""What holds for every strategy, over random conversations, and what each of them does."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook import InputError
from offbook.agent.context import (
    NoCompact,
    SlidingWindowCompact,
    TieredCompact,
    TranscriptSummary,
    join_units,
    split_units,
)
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from tests.agent.transcripts import (
    NUDGE_TYPES,
    assert_valid,
    call,
    nudge,
    reasoning,
    refused,
    size,
    system,
    text,
    transcripts,
    user,
)

KEEP_RECENT = 3
STRATEGIES = (NoCompact(), SlidingWindowCompact(KEEP_RECENT), TieredCompact(KEEP_RECENT))
HINT = "Done: fetch. To do: submit."
SHARES = st.integers(1, 250)
"""How many per cent of its budget a transcript is: of budgets that it fits in, and of some that nothing would."""


def compacted(strategy, messages, percent, step_hint=HINT):
    budget_tokens = max(1, size(messages) * 100 // (2 * percent))
    return strategy.compact(messages, budget_tokens=budget_tokens, size=size, step_hint=step_hint).messages


def count_words(messages):
    """A measure by which cutting a text, and a summary, may be larger than what was there."""
    return sum(len(message.content.split()) for message in messages)


def pinned(messages):
    first_user = next(message for message in messages if message.metadata.type == MessageType.USER_INPUT)
    return [message for message in messages if message.role == MessageRole.SYSTEM or message is first_user]


def is_subsequence(some, of):
    rest = iter(of)
    return all(any(one is other for other in rest) for one in some)


def assert_in_order(some, of):
    """Assert that `some`, summaries aside, is a subsequence of `of`; long results may be shortened."""
    keys = [
        (message.role, message.metadata, message.content[:200], message.tool_call_id)
        for message in some
        if message.metadata.type != MessageType.SUMMARY
    ]
    rest = ((message.role, message.metadata, message.content[:200], message.tool_call_id) for message in of)
    assert all(any(one == other for other in rest) for one in keys)


@given(messages=transcripts(), percent=SHARES)
def test_the_result_is_a_valid_conversation_with_its_head_its_recent_units_and_its_order(messages, percent):
    before = list(messages)
    loose = [unit for unit in split_units(messages) if not unit.is_pinned]
    for strategy in STRATEGIES:
        result = compacted(strategy, messages, percent)
        assert_valid(result)
        assert is_subsequence(pinned(messages), result)
        assert is_subsequence(join_units(loose[-KEEP_RECENT:]), result)
        assert_in_order(result, messages)
    assert len(messages) == len(before)
    assert is_subsequence(before, messages)


@given(messages=transcripts(), percent=SHARES)
def test_the_result_is_smaller_by_any_measure_or_the_same(messages, percent):
    for strategy in STRATEGIES:
        for measure in (size, count_words, len):
            budget_tokens = max(1, measure(messages) * 100 // (2 * percent))
            result = strategy.compact(messages, budget_tokens=budget_tokens, size=measure, step_hint=HINT)
            assert measure(result.messages) <= measure(messages)
            assert (measure(result.messages) < measure(messages)) == (result.phase > 0)
        within = strategy.compact(messages, budget_tokens=2 * size(messages), size=size, step_hint=HINT)
        assert within.messages == messages
        assert within.phase == 0


@given(messages=transcripts(), percent=SHARES)
def test_compacting_again_never_grows_and_soon_changes_nothing(messages, percent):
    budget_tokens = max(1, size(messages) * 100 // (2 * percent))
    for strategy in STRATEGIES:
        last, sizes = messages, [size(messages)]
        for _ in range(4):
            result = strategy.compact(last, budget_tokens=budget_tokens, size=size, step_hint=HINT)
            last = result.messages
            sizes.append(size(last))
        assert sizes == sorted(sizes, reverse=True)
        assert result.phase == 0
        assert_valid(last)


@pytest.mark.parametrize("messages", [[], [user()], [system()], [system(), user("x" * 400)]])
def test_nothing_is_dropped_where_nothing_can_be(messages):
    for strategy in STRATEGIES:
        result = strategy.compact(messages, budget_tokens=1, size=size)
        assert result.messages == messages
        assert result.phase == 0


def test_it_gives_back_the_very_same_messages():
    messages = [user(), *call("x" * 4000)]
    assert NoCompact().compact(messages, budget_tokens=1, size=size).messages is messages


HEAD = [system(), user()]
OLD = [reasoning(), *call("one"), text(), nudge()]
RECENT = [reasoning(), *call("two", "three"), user("And then?")]


def slide(strategy, messages, budget_tokens=1):
    return strategy.compact(messages, budget_tokens=budget_tokens, size=size)


def test_it_keeps_the_head_and_the_last_units():
    result = slide(SlidingWindowCompact(keep_recent=2), [*HEAD, *OLD, *RECENT])
    assert result.messages == [*HEAD, *RECENT]
    assert result.phase == 1


def test_a_wider_window_keeps_more():
    result = slide(SlidingWindowCompact(keep_recent=3), [*HEAD, *OLD, *RECENT])
    assert result.messages == [*HEAD, *OLD[-2:], *RECENT]


def test_system_prompts_stay_wherever_they_are():
    late = system("From now on, be brief.")
    result = slide(SlidingWindowCompact(keep_recent=2), [*HEAD, *OLD, late, *RECENT])
    assert result.messages == [*HEAD, late, *RECENT]


def test_it_waits_for_its_threshold():
    messages = [*HEAD, *OLD, *RECENT]
    half = SlidingWindowCompact(keep_recent=2, threshold=0.5)
    assert slide(half, messages, budget_tokens=2 * size(messages)).phase == 0
    assert slide(half, messages, budget_tokens=2 * size(messages) - 1).phase == 1


@pytest.mark.parametrize("keep_recent", [0, -1, 1.5, True, None])
def test_a_window_that_keeps_nothing_is_refused(keep_recent):
    with pytest.raises(InputError, match=r"^keep_recent: expected a positive integer, got"):
        SlidingWindowCompact(keep_recent)


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan"), "0.5", True])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    with pytest.raises(InputError, match=r"^threshold: expected a share of the budget"):
        SlidingWindowCompact(2, threshold=threshold)


RESULTS = [*call("recent one"), *call("recent two")]
FIRST = (0.01, 1.0, 1.0)
SECOND = (0.01, 0.01, 1.0)
THIRD = (0.01, 0.01, 0.01)


def tier(messages, *, thresholds=THIRD, budget_tokens=None, step_hint="", keep_recent=2):
    """The result with the transcript as large as its budget, so that the thresholds alone decide."""
    budget_tokens = size(messages) if budget_tokens is None else budget_tokens
    strategy = TieredCompact(keep_recent, thresholds)
    return strategy.compact(messages, budget_tokens=budget_tokens, size=size, step_hint=step_hint)


@pytest.mark.parametrize("of", NUDGE_TYPES)
def test_the_first_phase_drops_refused_calls(of):
    answered = call("one")
    result = tier([*HEAD, *refused(of=of), *answered, *RESULTS], thresholds=FIRST)
    assert result.messages == [*HEAD, *answered, *RESULTS]
    assert result.phase == 1


def test_the_first_phase_drops_answers_that_were_no_calls_and_the_nudges():
    answered = call("one")
    messages = [*HEAD, reasoning(), text(), nudge(), *answered, nudge(), *RESULTS]
    assert tier(messages, thresholds=FIRST).messages == [*HEAD, *answered, *RESULTS]


def test_the_first_phase_leaves_recent_nudges():
    messages = [*HEAD, *call("one"), *refused(), text(), nudge()]
    assert tier(messages, thresholds=FIRST).messages is messages


def test_the_first_phase_leaves_long_results_and_reasoning():
    remaining = [*HEAD, reasoning(), *call("x" * 9000), text("Paris."), user("And Spain?")]
    assert tier([*remaining, nudge(), *RESULTS], thresholds=FIRST).messages == [*remaining, *RESULTS]


def test_the_second_phase_also_shortens_long_results():
    call_message, answer = call("abc" * 1000)
    result = tier([*HEAD, *refused(), call_message, answer, *RESULTS], thresholds=SECOND)
    shortened = result.messages[3]
    assert result.phase == 2
    assert result.messages[2] == call_message
    assert shortened.content == ("abc" * 67)[:200] + "… [2800 of 3000 characters left out to save space]"
    assert shortened.tool_call_id == answer.tool_call_id
    assert shortened.metadata == answer.metadata
    assert result.messages[4:] == RESULTS


@pytest.mark.parametrize(("length", "is_shortened"), [(300, False), (301, True), (10**7, True)])
def test_only_what_is_long_is_shortened_and_that_once(length, is_shortened):
    messages = [*HEAD, *call("x" * length), *RESULTS]
    shortened = tier(messages, thresholds=SECOND)
    assert (shortened.phase == 2) == is_shortened
    assert len(shortened.messages[3].content) <= 300
    assert tier(shortened.messages, thresholds=SECOND).phase == 0


def test_the_second_phase_drops_old_reasoning_only():
    old, recent = [reasoning("old"), *call("one")], [reasoning("recent"), *call("two")]
    result = tier([*HEAD, reasoning("alone"), user(), *old, *recent], thresholds=SECOND, keep_recent=1)
    assert result.messages == [*HEAD, user(), *old[1:], *recent]


def test_the_second_phase_leaves_long_texts_of_users_and_answers():
    messages = [*HEAD, text("x" * 9000), user("y" * 9000), *RESULTS]
    assert tier(messages, thresholds=SECOND).messages is messages


def test_the_third_phase_puts_a_summary_right_after_the_first_user_message():
    result = tier(
        [*HEAD, *call("x" * 200, step_index=4), text("y" * 200), user("z" * 200), *RESULTS],
        step_hint="Done: fetch.",
    )
    expected = TranscriptSummary(4, {"fetch": 1}, "Done: fetch.").to_message(step_index=None)
    assert result.messages == [*HEAD, expected, *RESULTS]
    assert result.phase == 3


def test_a_summary_is_of_the_step_of_the_last_message_that_it_stands_for():
    result = tier([*HEAD, *call("x" * 400, step_index=4), *RESULTS])
    assert result.messages[2].metadata == MessageMeta(MessageType.SUMMARY, 4)


def test_the_third_phase_drops_the_oldest_and_no_more_than_it_takes():
    units = [call(f"{place}" * 100, step_index=place) for place in range(10)]
    messages = [*HEAD, *(message for unit in units for message in unit), *RESULTS]
    result = tier(messages, thresholds=(0.75, 0.75, 0.75))
    dropped = TranscriptSummary.read(result.messages[2]).calls["fetch"]
    assert result.messages[3:] == [*(message for unit in units[dropped:] for message in unit), *RESULTS]
    assert size(result.messages) <= 0.75 * size(messages)
    assert size(result.messages) + size(units[dropped - 1]) > 0.75 * size(messages)


def test_system_prompts_among_what_is_dropped_stay():
    late = system("From now on, be brief.")
    result = tier([*HEAD, *call("x" * 400), late, *call("y" * 400), *RESULTS])
    assert [message.metadata.type for message in result.messages[2:4]] == [
        MessageType.SUMMARY,
        MessageType.SYSTEM_PROMPT,
    ]
    assert result.messages[3:] == [late, *RESULTS]


def test_a_further_summary_takes_in_the_one_before():
    first = tier([*HEAD, *call("x" * 400), *RESULTS], step_hint="Done: fetch.").messages
    second = tier([*first, *call("z" * 400, tool="parse")], keep_recent=1, step_hint="Done: parse.").messages
    assert TranscriptSummary.read(second[2]) == TranscriptSummary(6, {"fetch": 3}, "Done: parse.")
    assert [message.metadata.type for message in second].count(MessageType.SUMMARY) == 1


def test_a_summary_alone_is_not_written_anew():
    messages = tier([*HEAD, *call("x" * 400), *RESULTS], step_hint="Done: fetch.").messages
    assert tier(messages, step_hint="Other.").messages is messages


def test_a_summary_by_somebody_else_is_dropped_like_any_message():
    foreign = Message(MessageRole.USER, "We spoke of cats. " * 99, MessageMeta(MessageType.SUMMARY))
    result = tier([*HEAD, foreign, *RESULTS])
    assert TranscriptSummary.read(result.messages[2]) == TranscriptSummary(1, {})
    assert foreign not in result.messages


def test_what_a_summary_would_not_make_smaller_stays():
    messages = [*HEAD, user("Hm."), *RESULTS]
    assert tier(messages, step_hint="A long story. " * 20).messages is messages


@pytest.mark.parametrize(
    ("thresholds", "phase"), [((1.0, 1.0, 1.0), 0), (FIRST, 1), (SECOND, 2), ((0.01, 0.01, 0.5), 2), (THIRD, 3)]
)
def test_each_phase_is_tried_only_over_its_threshold(thresholds, phase):
    messages = [*HEAD, *refused(), *call("x" * 4000), *call("y" * 200), *RESULTS]
    assert tier(messages, thresholds=thresholds).phase == phase


def test_it_stops_as_soon_as_the_size_is_within_the_first_threshold():
    noise, remaining = refused("x" * 4000), call("y" * 4000)
    result = tier([*HEAD, *noise, *remaining, *RESULTS], thresholds=(0.75, 0.85, 0.95))
    assert result.messages == [*HEAD, *remaining, *RESULTS]
    assert result.phase == 1


def test_what_is_still_too_large_is_as_small_as_can_be():
    result = tier([*HEAD, *call("x" * 4000), *call("y" * 4000), *RESULTS], budget_tokens=1)
    assert [message.metadata.type for message in result.messages[:3]] == [
        MessageType.SYSTEM_PROMPT,
        MessageType.USER_INPUT,
        MessageType.SUMMARY,
    ]
    assert result.messages[3:] == RESULTS


@pytest.mark.parametrize(
    "thresholds", [(), (0.5, 0.6), (0.5, 0.4, 0.6), (0.5, 0.6, 1.1), (0, 0.5, 0.6), (0.1, 0.2, 0.3, 0.4)]
)
def test_thresholds_that_are_not_three_rising_shares_are_refused(thresholds):
    with pytest.raises(InputError, match=r"^phase_thresholds: expected"):
        TieredCompact(2, thresholds)


def test_at_least_one_unit_is_kept():
    with pytest.raises(InputError, match=r"^keep_recent: expected"):
        TieredCompact(keep_recent=0)


def lengths(*messages):
    return [len(unit.messages) for unit in split_units(messages)]


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([system(), user()], [1, 1]),
        ([*call("one"), *call("two")], [2, 2]),
        ([*call("one", "two", "three")], [4]),
        ([reasoning(), *call("one", "two")], [4]),
        ([reasoning(), reasoning(), *call("one")], [4]),
        ([*call("one"), reasoning()], [2, 1]),
        ([reasoning(), user()], [1, 1]),
        ([text(), nudge()], [2]),
        ([reasoning(), text(), nudge()], [3]),
        ([reasoning(), nudge()], [2]),
        ([text(), user()], [1, 1]),
        ([*call("one"), nudge()], [2, 1]),
        ([*refused(), nudge()], [3]),
        ([text(), text()], [1, 1]),
        ([], []),
    ],
)
def test_a_call_keeps_its_reasoning_and_results_and_a_nudge_what_it_answers(messages, expected):
    assert lengths(*messages) == expected


def test_results_that_nobody_asked_for_stand_alone():
    stray = call("one")[1]
    assert lengths(user(), stray, stray) == [1, 1, 1]


def test_system_prompts_and_the_first_user_message_are_pinned():
    units = split_units([system("a"), nudge(), user("b"), user("c"), system("d"), *call("e")])
    assert [unit.messages[0].content for unit in units if unit.is_pinned] == ["a", "b", "d"]


def test_a_user_message_is_pinned_once_even_if_it_is_said_twice():
    assert [unit.is_pinned for unit in split_units([user("again"), user("again")])] == [True, False]


@pytest.mark.parametrize("of", NUDGE_TYPES)
def test_a_refused_call_is_refused_whatever_the_reason(of):
    (unit,) = split_units(refused(of=of))
    assert unit.is_refused


def test_a_turn_is_refused_as_a_whole():
    call_message, one, two = call(
        "[NotRun] Call it again.", "[UnknownTool] There is no such tool.", type=MessageType.RETRY_NUDGE
    )
    (not_run, *_) = call("[NotRun] Call it again.")[1:]
    (unit,) = split_units([call_message, not_run, two])
    assert unit.is_refused
    assert one.metadata.type != not_run.metadata.type


def test_an_answered_call_is_not_refused():
    assert not any(unit.is_refused for unit in split_units([user(), reasoning(), *call("one"), text()]))


@given(transcripts())
def test_units_joined_again_are_the_same_messages(messages):
    units = split_units(messages)
    assert all(joined is message for joined, message in zip(join_units(units), messages, strict=True))
    for unit in units:
        assert_valid(unit.messages)


def test_it_reports_how_many_messages_which_calls_and_what_is_left_to_do():
    dropped = [*call("one", "two"), *call("three", tool="parse"), text(), *refused(), nudge()]
    message = TranscriptSummary.of(dropped, step_hint="Done: fetch. To do: submit.").to_message(step_index=3)
    assert message.content == (
        "Earlier messages left out here to save space: 9. "
        'Tool calls in them: {"fetch": 2, "parse": 1}.\nDone: fetch. To do: submit.'
    )
    assert message.role == MessageRole.USER
    assert message.metadata == MessageMeta(MessageType.SUMMARY, 3)


def test_without_a_hint_it_is_one_line():
    assert "\n" not in TranscriptSummary.of([user()], step_hint="").to_message(step_index=None).content


@given(st.integers(0), st.dictionaries(st.text(), st.integers(1)), st.text())
def test_what_it_reports_can_be_read_back(left_out, calls, step_hint):
    summary = TranscriptSummary(left_out, calls, step_hint)
    assert TranscriptSummary.read(summary.to_message(step_index=None)) == summary


def test_a_summary_of_summaries_adds_them_up():
    older = TranscriptSummary(5, {"fetch": 2}, "Done: fetch.").to_message(step_index=1)
    assert TranscriptSummary.of([older, *call("one")], step_hint="Done: all.") == TranscriptSummary(
        7, {"fetch": 3}, "Done: all."
    )
    assert TranscriptSummary.of([older, user()], step_hint="") == TranscriptSummary(6, {"fetch": 2}, "Done: fetch.")


def test_what_others_wrote_is_no_summary_of_ours():
    content = TranscriptSummary(5, {}).to_message(step_index=1).content
    assert TranscriptSummary.read(user(content)) is None
    assert (
        TranscriptSummary.read(Message(MessageRole.USER, "We spoke of cats.", MessageMeta(MessageType.SUMMARY))) is None
    )


def test_old_warnings_are_the_first_to_go_and_take_no_place_among_the_recent_units():
    warning = Message(MessageRole.USER, "80 % spent.", MessageMeta(MessageType.CONTEXT_WARNING, 0))
    old, recent = [*call("a"), warning], [*call("b"), warning, *call("c")]
    messages = [user(), *old, *recent]
    result = TieredCompact(2).compact(messages, budget_tokens=size(messages), size=size)
    assert result.phase == 1
    assert list(result.messages) == [user(), *call("a"), *recent]


def test_a_warning_is_not_taken_for_what_the_user_asked():
    warning = Message(MessageRole.USER, "80 % spent.", MessageMeta(MessageType.CONTEXT_WARNING, 0))
    assert [unit.is_pinned for unit in split_units([warning, user()])] == [False, True]
