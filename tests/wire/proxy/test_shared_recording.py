"""Servers that share a recording in mode `new`: one of them asks the real API, and all answer."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from offbook.cli.output.wire import WireSummary
from offbook.cli.runners.wire import tally_wire_calls
from offbook.faults import FaultPlan
from tests.servers import redis_server
from tests.servers.loopback import PATIENCE_S, LoopbackServer
from tests.servers.models import chat_answer
from tests.wire.proxy.recorded import DONE, HTTP, STOP, delta, exchanges, recording

PLACE = "/v1/chat/completions"


@pytest.fixture
def upstream():
    with LoopbackServer(lambda call: call.whole(chat_answer("Hello"))) as running:
        yield running


def serving(url, upstream):
    return recording(url, upstream.url, record_mode="new")


def ask(server, text="Hi", **fields):
    body = {"model": "m", "messages": [{"role": "user", "content": text}], **fields}
    return HTTP.post(server.url + PLACE, json=body)


@pytest.mark.parametrize("is_streamed", [False, True])
def test_the_same_question_at_two_servers_goes_upstream_once(upstream, is_streamed):
    url, may_answer, is_asked = redis_server.shared().url(), threading.Event(), threading.Event()

    def answer(call):
        is_asked.set()
        assert may_answer.wait(PATIENCE_S)
        if is_streamed:
            call.stream(delta("Hello"), STOP, DONE)
        else:
            call.whole(chat_answer("Hello"))

    upstream.answer = answer
    with serving(url, upstream) as first, serving(url, upstream) as second, ThreadPoolExecutor(6) as pool:
        asking = [pool.submit(ask, first, stream=is_streamed)]
        assert is_asked.wait(PATIENCE_S)
        asking += [pool.submit(ask, server, stream=is_streamed) for server in (first, second, second)]
        may_answer.set()
        answers = [each.result() for each in asking]
        counts = [server.cache_counts for server in (first, second)]
    assert {(each.status_code, each.content) for each in answers} == {(200, answers[0].content)}
    assert len(upstream.calls) == 1
    assert sum(count.misses for count in counts) == 1
    assert sum(count.hits for count in counts) == 3
    assert len(exchanges(url)) == 1
    assert not [key for key in redis_server.shared().keys(url) if ":lease:" in key]


def test_a_refusal_of_the_api_is_passed_on_and_not_kept(upstream):
    url = redis_server.shared().url()
    upstream.answer = lambda call: call.whole(b'{"error": {"message": "slow down"}}', status=429)
    with serving(url, upstream) as server:
        assert [ask(server).status_code for _ in range(2)] == [429, 429]
        upstream.answer = lambda call: call.whole(chat_answer("Hello"))
        assert [ask(server).status_code for _ in range(2)] == [200, 200]
    assert len(upstream.calls) == 3
    assert [exchange.content for exchange in exchanges(url)] == ["Hello"]


def test_the_summary_says_what_the_shared_recording_was_used_for(upstream, capsys):
    with serving(redis_server.shared().url(), upstream) as server:
        for text in ("a", "b", "a"):
            ask(server, text)
    tally = tally_wire_calls(server, ([], []), FaultPlan())
    WireSummary(tally, "redis://me:s3cret@cache/0").print()
    said = capsys.readouterr().err
    assert "3 calls, 1 served, 2 recorded (redis://me:***@cache/0)" in said
    assert "shared recording: 1 hit, 2 misses, 0 waits" in said
    assert tally.document(with_calls=False)["cache"]["hits"] == 1


def test_without_its_server_calls_are_refused_or_made_live_as_the_url_says(upstream):
    with redis_server.running() as store:
        urls = [store.url(), store.url(on_error="live")]
        servers = [serving(url, upstream).start() for url in urls]
        assert [ask(server).status_code for server in servers] == [200, 200]
    refused, live = [ask(server, "Ho") for server in servers]
    assert refused.status_code == 422
    assert live.status_code == 200
    assert "no connection to the server" in refused.text
    assert len(upstream.calls) == 3
    assert servers[0].totals().unrecorded.total() == 1
    assert servers[1].cache_counts.unreached == 1
    for server in servers:
        server.stop()
