"""Streamable HTTP: what a server of each era says about sessions, methods and headers, and how answers are sent."""

import json

import pytest

from offbook.mcp.http import decode_header, encode_header
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
    assert (response.status, code(response)) == (404, -32601)


def test_modern_clients_have_neither_streams_nor_sessions(endpoint):
    for method in ("GET", "DELETE"):
        response = endpoint.respond(plain(method, mcp_protocol_version="2026-07-28"))
        assert (response.status, response.headers["allow"]) == (405, "POST")
    assert "mcp-session-id" not in endpoint.respond(post(request("tools/list", era="modern"))).headers


def test_a_session_of_the_handshake_era_starts_with_initialize_and_ends_with_delete(endpoint):
    listing = request("tools/list")
    assert endpoint.respond(post(listing)).status == 400
    session = start(endpoint)
    assert endpoint.respond(post(listing, mcp_session_id=session)).status == 200
    stream = endpoint.respond(plain("GET", mcp_session_id=session))
    assert (stream.status, stream.ending, stream.headers["content-type"]) == (200, "silence", "text/event-stream")
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
        assert (response.status, code(response)) == (400, expected)


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
