"""Which recorded answer a request gets, what a miss says, and how messages are fitted to their client."""

import json
from contextlib import closing

import pytest

from offbook.mcp.hub import McpHub
from offbook.mcp.message import MISSED
from offbook.mcp.replay import annotations_of, recorded_servers
from offbook.recording.format.exchange import hash_arguments
from offbook.recording.stores.locate import read_document
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from tests.mcp.wiring import TOOLS, call, over_stdio, replaying, request


def recording(*calls, tool="write", **methods):
    return {
        "_version": 2,
        "_tools": {f"notes.{tool}": list(calls)} if calls else {},
        "_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": {"tools": TOOLS}}], **methods}},
    }


def answers(recorded, *messages, faults=()):
    with replaying(recorded, faults=faults) as endpoint:
        client = over_stdio(endpoint.session, *messages)
        return client.messages, endpoint.session.session


def texts(messages):
    return [message["result"]["content"][0]["text"] for message in messages]


def test_equal_calls_are_answered_in_order_each_once():
    recorded = recording(*({"arguments": {"n": 1}, "result": text} for text in ("a", "b")))
    got, session = answers(recorded, *(call("write", {"n": 1}, id=number) for number in (7, 8, 9)))
    assert texts(got[:2]) == ["a", "b"]
    assert [message["id"] for message in got] == [7, 8, 9]
    assert got[2]["error"]["code"] == MISSED
    assert [miss.kind for miss in session.misses] == ["exhausted"]


def test_what_is_not_a_tool_call_gets_the_last_answer_again():
    got, session = answers(recording(), *(request("tools/list", id=number) for number in (1, 2, 3)))
    assert [len(message["result"]["tools"]) for message in got] == [2, 2, 2]
    assert not session.misses


def test_meta_progress_tokens_and_request_state_are_not_compared():
    recorded = recording({"arguments": {"n": 1}, "result": "a"})
    message = call("write", {"n": 1}, era="modern", token=5)
    message["params"]["requestState"] = "opaque"
    got, _ = answers(recorded, message)
    assert texts(got) == ["a"]


def test_json_inside_text_is_compared_as_json():
    recorded = recording({"arguments": {"body": '{"a": 1, "b": [2]}'}, "result": "a"})
    got, _ = answers(recorded, call("write", {"body": '{"b":[2],"a":1}'}))
    assert texts(got) == ["a"]


def test_a_cursor_is_the_same_if_it_appeared_in_the_same_place():
    pages = [
        {"arguments": {}, "result": {"tools": TOOLS[:1], "nextCursor": "old"}},
        {"arguments": {"cursor": "old"}, "result": {"tools": TOOLS[1:]}},
    ]
    recorded = recording(**{"tools/list": pages})
    got, _ = answers(recorded, request("tools/list"), request("tools/list", {"cursor": "old"}))
    assert [message["result"]["tools"] for message in got] == [TOOLS[:1], TOOLS[1:]]


def test_a_masked_cursor_leads_to_its_page_as_often_as_it_is_asked_for():
    hashed = {"arguments_hash": hash_arguments({"cursor": "a-secret"})}
    pages = [
        {"arguments": {}, "result": {"tools": TOOLS[:1], "nextCursor": "<redacted>"}},
        {"arguments": {"cursor": "<redacted>"}, "result": {"tools": TOOLS[1:]}} | hashed,
    ]
    second = request("tools/list", {"cursor": "<redacted>"})
    got, session = answers(recording(**{"tools/list": pages}), request("tools/list"), second, second)
    assert [message["result"]["tools"] for message in got] == [TOOLS[:1], TOOLS[1:], TOOLS[1:]]
    assert not session.misses


def test_a_lenient_session_notes_a_call_that_got_the_default():
    options = WireOptions(responses=recording(), default_response="nothing", has_tools=True)
    with closing(WireBackend(options)) as backend:
        session = backend.sessions.named("")
        endpoint = McpHub(["notes"], default_response="nothing").endpoint("notes", session)
        assert texts(over_stdio(endpoint.session, call("write", {"n": 1})).messages) == ["nothing"]
        assert [(each.outcome, each.key) for each in session.calls] == [("default", None)]


def test_answers_of_the_user_to_a_server_are_compared():
    first = {"arguments": {}, "result": {"resultType": "input_required", "requestState": "s"}}
    message = call("write", era="modern")
    message["params"]["inputResponses"] = {"sure": {"action": "accept"}}
    got, session = answers(recording(first), call("write", era="modern"), message)
    assert got[0]["result"]["resultType"] == "input_required"
    assert got[1]["error"]["code"] == MISSED
    assert len(session.misses) == 1


def test_a_miss_names_the_nearest_call_and_the_difference():
    recorded = recording({"arguments": {"title": "Bug", "body": "x"}, "result": "a"})
    got, session = answers(recorded, call("write", {"title": "Bag", "body": "x"}))
    message = got[0]["error"]["message"]
    assert "tool 'notes.write' was not recorded with these arguments" in message
    assert "Bug" in message
    assert "Bag" in message
    assert session.outcomes["missed"] == 1
    assert str(session.misses[0]) == message


def test_a_miss_never_shows_a_secret():
    recorded = recording({"arguments": {"n": 1}, "result": "a"})
    got, _ = answers(recorded, call("write", {"key": "sk-proj-" + "a1B2" * 10}))
    assert "a1B2" not in got[0]["error"]["message"]


