"""What holds for every strategy, over random conversations."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.agent.context import NoCompact, SlidingWindowCompact, TieredCompact, join_units, split_units
from offbook.agent.message import MessageRole, MessageType
from tests.agent.context.parts import assert_valid, size, system, transcripts, user

KEEP_RECENT = 3
STRATEGIES = [
    pytest.param(strategy, id=type(strategy).__name__)
    for strategy in (NoCompact(), SlidingWindowCompact(KEEP_RECENT), TieredCompact(KEEP_RECENT))
]
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


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_the_result_is_a_valid_conversation(strategy, messages, percent):
    assert_valid(compacted(strategy, messages, percent))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_system_prompts_and_the_first_user_message_stay(strategy, messages, percent):
    assert is_subsequence(pinned(messages), compacted(strategy, messages, percent))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_recent_units_stay_as_they_are(strategy, messages, percent):
    loose = [unit for unit in split_units(messages) if not unit.is_pinned]
    recent = join_units(loose[-KEEP_RECENT:])
    assert is_subsequence(recent, compacted(strategy, messages, percent))


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_the_order_stays(strategy, messages, percent):
    kept = [
        (message.role, message.metadata, message.content[:200], message.tool_call_id)
        for message in compacted(strategy, messages, percent)
        if message.metadata.type != MessageType.SUMMARY
    ]
    rest = ((message.role, message.metadata, message.content[:200], message.tool_call_id) for message in messages)
    assert all(any(one == other for other in rest) for one in kept)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("measure", [size, count_words, len])
@given(messages=transcripts(), percent=SHARES)
def test_the_result_is_never_larger(strategy, measure, messages, percent):
    budget_tokens = max(1, measure(messages) * 100 // (2 * percent))
    result = strategy.compact(messages, budget_tokens=budget_tokens, size=measure, step_hint=HINT)
    assert measure(result.messages) <= measure(messages)
    assert (measure(result.messages) < measure(messages)) == (result.phase > 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_the_given_messages_are_not_changed(strategy, messages, percent):
    before = list(messages)
    compacted(strategy, messages, percent)
    assert len(messages) == len(before)
    assert is_subsequence(before, messages)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts(), percent=SHARES)
def test_to_compact_again_never_grows_and_soon_changes_nothing(strategy, messages, percent):
    budget_tokens = max(1, size(messages) * 100 // (2 * percent))
    sizes = [size(messages)]
    for _ in range(4):
        result = strategy.compact(messages, budget_tokens=budget_tokens, size=size, step_hint=HINT)
        messages = result.messages
        sizes.append(size(messages))
    assert sizes == sorted(sizes, reverse=True)
    assert result.phase == 0
    assert_valid(messages)


@pytest.mark.parametrize("strategy", STRATEGIES)
@given(messages=transcripts())
def test_what_is_within_every_threshold_stays_as_it_is(strategy, messages):
    result = strategy.compact(messages, budget_tokens=2 * size(messages), size=size, step_hint=HINT)
    assert (result.messages, result.phase) == (messages, 0)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("messages", [[], [user()], [system()], [system(), user("x" * 400)]])
def test_where_there_is_nothing_to_give_up_nothing_is(strategy, messages):
    result = strategy.compact(messages, budget_tokens=1, size=size)
    assert (result.messages, result.phase) == (messages, 0)
