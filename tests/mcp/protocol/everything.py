"""A recording, written by hand, of a server that has all that the conformance suite of MCP asks for."""

import base64
import json

from offbook.mcp.message import SERVER_INFO_META
from offbook.recording.format.exchange import hash_arguments

SERVER = "everything"
PIXEL = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SOUND = base64.b64encode(b"RIFF").decode()
OBJECT = {"type": "object", "properties": {}}
INFO = {"name": SERVER, "version": "1.0"}
CAPABILITIES = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True},
    "logging": {},
    "completions": {},
}
RESOURCE = {"uri": "test://embedded-resource", "mimeType": "text/plain", "text": "This is embedded."}
CONTENT = {
    "test_simple_text": [{"type": "text", "text": "This is a simple text response for testing."}],
    "test_image_content": [{"type": "image", "data": PIXEL, "mimeType": "image/png"}],
    "test_audio_content": [{"type": "audio", "data": SOUND, "mimeType": "audio/wav"}],
    "test_embedded_resource": [{"type": "resource", "resource": RESOURCE}],
    "test_multiple_content_types": [
        {"type": "text", "text": "Multiple content types test:"},
        {"type": "image", "data": PIXEL, "mimeType": "image/png"},
        {"type": "resource", "resource": RESOURCE | {"uri": "test://mixed-content-resource"}},
    ],
}
ADDRESS = {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}
SCHEMAS = {
    "json_schema_2020_12_tool": {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef"} | ADDRESS},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": False,
    },
    "test_headers": {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}},
}
DEFAULTS = {
    "name": {"type": "string", "default": "John Doe"},
    "age": {"type": "integer", "default": 30},
    "score": {"type": "number", "default": 95.5},
    "status": {"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
    "verified": {"type": "boolean", "default": True},
}
TITLED = [{"const": f"value{number}", "title": f"Option {number}"} for number in (1, 2, 3)]
PLAIN = [f"option{number}" for number in (1, 2, 3)]
ENUMS = {
    "untitledSingle": {"type": "string", "enum": PLAIN},
    "titledSingle": {"type": "string", "oneOf": TITLED},
    "legacyEnum": {"type": "string", "enum": ["opt1", "opt2"], "enumNames": ["Option 1", "Option 2"]},
    "untitledMulti": {"type": "array", "items": {"type": "string", "enum": PLAIN}},
    "titledMulti": {"type": "array", "items": {"anyOf": TITLED}},
}


def message(**fields):
    return {"jsonrpc": "2.0"} | fields


def notification(method, **params):
    return message(method=f"notifications/{method}", params=params)


def text_of(text):
    return {"content": [{"type": "text", "text": text}]}


def seen(result):
    """What a recording keeps of a result beside its bytes."""
    if "content" not in result:
        return {"result": result}
    blocks = result["content"]
    value = "\n".join(each["text"] for each in blocks) if all("text" in each for each in blocks) else blocks
    return {"error": {"type": "ToolError", "message": value}} if result.get("isError") else {"result": value}


def entry(*messages, arguments=None, responses=None):
    """A recorded tool call: all that was sent for it, the result last; `responses` are the inputs of the user."""
    *before, result = messages
    last = message(id=1, result=result)
    lines = [[float(place), json.dumps(each) + "\n"] for place, each in enumerate([*before, last], 1)]
    wire = {"protocol": "mcp", "frames": lines} if before else {"protocol": "mcp", "body": json.dumps(last)}
    hashed = {}
    if responses is not None:
        hashed["arguments_hash"] = hash_arguments({"arguments": arguments or {}, "inputResponses": responses})
    return {"arguments": arguments or {}, "wire": wire} | seen(result) | hashed


def refusal(code, text, data):
    body = json.dumps(message(id=1, error={"code": code, "message": text, "data": data}))
    wire = {"protocol": "mcp", "body": body}
    return {"arguments": {}, "error": {"type": "McpError", "message": text}, "wire": wire}


def asking(method, params, answer, *, arguments=None):
    """A recorded tool call in which the server asks the client something."""
    asked = message(id="s1", method=method, params=params)
    return entry(asked, message(id="s1", result=answer), text_of("asked"), arguments=arguments)


def form(properties):
    return {"message": "Please answer", "requestedSchema": {"type": "object", "properties": properties}}


def accept(**content):
    return {"action": "accept", "content": content}


PROMPT = [{"role": "user", "content": {"type": "text", "text": "Test prompt for sampling"}}]
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "This is a test response from the client"}}
MODEL = {"model": "test-model", "stopReason": "endTurn"}
ROOTS = {"roots": [{"uri": "file:///test/root", "name": "Test Root"}]}


