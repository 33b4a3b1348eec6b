"""The strategy that keeps what is recent."""

import pytest

from offbook import InputError
from offbook.agent.context import SlidingWindowCompact
from tests.agent.context.parts import call, nudge, reasoning, size, system, text, user

HEAD = [system(), user()]
OLD = [reasoning(), *call("one"), text(), nudge()]
RECENT = [reasoning(), *call("two", "three"), user("And then?")]


def compacted(strategy, messages, budget_tokens=1):
    return strategy.compact(messages, budget_tokens=budget_tokens, size=size)


def test_it_keeps_the_head_and_the_last_units():
    result = compacted(SlidingWindowCompact(keep_recent=2), [*HEAD, *OLD, *RECENT])
    assert (result.messages, result.phase) == ([*HEAD, *RECENT], 1)


def test_a_wider_window_keeps_more():
    result = compacted(SlidingWindowCompact(keep_recent=3), [*HEAD, *OLD, *RECENT])
    assert result.messages == [*HEAD, *OLD[-2:], *RECENT]


def test_system_prompts_stay_wherever_they_are():
    late = system("From now on, be brief.")
    result = compacted(SlidingWindowCompact(keep_recent=2), [*HEAD, *OLD, late, *RECENT])
    assert result.messages == [*HEAD, late, *RECENT]


def test_it_waits_for_its_threshold():
    messages = [*HEAD, *OLD, *RECENT]
    half = SlidingWindowCompact(keep_recent=2, threshold=0.5)
    assert compacted(half, messages, budget_tokens=2 * size(messages)).phase == 0
    assert compacted(half, messages, budget_tokens=2 * size(messages) - 1).phase == 1


@pytest.mark.parametrize("keep_recent", [0, -1, 1.5, True, None])
def test_a_window_that_keeps_nothing_is_refused(keep_recent):
    with pytest.raises(InputError, match=r"^keep_recent: expected a whole number of one or more, got"):
        SlidingWindowCompact(keep_recent)


@pytest.mark.parametrize("threshold", [0, -0.5, 1.01, float("nan"), "0.5", True])
def test_a_threshold_that_is_no_share_is_refused(threshold):
    with pytest.raises(InputError, match=r"^threshold: expected a share of the budget"):
        SlidingWindowCompact(2, threshold=threshold)