def test_entries_written_by_hand_are_answered_as_text_and_as_structured_content():
    recorded = recording({"result": {"number": 7}})
    del recorded["_mcp"]
    got, _ = answers(recorded, request("tools/list"), call("write", {"any": 1}))
    assert got[0]["result"]["tools"] == [{"name": "write", "inputSchema": {"type": "object"}}]
    assert json.loads(got[1]["result"]["content"][0]["text"]) == {"number": 7}
    assert got[1]["result"]["structuredContent"] == {"number": 7}


def test_a_result_that_was_edited_by_hand_counts_more_than_the_bytes():
    body = '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"old"}]}}'
    entry = {"arguments": {}, "result": "new", "wire": {"protocol": "mcp", "body": body}}
    got, _ = answers(recording(entry), call("write"))
    assert texts(got) == ["new"]


def test_progress_is_left_out_for_a_client_that_did_not_ask_for_it():
    frames = [
        [1.0, '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}\n'],
        [2.0, '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}\n'],
    ]
    entry = {"arguments": {}, "result": "a", "wire": {"protocol": "mcp", "frames": frames}}
    got, _ = answers(recording(entry, entry), call("write", id=5), call("write", id=6, token="mine"))
    assert [message.get("id") for message in got] == [5, None, 6]
    assert got[1]["params"]["progressToken"] == "mine"


def test_a_request_of_the_server_waits_for_the_clients_answer():
    frames = [
        [1.0, '{"jsonrpc":"2.0","id":"s1","method":"elicitation/create","params":{"message":"Sure?"}}\n'],
        [2.0, '{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a"}]}}\n'],
    ]
    entry = {"arguments": {}, "result": "a", "wire": {"protocol": "mcp", "frames": frames}}
    answer = {"jsonrpc": "2.0", "id": "s1", "result": {"action": "accept"}}
    asked, _ = answers(recording(entry), call("write", id=5))
    done, _ = answers(recording(entry), call("write", id=5), answer)
    assert [message["id"] for message in asked] == ["s1"]
    assert [message["id"] for message in done] == ["s1", 5]


def test_a_server_with_requests_of_its_own_stays_in_the_handshake_era():
    frames = [
        [1.0, '{"jsonrpc":"2.0","id":"s1","method":"roots/list"}\n'],
        [2.0, '{"jsonrpc":"2.0","id":1,"result":{"content":[]}}\n'],
    ]
    entry = {"arguments": {}, "result": [], "wire": {"protocol": "mcp", "frames": frames}}
    got, _ = answers(recording(entry), request("server/discover", era="modern"))
    assert got[0]["error"]["code"] == -32601


@pytest.mark.parametrize("method", ["ping", "logging/setLevel", "resources/subscribe"])
def test_what_changes_nothing_is_answered_without_a_recording(method):
    got, session = answers(recording(), request(method))
    assert got == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
    assert not session.calls


def test_what_is_not_json_is_answered_with_a_parse_error():
    got, _ = answers(recording(), b"hello", b'{"jsonrpc": "2.0"}', request("ping"))
    assert [message.get("error", {}).get("code") for message in got] == [-32700, -32700, None]


def test_the_servers_and_the_annotations_of_their_tools_can_be_read_from_a_recording():
    reader = read_document(recording(), source="test")
    assert recorded_servers(reader.tools) == ["notes"]
    assert annotations_of(reader.tools, "notes") == {"add": {"readOnlyHint": True}, "write": {}}


SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}
REFUNDS = {"tools/list": [{"arguments": {}, "result": {"tools": [{"name": "refund", "inputSchema": SCHEMA}]}}]}


def test_arguments_that_the_schema_of_a_tool_refuses_are_refused_as_by_a_real_server():
    recorded = recording({"arguments": {"order": 42}, "result": "paid"}, tool="refund", **REFUNDS)
    got, session = answers(recorded, call("refund", {"order": "42"}), call("refund", {}, id=2))
    assert [message["result"]["isError"] for message in got] == [True, True]
    assert texts(got) == [
        "Input validation error: '42' is not of type 'integer'",
        "Input validation error: 'order' is a required property",
    ]
    assert [miss.kind for miss in session.misses] == ["rejected", "rejected"]


def test_arguments_that_were_recorded_are_answered_whatever_their_schema_says():
    recorded = recording({"arguments": {"order": "42"}, "result": "paid"}, tool="refund", **REFUNDS)
    got, session = answers(recorded, call("refund", {"order": "42"}))
    assert texts(got) == ["paid"]
    assert not session.misses


def test_arguments_that_fit_and_are_not_recorded_are_missed():
    recorded = recording({"arguments": {"order": 42}, "result": "paid"}, tool="refund", **REFUNDS)
    got, session = answers(recorded, call("refund", {"order": 43}))
    assert got[0]["error"]["code"] == MISSED
    assert [miss.kind for miss in session.misses] == ["drifted"]


def test_a_schema_that_is_none_refuses_nothing():
    listed = {"tools/list": [{"arguments": {}, "result": {"tools": [{"name": "refund", "inputSchema": {"type": 5}}]}}]}
    got, _ = answers(recording({"arguments": {}, "result": "paid"}, tool="refund", **listed), call("refund", {"a": 1}))
    assert got[0]["error"]["code"] == MISSED
