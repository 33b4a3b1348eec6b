"""The conveniences that every provider has on top of `send` and `close`."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from offbook import ProviderConnectionError, Request, run
from offbook.errors import EventLoopError, ProviderError, RequestError
from offbook.messages import Message, Response, StreamEnd, TextDelta, WholeReply
from offbook.providers.http import HttpProvider
from offbook.providers.provider import Provider, notify_on_end, run_sync
from offbook.vendors import codec_of
from tests.fakes import Scripted, events_of, read_until_broken
from tests.servers.loopback import LoopbackServer

HI = [{"role": "user", "content": "Hi"}]
HELLO = Response(content="Hello.")
TOOLS = [{"type": "function", "function": {"name": "get"}}]


class Fake(Provider):
    """Answers everything with `HELLO`, or raises; keeps the requests and counts its closings."""

    def __init__(self, error=None):
        self.error = error
        self.requests = []
        self.closings = 0

    async def send(self, request):
        self.requests.append(request)
        if self.error is not None:
            raise self.error
        return WholeReply(HELLO)

    async def close(self):
        self.closings += 1


class Bare(Provider):
    """Implements no more than it must."""

    async def send(self, request):
        return WholeReply(HELLO)


async def test_complete_gives_the_response():
    fake = Fake()
    assert await fake.complete(HI, "m") is HELLO
    (request,) = fake.requests
    assert request.messages == tuple(HI)
    assert request.model == "m"
    assert not request.stream


async def test_stream_gives_the_reply():
    fake = Fake()
    events = [event async for event in await fake.stream(HI, "m")]
    assert events == [TextDelta("Hello."), StreamEnd(HELLO)]
    assert fake.requests[0].stream is True


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_every_option_reaches_the_request(ask):
    fake = Fake()
    await getattr(fake, ask)(
        HI,
        "m",
        temperature=0.5,
        max_tokens=9,
        tools=TOOLS,
        tool_choice="auto",
        extra={"seed": 7},
        step_id="s",
        attempt=2,
    )
    (request,) = fake.requests
    assert request.temperature == 0.5
    assert request.max_tokens == 9
    assert request.tools == tuple(TOOLS)
    assert request.tool_choice == "auto"
    assert request.extra == {"seed": 7}
    assert request.step_id == "s"
    assert request.attempt == 2


async def test_an_option_that_is_none_is_as_good_as_absent():
    absent, none = Fake(), Fake()
    await absent.complete(HI, "m")
    await none.complete(HI, "m", temperature=None, max_tokens=None, tools=None, tool_choice=None, step_id=None)
    assert absent.requests == none.requests


async def test_messages_may_be_message_values_in_a_tuple():
    fake = Fake()
    await fake.complete((Message("system", "Be brief."), Message("user", "Hi")), "m")
    assert fake.requests[0].messages == ({"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"})


async def test_the_request_is_not_changed_by_what_happens_to_the_list_later():
    fake = Fake()
    messages, tools = list(HI), list(TOOLS)
    await fake.complete(messages, "m", tools=tools)
    messages.append({"role": "user", "content": "more"})
    tools.clear()
    assert fake.requests[0].messages == tuple(HI)
    assert fake.requests[0].tools == tuple(TOOLS)


@pytest.mark.parametrize("option", ["temprature", "stream", "n"])
@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_an_unknown_option_is_a_type_error_that_names_it(ask, option):
    fake = Fake()
    with pytest.raises(TypeError, match=option):
        await getattr(fake, ask)(HI, "m", **{option: 1})
    assert fake.requests == []


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_messages_given_as_text_are_refused(ask):
    fake = Fake()
    with pytest.raises(RequestError, match="messages must be a list"):
        await getattr(fake, ask)("Hi", "m")
    assert fake.requests == []


@pytest.mark.parametrize("ask", ["complete", "stream"])
async def test_what_send_raises_is_raised(ask):
    error = ProviderError("overloaded")
    with pytest.raises(ProviderError) as caught:
        await getattr(Fake(error), ask)(HI, "m")
    assert caught.value is error


async def test_leaving_the_context_closes_the_provider_whatever_happened():
    fake = Fake()
    async with fake as entered:
        assert entered is fake
        assert fake.closings == 0
    assert fake.closings == 1
    with pytest.raises(ZeroDivisionError):
        async with fake:
            raise ZeroDivisionError
    assert fake.closings == 2


async def test_a_provider_that_holds_nothing_can_be_closed():
    async with Bare() as bare:
        assert bare.name == "provider"
        assert await bare.complete(HI, "m") is HELLO
    await bare.close()


def test_complete_sync_and_close_sync_do_the_same_without_a_loop():
    fake = Fake()
    assert fake.complete_sync(HI, "m", temperature=0.5) is HELLO
    assert fake.requests[0].temperature == 0.5
    fake.close_sync()
    assert fake.closings == 1


def test_complete_sync_raises_what_send_raises():
    with pytest.raises(ProviderError, match="overloaded"):
        Fake(ProviderError("overloaded")).complete_sync(HI, "m")
    with pytest.raises(RequestError):
        Fake().complete_sync("Hi", "m")


HI = [{"role": "user", "content": "Hi"}]
ANSWER = orjson.dumps(codec_of("openai_chat").encode_response(Response(content="Hello.", model="gpt-4o")))
CALLER = contextvars.ContextVar("CALLER", default="nobody")


@pytest.fixture
def server():
    with LoopbackServer(ANSWER) as server:
        yield server


def provider_of(server):
    return HttpProvider(codec_of("openai_chat"), base_url=server.url)


def in_own_thread(work):
    """What `work` returns in a thread of its own, so that the loop it keeps ends with the thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result()


