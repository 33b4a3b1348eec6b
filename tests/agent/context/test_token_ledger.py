"""The estimate of a message's tokens."""

import pytest

from offbook.agent.context import estimated_tokens
from tests.agent.context.transcripts import call, user


@pytest.mark.parametrize(("chars", "tokens"), [(0, 4), (1, 5), (4, 5), (5, 6), (400, 104)])
def test_a_message_is_a_quarter_of_its_characters_and_a_little_more(chars, tokens):
    assert estimated_tokens(user("x" * chars)) == tokens


def test_the_name_and_arguments_of_a_call_count():
    bare, full = (call("", args=args)[0] for args in ({}, {"text": "x" * 400}))
    assert estimated_tokens(bare) == 4 + 2
    assert 100 <= estimated_tokens(full) - estimated_tokens(bare) <= 104


def test_arguments_that_are_no_object_count_as_they_are_written():
    assert estimated_tokens(call("", args="x" * 395)[0]) == 4 + 100
