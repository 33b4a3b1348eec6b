"""Servers without a recording: tools from functions, mocks and schemas, in both eras and over both transports."""

import asyncio
import json
from types import ModuleType

import jsonschema
import pytest

from offbook import InputError, Mocks, sequence, tool
from offbook.mcp.hub import McpHub
from offbook.mcp.mock import MockServer, example_of, module_tools, schema_tools
from offbook.mcp.stdio import LineServer
from offbook.scenarios.mocks import hangs
from offbook.wire.backend import WireBackend
from offbook.wire.options import WireOptions
from tests.mcp.wiring import Client, call, line, messages_in, opening, post, request


def module(**values):
    made = ModuleType("tools")
    for name, value in values.items():
        if getattr(value, "__module__", None) == __name__:
            value.__module__ = "tools"
        setattr(made, name, value)
    return made


def endpoint(start, *, faults=(), name="notes"):
    backend = WireBackend(WireOptions(responses={}, strict=True, faults=faults, has_tools=True))
    hub = McpHub([])
    hub.add(name, mock=lambda: MockServer(name, start()))
    return hub.endpoint(name, backend.sessions.named(""))


def over_stdio(start, *messages, faults=()):
    async def talk():
        client = Client()
        server = LineServer(endpoint(start, faults=faults).session, client)
        for message in messages:
            server.receive(line(message))
        await server.finish_work()
        return client

    return asyncio.run(talk())


def over_http(start, *messages):
    async def talk():
        at = endpoint(start)
        got, session_id = [], None
        for message in messages:
            response = await at.respond_after_work(post(message, mcp_session_id=session_id))
            session_id = response.headers.get("mcp-session-id", session_id)
            got += messages_in(response) if response.status != 202 else []
        return got

    return asyncio.run(talk())


def results(client):
    return [message["result"] for message in client.messages]


def text(result):
    return result["content"][0]["text"]


@pytest.fixture
def written():
    return []


@pytest.fixture
def functions(written):
    @tool(read_only=True)
    def search(query: str, limit: int = 3) -> dict[str, int]:
        """Search the notes.

        Args:
            query: words to look for
        """
        return {query: limit}

    @tool(side_effect=True)
    async def write(text: str) -> str:
        await asyncio.sleep(0)
        written.append(text)
        if text == "bad":
            raise ValueError("refused")
        return "written"

    return module_tools(module(search=search, write=write), source="tools.py")


