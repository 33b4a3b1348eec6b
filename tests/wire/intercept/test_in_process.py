"""Clients of this process, made anywhere and with hosts of their own, are answered without a socket."""

import asyncio
import subprocess
import sys
import threading

import aiohttp
import httpx
import httpx2
import pytest
import requests

from offbook import StandIn
from offbook.clock import run
from offbook.errors import InputError
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer

URL = "https://api.openai.com/v1/chat/completions"
ASKED = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
RESPONSES = {"a": {"content": "one two"}}


def by_httpx(url, asked, timeout_s=None):
    return httpx.post(url, json=asked, timeout=timeout_s, verify=False).text


def by_httpx2(url, asked, timeout_s=None):
    return httpx2.post(url, json=asked, timeout=timeout_s, verify=False).text


def by_requests(url, asked, timeout_s=None):
    return requests.post(url, json=asked, timeout=timeout_s).text


async def of_httpx(url, asked, timeout_s=None):
    async with httpx.AsyncClient(verify=False) as client:
        return (await client.post(url, json=asked, timeout=timeout_s)).text


async def of_httpx2(url, asked, timeout_s=None):
    async with httpx2.AsyncClient(verify=False) as client:
        return (await client.post(url, json=asked, timeout=timeout_s)).text


async def of_aiohttp(url, asked, timeout_s=None):
    timeout = aiohttp.ClientTimeout(sock_read=timeout_s)
    async with aiohttp.ClientSession(timeout=timeout) as client, client.post(url, json=asked) as response:
        return await response.text()


SYNC = [by_httpx, by_httpx2, by_requests]
ASYNC = [of_httpx, of_httpx2, of_aiohttp]


def ask(client, url=URL, asked=ASKED, timeout_s=None):
    """Ask by a client; an async one in virtual time."""
    if client in SYNC:
        return client(url, asked, timeout_s)
    return run(client(url, asked, timeout_s), virtual_time=True)


@pytest.fixture(params=[*SYNC, *ASYNC])
def client(request):
    return request.param


def test_a_client_is_answered_and_only_while_it_lasts(client):
    with StandIn(responses=RESPONSES) as stand_in:
        with stand_in.intercept():
            assert "one two" in ask(client)
        assert len(stand_in.calls) == 1
        before = httpx.HTTPTransport.handle_request, requests.adapters.HTTPAdapter.send, aiohttp.BaseConnector.connect
    assert all(method.__module__.partition(".")[0] in ("httpx", "requests", "aiohttp") for method in before)


def test_a_stream_arrives(client):
    with StandIn(responses=RESPONSES) as stand_in, stand_in.intercept():
        assert ask(client, asked=ASKED | {"stream": True}).endswith("data: [DONE]\n\n")


def test_an_error_is_the_answer(client):
    with StandIn(responses=RESPONSES, faults=["call=1 attempt=1: http_error 503"]) as stand_in, stand_in.intercept():
        assert '"error"' in ask(client)
        assert "one two" in ask(client)


ERRORS = {
    "connection_reset": {
        by_httpx: httpx.ReadError,
        by_httpx2: httpx2.ReadError,
        by_requests: requests.ConnectionError,
        of_httpx: httpx.ReadError,
        of_httpx2: httpx2.ReadError,
        of_aiohttp: aiohttp.ClientOSError,
    },
    "stream_truncate 1 raise=cut": {
        by_httpx: httpx.RemoteProtocolError,
        by_httpx2: httpx2.RemoteProtocolError,
        by_requests: requests.exceptions.ChunkedEncodingError,
        of_httpx: httpx.RemoteProtocolError,
        of_httpx2: httpx2.RemoteProtocolError,
        of_aiohttp: aiohttp.ClientPayloadError,
    },
    "timeout": {
        by_httpx: httpx.ReadTimeout,
        by_httpx2: httpx2.ReadTimeout,
        by_requests: requests.ReadTimeout,
        of_httpx: httpx.ReadTimeout,
        of_httpx2: httpx2.ReadTimeout,
        of_aiohttp: aiohttp.SocketTimeoutError,
    },
}


