"""Streamable HTTP: what a server of each era says about sessions, methods and headers, and how answers are sent."""

import asyncio
import json

import pytest

from offbook.mcp.http.endpoint import MAX_EVENTS, EventStream, decode_header, encode_header
from offbook.wire.request import HttpRequest
from tests.mcp.wiring import MODERN, TOOLS, call, messages_in, opening, post, replaying, request

RECORDING = {
    "_version": 2,
    "_tools": {"notes.write": [{"arguments": {}, "result": "a"}]},
    "_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": {"tools": TOOLS}}]}},
}


@pytest.fixture
def endpoint():
    with replaying(RECORDING) as endpoint:
        yield endpoint


def start(endpoint):
    return endpoint.respond(post(opening("handshake")[0])).headers["mcp-session-id"]


def code(response):
    return json.loads(response.content)["error"]["code"]


def plain(method, **headers):
    return HttpRequest(method, "/mcp", "", {name.replace("_", "-"): value for name, value in headers.items()}, b"")


@pytest.mark.parametrize(
    ("headers", "version", "expected"),
    [
        ({"mcp_protocol_version": None}, "2026-07-28", (400, -32020)),
        ({"mcp_method": "tools/list"}, "2026-07-28", (400, -32020)),
        ({"mcp_name": "other"}, "2026-07-28", (400, -32020)),
        ({"mcp_name": None}, "2026-07-28", (400, -32020)),
        ({}, "2031-01-01", (400, -32022)),
        ({}, "2026-07-28", (200, None)),
    ],
)
def test_headers_of_a_modern_request_must_match_its_body(endpoint, headers, version, expected):
    message = call("write", era="modern")
    message["params"]["_meta"] = MODERN | {"io.modelcontextprotocol/protocolVersion": version}
    response = endpoint.respond(post(message, **headers))
    assert (response.status, json.loads(response.content).get("error", {}).get("code")) == expected


def test_an_unknown_version_is_answered_with_the_known_ones(endpoint):
    message = request("tools/list", era="modern")
    message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2031-01-01"
    data = json.loads(endpoint.respond(post(message)).content)["error"]["data"]
    assert data == {"supported": ["2026-07-28"], "requested": "2031-01-01"}


def test_an_unknown_method_is_404_for_a_modern_client(endpoint):
    response = endpoint.respond(post(request("nope/x", era="modern")))
    assert response.status == 404
    assert code(response) == -32601


def test_modern_clients_have_neither_streams_nor_sessions(endpoint):
    for method in ("GET", "DELETE"):
        response = endpoint.respond(plain(method, mcp_protocol_version="2026-07-28"))
        assert response.status == 405
        assert response.headers["allow"] == "POST"
    assert "mcp-session-id" not in endpoint.respond(post(request("tools/list", era="modern"))).headers


def test_a_session_of_the_handshake_era_starts_with_initialize_and_ends_with_delete(endpoint):
    listing = request("tools/list")
    assert endpoint.respond(post(listing)).status == 400
    session = start(endpoint)
    assert endpoint.respond(post(listing, mcp_session_id=session)).status == 200
    stream = endpoint.respond(plain("GET", mcp_session_id=session))
    assert stream.status == 200
    assert stream.headers["content-type"] == "text/event-stream"
    assert stream.live is not None
    assert endpoint.respond(plain("DELETE", mcp_session_id=session)).status == 200
    assert endpoint.respond(post(listing, mcp_session_id=session)).status == 404
    assert endpoint.respond(plain("GET", mcp_session_id=session)).status == 404


def test_notifications_and_responses_are_accepted(endpoint):
    session = start(endpoint)
    for message in (opening("handshake")[1], {"jsonrpc": "2.0", "id": 1, "result": {}}):
        assert endpoint.respond(post(message, mcp_session_id=session)).status == 202


def test_a_body_that_is_no_message_is_refused(endpoint):
    for body, expected in ((b"{", -32700), (b"[]", -32600)):
        response = endpoint.respond(HttpRequest("POST", "/mcp", "", {}, body))
        assert response.status == 400
        assert code(response) == expected


def test_one_message_is_json_and_several_are_events():
    frames = [
        [1.0, '{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}\n'],
        [2.0, '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n'],
    ]
    entry = {"arguments": {}, "result": [], "wire": {"protocol": "mcp", "frames": frames}}
    with replaying(RECORDING | {"_tools": {"notes.write": [entry]}}) as endpoint:
        response = endpoint.respond(post(call("write", era="modern")))
    assert response.headers["content-type"] == "text/event-stream"
    assert [message.get("method") for message in messages_in(response)] == ["notifications/message", None]


