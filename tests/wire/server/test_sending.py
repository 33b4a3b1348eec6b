"""Answers as bytes on real connections, and connections that really break."""

import http.client
import itertools
import threading
import time
from urllib.parse import urlsplit

import httpx2
import orjson
import pytest

from offbook import serving
from offbook.errors import ProviderError
from offbook.vendors import CODECS
from offbook.wire.request import HttpRequest
from offbook.wire.response import whole_response
from offbook.wire.server.connection import send_response
from tests.wire.http_requests import EVERY_PROTOCOL, PROTOCOLS, answer_to, call_of, decode, session_of
from tests.wire.raw_client import RawClient, ask, bytes_of, frames_in

CONTENT = "one two three four"
ENTRY = {"a": {"content": CONTENT}}
names = map("s{}".format, itertools.count())


@pytest.fixture(scope="module")
def server():
    with serving(responses=ENTRY) as server:
        yield server


@pytest.fixture
def answer_with(server):
    """Asks in a session of its own, with a fault at its first call; then the server must answer as ever."""

    def answer_after_fault(line, call, **options):
        name = next(names)
        server.start_session(name, faults=[f"call=1: {line}"])
        received = ask(server.session_url(name), call, **options)
        after = ask(server.session_url(name), call_of(text="after"))
        assert after.status == 200
        assert after.end == "complete"
        return received

    return answer_after_fault


def clean_frames(call):
    answer = answer_to(session_of(ENTRY, faults=["everywhere: slow_drip 1"]), call)
    return [data for _, data in answer.frames]


@pytest.mark.parametrize("protocol", EVERY_PROTOCOL)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_arrives_as_it_is(server, protocol, stream):
    call = call_of(protocol, stream=stream)
    received, answer = ask(server.url, call), answer_to(session_of(ENTRY), call)
    assert received.status == 200
    assert received.body == answer.content
    assert received.end == "complete"
    assert received.headers["content-type"] == answer.headers["content-type"]
    assert ("transfer-encoding" in received.headers) is stream
    assert decode(received.body, protocol, is_streamed=stream).content == CONTENT


def test_a_connection_is_kept_for_further_calls(server):
    with RawClient(server.url) as client:
        for stream in (False, True, False, True):
            assert client.ask(call_of(stream=stream)).end == "complete"
        assert client.ask(HttpRequest("GET", "/v1/models", "", {}, b"")).status == 200


@pytest.mark.parametrize("stream", [False, True])
def test_a_reset_is_a_real_one(answer_with, stream):
    received = answer_with("connection_reset", call_of(stream=stream))
    assert received.status is None
    assert received.body == b""
    assert received.end == "reset"


@pytest.mark.parametrize("stream", [False, True])
def test_silence_is_silent(answer_with, stream):
    received = answer_with("timeout", call_of(stream=stream), patience_s=0.05)
    assert received.status is None
    assert received.body == b""
    assert received.end == "silent"


def test_silence_that_has_an_end_ends_by_a_reset(answer_with):
    received = answer_with("timeout 20", call_of())
    assert received.status is None
    assert received.end == "reset"


@pytest.mark.parametrize(
    ("protocol", "after", "how", "end"),
    [
        ("openai_chat", 0, "ConnectionError", "reset"),
        ("openai_chat", 1, "cut", "closed"),
        ("openai_chat", 3, "clean", "complete"),
        ("openai_responses", 1, "ConnectionError", "reset"),
        ("anthropic", 3, "cut", "closed"),
        ("gemini", 0, "clean", "complete"),
        ("ollama", 3, "ConnectionError", "reset"),
        ("ollama", 0, "cut", "closed"),
    ],
)
def test_exactly_so_many_frames_arrive_before_a_stream_breaks_off(answer_with, protocol, after, how, end):
    call = call_of(protocol, stream=True)
    received = answer_with(f"stream_truncate {after} raise={how}", call)
    assert received.status == 200
    assert received.end == end
    assert frames_in(received.body) == clean_frames(call)[:after]
    assert received.headers["transfer-encoding"] == "chunked"


