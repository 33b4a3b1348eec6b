"""Mocks of tools that keep their caller waiting."""

import asyncio
from math import inf, nan

import pytest

from offbook import InputError
from offbook.clock import SYSTEM_CLOCK
from offbook.scenarios import MockedCall, Mocks, garbled, hangs
from tests.scenarios.mocks.parts import virtually


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
    with pytest.raises(InputError, match="hangs: for_s: expected some seconds"):
        hangs(for_s)


def test_an_answer_after_for_ever_is_refused():
    with pytest.raises(InputError, match="hangs: then: what hangs for ever has no answer"):
        hangs(then=1)