async def name_of_caller():
    return CALLER.get()


def test_several_synchronous_calls_share_one_connection(server):
    provider = provider_of(server)
    answers = [provider.complete_sync(HI, "gpt-4o").content for _ in range(3)]
    provider.close_sync()
    assert answers == ["Hello."] * 3
    assert len(server.calls) == 3
    assert server.connections == 1


def test_a_closed_provider_connects_anew(server):
    provider = provider_of(server)
    for _ in range(2):
        provider.complete_sync(HI, "gpt-4o")
        provider.close_sync()
    assert server.connections == 2


def test_one_provider_serves_synchronous_and_asynchronous_callers_in_turn(server):
    provider = provider_of(server)

    async def ask():
        async with provider:
            return await provider.complete(HI, "gpt-4o")

    assert provider.complete_sync(HI, "gpt-4o").content == "Hello."
    provider.close_sync()
    assert asyncio.run(ask()).content == "Hello."
    assert provider.complete_sync(HI, "gpt-4o").content == "Hello."
    provider.close_sync()


def test_one_provider_serves_several_threads_at_once(server):
    provider = provider_of(server)
    together = threading.Barrier(4)

    def ask():
        together.wait()
        answers = [provider.complete_sync(HI, "gpt-4o").content for _ in range(5)]
        together.wait()
        provider.close_sync()
        return answers

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(ask) for _ in range(4)]
    assert [answer for thread in futures for answer in thread.result()] == ["Hello."] * 20
    assert server.connections == 4


async def test_inside_a_running_loop_the_call_is_refused_and_nothing_is_left_behind(server, recwarn):
    provider = provider_of(server)
    with pytest.raises(EventLoopError, match="await"):
        provider.complete_sync(HI, "gpt-4o")
    with pytest.raises(EventLoopError, match="await"):
        provider.close_sync()
    gc.collect()
    assert [message for warning in recwarn if "never awaited" in (message := str(warning.message))] == []
    assert len(server.calls) == 0
    assert (await provider.complete(HI, "gpt-4o")).content == "Hello."
    await provider.close()


def test_work_sees_the_context_of_each_call():
    seen = []
    for caller in ("first", "second"):
        CALLER.set(caller)
        seen.append(run_sync(name_of_caller()))
    assert seen == ["first", "second"]


def test_work_keeps_the_same_loop_from_call_to_call():
    async def loop():
        return asyncio.get_running_loop()

    assert run_sync(loop()) is run_sync(loop())


