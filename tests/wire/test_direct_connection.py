"""Calls that are answered where they arrive, and those that are not."""

import pytest

from offbook.wire.direct_connection import MAX_HELD_BYTES
from offbook.wire.serving import serving
from tests.wire.calls import call_of, decode
from tests.wire.raw_client import RawClient, bytes_of

CONTENT = "word " * 20_000


@pytest.fixture(scope="module")
def server():
    with serving(responses={"a": {"content": CONTENT}, "b": {"content": "short"}}) as server:
        server.start_session("late", faults=["everywhere: stream_stall 1 for_ms=1"])
        yield server


@pytest.fixture
def client(server):
    with RawClient(server.url) as client:
        yield client


def short(text="Hi", **fields):
    return call_of(text=text, headers={"x-offbook-step": "b"}, **fields)


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_is_due_at_once_comes_in_one_piece(client, stream):
    client.send(bytes_of(short(stream=stream)))
    data = client.socket.recv(65_536)
    assert data.startswith(b"HTTP/1.1 200 OK\r\n")
    assert data.endswith(b"0\r\n\r\n" if stream else b"}")


@pytest.mark.parametrize("size", [MAX_HELD_BYTES - 1_000, MAX_HELD_BYTES + 1, 4 * MAX_HELD_BYTES])
def test_a_call_of_any_size_is_read_whole(server, client, size):
    text = "x" * size
    assert decode(client.ask(short(text)).body, is_streamed=False).content == "short"
    assert server.calls[-1].request.messages[0]["content"] == text


def test_a_client_that_sends_ahead_and_reads_late_gets_every_answer(client):
    calls = 200
    client.send(bytes_of(call_of(headers={"x-offbook-step": "a"})) * calls + bytes_of(short()))
    answers = [decode(client.hear().body, is_streamed=False).content for _ in range(calls + 1)]
    assert answers == [CONTENT] * calls + ["short"]


def test_answers_that_are_due_later_and_at_once_may_follow_each_other(server):
    with RawClient(server.session_url("late")) as client:
        for stream in (True, False, True):
            heard = client.ask(short(stream=stream))
            assert decode(heard.body, is_streamed=stream).content == "short"


def test_a_call_that_waits_for_its_body_is_not_answered_before(client):
    data = bytes_of(short())
    client.send(data[:-1])
    client.socket.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(5.0)
    client.send(data[-1:])
    assert client.hear().status == 200