def test_a_stream_can_fall_silent_in_the_middle(answer_with):
    call = call_of(stream=True)
    received = answer_with("stream_truncate 2 raise=TimeoutError", call, patience_s=0.5)
    assert received.status == 200
    assert received.body == b"".join(clean_frames(call)[:2])
    assert received.end == "silent"


@pytest.mark.parametrize(
    ("protocol", "how"),
    [
        *((protocol, "error_event") for protocol in PROTOCOLS[:3]),
        *((protocol, "malformed") for protocol in PROTOCOLS[3:]),
    ],
)
def test_a_stream_can_end_in_what_its_clients_take_for_an_error(answer_with, protocol, how):
    received = answer_with(f"stream_truncate 3 raise={how}", call_of(protocol, stream=True))
    assert received.status == 200
    assert received.end == "complete"
    with pytest.raises(ProviderError):
        decode(received.body, protocol, is_streamed=True)


@pytest.mark.parametrize(("how", "end"), [("ConnectionError", "reset"), ("cut", "closed"), ("clean", "complete")])
def test_half_of_a_whole_answer_arrives_before_it_breaks_off(answer_with, how, end):
    received, whole = (
        answer_with(f"stream_truncate 1 raise={how}", call_of()),
        answer_to(session_of(ENTRY), call_of()).content,
    )
    assert received.status == 200
    assert received.body == whole[: len(whole) // 2]
    assert received.end == end


def test_an_http_client_takes_a_cut_for_what_it_is(server):
    server.start_session("cut", faults=["everywhere: stream_truncate 2 raise=cut"])
    place = urlsplit(server.session_url("cut"))
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=30)
    connection.request("POST", place.path + "/v1/chat/completions", call_of(stream=True).body)
    with pytest.raises(http.client.IncompleteRead):
        connection.getresponse().read()
    connection.close()
    with pytest.raises(httpx2.RemoteProtocolError, match="incomplete"):
        httpx2.post(server.session_url("cut") + "/v1/chat/completions", content=call_of(stream=True).body)


def test_a_drip_arrives_in_pieces(answer_with):
    for stream in (False, True):
        call = call_of(stream=stream)
        began_s = time.monotonic()
        received = answer_with("slow_drip 2", call)
        assert received.end == "complete"
        assert received.body == b"".join(clean_frames(call))
        assert time.monotonic() - began_s >= 0.002 * len(clean_frames(call))
    assert [chunk for chunk in received.chunks if chunk] == clean_frames(call)


def test_a_stall_arrives_late_and_whole(answer_with):
    call = call_of(stream=True)
    began_s = time.monotonic()
    received = answer_with("stream_stall 2 for_ms=30", call)
    assert time.monotonic() - began_s >= 0.03
    assert received.chunks == [b"".join(clean_frames(call)[:2]), b"".join(clean_frames(call)[2:])]


@pytest.mark.parametrize("stream", [False, True])
def test_recorded_times_are_kept(stream):
    chunks = [[5.0, "one "], [25.0, "two"]]
    with serving(
        responses={"a": {"content": "one two", "chunks": chunks, "latency_ms": 35.0}}, latency_model="replay"
    ) as paced:
        with RawClient(paced.url) as client:
            began_s = time.monotonic()
            client.send(bytes_of(call_of(stream=stream)))
            received = client.hear()
        assert time.monotonic() - began_s >= 0.035
        assert decode(received.body, is_streamed=stream).content == "one two"
        assert len(received.chunks) == (4 if stream else 1)


def test_a_wrong_content_type_arrives_with_the_right_bytes(answer_with):
    received = answer_with("wrong_content_type text/plain", call_of())
    assert received.headers["content-type"] == "text/plain"
    assert decode(received.body, is_streamed=False).content == CONTENT


