"""The strategy that leaves everything as it is."""

from offbook.agent.context import NoCompact
from tests.agent.context.parts import call, size, user


def test_it_gives_back_the_very_same_messages():
    messages = [user(), *call("x" * 4000)]
    assert NoCompact().compact(messages, budget_tokens=1, size=size).messages is messages
