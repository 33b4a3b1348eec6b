"""What a recorded server asks and tells its client: in the place where it did, and what the client's answers are."""

import asyncio
import json

import pytest

from offbook.clock import run
from offbook.mcp.stdio import LineServer
from tests.mcp.wiring import Client, Upstream, call, line, opening, over_stdio, post, recording_to, replaying, request

TEXT = {"content": [{"type": "text", "text": "a"}]}
QUESTION = {"jsonrpc": "2.0", "id": "s1", "method": "elicitation/create", "params": {"message": "Sure?"}}
YES = {"jsonrpc": "2.0", "id": "s1", "result": {"action": "accept", "content": {"n": 1}}}
NO = {"jsonrpc": "2.0", "id": "s1", "result": {"action": "decline"}}
CHANGED = "notifications/tools/list_changed"


def recording(*frames, times=1, **methods):
    """A recording of the tool `write`, with what was sent for a call of it before the result."""
    lines = [*frames, {"jsonrpc": "2.0", "id": 1, "result": TEXT}]
    wire = {"protocol": "mcp", "frames": [[1.0, json.dumps(each) + "\n"] for each in lines]}
    calls = [{"arguments": {}, "result": "a", "wire": wire}] * times
    return {"_version": 2, "_tools": {"notes.write": calls}, "_mcp": {"notes": methods}}


def minute(number):
    return f"2026-01-01T00:{number:02}:00.000000+00:00"


async def events(response, count):
    """The first messages of an HTTP response that is sent as it comes, with their ids."""
    found = []
    async for frame in response.live():
        fields = dict(each.split(": ", 1) for each in frame.decode().strip().splitlines())
        found.append((fields.get("id"), json.loads(fields["data"])))
        if len(found) == count:
            break
    return found


async def started(endpoint):
    session = endpoint.respond(post(opening("handshake")[0])).headers["mcp-session-id"]
    endpoint.respond(post(opening("handshake")[1], mcp_session_id=session))
    return session


def get(session, **headers):
    sent = post({}, mcp_session_id=session, accept="text/event-stream", **headers)
    return type(sent)("GET", sent.path, "", dict(sent.headers), b"")


@pytest.mark.parametrize(("answer", "misses"), [(YES, 0), (NO, 1)])
def test_over_http_a_call_is_answered_after_its_client_has_answered(answer, misses):
    async def talk(endpoint):
        session = await started(endpoint)
        response = endpoint.respond(post(call("write", id=7), mcp_session_id=session))
        (asked,) = await events(response, 1)
        assert not endpoint.session.session.calls
        assert endpoint.respond(post(answer, mcp_session_id=session)).status == 202
        resumed = endpoint.respond(get(session, last_event_id=asked[0]))
        return asked[1], (await events(resumed, 1))[0][1]

    with replaying(recording(QUESTION, YES)) as endpoint:
        asked, answered = run(talk(endpoint))
        assert asked["method"] == "elicitation/create"
        assert answered["id"] == 7
        assert ("error" in answered) == bool(misses)
        assert [each.outcome for each in endpoint.session.session.calls] == ["missed" if misses else "served"]
        assert len(endpoint.session.session.misses) == misses


def test_a_miss_shows_how_the_answer_of_the_client_differs():
    with replaying(recording(QUESTION, YES)) as endpoint:
        client = over_stdio(endpoint.session, call("write", id=5), NO)
    error = client.messages[-1]["error"]
    assert error["code"] == -32010
    assert '-  "action": "accept"' in error["message"]
    assert '+  "action": "decline"' in error["message"]


def test_a_client_that_never_answers_gets_a_miss_in_bounded_time():
    async def talk(session):
        client = Client()
        LineServer(session, client).receive(line(call("write", id=5)))
        await asyncio.sleep(3600)
        return client.messages

    with replaying(recording(QUESTION, YES)) as endpoint:
        got = run(talk(endpoint.session), virtual_time=True)
        assert [miss.kind for miss in endpoint.session.session.misses] == ["drifted"]
    assert "did not answer elicitation/create within 120 s" in got[-1]["error"]["message"]


def test_questions_of_parallel_calls_have_ids_of_their_own():
    with replaying(recording(QUESTION, YES, times=2)) as endpoint:
        client = over_stdio(endpoint.session, call("write", id=5), call("write", id=6), YES, YES | {"id": "s1-2"})
    assert [message["id"] for message in client.messages] == ["s1", "s1-2", 5, 6]


def test_what_a_client_answers_is_recorded_with_the_call_without_secrets(tmp_path):
    secret = "sk-proj-" + "a1B2" * 10

    class Asking(Upstream):
        def write(self, data):
            message = json.loads(data)
            self.received.append(message)
            if "method" in message:
                self.server.receive_from_server(line(QUESTION).strip())
                self.asked_by = message["id"]
            else:
                answer = {"jsonrpc": "2.0", "id": self.asked_by, "result": TEXT}
                self.server.receive_from_server(line(answer).strip())

    said = {"jsonrpc": "2.0", "id": "s1", "result": {"action": "accept", "content": {"key": secret}}}
    with recording_to(tmp_path / "run.json") as session:
        client = over_stdio(session, call("write", id=5), said, upstream=Asking())
    assert [message["id"] for message in client.messages] == ["s1", 5]
    assert secret not in (tmp_path / "run.json").read_text()
    for answer, count in ((said, 0), (NO, 1)):
        with replaying(tmp_path / "run.json") as endpoint:
            over_stdio(endpoint.session, call("write", id=5), answer)
            assert len(endpoint.session.session.misses) == count


