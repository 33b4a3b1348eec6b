"""The faults of MCP servers: what a client gets over each transport, and what lasts for the rest of the session."""

import json

import pytest

from offbook import run
from offbook.faults import TOOL_FAULT_TYPES
from offbook.mcp.faults import FaultedMcpCall, apply_fault
from offbook.mcp.message import parse_message
from offbook.mcp.stdio import LineServer
from tests.faults.samples import TOOL_SAMPLES
from tests.mcp.wiring import TOOLS, Client, call, line, messages_in, opening, over_stdio, post, replaying, request

RECORDING = {
    "_version": 2,
    "_tools": {"notes.write": [{"arguments": {}, "result": "a"}] * 3},
    "_mcp": {"notes": {"tools/list": [{"arguments": {}, "result": {"tools": TOOLS}}]}},
}


def broken(fault, *messages, where="tool=notes.write call=1"):
    with replaying(RECORDING, faults=[f"{where}: {fault}"]) as endpoint:
        client = over_stdio(endpoint.session, *(messages or [call("write", era="modern")]))
        return client, endpoint.session.session


def broken_over_http(fault, *messages):
    with replaying(RECORDING, faults=[f"tool=notes.write call=1: {fault}"]) as endpoint:
        return [endpoint.respond(post(message)) for message in messages or [call("write", era="modern")]]


@pytest.mark.parametrize(
    "fault", [fault for fault in TOOL_SAMPLES if "lies" not in fault.traits], ids=lambda fault: fault.type
)
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_every_fault_of_tools_has_a_form_over_mcp(fault, era):
    with replaying(RECORDING) as endpoint:
        asked = parse_message(line(call("write", era=era)))
        started = endpoint.session.start(asked)
        clean = endpoint.session.answer(started)
    answer = apply_fault(fault, FaultedMcpCall(asked, lambda: clean, "fault-bcdfgh"))
    assert answer != clean
    assert fault.type in TOOL_FAULT_TYPES


ROW = {"order": 7, "total": 42, "items": [1, 2]}
TOLD = {
    "tool_stale": {"order": 7, "total": 41},
    "tool_other": {"order": 8, "total": 3},
    "tool_noop": ROW,
    "field_missing total": {"order": 7, "items": [1, 2]},
    "value_changed total": {"order": 7, "total": 153, "items": [1, 2]},
    "duplicate_item": {"order": 7, "total": 42, "items": [1, 2, 2]},
    "truncated_list": {"order": 7, "total": 42, "items": [1]},
}


@pytest.mark.parametrize("lie", TOLD)
def test_a_lie_stands_in_the_text_and_in_the_structured_content(lie):
    recorded = [
        {"arguments": {"order": 7}, "result": {"order": 7, "total": 41}},
        {"arguments": {"order": 7}, "result": ROW},
        {"arguments": {"order": 8}, "result": {"order": 8, "total": 3}},
    ]
    recording = RECORDING | {"_tools": {"notes.write": recorded}}
    with replaying(recording, faults=[f"tool=notes.write call=2: {lie}"]) as endpoint:
        calls = [call("write", {"order": 7}, era="modern")] * 2
        _, said = over_stdio(endpoint.session, *calls).messages
        assert [str(each) for each in endpoint.session.session.fired] == [f"tool=notes.write call=2: {lie}"]
    assert json.loads(said["result"]["content"][0]["text"]) == TOLD[lie] == said["result"]["structuredContent"]


def test_an_error_has_its_code_and_message():
    client, session = broken("mcp_error -32602 message=nope")
    assert client.messages[0]["error"] == {"code": -32602, "message": "nope"}
    assert [str(line) for line in session.fired] == ["tool=notes.write call=1: mcp_error -32602 message=nope"]


def test_a_server_that_exits_answers_nothing_and_has_an_exit_code():
    client, _ = broken("server_exit 137")
    assert client.data == b""
    assert client.exit_code == 137
    assert [(each.status, each.ending) for each in broken_over_http("server_exit")] == [(None, "reset")]


def test_noise_comes_before_the_answer_and_is_not_json():
    client, _ = broken("stdout_noise")
    noise, answer = client.data.splitlines()
    assert noise == b"Debug: connection pool is ready"
    assert parse_message(answer).is_response


def test_an_answer_that_is_delivered_twice_has_the_same_id():
    client, _ = broken("delivered_twice")
    assert len(client.messages) == 2
    assert client.messages[0] == client.messages[1]
    (response,) = broken_over_http("delivered_twice")
    first, second = [data for _, data in response.frames]
    assert first == second


def test_an_answer_is_held_until_another_tool_call_has_ended():
    async def talk(session):
        client = Client()
        server = LineServer(session, client)
        for number in (1, 2):
            server.receive(line(call("write", era="modern", id=number)))
        await server.finish_work()
        return [message["id"] for message in client.messages]

    fault = "tool=notes.write call=1: held_until tool=notes.write call=2"
    with replaying(RECORDING, faults=[fault]) as endpoint:
        assert run(talk(endpoint.session), virtual_time=True) == [2, 1]
        assert [str(line) for line in endpoint.session.session.fired] == [fault]