def handshake_tools():
    """The tools that only a server of the handshake era has: they ask the client while they run."""
    enums = {"untitledSingle": "option1", "titledSingle": "value1", "legacyEnum": "opt1"}
    enums |= {"untitledMulti": ["option1", "option2"], "titledMulti": ["value1", "value2"]}
    asked = {"message": "Please provide your information"}
    user = {"username": "testuser", "email": "test@example.com"}
    return {
        "test_sampling": asking(
            "sampling/createMessage",
            {"messages": PROMPT, "maxTokens": 100},
            SAMPLED | MODEL,
            arguments={"prompt": "Test prompt for sampling"},
        ),
        "test_elicitation": asking("elicitation/create", form({}) | asked, accept(**user), arguments=asked),
        "test_elicitation_sep1034_defaults": asking(
            "elicitation/create",
            form(DEFAULTS),
            accept(name="Jane Smith", age=25, score=88, status="inactive", verified=False),
        ),
        "test_elicitation_sep1330_enums": asking("elicitation/create", form(ENUMS), accept(**enums)),
        "test_reconnection": entry(notification("message", level="info", data="about to close"), text_of("resumed")),
    }


def wanted(state=None, **requests):
    """A result that asks for inputs."""
    asked = {name: {"method": method, "params": params} for name, (method, params) in requests.items()}
    return {"resultType": "input_required", "inputRequests": asked} | ({"requestState": state} if state else {})


def modern_tools():
    """The tools that only a server of the modern era has: they ask by their results, and are called again."""
    elicit = ("elicitation/create", {"mode": "form"} | form({"name": {"type": "string"}}))
    sample = ("sampling/createMessage", {"messages": PROMPT, "maxTokens": 100})
    done, named = text_of("done") | {"resultType": "complete"}, accept(name="Alice")
    sampled = SAMPLED | {"content": {"type": "text", "text": "The capital of France is Paris."}} | MODEL
    greeted = SAMPLED | {"content": {"type": "text", "text": "Hello there!"}} | MODEL
    three = wanted("s", user_name=elicit, greeting=sample, client_roots=("roots/list", {}))
    answers = {"user_name": named, "greeting": greeted, "client_roots": ROOTS}
    extra = {"unknown_extra_key": accept(foo="bar"), "another_unexpected": accept(baz=123)}
    return {
        "elicitation": [
            entry(wanted(user_name=elicit)),
            entry(done, responses={"user_name": named}),
            entry(wanted(user_name=elicit), responses={"wrong_key": accept(data="wrong")}),
            entry(done, responses={"user_name": named} | extra),
        ],
        "sampling": [entry(wanted(ask=sample)), entry(done, responses={"ask": sampled})],
        "list_roots": [entry(wanted(ask=("roots/list", {}))), entry(done, responses={"ask": ROOTS})],
        "request_state": [entry(wanted("s", ask=elicit)), entry(done, responses={"ask": accept(ok=True)})],
        "tampered_state": [entry(wanted("s", ask=elicit)), entry(done, responses={"ask": accept(ok=True)})],
        "multiple_inputs": [entry(three), entry(done, responses=answers)],
        "multi_round": [
            entry(wanted("s1", step1=elicit)),
            entry(wanted("s2", step2=elicit), responses={"step1": named}),
            entry(done, responses={"step2": accept(color="blue")}),
        ],
        "capabilities": [entry(wanted(ask=sample))],
    }


def tools_of(era):
    logged = [notification("message", level="info", data=f"Tool {word}") for word in ("started", "runs", "completed")]
    done = [notification("progress", progressToken=0, progress=at, total=100) for at in (0, 50, 100)]
    failed = text_of("This tool intentionally returns an error") | {"isError": True}
    tools = {name: [entry({"content": content})] for name, content in CONTENT.items()}
    tools |= {
        "test_tool_with_logging": [entry(*logged, text_of("logged"))],
        "test_logging_tool": [entry(*logged, text_of("logged"))],
        "test_tool_with_progress": [entry(*done, text_of("done"))],
        "test_error_handling": [entry(failed)],
        "json_schema_2020_12_tool": [entry(text_of("ok"))],
        "test_trigger_tool_change": [entry(text_of("changed"))],
    }
    if era == "handshake":
        return tools | {name: [each] for name, each in handshake_tools().items()}
    tools |= {f"test_input_required_result_{name}": calls for name, calls in modern_tools().items()}
    return tools | {
        "test_headers": [{"result": "any region"}],
        "test_missing_capability": [refusal(-32021, "sampling is missing", {"requiredCapabilities": {"sampling": {}}})],
        "test_streaming_elicitation": [entry(modern_tools()["elicitation"][0]["result"])],
    }


