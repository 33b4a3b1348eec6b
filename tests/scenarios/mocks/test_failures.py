"""Mocks of tools that fail."""

import asyncio
import json
from math import inf, nan

import pytest

from offbook import InputError
from offbook.clock import SYSTEM_CLOCK
from offbook.scenarios import MockedCall, Mocks, fails, garbled, hangs, sequence
from tests.scenarios.mocks.resolving import answers_to, answers_to_many, resolve_all, virtually


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
    assert answers_to_many(fails(error), 3) == [{"error": message}] * 3


def test_what_fails_at_first_recovers_and_does_so_in_each_conversation():
    mocks = Mocks({"pay": fails("card declined", times=2, then={"ok": True})})
    for _ in range(2):
        no, yes = {"error": "card declined"}, {"ok": True}
        assert virtually(resolve_all(mocks.conversation(), *["pay"] * 4)) == [no, no, yes, yes]


def test_what_comes_then_may_be_any_mock():
    assert answers_to_many(fails("no", times=1, then=sequence([1, 2])), 3) == [{"error": "no"}, 1, 2]
    assert answers_to_many(fails("no", times=1, then=lambda args, ctx: ctx.call_index), 2) == [{"error": "no"}, 1]
    assert answers_to_many(fails("no", times=1, then=None), 2) == [{"error": "no"}, None]


def test_an_error_as_a_mock_is_raised():
    assert answers_to_many(ValueError("out of stock"), 2) == [{"error": "out of stock"}] * 2
    assert answers_to_many(ConnectionResetError, 1) == [{"error": "ConnectionResetError"}]


@pytest.mark.parametrize(
    ("declare", "reason"),
    [
        (lambda: fails("no", times=1), "times and then must be set together"),
        (lambda: fails("no", then=1), "times and then must be set together"),
        (lambda: fails("no", times=0, then=1), "fails: times: expected an int of at least 1, got 0"),
        (lambda: fails("no", times=1.5, then=1), "fails: times: expected an int of at least 1, got 1.5"),
        (lambda: fails("no", times=1, then=object()), "fails: then: not JSON"),
        (lambda: fails(5), "fails: expected an exception or a message, got 5"),
        (lambda: fails(KeyboardInterrupt()), "fails: expected an exception or a message"),
        (lambda: fails(OddError), r"fails: OddError: .*missing 2 required(.|\n)*hint: pass an instance: OddError"),
    ],
)
def test_a_failure_that_makes_no_sense_is_refused(declare, reason):
    with pytest.raises(InputError, match=reason):
        declare()


async def timed(mock):
    tools = Mocks({"slow": mock}).conversation()
    return await tools.resolve("slow", {}), SYSTEM_CLOCK.monotonic_s()


def test_a_tool_that_hangs_answers_when_its_time_has_passed():
    assert virtually(timed(hangs(3600, then={"ok": True}))) == ({"ok": True}, 3600.0)


def test_what_comes_after_the_wait_may_be_any_mock():
    async def then(args, ctx):
        await asyncio.sleep(5)
        return ctx.tool

    assert virtually(timed(hangs(for_s=30, then=then))) == ("slow", 35.0)
    assert virtually(timed(hangs(for_s=30, then=garbled("?")))) == ("?", 30.0)


def test_without_an_answer_it_is_a_timeout():
    assert virtually(timed(hangs(for_s=30))) == ({"error": "slow took longer than 30 s"}, 30.0)


def test_what_hangs_for_ever_is_given_up_by_its_caller_and_kept_as_not_answered():
    async def impatient():
        tools = Mocks({"slow": hangs()}).conversation()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(tools.resolve("slow", {"a": 1}), timeout=1e6)
        return tools.calls

    assert virtually(impatient()) == (MockedCall("slow", {"a": 1}),)
    assert not MockedCall("slow", {}).is_answered


@pytest.mark.parametrize("for_s", [0, -1, nan, inf])
def test_no_time_at_all_is_refused(for_s):
    with pytest.raises(InputError, match="hangs: for_s: expected a positive number of seconds"):
        hangs(for_s)


def test_an_answer_after_for_ever_is_refused():
    with pytest.raises(InputError, match="hangs: then: a call that hangs forever has no answer"):
        hangs(then=1)


def test_by_default_the_answer_is_text_that_looks_like_json_and_is_none():
    (text,) = answers_to(garbled())
    assert text.startswith("{")
    with pytest.raises(json.JSONDecodeError):
        json.loads(text)


@pytest.mark.parametrize("value", [None, {"id": 5}, ["wrong"], "<html>"])
def test_a_wrong_shape_is_given_as_declared(value):
    assert answers_to_many(garbled(value), 2) == [value, value]


def test_nonsense_is_not_held_against_what_the_real_tool_returns():
    answers = sequence([garbled({"id": "five"}), {"id": 5}])
    returns = {"tool": {"type": "object", "properties": {"id": {"type": "integer"}}}}
    assert answers_to(answers, {}, {}, returns=returns) == [{"id": "five"}, {"id": 5}]


def test_nonsense_that_is_no_json_is_refused():
    with pytest.raises(InputError, match="garbled: not JSON"):
        garbled(object())