@pytest.mark.parametrize("fault", ERRORS)
def test_a_fault_is_what_the_library_raises_over_a_socket(client, fault):
    timeout_s = 0.01 if client in SYNC else 60.0
    with StandIn(responses=RESPONSES, faults=[f"call=1 attempt=1: {fault}"]) as stand_in, stand_in.intercept():
        with pytest.raises(ERRORS[fault][client]):
            ask(client, asked=ASKED | {"stream": fault.startswith("stream")}, timeout_s=timeout_s)
        assert "one two" in ask(client)


def test_calls_are_recorded_from_the_host_that_the_client_asked(client, tmp_path):
    path = tmp_path / "run.json"
    with LoopbackServer(chat_answer("real")) as real, StandIn(record=path) as stand_in:
        with stand_in.intercept(real.host):
            text = client(f"{real.url}/v1/chat/completions", ASKED)
            assert "real" in (text if isinstance(text, str) else asyncio.run(text))
        assert [call.path for call in real.calls] == ["/v1/chat/completions"]
    with StandIn(path) as stand_in, stand_in.intercept():
        assert "real" in ask(client)


def test_a_client_of_the_stand_in_records_once_beside_an_interception(tmp_path):
    with LoopbackServer(chat_answer("real")) as real, StandIn(record=tmp_path / "run.json") as stand_in:
        with stand_in.intercept(real.host), stand_in.sync_http_client() as client:
            assert "real" in client.post(f"{real.url}/v1/chat/completions", json=ASKED).text
        assert len(real.calls) == 1
        assert len(stand_in.calls) == 1


def test_other_hosts_are_reached_as_ever(client):
    with LoopbackServer(b'"elsewhere"') as other, StandIn(responses=RESPONSES) as stand_in, stand_in.intercept():
        text = client(f"{other.url}/v1/chat/completions", ASKED)
        assert "elsewhere" in (text if isinstance(text, str) else asyncio.run(text))


def test_the_latest_of_nested_interceptions_answers_and_each_ends_alone(client):
    with StandIn(responses=RESPONSES) as outer, StandIn(responses={"a": {"content": "inner"}}) as inner:
        first, second = outer.intercept(), inner.intercept()
        assert "inner" in ask(client)
        first.close()
        first.close()
        assert "inner" in ask(client)
        third = outer.intercept()
        second.close()
        assert "one two" in ask(client)
        third.close()


def test_clients_that_were_there_before_and_in_other_threads_are_answered():
    before, texts = httpx.Client(verify=False), []
    with StandIn(responses=RESPONSES) as stand_in, stand_in.intercept():
        threads = [threading.Thread(target=lambda: texts.append(before.post(URL, json=ASKED).text)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    before.close()
    assert [("one two" in text) for text in texts] == [True] * 4


def test_threads_that_begin_and_end_at_once_leave_nothing_behind():
    def intercept():
        for _ in range(20):
            with StandIn(responses=RESPONSES) as stand_in, stand_in.intercept():
                assert "one two" in by_httpx(URL, ASKED)

    threads, finders = [threading.Thread(target=intercept) for _ in range(4)], list(sys.meta_path)
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sys.meta_path == finders
    assert httpx.HTTPTransport.handle_request.__module__.startswith("httpx")


LATER = f"""
import sys
from offbook import StandIn
with StandIn(responses={RESPONSES}) as stand_in, stand_in.intercept():
    assert "requests" not in sys.modules
    import requests
    import requests.adapters
    print("one two" in requests.post({URL!r}, json={ASKED}).text)
"""


def test_a_library_that_is_loaded_later_is_intercepted_too():
    command = [sys.executable, "-W", "error", "-c", LATER]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "True\n"
    assert done.stderr == ""


def test_what_is_no_host_is_refused_and_nothing_is_intercepted():
    with StandIn(responses=RESPONSES) as stand_in, pytest.raises(InputError):
        stand_in.intercept("http://x")
    assert httpx.HTTPTransport.handle_request.__module__.startswith("httpx")


def test_a_client_that_leaves_early_is_noted():
    async def leave():
        async with aiohttp.ClientSession() as client, client.post(URL, json=ASKED | {"stream": True}) as response:
            await response.content.readany()

    faults = ["call=1 attempt=1: slow_drip 1000"]
    with StandIn(responses=RESPONSES, faults=faults) as stand_in, stand_in.intercept():
        run(leave(), virtual_time=True)
        assert "one two" in ask(of_aiohttp)
