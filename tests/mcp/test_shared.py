"""MCP servers whose recording in Redis many processes share in mode `new`: each call is made once for all of them."""

import asyncio
import json
from collections import Counter
from contextlib import ExitStack, contextmanager
from threading import Event

import httpx
import pytest

from offbook.clock import pauses_until
from offbook.events import NULL_SINK, CacheUsed, MemorySink
from offbook.mcp.config import ServerConfig
from offbook.mcp.hub import McpHub
from offbook.mcp.recorder import McpRecorder
from offbook.mcp.stdio import LineServer
from offbook.recording.stores.locate import open_store
from offbook.wire.options import WireOptions
from offbook.wire.server.wire_server import WireServer
from tests.every_case import EVERY_CASE
from tests.mcp.wiring import (
    SERVER,
    TOOLS,
    Client,
    Upstream,
    call,
    line,
    opening,
    post,
    real_server,
    recording_to,
    request,
)
from tests.recording.programs import call_mcp_tools, finish, start
from tests.servers import redis_server
from tests.servers.loopback import LoopbackServer

PROCESSES, CALLS = (10, 20) if EVERY_CASE else (4, 5)
ADD = {"a": 1, "b": 2}


@pytest.fixture
def url():
    return redis_server.shared().url()


def leases(url):
    return [key for key in redis_server.shared().keys(url) if ":lease:" in key]


async def until(is_there):
    """Wait until a client, or the real server, has what it should have."""
    async with asyncio.timeout(30):
        for pause_s in pauses_until(is_there):
            await asyncio.sleep(pause_s)


class Talk:
    """A client that talks to a session over stdio."""

    def __init__(self, session, upstream):
        self.client, self.upstream = Client(), upstream
        self.server = upstream.server = LineServer(session, self.client, upstream=upstream)

    def send(self, *messages):
        for message in messages:
            self.server.receive(line(message))

    async def ask(self, *messages):
        """Send messages and return the answers, by the ids of the messages."""
        self.send(*messages)
        await until(lambda: {each["id"] for each in messages if "id" in each} <= set(self.answers))
        return self.answers

    @property
    def answers(self):
        return {each["id"]: each for each in self.client.messages if "id" in each}


