"""A recording that many processes share in mode `new`: each call is made once, and everybody gets its answer."""

import asyncio
import json
import os
import signal

import pytest

from offbook.errors import ProviderConnectionError, RecordingUnavailableError, RecordingWriteError, ToolArgumentsError
from offbook.events import CacheUsed, MemorySink
from offbook.messages import Response, StreamedReply, StreamEnd, TextDelta, WholeReply
from offbook.providers.provider import Provider
from offbook.recording.call_cache import is_failure
from offbook.recording.format.exchange import Exchange
from offbook.recording.format.wire_record import WireRecord
from offbook.recording.stores.locate import open_store
from offbook.session.recording_provider import RecordingProvider
from offbook.session.recording_tools import record_tools
from tests.recording.programs import ask_questions, call_tools, finish, hang_upstream, start
from tests.servers import redis_server

PROCESSES, QUESTIONS = 10, 100
TOOL_CALLS = 15


def user(text):
    return [{"role": "user", "content": text}]


class Model(Provider):
    """Answers with the number of the call, once it is released; fails as often as it is told to."""

    name = "model"

    def __init__(self, *, failures=0):
        self.calls, self._failures = 0, failures
        self.asked, self.released = asyncio.Event(), asyncio.Event()
        self.released.set()

    async def send(self, request):
        self.calls += 1
        number = self.calls
        self.asked.set()
        await self.released.wait()
        if number <= self._failures:
            raise ProviderConnectionError("gone", provider=self.name)
        response = Response(content=f"answer {number}", model=request.model)
        return StreamedReply(self._events(response)) if request.stream else WholeReply(response)

    async def _events(self, response):
        yield TextDelta(response.content)
        yield StreamEnd(response)


@pytest.fixture
def url():
    return redis_server.shared().url()


def shared(model, url, **options):
    return RecordingProvider(model, url, record="new", **options)


def leases(url):
    return [key for key in redis_server.shared().keys(url) if ":lease:" in key]


async def test_an_equal_request_is_made_once_for_all_recorders_and_at_all_times(url):
    models = [Model(), Model()]
    async with shared(models[0], url) as first, shared(models[1], url) as second:
        answers = [await each.complete(user("Hi"), "m", step_id="greet") for each in (first, second, first, second)]
    assert {answer.content for answer in answers} == {"answer 1"}
    assert models[0].calls == 1
    assert models[1].calls == 0
    assert len(list(open_store(url).load())) == 1


async def test_requests_of_one_step_are_told_apart(url):
    models = [Model(), Model()]
    async with shared(models[0], url) as first, shared(models[1], url) as second:
        for recorder in (first, second):
            for text in ("a", "b", "a", "c"):
                await recorder.complete(user(text), "m", step_id="loop")
    assert [model.calls for model in models] == [3, 0]


@pytest.mark.parametrize("is_streamed", [False, True])
async def test_while_one_asks_the_others_wait_for_its_answer(url, is_streamed):
    model, waiting, sink = Model(), Model(), MemorySink()
    model.released.clear()

    async def ask(recorder):
        if is_streamed:
            return [event async for event in await recorder.stream(user("Hi"), "m")][-1].response.content
        return (await recorder.complete(user("Hi"), "m")).content

    async with shared(model, url) as first, shared(waiting, url, sink=sink) as second:
        asking = asyncio.ensure_future(ask(first))
        await model.asked.wait()
        others = [asyncio.ensure_future(ask(each)) for each in (first, second, second)]
        assert len(leases(url)) == 1
        model.released.set()
        assert await asyncio.gather(asking, *others) == ["answer 1"] * 4
    assert model.calls == 1
    assert waiting.calls == 0
    assert leases(url) == []
    outcomes = [event.outcome for event in sink.events if isinstance(event, CacheUsed)]
    assert outcomes.count("hit") == 2
    assert outcomes.count("miss") == 0


async def test_a_failure_is_not_kept_and_the_next_one_asks_again(url):
    model = Model(failures=2)
    async with shared(model, url) as recorder:
        for _ in range(2):
            with pytest.raises(ProviderConnectionError):
                await recorder.complete(user("Hi"), "m")
        assert leases(url) == []
        assert (await recorder.complete(user("Hi"), "m")).content == "answer 3"
    assert [exchange.content for _, exchange in open_store(url).load()] == ["answer 3"]


async def test_a_call_that_is_cancelled_or_left_unread_keeps_nobody_waiting(url):
    model = Model()
    model.released.clear()
    async with shared(model, url) as recorder:
        asking = asyncio.ensure_future(recorder.complete(user("Hi"), "m"))
        await model.asked.wait()
        asking.cancel()
        await asyncio.wait([asking])
        assert leases(url) == []
        model.released.set()
        reply = await recorder.stream(user("Hi"), "m")
        assert len(leases(url)) == 1
        await reply.aclose()
        assert leases(url) == []
        assert (await recorder.complete(user("Hi"), "m")).content == "answer 3"


