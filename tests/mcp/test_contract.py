"""A run that was recorded in one era over one transport is replayed in both eras over both transports."""

import pytest

from offbook import replay_tools, tool
from tests.mcp.wiring import (
    TOOLS,
    Upstream,
    call,
    messages_in,
    opening,
    over_stdio,
    post,
    recording_to,
    replaying,
    request,
)

ERAS = ("handshake", "modern")


def conversation(era):
    return [
        *opening(era),
        request("tools/list", era=era, id=1),
        call("add", {"a": 1, "b": 2}, era=era, id="two"),
        call("write", {"text": "x"}, era=era, id=3, token="t-1"),
        call("fail", era=era, id=4),
    ]


@pytest.fixture(params=ERAS)
def recorded(request, tmp_path):
    path = tmp_path / "run.json"
    with recording_to(path) as session:
        over_stdio(session, *conversation(request.param), upstream=Upstream())
    return path


def ask_over_stdio(endpoint, era):
    return over_stdio(endpoint.session, *conversation(era)).messages


def ask_over_http(endpoint, era):
    answers, headers = [], {}
    for message in conversation(era):
        response = endpoint.respond(post(message, **headers))
        if "mcp-session-id" in response.headers:
            headers["mcp_session_id"] = response.headers["mcp-session-id"]
        answers += messages_in(response) if response.status == 200 else []
    return answers


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("ask", [ask_over_stdio, ask_over_http])
def test_a_recording_answers_clients_of_both_eras_over_both_transports(recorded, era, ask):
    with replaying(recorded) as endpoint:
        opened, listed, added, progress, written, failed = ask(endpoint, era)
        assert not endpoint.session.session.misses
    assert opened["result"]["capabilities"] == {"tools": {}}
    assert ("supportedVersions" in opened["result"]) == (era == "modern")
    assert [tool["name"] for tool in listed["result"]["tools"]] == [tool["name"] for tool in TOOLS]
    assert added["id"] == "two"
    assert added["result"]["structuredContent"] == {"result": 3}
    assert progress["params"] == {"progressToken": "t-1", "progress": 1}
    assert written["result"]["content"] == [{"type": "text", "text": "written"}]
    assert failed["result"]["isError"] is True


@pytest.mark.parametrize("era", ERAS)
def test_results_have_the_shape_of_the_clients_era(recorded, era):
    with replaying(recorded) as endpoint:
        results = [message["result"] for message in ask_over_stdio(endpoint, era) if "result" in message]
    assert all(("resultType" in result) == (era == "modern") for result in results)
    assert ("ttlMs" in results[1]) == (era == "modern")


def test_a_recorded_call_is_read_by_the_tools_of_the_library(recorded):
    @tool
    def add(a: int, b: int) -> int:
        raise AssertionError("replayed")

    with replay_tools([add], recorded) as tools:
        assert tools["add"].callable(a=1, b=2) == 3
        assert {left.key for left in tools.unused()} == {"notes.write", "notes.fail"}