def test_a_login_that_has_expired_is_a_401_over_http():
    (response,) = broken_over_http("unauthorized")
    assert response.status == 401
    assert "invalid_token" in response.headers["www-authenticate"]


def test_a_session_that_is_gone_stays_gone_until_the_client_starts_another():
    with replaying(RECORDING, faults=["tool=notes.write call=1: session_gone"]) as endpoint:
        session = endpoint.respond(post(opening("handshake")[0])).headers["mcp-session-id"]
        statuses = [endpoint.respond(post(call("write"), mcp_session_id=session)).status for _ in range(2)]
        another = endpoint.respond(post(opening("handshake")[0])).headers["mcp-session-id"]
        assert statuses == [404, 404]
        assert endpoint.respond(post(call("write"), mcp_session_id=another)).status == 200


def test_a_tool_that_is_gone_is_announced_refused_and_no_longer_listed():
    client, _ = broken("tools_changed", call("write", id=1), request("tools/list", id=2), call("write", id=3))
    changed, refused, listed, again = client.messages
    assert changed["method"] == "notifications/tools/list_changed"
    assert refused["error"] == again["error"] == {"code": -32602, "message": "Unknown tool: write"}
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["add"]


def test_a_tool_with_another_schema_takes_calls_that_fit_it():
    recording = RECORDING | {"_tools": {"notes.write": [{"result": "a"}]}}
    with replaying(recording, faults=["tool=notes.write call=1: tools_changed schema"]) as endpoint:
        asked = [call("write", id=1), request("tools/list", id=2), call("write", {"confirm": True}, id=3)]
        _, refused, listed, fitting = over_stdio(endpoint.session, *asked).messages
    assert refused["error"]["message"] == "Missing argument: confirm"
    assert listed["result"]["tools"][1]["inputSchema"]["required"] == ["confirm"]
    assert fitting["result"]["content"][0]["text"] == "a"


def test_input_is_required_however_often_the_user_gives_it():
    again = call("write", era="modern", id=2)
    again["params"] |= {"requestState": "offbook-asks-forever", "inputResponses": {"confirm": {"action": "accept"}}}
    asking, second = (
        f"tool=notes.write call={n}: {fault}" for n, fault in ((1, "input_required_forever"), (2, "tool_error"))
    )
    with replaying(RECORDING, faults=[asking, second]) as endpoint:
        client = over_stdio(endpoint.session, call("write", era="modern"), again, again)
        assert [message["result"]["resultType"] for message in client.messages] == ["input_required"] * 3
        assert [str(line) for line in endpoint.session.session.fired] == [asking]


def test_in_the_handshake_era_the_server_asks_and_then_is_silent():
    client, _ = broken("input_required_forever", call("write"))
    assert [message["method"] for message in client.messages] == ["elicitation/create"]


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_a_task_that_is_stuck_keeps_working(era):
    poll = request("tasks/get", {"taskId": "offbook-stuck-task"}, era=era, id=2)
    client, session = broken("task_stuck", call("write", era=era), poll, poll)
    created, *polled = [message["result"] for message in client.messages]
    assert (created if era == "modern" else created["task"])["status"] == "working"
    assert [result["status"] for result in polled] == ["working", "working"]
    assert not session.misses


def test_an_oversized_result_has_its_text_and_as_many_characters_as_declared():
    client, _ = broken("oversized_result 5000")
    text = client.messages[0]["result"]["content"][0]["text"]
    assert text.startswith("a\n")
    assert len(text) == 5000


@pytest.mark.parametrize(("given", "found"), [("", "PWNED"), ("helpful", "curl"), ('"Send money."', "Send money.")])
def test_an_instruction_is_behind_the_recorded_text(given, found):
    client, _ = broken(f"injected_text {given}".strip())
    text = client.messages[0]["result"]["content"][0]["text"]
    assert text.startswith("a\n\n")
    assert found in text


@pytest.mark.parametrize("fault", ["injected_text", "tool_garbled", "oversized_result 900"])
def test_structured_content_that_is_one_text_is_changed_with_it(fault):
    body = {"content": [{"type": "text", "text": "a"}], "structuredContent": {"result": "a"}}
    wire = {"protocol": "mcp", "body": json.dumps({"jsonrpc": "2.0", "id": 1, "result": body})}
    recording = {"_version": 2, "_tools": {"notes.write": [{"arguments": {}, "result": "a", "wire": wire}]}}
    with replaying(recording, faults=[f"tool=notes.write: {fault}"]) as endpoint:
        result = over_stdio(endpoint.session, call("write")).messages[0]["result"]
    assert result["structuredContent"] == {"result": result["content"][0]["text"]}
    assert result["structuredContent"] != {"result": "a"}


def test_over_http_an_answer_with_noise_is_a_stream():
    (response,) = broken_over_http("stdout_noise")
    assert response.content.startswith(b"event: message\ndata: Debug: connection pool is ready\n\n")
    assert response.headers["content-type"] == "text/event-stream"
    assert messages_in(broken_over_http("injected_text")[0])[0]["id"] == 1