@pytest.mark.parametrize("era", ["handshake", "modern"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_functions_are_tools_in_both_eras_and_over_both_transports(functions, era, transport):
    asked = [*opening(era), request("tools/list", era=era, id=1), call("search", {"query": "a"}, era=era, id=2)]
    got = over_http(functions, *asked) if transport == "http" else over_stdio(functions, *asked).messages
    listed, called = got[1]["result"], got[2]["result"]
    assert [each["name"] for each in listed["tools"]] == ["search", "write"]
    first, second = listed["tools"]
    assert first["description"] == "Search the notes."
    assert first["inputSchema"]["properties"]["query"] == {"type": "string", "description": "words to look for"}
    assert first["outputSchema"]["type"] == "object"
    assert "outputSchema" not in second
    assert first["annotations"] == {"readOnlyHint": True}
    assert second["annotations"] == {"readOnlyHint": False, "idempotentHint": False}
    assert called["structuredContent"] == json.loads(text(called)) == {"a": 3}
    assert called.get("resultType") == ("complete" if era == "modern" else None)


def test_wrong_arguments_unknown_tools_and_errors_are_results_as_in_real_servers(functions, written):
    client = over_stdio(
        functions,
        call("write", {"text": 1}),
        call("write", {"text": "bad"}),
        call("nope"),
    )
    by_id = results(client)
    assert all(result["isError"] for result in by_id)
    texts = sorted(text(result) for result in by_id)
    assert texts[0].startswith("Error executing tool write: refused")
    assert "wrong arguments for write:\ntext:" in texts[1]
    assert texts[2] == "Unknown tool: nope"
    assert written == ["bad"]


def test_what_the_protocol_forbids_is_a_protocol_error(functions):
    client = over_stdio(
        functions,
        request("tools/call"),
        request("prompts/list"),
        call("write") | {"params": {"name": "write", "arguments": [1]}},
    )
    assert [message["error"]["code"] for message in client.messages] == [-32602, -32601, -32602]


def test_a_fault_fires_at_a_mocked_tool(functions, written):
    lost = over_stdio(functions, call("write", {"text": "a"}), faults=["tool=notes.write call=1: tool_lost"])
    assert lost.messages == []
    assert lost.exit_code == 1
    assert written == ["a"]


def test_a_tool_that_takes_time_delays_no_other_and_can_be_cancelled():
    start = module_tools(module(mocks=Mocks({"slow": hangs(), "quick": "here"})), source="x")

    async def talk():
        client = Client()
        server = LineServer(endpoint(start).session, client)
        server.receive(line(call("slow", id=1)) + line(call("quick", id=2)))
        await asyncio.sleep(0.01)
        cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        server.receive(line(cancelled))
        await server.finish_work()
        return client

    assert [message["id"] for message in asyncio.run(talk()).messages] == [2]


def test_mocks_answer_in_sequence_and_start_over_in_each_session():
    def search(query: str) -> list[str]:
        """Search."""

    answers = sequence(
        [["a"], TimeoutError("too late"), {"content": [{"type": "image", "data": "", "mimeType": "a/b"}]}]
    )
    mocks = Mocks({"search": answers, "ping": None}, schemas={"search": search}, returns={"search": {}})
    start = module_tools(module(mocks=mocks, search=search), source="tools.py")
    for _ in range(2):
        client = over_stdio(start, request("tools/list"), *(call("search", {"query": "a"}, id=n) for n in (1, 2, 3)))
        listed, first, second, third = results(client)
        assert [each["name"] for each in listed["tools"]] == ["search", "ping"]
        assert listed["tools"][0]["description"] == "Search."
        assert text(first) == '["a"]'
        assert second == {
            "content": [{"type": "text", "text": "Error executing tool search: too late"}],
            "isError": True,
        }
        assert third["content"][0]["type"] == "image"


def test_a_mock_that_returns_what_the_real_tool_would_not_is_an_error_of_the_server():
    def count(word: str) -> int:
        """Count."""

    start = module_tools(module(mocks=Mocks({"count": "many"}, schemas={"count": count})), source="x")
    (answer,) = over_stdio(start, call("count", {"word": "a"})).messages
    assert answer["error"]["code"] == -32603
    assert "returns what the real tool would not" in answer["error"]["message"]


def test_public_functions_are_tools_if_nothing_is_declared():
    def shown() -> str:
        return "a"

    def _hidden() -> str:
        return "b"

    start = module_tools(module(shown=shown, _hidden=_hidden, loads=json.loads), source="x")
    assert [each.tool.name for each in start()] == ["shown"]
    with pytest.raises(InputError, match="there is no tool in it"):
        module_tools(module(_hidden=_hidden), source="x")


SCHEMA = {
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 5},
        "state": {"enum": ["open", "closed"]},
        "labels": {"type": "array", "items": {"$ref": "#/$defs/label"}, "minItems": 2},
        "when": {"type": "string", "format": "date-time"},
        "by": {"anyOf": [{"type": "string", "minLength": 9}, {"type": "null"}]},
        "ratio": {"type": "number", "exclusiveMaximum": 0.5},
        "even": {"type": "integer", "multipleOf": 2, "exclusiveMinimum": 7},
    },
    "required": ["id", "state", "labels", "when", "by", "ratio", "even"],
    "additionalProperties": False,
    "$defs": {"label": {"type": "object", "properties": {"name": {"type": "string", "default": "bug"}}}},
}


def test_a_value_that_is_made_for_a_schema_fits_it():
    value = example_of(SCHEMA)
    jsonschema.validate(value, SCHEMA)
    assert value["labels"][0] == {"name": "bug"}
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}},
    }
    jsonschema.validate(example_of(tree), tree)


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_file_of_schemas_answers_with_values_that_fit(tmp_path, wrapped):
    tools = [
        {"name": "issue.get", "inputSchema": {"type": "object", "required": ["id"]}, "outputSchema": SCHEMA},
        {"name": "say", "inputSchema": {"type": "object"}, "example": "Hello!"},
        {"name": "plain"},
    ]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps({"tools": tools} if wrapped else tools))
    asked = [request("tools/list"), call("issue.get", {"id": 1}), call("issue.get"), call("say"), call("plain")]
    listed, got, refused, said, plain = results(over_stdio(schema_tools(path), *asked))
    assert [each["name"] for each in listed["tools"]] == ["issue.get", "say", "plain"]
    assert "example" not in listed["tools"][1]
    assert got["structuredContent"] == example_of(SCHEMA)
    assert "id: missing" in text(refused)
    assert text(said) == "Hello!"
    assert text(plain) == "plain was called"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{", "JSON"),
        ("{}", "expected a list of tools"),
        ('[{"title": "a"}]', "expected a tool with a name"),
        ('[{"name": "a", "inputSchema": 7}]', "expected a JSON schema"),
        ('[{"name": "a", "inputSchema": {"type": "strange"}}]', "expected the JSON schema of an object"),
        ('[{"name": "a", "outputSchema": {"type": "object", "required": 5}}]', "invalid JSON schema"),
        ('[{"name": "a", "outputSchema": {"type": "string", "pattern": "^[0-9]+$"}}]', "no value for its outputSchema"),
        ('[{"name": "a", "example": 1, "outputSchema": {"type": "object"}}]', "no value for its outputSchema"),
    ],
)
def test_a_file_of_schemas_that_cannot_be_served_is_explained(tmp_path, content, reason):
    path = tmp_path / "tools.json"
    path.write_text(content)
    with pytest.raises(InputError, match=reason) as raised:
        schema_tools(path)
    assert raised.value.source == str(path)