def test_a_call_with_a_fault_still_asks_its_client(tmp_path):
    class Asking(Upstream):
        def write(self, data):
            message = json.loads(data)
            reply = QUESTION if "method" in message else {"jsonrpc": "2.0", "id": 5, "result": TEXT}
            self.server.receive_from_server(line(reply).strip())

    with recording_to(tmp_path / "run.json", faults=["tool=notes.write: tool_empty"]) as session:
        client = over_stdio(session, call("write", id=5), YES, upstream=Asking())
    assert [message["id"] for message in client.messages] == ["s1", 5]
    assert client.messages[-1]["result"] == {"content": []}


def own_messages():
    """A recording in which the server says something before, between and after two lists."""
    lists = [{"arguments": {}, "result": {"tools": []}, "recorded_at": minute(at)} for at in (10, 20)]
    changed = [{"arguments": {"n": at}, "recorded_at": minute(at)} for at in (5, 15, 25)]
    return recording(**{"tools/list": lists, CHANGED: changed})


def said(messages):
    return [each["params"]["n"] if each.get("method") == CHANGED else each["id"] for each in messages]


def test_notifications_are_sent_again_in_their_place_over_stdio():
    with replaying(own_messages()) as endpoint:
        listing = [request("tools/list", id=number) for number in (101, 102)]
        client = over_stdio(endpoint.session, *opening("handshake"), *listing)
        assert said(client.messages) == [0, 5, 101, 15, 102, 25]
        tools = endpoint.session.source.tools
        assert [stored.key for stored in tools.index if stored.id not in tools.used_ids] == ["notes.write"]


def test_notifications_are_sent_again_on_the_stream_of_a_client_over_http():
    async def talk(endpoint):
        session = await started(endpoint)
        for number in (101, 102):
            endpoint.respond(post(request("tools/list", id=number), mcp_session_id=session))
        return await events(endpoint.respond(get(session)), 3)

    with replaying(own_messages()) as endpoint:
        assert said(message for _, message in run(talk(endpoint))) == [5, 15, 25]


def test_a_modern_client_gets_those_notifications_that_it_subscribed_to():
    async def talk(endpoint, **wanted):
        listen = request("subscriptions/listen", {"notifications": wanted}, era="modern", id="sub")
        stream = endpoint.respond(post(listen)).live()
        got = [await anext(stream), *([await anext(stream)] if wanted.get("toolsListChanged") else [])]
        await stream.aclose()
        return [json.loads(each.decode().partition("data: ")[2]) for each in got]

    with replaying(own_messages()) as endpoint:
        acknowledged, changed = run(talk(endpoint, toolsListChanged=True))
        assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
        assert changed["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "sub"}
    with replaying(own_messages()) as endpoint:
        assert len(run(talk(endpoint, promptsListChanged=True))) == 1


@pytest.mark.parametrize(("root", "misses"), [("file:///a", 0), ("file:///b", 1)])
def test_a_request_of_the_server_outside_of_a_call_is_sent_again_and_its_answer_compared(tmp_path, root, misses):
    class Curious(Upstream):
        def write(self, data):
            message = json.loads(data)
            if message.get("method") == "notifications/initialized":
                asked = {"jsonrpc": "2.0", "id": "s9", "method": "roots/list"}
                self.server.receive_from_server(line(asked).strip())
            super().write(data)

    def roots(id, uri):
        return {"jsonrpc": "2.0", "id": id, "result": {"roots": [{"uri": uri}]}}

    with recording_to(tmp_path / "run.json") as session:
        over_stdio(session, *opening("handshake"), roots("s9", "file:///a"), upstream=Curious())
    with replaying(tmp_path / "run.json") as endpoint:
        client = over_stdio(endpoint.session, *opening("handshake"), roots("server-1", root))
        assert client.messages[-1] == {"jsonrpc": "2.0", "id": "server-1", "method": "roots/list"}
        assert len(endpoint.session.session.misses) == misses


def test_notifications_of_a_subscription_are_recorded_alone(tmp_path):
    def answer(message):
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        for method in ("subscriptions/acknowledged", "tools/list_changed"):
            yield {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {"_meta": meta}}

    listen = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, era="modern")
    with recording_to(tmp_path / "run.json") as session:
        over_stdio(session, listen, upstream=Upstream(answer))
    assert list(json.loads((tmp_path / "run.json").read_text())["_mcp"]["notes"]) == [CHANGED]


def test_log_messages_go_to_modern_clients_that_ask_for_them_only():
    logged = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
    silent = call("write", era="modern", id=2)
    del silent["params"]["_meta"]["io.modelcontextprotocol/logLevel"]
    with replaying(recording(logged, times=2)) as endpoint:
        client = over_stdio(endpoint.session, call("write", era="modern", id=1), silent)
    assert [message.get("id") for message in client.messages] == [None, 1, 2]