@pytest.mark.parametrize(("ending", "fault"), [("cut", "tool_lost"), ("silence", "tool_timeout")])
def test_a_fault_ends_the_stream_instead_of_an_answer(ending, fault):
    with replaying(RECORDING, faults=[f"tool=notes.write call=1: {fault}"]) as endpoint:
        broken = endpoint.respond(post(call("write", era="modern")))
        again = endpoint.respond(post(call("write", era="modern", id=2)))
    assert broken.ending == ending
    assert messages_in(again)[0]["result"]["content"][0]["text"] == "a"


@pytest.mark.parametrize("value", ["add", "größe", " padded ", "=?base64?x?=", ""])
def test_header_values_survive_their_encoding(value):
    assert encode_header(value).isascii()
    assert decode_header(encode_header(value)) == value


def batch(messages, **headers):
    sent = post({}, **headers)
    body = json.dumps(messages).encode()
    return HttpRequest("POST", "/mcp", "", {name: value for name, value in sent.headers.items() if value}, body)


def test_a_batch_of_2025_03_26_is_answered_as_one(endpoint):
    session = start(endpoint)
    sent = [request("tools/list", id=1), opening("handshake")[1], call("write", id=2)]
    response = endpoint.respond(batch(sent, mcp_session_id=session))
    assert response.headers["content-type"] == "application/json"
    assert [message["id"] for message in json.loads(response.content)] == [1, 2]
    assert [each.outcome for each in endpoint.session.session.calls] == ["served"]


def test_a_batch_without_requests_is_accepted_and_one_of_a_later_revision_is_not(endpoint):
    session = start(endpoint)
    initialized = opening("handshake")[1]
    assert endpoint.respond(batch([initialized], mcp_session_id=session)).status == 202
    later = endpoint.respond(batch([initialized], mcp_session_id=session, mcp_protocol_version="2025-06-18"))
    assert later.status == 400
    assert code(later) == -32600


def test_a_client_that_was_cut_off_resumes_by_the_id_of_its_last_event():
    progress = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": n}} for n in (1, 2)]
    answer = {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "a"}]}}
    frames = [[1.0, json.dumps(each) + "\n"] for each in (*progress, answer)]
    entry = {"arguments": {}, "result": "a", "wire": {"protocol": "mcp", "frames": frames}}

    async def resumed(endpoint, session, last):
        response = endpoint.respond(plain("GET", mcp_session_id=session, last_event_id=last))
        return [frame async for frame in response.live()]

    with replaying(RECORDING | {"_tools": {"notes.write": [entry]}}) as endpoint:
        session = start(endpoint)
        sent = endpoint.respond(post(call("write"), mcp_session_id=session))
        assert [data.partition(b"\n")[0] for _, data in sent.frames] == [b"id: 1-1", b"id: 1-2", b"id: 1-3"]
        assert asyncio.run(resumed(endpoint, session, "1-1")) == [data for _, data in sent.frames[1:]]
        for unknown in ("7-1", "1-9", "nonsense"):
            refused = endpoint.respond(plain("GET", mcp_session_id=session, last_event_id=unknown))
            assert refused.status == 400
            assert code(refused) == -32600


def test_a_stream_keeps_what_was_not_read_and_drops_the_oldest_of_the_rest():
    async def read():
        stream = EventStream("0")
        for number in range(MAX_EVENTS + 5):
            stream.write(b"%d" % number)
        stream.end()
        return [frame async for frame in stream.follow(0)], stream.has(4), stream.has(5)

    frames, *known = asyncio.run(read())
    assert len(frames) == MAX_EVENTS
    assert known == [False, True]


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe"])
def test_what_the_modern_era_has_removed_is_unknown_to_its_clients(endpoint, method):
    response = endpoint.respond(post(request(method, era="modern")))
    assert response.status == 404
    assert code(response) == -32601


@pytest.mark.parametrize(
    ("header", "status"), [("eu", 200), (" eu ", 200), ("=?base64?ZXU=?=", 200), (None, 400), ("us", 400)]
)
def test_headers_repeat_the_arguments_that_a_tool_names(header, status):
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    listed = {"tools": [{"name": "write", "inputSchema": schema}]}
    recording = RECORDING | {"_tools": {"notes.write": [{"result": "a"}]}}
    recording |= {"_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": listed}]}}}
    with replaying(recording) as endpoint:
        sent = post(call("write", {"region": "eu"}, era="modern"), mcp_param_region=header)
        assert endpoint.respond(sent).status == status
