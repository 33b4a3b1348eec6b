"""The synchronous edge keeps its loop, so that connections are kept too, and never blocks a running one."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import orjson
import pytest

from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.errors import EventLoopError
from offbook.messages import Response
from offbook.providers.http import HttpProvider
from offbook.providers.sync_edge import run_sync
from tests.servers.loopback import LoopbackServer

HI = [{"role": "user", "content": "Hi"}]
ANSWER = orjson.dumps(OpenAIChatCodec.encode_response(Response(content="Hello.", model="gpt-4o")))
CALLER = contextvars.ContextVar("CALLER", default="nobody")


@pytest.fixture
def server():
    with LoopbackServer(ANSWER) as server:
        yield server


def provider_of(server):
    return HttpProvider(OpenAIChatCodec(), base_url=server.url)


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
    assert (server.requests, server.connections) == (3, 1)


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
        asked = [pool.submit(ask) for _ in range(4)]
    assert [answer for thread in asked for answer in thread.result()] == ["Hello."] * 20
    assert server.connections == 4


async def test_inside_a_running_loop_the_call_is_refused_and_nothing_is_left_behind(server, recwarn):
    provider = provider_of(server)
    with pytest.raises(EventLoopError, match="await"):
        provider.complete_sync(HI, "gpt-4o")
    with pytest.raises(EventLoopError, match="await"):
        provider.close_sync()
    gc.collect()
    assert [told for warning in recwarn if "never awaited" in (told := str(warning.message))] == []
    assert server.requests == 0
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
from offbook.providers.sync_edge import run_sync

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
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_what_the_work_raises_is_raised():
    async def fail():
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        run_sync(fail())
    assert run_sync(name_of_caller())
