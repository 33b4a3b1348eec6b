"""The strategy that gives up the least first."""

import pytest

from offbook import InputError
from offbook.agent.context import Summary, TieredCompact
from offbook.agent.message import Message, MessageMeta, MessageRole, MessageType
from tests.agent.context.parts import NUDGE_TYPES, call, nudge, reasoning, refused, size, system, text, user

HEAD = [system(), user()]
RECENT = [*call("recent one"), *call("recent two")]
FIRST = (0.01, 1.0, 1.0)
SECOND = (0.01, 0.01, 1.0)
THIRD = (0.01, 0.01, 0.01)


def compacted(messages, *, thresholds=THIRD, budget_tokens=None, step_hint="", keep_recent=2):
    """The result with the transcript as large as its budget, so that the thresholds alone decide."""
    budget_tokens = size(messages) if budget_tokens is None else budget_tokens
    strategy = TieredCompact(keep_recent, thresholds)
    return strategy.compact(messages, budget_tokens=budget_tokens, size=size, step_hint=step_hint)


@pytest.mark.parametrize("of", NUDGE_TYPES)
def test_the_first_phase_drops_refused_calls(of):
    answered = call("one")
    result = compacted([*HEAD, *refused(of=of), *answered, *RECENT], thresholds=FIRST)
    assert (result.messages, result.phase) == ([*HEAD, *answered, *RECENT], 1)


def test_the_first_phase_drops_answers_that_were_no_calls_and_the_nudges():
    answered = call("one")
    messages = [*HEAD, reasoning(), text(), nudge(), *answered, nudge(), *RECENT]
    assert compacted(messages, thresholds=FIRST).messages == [*HEAD, *answered, *RECENT]


def test_the_first_phase_leaves_recent_nudges():
    messages = [*HEAD, *call("one"), *refused(), text(), nudge()]
    assert compacted(messages, thresholds=FIRST).messages is messages


def test_the_first_phase_leaves_long_results_and_reasoning():
    kept = [*HEAD, reasoning(), *call("x" * 9000), text("Paris."), user("And Spain?")]
    assert compacted([*kept, nudge(), *RECENT], thresholds=FIRST).messages == [*kept, *RECENT]


def test_the_second_phase_also_shortens_long_results():
    asked, answer = call("abc" * 1000)
    result = compacted([*HEAD, *refused(), asked, answer, *RECENT], thresholds=SECOND)
    shortened = result.messages[3]
    assert (result.phase, result.messages[2]) == (2, asked)
    assert shortened.content == ("abc" * 67)[:200] + "… [2800 of 3000 characters left out to save space]"
    assert (shortened.tool_call_id, shortened.metadata) == (answer.tool_call_id, answer.metadata)
    assert result.messages[4:] == RECENT


@pytest.mark.parametrize(("length", "is_shortened"), [(300, False), (301, True), (10**7, True)])
def test_only_what_is_long_is_shortened_and_that_once(length, is_shortened):
    messages = [*HEAD, *call("x" * length), *RECENT]
    shortened = compacted(messages, thresholds=SECOND)
    assert (shortened.phase == 2) == is_shortened
    assert len(shortened.messages[3].content) <= 300
    assert compacted(shortened.messages, thresholds=SECOND).phase == 0


def test_the_second_phase_drops_old_reasoning_only():
    old, recent = [reasoning("old"), *call("one")], [reasoning("recent"), *call("two")]
    result = compacted([*HEAD, reasoning("alone"), user(), *old, *recent], thresholds=SECOND, keep_recent=1)
    assert result.messages == [*HEAD, user(), *old[1:], *recent]


def test_the_second_phase_leaves_long_texts_of_users_and_answers():
    messages = [*HEAD, text("x" * 9000), user("y" * 9000), *RECENT]
    assert compacted(messages, thresholds=SECOND).messages is messages


def test_the_third_phase_puts_a_summary_right_after_the_first_user_message():
    result = compacted(
        [*HEAD, *call("x" * 200, step_index=4), text("y" * 200), user("z" * 200), *RECENT], step_hint="Done: fetch."
    )
    expected = Summary(4, {"fetch": 1}, "Done: fetch.").to_message(step_index=None)
    assert (result.messages, result.phase) == ([*HEAD, expected, *RECENT], 3)


