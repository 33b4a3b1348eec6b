"""Conversations that get lost."""

from offbook.explore.forgetting import forgotten
from tests.fakes import user

SYSTEM, HI, HO = {"role": "system", "content": "Be kind."}, *user("Hi"), *user("Ho")


def test_messages_that_are_missing_are_counted_where_nothing_else_is_said():
    assert forgotten([SYSTEM, HI, HO], [HO]) == 2
    assert forgotten([SYSTEM, HI, HO], [SYSTEM, HO]) == 1


def test_nothing_is_forgotten_by_who_asks_the_same_or_something_new():
    assert forgotten([SYSTEM, HI], [SYSTEM, HI]) == 0
    assert forgotten([SYSTEM, HI], [SYSTEM, HI, HO]) == 0
    assert forgotten([SYSTEM, HI, HI], [SYSTEM, HO]) == 0
