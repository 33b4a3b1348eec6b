"""A live server against its recording: what is asked, what is left out, and what counts as different."""

import asyncio
import json

import httpx2
import pytest

from offbook import InputError, tool
from offbook.mcp.mock import module_tools
from offbook.mcp.verify import LiveClient, LiveUrl, verify
from offbook.recording.format.file import document_from_dict
from offbook.recording.match.fingerprint import NO_RULES, NormaliseRules
from offbook.recording.redact.redactor import Redactor
from offbook.wire.request import HttpRequest
from tests.mcp.test_mock import endpoint, module

KEY = "sk-proj-" + "a1B2" * 10


class Live:
    """A live server in this process, which speaks the eras that it is told to."""

    source = "live"

    def __init__(self, start, eras=("handshake", "modern")):
        self._session, self._eras, self.asked = endpoint(start, name="x").session, eras, []

    async def send(self, message, era):
        if not message.is_request:
            return {}
        self.asked.append((message.method, message.tool, message.era))
        if era not in self._eras:
            return {"id": message.id, "error": {"code": -32601, "message": "Method not found"}}
        answer = self._session.answer(self._session.start(message))
        return (answer if answer.work is None else await answer.work()).response


@pytest.fixture
def ran():
    return []


@pytest.fixture
def start(ran):
    @tool(read_only=True)
    def find(id: int) -> str:
        """Find."""
        if id == 0:
            raise ValueError("no such thing")
        return json.dumps({"id": id, "at": len(ran), "key": KEY}, indent=2)

    @tool(side_effect=True)
    def write(text: str) -> str:
        """Write."""
        ran.append(text)
        return "written"

    return module_tools(module(find=find, write=write), source="x")


def recording(start, *, calls=None, era="initialize", **tools_changed):
    tools = [each.definition | tools_changed for each in start()]
    about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "0.1.0"}}
    methods = {era: [{"result": about}], "tools/list": [{"result": {"tools": tools}}]}
    return document_from_dict({"_version": 2, "_tools": calls or {}, "_mcp": {"x": methods}}, source="test")


def verified(document, live, *, rules=NO_RULES, **settings):
    return asyncio.run(verify(document, "x", LiveClient(live), rules=rules, **settings))


def recorded_find():
    """What a recording has of a call: without the key, as the redactor leaves it."""
    return {"arguments": {"id": 1}, "result": Redactor().value({"at": 0, "id": 1, "key": KEY})}


def test_a_server_that_answers_as_recorded_is_the_same_although_its_json_is_written_otherwise(start):
    failing = {
        "arguments": {"id": 0},
        "error": {"type": "ToolError", "message": "Error executing tool find: no such thing"},
    }
    document = recording(start, calls={"x.find": [recorded_find(), failing]})
    found = verified(document, Live(start))
    assert found.is_same
    assert found.compared == 2
    assert found.left_out == []


def test_what_is_not_read_only_runs_only_if_it_is_wanted(start, ran):
    document = recording(start, calls={"x.write": [{"arguments": {"text": "a"}, "result": "written"}] * 2})
    found = verified(document, Live(start))
    assert found.is_same
    assert found.compared == 0
    assert ran == []
    assert [(left.tool, left.calls) for left in found.left_out] == [("write", 2)]
    assert "--run-tools" in found.left_out[0].reason
    assert verified(document, Live(start), runs_tools=True).compared == len(ran) == 2
    assert verified(document, Live(start), read_only=["write"]).left_out == []


def test_the_live_server_says_what_is_read_only_not_the_recording(start, ran):
    document = recording(
        start,
        calls={"x.write": [{"arguments": {"text": "a"}, "result": "written"}]},
        annotations={"readOnlyHint": True},
    )
    found = verified(document, Live(start))
    assert ran == []
    assert [left.tool for left in found.left_out] == ["write"]
    assert {change.level for change in found.changes} == {"dangerous"}


def test_another_answer_is_shown_and_can_be_ignored_by_path_or_by_mask(start):
    call = recorded_find()
    call["result"]["at"] = 5
    document = recording(start, calls={"x.find": [call]})
    found = verified(document, Live(start))
    assert [each.place for each in found.differences] == ["_tools.x.find[0]"]
    assert '-  "at": 5' in found.differences[0].difference
    assert '+  "at": 0' in found.differences[0].difference
    assert "a1B2" not in str(found)
    assert verified(document, Live(start), rules=NormaliseRules(ignore=("result.at",))).is_same
    text = recording(start, calls={"x.write": [{"arguments": {"text": "a"}, "result": "wrotten"}]})
    assert not verified(text, Live(start), runs_tools=True).is_same
    assert verified(text, Live(start), runs_tools=True, rules=NormaliseRules(mask=("wr.tten",))).is_same


def test_calls_that_cannot_be_made_again_are_left_out(start):
    calls = [recorded_find(), recorded_find() | {"arguments_hash": "0" * 64}]
    document = recording(start, calls={"x.find": calls, "x.gone": [{"arguments": {}, "result": 1}]})
    found = verified(document, Live(start))
    assert [(left.tool, left.calls) for left in found.left_out] == [("find", 1), ("gone", 1)]
    assert found.compared == 1


@pytest.mark.parametrize("recorded", ["initialize", "server/discover"])
@pytest.mark.parametrize("spoken", ["handshake", "modern"])
def test_the_server_is_asked_in_the_era_that_it_speaks(start, recorded, spoken):
    live = Live(start, eras=(spoken,))
    document = recording(start, calls={"x.find": [recorded_find()]}, era=recorded)
    assert verified(document, live).compared == 1
    assert live.asked[-1] == ("tools/call", "find", spoken)


def test_a_server_that_speaks_no_era_or_never_answers_is_named(start):
    with pytest.raises(InputError, match="the server refuses to start: Method not found"):
        verified(recording(start), Live(start, eras=()))

    class Silent(Live):
        async def send(self, message, era):
            await asyncio.sleep(60)

    with pytest.raises(InputError, match=r"no answer to initialize within 0\.01 s"):
        asyncio.run(verify(recording(start), "x", LiveClient(Silent(start), limit_s=0.01), rules=NO_RULES))


@pytest.mark.parametrize("recorded", ["initialize", "server/discover"])
@pytest.mark.parametrize("as_events", [False, True])
def test_a_server_over_http_is_asked_with_the_headers_of_its_era(start, recorded, as_events):
    at, seen = endpoint(start, name="x"), []

    async def answer(request):
        headers = {name.lower(): value for name, value in request.headers.items()}
        seen.append(headers)
        response = await at.respond_after_work(HttpRequest("POST", "/mcp", "", headers, request.content))
        content, sent = response.content, dict(response.headers)
        if as_events and content:
            content, sent["content-type"] = b"event: message\ndata: " + content + b"\n\n", "text/event-stream"
        return httpx2.Response(response.status, headers=sent, content=content)

    async def work():
        async with httpx2.AsyncClient(transport=httpx2.MockTransport(answer)) as client:
            live = LiveUrl("http://x/mcp", client, {"authorization": "Bearer a"})
            document = recording(start, calls={"x.find": [recorded_find()]}, era=recorded)
            return await verify(document, "x", LiveClient(live), rules=NO_RULES)

    found = asyncio.run(work())
    assert found.is_same
    assert found.compared == 1
    assert {headers["authorization"] for headers in seen} == {"Bearer a"}
    assert ("mcp-session-id" in seen[-1]) == (recorded == "initialize")