@pytest.mark.parametrize(
    ("line", "protocol"), [('malformed_response "<oops>"', "openai_chat"), ("wrong_shape", "ollama")]
)
def test_answers_that_no_client_can_read_arrive_whole(answer_with, line, protocol):
    received = answer_with(line, call_of(protocol, stream=True))
    assert received.status == 200
    assert received.end == "complete"
    assert received.body


@pytest.mark.parametrize("status", [200, 299, 418, 429, 599])
def test_every_status_arrives(answer_with, status):
    received = answer_with(
        f"http_error {status} headers.X-Note=é headers.Transfer-Encoding=chunked headers.Content-Length=3", call_of()
    )
    assert received.status == status
    assert received.end == "complete"
    assert received.headers["x-note"] == "é"
    assert CODECS["openai_chat"].decode_error(received.body) == "an injected error"


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_that_has_no_body_gets_none(server, status):
    server.start_session("bodiless", faults=[f"call=1: http_error {status} body=xyz"])
    with RawClient(server.session_url("bodiless")) as client:
        received = client.ask(call_of())
        assert received.status == status
        assert received.body == b""
        assert received.headers.get("content-length", "0") == "0"
        assert client.ask(call_of(text="b")).status == 200


def test_an_entry_with_a_fault_of_its_own_breaks_alike():
    faults = [
        {"type": "connection_reset"},
        {"type": "stream_truncate", "after_chunks": 2, "raise": "cut"},
        {"type": "http_error", "status_code": 503, "headers": {"Retry-After": "1"}},
        {"type": "timeout"},
    ]
    entries = [{"content": CONTENT, "fault": fault} for fault in faults]
    with serving(responses={"_version": 2, "a": [*entries, {"content": "at last"}]}) as server:
        call = call_of(stream=True)
        ends = [ask(server.url, call, patience_s=patience_s)[::3] for patience_s in (5, 5, 5, 0.05)]
        assert ends == [(None, "reset"), (200, "closed"), (503, "complete"), (None, "silent")]
        assert decode(ask(server.url, call).body, is_streamed=True).content == "at last"


def test_all_of_a_large_answer_arrives_before_a_reset():
    text = ("w" * 1_000 + " ") * 4_000
    with serving(
        responses={"a": {"content": text}}, faults=["everywhere: stream_truncate 4001 raise=ConnectionError"]
    ) as server:
        received = ask(server.url, call_of(stream=True))
        assert received.end == "reset"
        assert len(received.body) > 4_000_000


def test_a_client_that_leaves_frees_what_was_held_for_it(server):
    before = threading.active_count()
    server.start_session("left", faults=["everywhere: timeout"])
    for _ in range(3):
        with RawClient(server.session_url("left")) as client:
            client.send(bytes_of(call_of(), prefix=client.prefix))
    assert orjson.loads(ask(server.url, HttpRequest("GET", "/_offbook/health", "", {}, b"")).body)["status"] == "ok"
    assert threading.active_count() == before


@pytest.mark.parametrize("line", ["timeout", "connection_reset", "stream_truncate 1 raise=cut", "slow_drip 1"])
def test_a_call_that_was_sent_ahead_does_not_keep_a_broken_one_alive(server, line):
    name = next(names)
    server.start_session(name, faults=[f"call=1: {line}"])
    with RawClient(server.session_url(name), patience_s=0.05) as client:
        client.send(
            bytes_of(call_of(stream=True), prefix=client.prefix) + bytes_of(call_of(text="ahead"), prefix=client.prefix)
        )
        client.rest()
    assert ask(server.url, call_of()).status == 200


async def test_a_client_that_leaves_before_its_answer_is_due_is_sent_nothing():
    sent = []

    async def leave():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    await send_response(whole_response(200, b"{}").delayed(60_000.0), {"http_version": "1.1"}, leave, send)
    assert sent == []