async def test_a_lease_is_lost_by_a_process_that_dies(url):
    process = start(hang_upstream, url)
    assert process.stdout.readline() == b"asked Hi\n"
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    (lease,) = leases(url)
    client = redis_server.shared().client
    assert 0 < client.pttl(lease) <= 10_000
    client.pexpire(lease, 1)  # as time does
    model = Model()
    async with shared(model, url) as recorder:
        await recorder.complete(user("Hi"), "m", step_id="greet")
    assert model.calls == 1
    assert leases(url) == []


def test_many_processes_that_ask_the_same_at_once_pay_once_for_each(url):
    calls = redis_server.shared().client
    printed, _ = finish(start(ask_questions, url, PROCESSES, QUESTIONS))
    counts = [json.loads(line) for line in printed.splitlines()]
    assert sum(count["misses"] for count in counts) == QUESTIONS
    assert sum(count["hits"] for count in counts) == (PROCESSES - 1) * QUESTIONS
    assert int(calls.get(f"upstream {url}")) == QUESTIONS
    assert len(list(open_store(url).load())) == QUESTIONS
    assert leases(url) == []


def test_many_processes_that_call_the_same_tools_at_once_run_each_call_once(url):
    """A tool may answer the second of two equal calls otherwise than the first, so both are made."""
    printed, _ = finish(start(call_tools, url, 4, TOOL_CALLS))
    results = [json.loads(line) for line in printed.splitlines()]
    assert results == [[[1, 2]] * TOOL_CALLS + [[1] * TOOL_CALLS, [2] * TOOL_CALLS]] * 4
    assert {tool: len(calls) for tool, calls in open_store(url).load().tools.items()} == {
        "count": 2 * TOOL_CALLS,
        "later": 2 * TOOL_CALLS,
    }
    assert leases(url) == []


async def test_a_tool_that_fails_answers_all_and_one_that_never_ends_keeps_nobody_waiting(url):
    asked, calls = asyncio.Event(), []

    async def get(city):
        calls.append(city)
        if city == "Oslo":
            raise LookupError(city)
        asked.set()
        await asyncio.Event().wait()

    async with record_tools({"get": get}, url, record="new") as first:
        with pytest.raises(LookupError):
            await first["get"](city="Oslo")
        asking = asyncio.ensure_future(first["get"](city="Rome"))
        await asked.wait()
        assert len(leases(url)) == 1
        asking.cancel()
        await asyncio.wait([asking])
        with pytest.raises(ToolArgumentsError):
            await first["get"](town="Rome")
        assert leases(url) == []
    async with record_tools({"get": get}, url, record="new") as second:
        with pytest.raises(LookupError):
            await second["get"](city="Oslo")
    assert calls == ["Oslo", "Rome"]


async def test_what_has_expired_is_asked_for_again_and_counted(url):
    model, sink = Model(), MemorySink()
    async with shared(model, url) as recorder:
        await recorder.complete(user("Hi"), "m", step_id="greet")
    client = redis_server.shared().client
    client.delete(*(key for key in redis_server.shared().keys(url) if ":x:" in key))
    async with shared(model, url, sink=sink) as recorder:
        assert (await recorder.complete(user("Hi"), "m", step_id="greet")).content == "answer 2"
    assert sum(event.gone for event in sink.events if isinstance(event, CacheUsed)) > 0


async def test_without_its_server_a_run_fails_or_goes_on_live_as_the_url_says():
    with redis_server.running() as server:
        urls = [server.url(), server.url(on_error="live")]
        model, sink = Model(), MemorySink()
        strict, lenient = shared(model, urls[0]), shared(model, urls[1], sink=sink)
        for recorder in (strict, lenient):
            await recorder.complete(user("Hi"), "m")
    with pytest.raises(RecordingUnavailableError, match="no connection"):
        await strict.complete(user("Ho"), "m")
    assert model.calls == 2
    assert (await lenient.complete(user("Ho"), "m")).content == "answer 3"
    assert [event.outcome for event in sink.events if isinstance(event, CacheUsed)] == ["miss", "unreached"]
    await strict.close()
    await lenient.close()


async def test_a_call_that_cannot_be_recorded_is_an_error():
    with redis_server.running() as server:
        url, model = server.url(), Model()
        model.released.clear()
        async with shared(model, url) as recorder:
            asking = asyncio.ensure_future(recorder.complete(user("Hi"), "m"))
            await model.asked.wait()
            server.client.config_set("maxmemory", "1mb")
            model.released.set()
            with pytest.raises(RecordingWriteError, match="is out of memory"):
                await asking
        assert not [key for key in server.keys(url) if ":x:" in key]


def test_equal_calls_of_a_tool_are_answered_in_order_and_then_made(url):
    calls = []

    def get(city):
        calls.append(city)
        return f"{city} {len(calls)}"

    for _ in range(2):
        with record_tools({"get": get}, url, record="new") as tools:
            assert tools["get"](city="Oslo") == "Oslo 1"
    with record_tools({"get": get}, url, record="new") as tools:
        assert [tools["get"](city="Oslo") for _ in range(2)] == ["Oslo 1", "Oslo 2"]


def test_an_answer_with_the_status_of_an_error_is_a_failure():
    statuses = [status for status in (200, 399, 400, 500, 599) if is_failure(exchange_of(status))]
    assert statuses == [400, 500, 599]


def exchange_of(status):
    return Exchange(content="", wire=WireRecord(protocol="http", status=status))