class Numbered:
    """Answers tool calls with their number, counted over all servers that it is the answer of."""

    def __init__(self):
        self.count = Counter()

    def __call__(self, message):
        self.count[message["method"]] += 1
        if message["method"] != "tools/call":
            yield from real_server(message)
            return
        text = f"{message['params']['name']} {self.count['tools/call']}"
        yield {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": text}]}}


class Silent(Upstream):
    """A real server that answers nothing before it is told to."""

    def write(self, data):
        self.received.append(json.loads(data))

    def answer(self):
        for message in self.received:
            for reply in self._answer(message):
                self.server.receive_from_server(line(reply).rstrip(b"\n"))


def text_of(answer):
    return answer["result"]["content"][0]["text"]


def test_many_processes_that_make_the_same_calls_at_once_make_each_once(url):
    printed, _ = finish(start(call_mcp_tools, url, PROCESSES, CALLS))
    answers, counts = zip(*map(json.loads, printed.splitlines()), strict=True)
    client = redis_server.shared().client
    assert len(set(map(tuple, answers))) == 1, "the second call of every process gets the second answer"
    assert len(set(answers[0])) == 2 * CALLS
    assert int(client.get(f"mcp {url} tools/call")) == 2 * CALLS
    assert int(client.get(f"mcp {url} tools/list")) == 1
    assert sum(each["misses"] for each in counts) == 2 * CALLS + 1
    assert sum(each["hits"] for each in counts) == (PROCESSES - 1) * (2 * CALLS + 1)
    recorded = {key: len(calls) for key, calls in open_store(url).load().tools.items()}
    assert recorded == {"_mcp.s initialize": 1, "_mcp.s tools/list": 1, "s.count": 2 * CALLS}
    assert leases(url) == []


@pytest.mark.parametrize("era", ["handshake", "modern"])
async def test_what_one_session_has_asked_answers_the_next_but_for_what_only_its_own_server_can(url, era):
    asked = [*opening(era), request("tools/list", id=1, era=era), call("add", ADD, id=2, era=era)]
    answers = []
    for _ in range(2):
        upstream = Upstream()
        with recording_to(url, mode="new") as session:
            answers.append(await Talk(session, upstream).ask(*asked))
    assert answers[0][2] == answers[1][2]
    assert [each[1]["result"]["tools"] for each in answers] == [TOOLS, TOOLS]
    assert upstream.received == opening(era)
    assert len(open_store(url).load().tools) == 3


async def test_equal_calls_are_told_apart_and_made_one_after_the_other(url):
    numbered = Numbered()
    silent = Silent(numbered)
    with recording_to(url, mode="new") as session:
        talk = Talk(session, silent)
        talk.send(call("count", id=1), call("count", id=2), call("other", id=3))
        await until(lambda: len(silent.received) == 2)
        assert [each["id"] for each in silent.received] == [1, 3]
        silent.answer()
        await until(lambda: len(silent.received) == 3)
        silent.received = silent.received[2:]
        silent.answer()
        await until(lambda: 2 in talk.answers)
        assert {number: text_of(each) for number, each in talk.answers.items()} == {
            1: "count 1",
            2: "count 3",
            3: "other 2",
        }
    with recording_to(url, mode="new") as session:
        answers = await Talk(session, Upstream(numbered)).ask(*(call("count", id=number) for number in (1, 2, 3)))
    assert [text_of(answers[number]) for number in (1, 2, 3)] == ["count 1", "count 3", "count 4"]


async def test_while_one_makes_a_call_others_wait_and_get_its_answer_or_the_call_when_it_has_failed(url):
    with ExitStack() as stack:
        talks = [Talk(stack.enter_context(recording_to(url, mode="new")), Silent()) for _ in range(3)]
        first, second, third = talks
        first.send(call("add", ADD))
        await until(lambda: first.upstream.received)
        second.send(call("add", ADD))
        third.send(call("add", ADD))
        assert len(leases(url)) == 1
        first.server.server_ended(3)  # without an answer
        await until(lambda: second.upstream.received or third.upstream.received)
        made, waits = (second, third) if second.upstream.received else (third, second)
        made.upstream.answer()
        await until(lambda: waits.answers)
        assert waits.answers == made.answers
        assert waits.upstream.received == []
    assert len(open_store(url).load().tools["notes.add"]) == 1
    assert leases(url) == []


async def test_a_call_that_the_client_cancels_keeps_nobody_waiting(url):
    def cancelled(id):
        return {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}

    with recording_to(url, mode="new") as session, recording_to(url, mode="new") as other:
        made, waits = Talk(session, Silent()), Talk(other, Upstream())
        made.send(call("add", ADD, id=7))
        await until(lambda: made.upstream.received)
        waits.send(call("add", ADD, id=8))
        await asyncio.sleep(0)
        waits.send(cancelled(8))
        made.send(cancelled(7))
        assert leases(url) == []
        answers = await waits.ask(call("add", ADD, id=9))
    assert list(answers) == [9]


async def test_a_process_that_is_gone_loses_its_lease(url):
    with recording_to(url, mode="new") as session, recording_to(url, mode="new") as other:
        dead = Talk(session, Silent())
        dead.send(call("add", ADD))
        await until(lambda: dead.upstream.received)
        (lease,) = leases(url)
        client = redis_server.shared().client
        assert 0 < client.pttl(lease) <= 10_000
        client.pexpire(lease, 1)  # as time does
        assert await Talk(other, Upstream()).ask(call("add", ADD))
    assert leases(url) == []


async def test_a_fault_that_makes_no_call_takes_no_turn_and_one_that_changes_the_answer_shares_it(url):
    with recording_to(url, mode="new", faults=["tool=notes.add call=1: tool_error"]) as session:
        assert "error" in str(await Talk(session, upstream := Upstream()).ask(call("add", ADD))).lower()
        assert upstream.received == []
        assert leases(url) == []
    for received in (1, 0):
        with recording_to(url, mode="new", faults=["tool=notes.add call=1: tool_empty"]) as session:
            await Talk(session, upstream := Upstream()).ask(call("add", ADD))
            assert len(upstream.received) == received


async def test_calls_of_a_batch_do_not_wait_and_are_recorded_once(url):
    batch = json.dumps([call("add", ADD, id=1), call("write", id=2)]).encode()
    for received in (1, 0):
        with recording_to(url, mode="new") as session:
            talk = Talk(session, BatchUpstream())
            talk.send(batch)
            await until(lambda talk=talk: b'"id":2' in talk.client.data.replace(b" ", b""))
            assert len(talk.upstream.received) == received
    assert {name: len(calls) for name, calls in open_store(url).load().tools.items()} == {
        "notes.add": 1,
        "notes.write": 1,
    }


class BatchUpstream(Upstream):
    def write(self, data):
        asked = json.loads(data)
        self.received.append(asked)
        self.server.receive_from_server(json.dumps([reply for each in asked for reply in real_server(each)]).encode())


async def test_without_the_redis_server_a_call_fails_or_is_made_live_as_the_url_says():
    with ExitStack() as stack:
        with redis_server.running() as server:
            urls = [server.url(), server.url(on_error="live")]
            talks = [Talk(stack.enter_context(recording_to(url, mode="new")), Upstream()) for url in urls]
            for talk in talks:
                await talk.ask(call("add", ADD))
        refused, live = [await talk.ask(call("write", id=2)) for talk in talks]
    assert "could not be recorded: no connection to the server" in refused[2]["error"]["message"]
    assert text_of(live[2]) == "written"
    assert [len(talk.upstream.received) for talk in talks] == [1, 2]


class HttpServer:
    """A real server over HTTP, which answers tool calls once it is released."""

    def __init__(self):
        self.numbered, self.released = Numbered(), Event()

    def __call__(self, received):
        assert self.released.wait(30)
        (reply,) = self.numbered(json.loads(received.body))
        received.whole(json.dumps(reply).encode())


@contextmanager
def recording_proxy(location, url, *, sink=NULL_SINK):
    """The address of a server that forwards to a URL, and records what comes back."""
    recorder = McpRecorder(location, mode="new", sink=sink)
    hub = McpHub([ServerConfig(SERVER, "http", {"url": url})], recorder=recorder)
    try:
        with WireServer(WireOptions(responses={}, strict=True, has_tools=True), mount=hub) as server:
            yield f"{server.url}/mcp/{SERVER}"
    finally:
        recorder.close()


async def test_clients_over_http_wait_for_each_other_and_one_that_leaves_keeps_nobody_waiting(url):
    sink, real = MemorySink(), HttpServer()
    sent = post(call("add", ADD))
    with LoopbackServer(real) as upstream, ExitStack() as stack:
        proxies = [stack.enter_context(recording_proxy(url, upstream.url, sink=sink)) for _ in range(3)]
        async with httpx.AsyncClient(headers=dict(sent.headers), timeout=30) as client:
            leaving = asyncio.ensure_future(client.post(proxies[0], content=sent.body))
            await until(lambda: len(upstream.calls) == 1)
            others = [asyncio.ensure_future(client.post(each, content=sent.body)) for each in proxies[1:]]
            leaving.cancel()
            await until(lambda: len(upstream.calls) == 2)
            real.released.set()
            answers = [(await other).json() for other in others]
        assert len(upstream.calls) == 2
    assert text_of(answers[0]) == text_of(answers[1])
    outcomes = Counter(each.outcome for each in sink.events if isinstance(each, CacheUsed))
    assert outcomes["miss"] == 2
    assert outcomes["hit"] == 1
    assert leases(url) == []
