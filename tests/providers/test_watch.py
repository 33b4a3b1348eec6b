"""Telling how a reply ended: once, whoever reads it and however it ends."""

import asyncio

import pytest

from offbook import ProviderConnectionError, Request, Response, StreamEnd, TextDelta, run
from offbook.messages import WholeReply
from offbook.providers.watch import watched
from tests.fakes import Scripted, events_of, read_until_broken

OK = Response("fine")
REQUEST = Request((), "m", stream=True)


class Watch:
    """A watched reply of a script, and what was told of its end."""

    def __init__(self, reply, script):
        self.told, self.script = [], script
        self.reply = watched(reply, self.told.append)


async def watch(*steps):
    script = Scripted(list(steps))
    return Watch(await script.send(REQUEST), script)


def test_a_reply_that_has_arrived_has_ended_already():
    told = []
    reply = WholeReply(OK)
    assert watched(reply, told.append) is reply
    assert told == [OK]


async def test_a_stream_ends_with_its_response_before_its_reader_sees_it():
    watching = await watch(TextDelta("one"), OK)
    events = aiter(watching.reply)
    assert await anext(events) == TextDelta("one")
    assert watching.told == []
    assert await anext(events) == StreamEnd(OK)
    assert watching.told == [OK]
    assert watching.script.closed_replies == 1
    await watching.reply.aclose()
    assert watching.told == [OK]


async def test_what_comes_after_the_end_is_not_read():
    watching = await watch(OK, TextDelta("more"), ValueError("never seen"))
    assert await events_of(watching.reply) == [StreamEnd(OK)]
    assert watching.told == [OK]


async def test_a_stream_can_be_collected():
    watching = await watch(TextDelta("one"), OK)
    assert await watching.reply.collect() == OK
    assert watching.told == [OK]


async def test_what_breaks_it_is_told_and_raised():
    broken = ValueError("cut")
    watching = await watch(TextDelta("one"), broken)
    came, error = await read_until_broken(watching.reply)
    assert (came, error, watching.told) == ([TextDelta("one")], broken, [broken])
    assert watching.script.closed_replies == 1


@pytest.mark.parametrize("steps", [[], [TextDelta("one")]])
async def test_a_stream_that_just_ends_is_broken(steps):
    watching = await watch(*steps)
    came, error = await read_until_broken(watching.reply)
    assert came == steps
    assert isinstance(error, ProviderConnectionError)
    assert watching.told == [error]


@pytest.mark.parametrize("read", [0, 1])
async def test_a_reader_that_closes_it_is_told_once(read):
    watching = await watch(TextDelta("one"), TextDelta("two"), OK)
    for _ in range(read):
        await anext(aiter(watching.reply))
    await watching.reply.aclose()
    await watching.reply.aclose()
    assert [type(outcome) for outcome in watching.told] == [GeneratorExit]
    assert watching.script.closed_replies >= 1


def test_a_reader_that_is_cancelled_is_told():
    async def scene():
        watching = await watch(TextDelta("one"), 60.0, OK)
        reader = asyncio.create_task(events_of(watching.reply))
        await asyncio.sleep(1.0)
        reader.cancel()
        await asyncio.wait([reader])
        return watching

    watching = run(scene(), virtual_time=True)
    assert [type(outcome) for outcome in watching.told] == [asyncio.CancelledError]
    assert watching.script.closed_replies == 1
