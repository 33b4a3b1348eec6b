"""Mocks of tools that fail."""

import pytest

from offbook import InputError
from offbook.scenarios import Mocks, fails, sequence
from tests.scenarios.mocks.parts import given_times, resolve_all, virtually


class OddError(Exception):
    def __init__(self, code, message):
        super().__init__(f"{code}: {message}")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        ("card declined", "card declined"),
        (ConnectionError("reset"), "reset"),
        (OddError(4, "odd"), "4: odd"),
        (TimeoutError, "TimeoutError"),
        (KeyError("date"), "KeyError: 'date'"),
        ("", "ToolFaultError"),
    ],
)
def test_an_agent_is_given_the_message_at_every_call(error, message):
    assert given_times(fails(error), 3) == [{"error": message}] * 3


def test_what_fails_at_first_recovers_and_does_so_in_each_conversation():
    mocks = Mocks({"pay": fails("card declined", times=2, then={"ok": True})})
    for _ in range(2):
        no, yes = {"error": "card declined"}, {"ok": True}
        assert virtually(resolve_all(mocks.conversation(), *["pay"] * 4)) == [no, no, yes, yes]


def test_what_comes_then_may_be_any_mock():
    assert given_times(fails("no", times=1, then=sequence([1, 2])), 3) == [{"error": "no"}, 1, 2]
    assert given_times(fails("no", times=1, then=lambda args, ctx: ctx.call_index), 2) == [{"error": "no"}, 1]
    assert given_times(fails("no", times=1, then=None), 2) == [{"error": "no"}, None]


def test_an_error_as_a_mock_is_raised():
    assert given_times(ValueError("out of stock"), 2) == [{"error": "out of stock"}] * 2
    assert given_times(ConnectionResetError, 1) == [{"error": "ConnectionResetError"}]


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: fails("no", times=1), "times and then go together"),
        (lambda: fails("no", then=1), "times and then go together"),
        (lambda: fails("no", times=0, then=1), "fails: times: expected one or more, got 0"),
        (lambda: fails("no", times=1.5, then=1), "fails: times: expected one or more, got 1.5"),
        (lambda: fails("no", times=1, then=object()), "fails: then: no JSON"),
        (lambda: fails(5), "fails: expected an error or a message, got 5"),
        (lambda: fails(KeyboardInterrupt()), "fails: expected an error or a message"),
        (lambda: fails(OddError), r"fails: OddError: .*missing 2 required(.|\n)*hint: give the error itself: OddError"),
    ],
)
def test_a_failure_that_makes_no_sense_is_refused(declare, reason):
    with pytest.raises(InputError, match=reason):
        declare()