def test_a_summary_is_of_the_step_of_the_last_message_that_it_stands_for():
    result = compacted([*HEAD, *call("x" * 400, step_index=4), *RECENT])
    assert result.messages[2].metadata == MessageMeta(MessageType.SUMMARY, 4)


def test_the_third_phase_drops_the_oldest_and_no_more_than_it_takes():
    units = [call(f"{place}" * 100, step_index=place) for place in range(10)]
    messages = [*HEAD, *(message for unit in units for message in unit), *RECENT]
    result = compacted(messages, thresholds=(0.75, 0.75, 0.75))
    dropped = Summary.read(result.messages[2]).calls["fetch"]
    assert result.messages[3:] == [*(message for unit in units[dropped:] for message in unit), *RECENT]
    assert size(result.messages) <= 0.75 * size(messages)
    assert size(result.messages) + size(units[dropped - 1]) > 0.75 * size(messages)


def test_system_prompts_among_what_is_dropped_stay():
    late = system("From now on, be brief.")
    result = compacted([*HEAD, *call("x" * 400), late, *call("y" * 400), *RECENT])
    assert [message.metadata.type for message in result.messages[2:4]] == [
        MessageType.SUMMARY,
        MessageType.SYSTEM_PROMPT,
    ]
    assert result.messages[3:] == [late, *RECENT]


def test_a_further_summary_takes_in_the_one_before():
    first = compacted([*HEAD, *call("x" * 400), *RECENT], step_hint="Done: fetch.").messages
    second = compacted([*first, *call("z" * 400, tool="parse")], keep_recent=1, step_hint="Done: parse.").messages
    assert Summary.read(second[2]) == Summary(6, {"fetch": 3}, "Done: parse.")
    assert [message.metadata.type for message in second].count(MessageType.SUMMARY) == 1


def test_a_summary_alone_is_not_written_anew():
    messages = compacted([*HEAD, *call("x" * 400), *RECENT], step_hint="Done: fetch.").messages
    assert compacted(messages, step_hint="Other.").messages is messages


def test_a_summary_by_somebody_else_is_dropped_like_any_message():
    foreign = Message(MessageRole.USER, "We spoke of cats. " * 99, MessageMeta(MessageType.SUMMARY))
    result = compacted([*HEAD, foreign, *RECENT])
    assert Summary.read(result.messages[2]) == Summary(1, {})
    assert foreign not in result.messages


def test_what_a_summary_would_not_make_smaller_stays():
    messages = [*HEAD, user("Hm."), *RECENT]
    assert compacted(messages, step_hint="A long story. " * 20).messages is messages


@pytest.mark.parametrize(
    ("thresholds", "phase"), [((1.0, 1.0, 1.0), 0), (FIRST, 1), (SECOND, 2), ((0.01, 0.01, 0.5), 2), (THIRD, 3)]
)
def test_each_phase_is_tried_only_over_its_threshold(thresholds, phase):
    messages = [*HEAD, *refused(), *call("x" * 4000), *call("y" * 200), *RECENT]
    assert compacted(messages, thresholds=thresholds).phase == phase


def test_it_stops_as_soon_as_the_size_is_within_the_first_threshold():
    noise, kept = refused("x" * 4000), call("y" * 4000)
    result = compacted([*HEAD, *noise, *kept, *RECENT], thresholds=(0.75, 0.85, 0.95))
    assert (result.messages, result.phase) == ([*HEAD, *kept, *RECENT], 1)


def test_what_is_still_too_large_is_as_small_as_can_be():
    result = compacted([*HEAD, *call("x" * 4000), *call("y" * 4000), *RECENT], budget_tokens=1)
    assert [message.metadata.type for message in result.messages[:3]] == [
        MessageType.SYSTEM_PROMPT,
        MessageType.USER_INPUT,
        MessageType.SUMMARY,
    ]
    assert result.messages[3:] == RECENT


@pytest.mark.parametrize(
    "thresholds", [(), (0.5, 0.6), (0.5, 0.4, 0.6), (0.5, 0.6, 1.1), (0, 0.5, 0.6), (0.1, 0.2, 0.3, 0.4)]
)
def test_thresholds_that_are_not_three_rising_shares_are_refused(thresholds):
    with pytest.raises(InputError, match=r"^phase_thresholds: expected"):
        TieredCompact(2, thresholds)


def test_at_least_one_unit_is_kept():
    with pytest.raises(InputError, match=r"^keep_recent: expected"):
        TieredCompact(keep_recent=0)