def test_the_loop_of_the_caller_is_left_as_it_was():
    def around():
        own = asyncio.new_event_loop()
        asyncio.set_event_loop(own)
        try:
            run_sync(name_of_caller())
            return asyncio.get_event_loop() is own
        finally:
            asyncio.set_event_loop(None)
            own.close()

    assert in_own_thread(around)


def test_the_loop_of_a_thread_ends_with_the_thread():
    async def loop():
        return asyncio.get_running_loop()

    assert in_own_thread(lambda: run_sync(loop())).is_closed()


def test_a_program_that_exits_while_a_daemon_thread_waits_says_nothing():
    program = """
import asyncio, threading
from offbook.providers.provider import run_sync

waiting = threading.Event()

async def wait_for_ever():
    waiting.set()
    await asyncio.get_running_loop().create_future()

async def nothing():
    pass

run_sync(nothing())
threading.Thread(target=lambda: run_sync(wait_for_ever()), daemon=True).start()
waiting.wait()
"""
    ended = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, check=False, timeout=60)
    assert ended.returncode == 0
    assert ended.stderr == b""


def test_what_the_work_raises_is_raised():
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_sync(fail())
    assert run_sync(name_of_caller())


OK = Response("fine")
REQUEST = Request((), "m", stream=True)


class Watch:
    """A watched reply of a script, and what was told of its end."""

    def __init__(self, reply, script):
        self.outcomes, self.script = [], script
        self.reply = notify_on_end(reply, self.outcomes.append)


async def watch(*steps):
    script = Scripted(list(steps))
    return Watch(await script.send(REQUEST), script)


def test_a_reply_that_has_arrived_has_ended_already():
    outcomes = []
    reply = WholeReply(OK)
    assert notify_on_end(reply, outcomes.append) is reply
    assert outcomes == [OK]


async def test_a_stream_ends_with_its_response_before_its_reader_sees_it():
    watching = await watch(TextDelta("one"), OK)
    events = aiter(watching.reply)
    assert await anext(events) == TextDelta("one")
    assert watching.outcomes == []
    assert await anext(events) == StreamEnd(OK)
    assert watching.outcomes == [OK]
    assert watching.script.closed_replies == 1
    await watching.reply.aclose()
    assert watching.outcomes == [OK]


async def test_what_comes_after_the_end_is_not_read():
    watching = await watch(OK, TextDelta("more"), ValueError("never seen"))
    assert await events_of(watching.reply) == [StreamEnd(OK)]
    assert watching.outcomes == [OK]


async def test_a_stream_can_be_collected():
    watching = await watch(TextDelta("one"), OK)
    assert await watching.reply.collect() == OK
    assert watching.outcomes == [OK]


async def test_what_breaks_it_is_reported_and_raised():
    broken = ValueError("cut")
    watching = await watch(TextDelta("one"), broken)
    came, error = await read_until_broken(watching.reply)
    assert came == [TextDelta("one")]
    assert error == broken
    assert watching.outcomes == [broken]
    assert watching.script.closed_replies == 1


@pytest.mark.parametrize("steps", [[], [TextDelta("one")]])
async def test_a_stream_that_just_ends_is_broken(steps):
    watching = await watch(*steps)
    came, error = await read_until_broken(watching.reply)
    assert came == steps
    assert isinstance(error, ProviderConnectionError)
    assert watching.outcomes == [error]


@pytest.mark.parametrize("read", [0, 1])
async def test_a_reader_that_closes_it_is_reported_once(read):
    watching = await watch(TextDelta("one"), TextDelta("two"), OK)
    for _ in range(read):
        await anext(aiter(watching.reply))
    await watching.reply.aclose()
    await watching.reply.aclose()
    assert [type(outcome) for outcome in watching.outcomes] == [GeneratorExit]
    assert watching.script.closed_replies >= 1


def test_a_reader_that_is_cancelled_is_reported():
    async def scene():
        watching = await watch(TextDelta("one"), 60.0, OK)
        reader = asyncio.create_task(events_of(watching.reply))
        await asyncio.sleep(1.0)
        reader.cancel()
        await asyncio.wait([reader])
        return watching

    watching = run(scene(), virtual_time=True)
    assert [type(outcome) for outcome in watching.outcomes] == [asyncio.CancelledError]
    assert watching.script.closed_replies == 1