def answered(result, **params):
    return {"arguments": params, "result": result}


def prompts():
    parameters = [{"name": name, "required": True} for name in ("arg1", "arg2")]
    content = {
        "test_simple_prompt": ({}, {"type": "text", "text": "This is a simple prompt for testing."}),
        "test_prompt_with_arguments": (
            {"arguments": {"arg1": "testValue1", "arg2": "testValue2"}},
            {"type": "text", "text": "Prompt with arguments: arg1='testValue1', arg2='testValue2'"},
        ),
        "test_prompt_with_embedded_resource": (
            {"arguments": {"resourceUri": "test://example-resource"}},
            {"type": "resource", "resource": RESOURCE | {"uri": "test://example-resource"}},
        ),
        "test_prompt_with_image": ({}, {"type": "image", "data": PIXEL, "mimeType": "image/png"}),
    }
    listed = [{"name": name, "description": name, "arguments": parameters if "arg" in name else []} for name in content]
    got = [
        answered({"messages": [{"role": "user", "content": block}]}, name=name, **params)
        for name, (params, block) in content.items()
    ]
    name, reply = "test_input_required_result_prompt", {"user_context": accept(context="test context")}
    asked = wanted(user_context=("elicitation/create", {"mode": "form"} | form({"context": {"type": "string"}})))
    done = {"messages": [{"role": "user", "content": {"type": "text", "text": "test context"}}]}
    got += [answered(asked, name=name), answered(done, name=name, inputResponses=reply)]
    return {"prompts/list": [answered({"prompts": listed})], "prompts/get": got}


def resources():
    contents = {
        "test://static-text": {"mimeType": "text/plain", "text": "This is the content of the static text resource."},
        "test://static-binary": {"mimeType": "image/png", "blob": PIXEL},
        "test://template/123/data": {"mimeType": "application/json", "text": '{"id": "123"}'},
    }
    listed = [{"uri": uri, "name": uri, "mimeType": each["mimeType"]} for uri, each in contents.items()]
    template = {"uriTemplate": "test://template/{id}/data", "name": "data"}
    missing = {"code": -32602, "message": "Resource not found", "data": {"uri": MISSING}}
    wire = {"protocol": "mcp", "body": json.dumps(message(id=1, error=missing))}
    lost = {"arguments": {"uri": MISSING}, "error": {"type": "McpError", "message": "Resource not found"}, "wire": wire}
    return {
        "resources/list": [answered({"resources": listed})],
        "resources/templates/list": [answered({"resourceTemplates": [template]})],
        "resources/read": [
            *(answered({"contents": [{"uri": uri} | each]}, uri=uri) for uri, each in contents.items()),
            lost,
        ],
    }


MISSING = "test://nonexistent-resource-for-conformance-testing"


def at(minute, second):
    return f"2026-01-01T00:{minute:02}:{second:02}.000000+00:00"


def document(era, *, times):
    """The recording for an era. Each call may be made that many times."""
    tools = tools_of(era)
    listed = [{"name": n, "description": n, "inputSchema": SCHEMAS.get(n, OBJECT)} for n in tools]
    completed = {"completion": {"values": ["test"], "total": 1, "hasMore": False}}
    asked = {"ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"}}
    methods = {
        "initialize": [answered({"capabilities": CAPABILITIES, "serverInfo": INFO})],
        "tools/list": [answered({"tools": listed})],
        "completion/complete": [answered(completed, **asked, argument={"name": "arg1", "value": "test"})],
    }
    if era == "modern":
        about = {"supportedVersions": ["2026-07-28"], "capabilities": CAPABILITIES, "_meta": {SERVER_INFO_META: INFO}}
        methods = {"server/discover": [answered(about)]} | {name: methods[name] for name in list(methods)[1:]}
        methods["notifications/tools/list_changed"] = [{"arguments": {}, "recorded_at": at(n, 1)} for n in range(times)]
    calls = {f"{SERVER}.{name}": calls * times for name, calls in tools.items()}
    (change,) = tools["test_trigger_tool_change"]
    calls[f"{SERVER}.test_trigger_tool_change"] = [change | {"recorded_at": at(n, 0)} for n in range(times)]
    return {
        "_version": 2,
        "_tools": calls,
        "_mcp": {SERVER: methods | prompts() | resources()},
    }
