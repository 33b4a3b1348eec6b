"""In which order calls that arrive together are numbered."""

import json
from contextlib import ExitStack

import pytest

from offbook import serving
from offbook.wire.request import HttpRequest
from tests.wire.http_requests import call_of
from tests.wire.raw_client import PATIENCE_S, RawClient, bytes_of

TEXTS = ("one", "two", "three")


@pytest.fixture
def server():
    with serving(responses={"a": {"content": "Hello"}}, faults=["call=1: http_error 404"]) as server:
        yield server


@pytest.fixture
def connect():
    """Opens connections that are closed in the end."""
    with ExitStack() as opened:
        yield lambda url: opened.enter_context(RawClient(url))


@pytest.fixture
def patient(monkeypatch):
    """Lets calls wait for longer than clients do."""
    monkeypatch.setattr("offbook.wire.server.arrival_order.MAX_WAIT_S", 10 * PATIENCE_S)


def parts(text, client):
    """The head and the body of a call."""
    call = call_of(text=text)
    data = bytes_of(call, prefix=client.prefix)
    return data.removesuffix(call.body), call.body


def begin(url, connect, texts=TEXTS):
    """Send the heads of calls, and return what sends the rest of each, with its connection."""
    begun = []
    for text in texts:
        client = connect(url)
        head, body = parts(text, client)
        client.send(head)
        begun.append((client, body))
    return begun


def numbers(server, session=""):
    return {call.request.messages[0]["content"]: call.call for call in server.session(session).calls}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
def test_calls_are_numbered_as_they_begin_in_whatever_order_their_bodies_come(server, connect, order):
    begun = begin(server.url, connect)
    for each in order:
        client, body = begun[each]
        client.send(body)
    assert [client.hear().status for client, _ in begun] == [404, 200, 200]
    assert numbers(server) == {"one": 1, "two": 2, "three": 3}


@pytest.mark.usefixtures("patient")
def test_a_call_that_comes_in_one_piece_waits_for_one_that_has_begun(server, connect):
    [(first, body)] = begin(server.url, connect, ["one"])
    second = connect(server.url)
    second.send(bytes_of(call_of(text="two")))
    first.send(body)
    assert second.hear().status == 200
    assert first.hear().status == 404


@pytest.mark.usefixtures("patient")
def test_a_call_does_not_wait_for_one_that_is_given_up(server, connect):
    (first, _), (second, body) = begin(server.url, connect, ["one", "two"])
    second.send(body)
    first.socket.close()
    assert second.hear().status == 404


def test_a_client_may_need_an_answer_to_send_the_rest_of_an_earlier_call(server, connect):
    (first, body), (second, other) = begin(server.url, connect, ["one", "two"])
    second.send(other)
    assert second.hear().status == 404
    first.send(body)
    assert first.hear().status == 200


def test_what_is_sent_behind_a_call_that_waits_is_answered_after_it(server, connect):
    (first, body), (second, other) = begin(server.url, connect, ["one", "two"])
    second.send(other + bytes_of(call_of(text="three")))
    assert [second.hear().status, second.hear().status] == [404, 200]
    first.send(body)
    assert first.hear().status == 200


@pytest.mark.usefixtures("patient")
def test_calls_of_other_sessions_and_what_is_no_call_do_not_wait(server, connect):
    [(first, body)] = begin(server.url, connect, ["one"])
    assert connect(server.session_url("other")).ask(call_of(text="two")).status == 404
    effects = HttpRequest("POST", "/_offbook/effects", "", {}, b'{"tool": "refund"}')
    assert connect(server.url).ask(effects).status == 204
    first.send(body)
    assert first.hear().status == 404


@pytest.mark.usefixtures("patient")
def test_calls_do_not_wait_for_each_other_without_a_plan(connect):
    with serving(responses={"a": {"content": "Hello"}}) as server:
        (first, body), (second, other) = begin(server.url, connect, ["one", "two"])
        second.send(other)
        assert second.hear().status == 200
        first.send(body)
        assert first.hear().status == 200
        assert numbers(server) == {"two": 1, "one": 2}


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)])
@pytest.mark.parametrize("is_listed", [True, False], ids=["a list", "entries"])
def test_answers_to_any_request_are_given_as_calls_begin_also_without_a_plan(connect, order, is_listed):
    answers = [{"content": text} for text in TEXTS]
    with serving(responses={"any": answers} if is_listed else dict(zip("abc", answers, strict=True))) as server:
        begun = begin(server.url, connect)
        for each in order:
            client, body = begun[each]
            client.send(body)
        heard = [json.loads(client.hear().body)["choices"][0]["message"]["content"] for client, _ in begun]
    assert heard == list(TEXTS)
