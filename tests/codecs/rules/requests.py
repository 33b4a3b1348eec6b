"""Requests that a vendor refuses, each by one rule, and odd ones that it accepts."""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from offbook.codecs.base import WireRequest
from offbook.messages import JsonObject

PATHS = {
    "openai_chat": "/v1/chat/completions",
    "openai_responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/gemini-2.5-pro:generateContent",
    "bedrock": "/model/us.amazon.nova-pro-v1:0/converse",
}


class Case(Struct, frozen=True):
    """A request of a protocol; the rule that refuses it, the place, and words of the refusal, if it is refused."""

    protocol: str
    body: JsonObject
    rule: str = ""
    place: str = ""
    words: str = ""

    @property
    def wire(self) -> WireRequest:
        return WireRequest(PATHS[self.protocol], self.body)

    def __str__(self) -> str:
        return f"{self.protocol}-{self.rule or 'accepted'}-{self.place}"


STRICT_OBJECT = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
OPEN_OBJECT = {"type": "object", "properties": {"city": {"type": "string"}}}
CITY: JsonObject = {"City": {"type": "string"}}
DESCRIBED_REF = {"$ref": "#/$defs/City", "description": "Where."}


# OpenAI chat


def said(text: object, role: str = "user", **more: Any) -> JsonObject:
    return {"role": role, "content": text, **more}


def asks(*ids: str, name: str = "pay", content: str | None = None) -> JsonObject:
    calls = [{"id": each, "type": "function", "function": {"name": name, "arguments": "{}"}} for each in ids]
    return {"role": "assistant", "content": content, "tool_calls": calls}


def result(call_id: str, content: str = "done") -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def chat(*messages: JsonObject, **more: Any) -> JsonObject:
    return {"model": "gpt-4o", "messages": list(messages or [said("Hi")]), **more}


def function(name: str = "pay", **more: Any) -> JsonObject:
    return {"type": "function", "function": {"name": name, "parameters": OPEN_OBJECT} | more}


def refused_chat(rule: str, place: str, words: str, *messages: JsonObject, **more: Any) -> Case:
    return Case("openai_chat", chat(*messages, **more), rule, place, words)


CHAT_REFUSED = [
    Case(
        "openai_chat", {"model": "gpt-4o"}, "messages-required", "messages", "Missing required parameter: 'messages'."
    ),
    Case("openai_chat", {"model": "gpt-4o", "messages": []}, "messages-required", "messages", "empty array"),
    Case("openai_chat", {"messages": [said("Hi")]}, "model-required", "model", "you must provide a model parameter"),
    refused_chat("known-roles", "messages.0.role", "Invalid value: 'bot'.", said("Hi", "bot")),
    refused_chat("known-roles", "messages.0.role", "'messages[0].role'", {"content": "Hi"}),
    refused_chat(
        "tool-call-id-required",
        "messages.2.tool_call_id",
        "Missing parameter 'tool_call_id'",
        said("Hi"),
        asks("c1"),
        {"role": "tool", "content": "x"},
    ),
    refused_chat(
        "no-empty-tool-calls",
        "messages.1.tool_calls",
        "Invalid 'messages[1].tool_calls': empty array.",
        said("Hi"),
        said("Hello", "assistant", tool_calls=[]),
        said("More"),
    ),
    refused_chat("content-required", "messages.0.content", "expected a string, got null.", said(None)),
    refused_chat(
        "content-required", "messages.1.content", "got null.", said("Hi"), said(None, "assistant"), said("More")
    ),
    refused_chat(
        "content-required", "messages.2.content", "got null.", said("Hi"), asks("c1"), result("c1") | {"content": None}
    ),
    refused_chat(
        "call-ids-short",
        "messages.1.tool_calls.0.id",
        "maximum length 64, but got a string with length 65",
        said("Hi"),
        asks("c" * 65),
        result("c" * 65),
    ),
    refused_chat(
        "arguments-are-text",
        "messages.1.tool_calls.0.function.arguments",
        "'messages[1].tool_calls[0].function.arguments': expected a string, but got an object instead.",
        said("Hi"),
        said(
            None, "assistant", tool_calls=[{"id": "c1", "type": "function", "function": {"name": "f", "arguments": {}}}]
        ),
        result("c1"),
    ),
    refused_chat(
        "results-follow-calls",
        "messages.1",
        "messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
        said("Hi"),
        result("c1"),
    ),
    refused_chat(  # a summary that cuts a pair
        "results-follow-calls",
        "messages.1",
        "must be a response",
        said("So far: …", "system"),
        result("c1"),
        said("Go"),
    ),
    refused_chat(  # a result for an unknown id
        "results-follow-calls", "messages.2", "'tool_call_id' of 'c2'", said("Hi"), asks("c1"), result("c2"), said("Go")
    ),
    refused_chat(  # killed between the tool and its answer
        "calls-have-results",
        "messages.1",
        "The following tool_call_ids did not have response messages: c1",
        said("Hi"),
        asks("c1"),
        said("Go on"),
    ),
    refused_chat(
        "calls-have-results", "messages.1", "messages: c2", said("Hi"), asks("c1", "c2"), result("c1"), said("Go on")
    ),
    refused_chat("calls-have-results", "messages.1", "messages: c1", said("Hi"), asks("c1")),
    refused_chat(
        "calls-have-results",
        "messages.1",
        "messages: c1",
        said("Hi"),
        asks("c1"),
        said("Wait"),
        said("Hm", "assistant"),
    ),
    refused_chat(
        "number-of-tools", "tools", "maximum length 128", tools=[function(f"tool_{number}") for number in range(129)]
    ),
    refused_chat(
        "function-names", "tools.0.function.name", "string does not match pattern.", tools=[function("look up")]
    ),
    refused_chat("function-names", "tools.0.function.name", "string too long.", tools=[function("n" * 65)]),
    refused_chat(
        "function-names",
        "tools.0.function.name",
        "Missing required parameter",
        tools=[{"type": "function", "function": {"parameters": OPEN_OBJECT}}],
    ),
    refused_chat(
        "strict-functions",
        "tools.0.function.parameters",
        "'additionalProperties' is required to be supplied and to be false.",
        tools=[function(strict=True)],
    ),
    refused_chat(
        "strict-functions",
        "tools.0.function.parameters",
        "Missing 'city'.",
        tools=[function(strict=True, parameters=STRICT_OBJECT | {"required": []})],
    ),
    refused_chat(
        "strict-functions",
        "tools.0.function.parameters.properties.city.allOf",
        "In context=('properties', 'city'), 'allOf' is not permitted.",
        tools=[function(strict=True, parameters=STRICT_OBJECT | {"properties": {"city": {"allOf": []}}})],
    ),
    refused_chat(
        "strict-functions",
        "tools.0.function.parameters.properties.city.oneOf",
        "'oneOf' is not permitted.",
        tools=[function(strict=True, parameters=STRICT_OBJECT | {"properties": {"city": {"oneOf": []}}})],
    ),
    refused_chat(
        "strict-functions",
        "tools.0.function.parameters.properties.city",
        "In context=('properties', 'city'), $ref cannot have keywords {'description'}.",
        tools=[
            function(strict=True, parameters=STRICT_OBJECT | {"properties": {"city": DESCRIBED_REF}, "$defs": CITY})
        ],
    ),
    refused_chat(
        "function-parameters",
        "tools.0.function.parameters.type",
        "got 'type: \"string\"'",
        tools=[function(parameters={"type": "string"})],
    ),
    refused_chat(
        "function-parameters",
        "tools.0.function.parameters.anyOf",
        "schema must have type 'object' and not have 'oneOf'/'anyOf'/'allOf'/'enum'/'not' at the top level.",
        tools=[function(parameters=OPEN_OBJECT | {"anyOf": [{"required": ["city"]}]})],
    ),
    refused_chat(
        "function-parameters",
        "tools.0.function.parameters.properties.cities",
        "In context=('properties', 'cities'), array schema missing items.",
        tools=[function(parameters={"type": "object", "properties": {"cities": {"type": "array"}}})],
    ),
    refused_chat(
        "strict-response-format",
        "response_format.json_schema.schema",
        "Invalid schema for response_format 'answer'",
        response_format={
            "type": "json_schema",
            "json_schema": {"name": "answer", "strict": True, "schema": OPEN_OBJECT},
        },
    ),
    refused_chat("choice-needs-tools", "tool_choice", "only allowed when 'tools' are specified", tool_choice="auto"),
    refused_chat("choice-needs-tools", "tool_choice", "only allowed when", tools=[], tool_choice="required"),
    refused_chat("choice-needs-tools", "parallel_tool_calls", "only allowed when", parallel_tool_calls=False),
    refused_chat(
        "json-mode-says-json", "messages", "must contain the word 'json'", response_format={"type": "json_object"}
    ),
    refused_chat(
        "stream-options-need-stream", "stream_options", "only allowed when", stream_options={"include_usage": True}
    ),
    refused_chat("ranges", "temperature", "Expected a value <= 2, but got 3 instead.", temperature=3),
    refused_chat("ranges", "max_tokens", "integer below minimum value.", max_tokens=0),
    refused_chat("ranges", "stop", "maximum length 4", stop=["a", "b", "c", "d", "e"]),
    Case(
        "openai_chat",
        chat(max_tokens=9) | {"model": "gpt-5.1"},
        "reasoning-parameters",
        "max_tokens",
        "Unsupported parameter: 'max_tokens'",
    ),
    Case(
        "openai_chat",
        chat(max_tokens=9) | {"model": "o3-mini"},
        "reasoning-parameters",
        "max_tokens",
        "Use 'max_completion_tokens' instead.",
    ),
]

CHAT_ACCEPTED = [
    chat(tools=[]),
    chat(tools=[], tool_choice="auto", parallel_tool_calls=False),
    chat(said("Hi"), asks("c1"), result("c1")),
    chat(said("Hi"), asks("c1", "c2"), result("c2"), result("c1")),
    chat(said("Hi"), asks("c1"), result("c1"), said("Hello", "assistant"), said("Go on")),
    chat(said("Hi"), said("there"), said("Be brief", "system")),
    chat(said("Hi", "assistant")),
    chat(said("", "assistant"), said("Hi")),
    chat(said("")),
    chat(said("Hi"), asks("c1", content=""), result("c1", "")),
    chat(said("Hi"), asks("c1"), result("c1"), asks("c1"), result("c1")),
    chat(said("Hi"), asks("c1"), result("c1"), result("c1")),
    chat(said("Be brief", "developer"), said("Hi")),
    chat(said([{"type": "text", "text": "Hi"}])),
    chat(said(None, "assistant", refusal="No."), said("Hi")),
    chat(
        said(None, "assistant", function_call={"name": "pay", "arguments": "{}"}), said("done", "function", name="pay")
    ),
    chat(tools=[function(parameters={})]),
    chat(tools=[function(strict=True, parameters=STRICT_OBJECT)], tool_choice="none"),
    chat(tools=[function("a.b-c_9")]),
    chat(max_tokens=9) | {"model": "gpt-5-chat-latest"},
    chat(tools=[function(parameters=OPEN_OBJECT | {"properties": {"city": DESCRIBED_REF}, "$defs": CITY})]),
    chat(tools=[{"type": "custom", "custom": {"name": "code"}}]),
    chat(said("Reply in JSON."), response_format={"type": "json_object"}),
    chat(temperature=0, top_p=1, n=1, max_tokens=1, stop=["a", "b", "c", "d"]),
    chat(stream=True, stream_options={"include_usage": True}),
    chat(said("Hi"), asks("c1"), said("Go on")) | {"model": "llama3.2:3b"},
    chat(said("Hi"), asks("c1"), said("Go on")) | {"model": "mistralai/mistral-large"},
    chat(max_completion_tokens=9) | {"model": "o3-mini"},
]

# OpenAI responses

CALL: JsonObject = {"type": "function_call", "call_id": "c1", "name": "pay", "arguments": "{}"}
OUTPUT: JsonObject = {"type": "function_call_output", "call_id": "c1", "output": "done"}


def responses(*items: JsonObject, **more: Any) -> JsonObject:
    return {"model": "gpt-5", "input": list(items) if items else "Hi", **more}


def refused_responses(rule: str, place: str, words: str, *items: JsonObject, **more: Any) -> Case:
    return Case("openai_responses", responses(*items, **more), rule, place, words)


RESPONSES_REFUSED = [
    Case("openai_responses", {"model": "gpt-5"}, "input-required", "input", "must be provided."),
    Case("openai_responses", {"input": "Hi"}, "model-required", "model", "Missing required parameter: 'model'."),
    refused_responses(
        "content-types",
        "input.0.content.0",
        "Invalid value: 'text'.",
        said([{"type": "text", "text": "Hi"}]),
    ),
    refused_responses(
        "content-types",
        "input.1.content.0",
        "Supported values are: 'output_text' and 'refusal'.",
        said("Hi"),
        said([{"type": "input_text", "text": "Hello"}], "assistant"),
    ),
    refused_responses(
        "results-have-calls",
        "input.1",
        "No tool call found for function call output with call_id c1.",
        said("Hi"),
        OUTPUT,
    ),
    refused_responses(
        "calls-have-results", "input.1", "No tool output found for function call c1.", said("Hi"), CALL, said("Go on")
    ),
    refused_responses("calls-have-results", "input.1", "No tool output found", said("Hi"), CALL),
    refused_responses(
        "reasoning-is-followed",
        "input.1",
        "Item 'rs_1' of type 'reasoning' was provided without its required following item.",
        said("Hi"),
        {"type": "reasoning", "id": "rs_1", "summary": []},
        said("Go on"),
    ),
    refused_responses(
        "item-ids",
        "input.1.id",
        "Invalid 'input[1].id': 'call_1'. Expected an ID that begins with 'fc'.",
        said("Hi"),
        CALL | {"id": "call_1"},
        OUTPUT,
    ),
    refused_responses(
        "item-ids",
        "input.1.id",
        "Expected an ID that begins with 'msg'.",
        said("Hi"),
        said("Hello", "assistant", type="message", id="lc_1"),
    ),
    refused_responses(
        "arguments-are-text",
        "input.1.arguments",
        "Invalid type for 'input[1].arguments': expected a string, but got an object instead.",
        said("Hi"),
        CALL | {"arguments": {}},
        OUTPUT,
    ),
    refused_responses(
        "choice-needs-tools",
        "tool_choice",
        "Tool choice 'required' must be specified with 'tools' parameter.",
        tool_choice="required",
    ),
    refused_responses(
        "call-ids-short",
        "input.1.call_id",
        "string too long.",
        said("Hi"),
        CALL | {"call_id": "c" * 65},
        OUTPUT | {"call_id": "c" * 65},
    ),
    refused_responses(
        "function-names", "tools.0.name", "does not match pattern", tools=[{"type": "function", "name": "look up"}]
    ),
    refused_responses(
        "strict-functions",
        "tools.0.parameters",
        "Invalid schema for function 'pay'",
        tools=[{"type": "function", "name": "pay", "strict": True, "parameters": OPEN_OBJECT}],
    ),
    refused_responses(
        "function-parameters",
        "tools.0.parameters.properties.cities",
        "array schema missing items.",
        tools=[
            {
                "type": "function",
                "name": "pay",
                "parameters": {"type": "object", "properties": {"cities": {"type": "array"}}},
            }
        ],
    ),
    refused_responses(
        "choice-is-offered",
        "tool_choice",
        "Tool choice 'function' not found in 'tools' parameter.",
        tools=[{"type": "function", "name": "pay", "parameters": OPEN_OBJECT}],
        tool_choice={"type": "function", "name": "refund"},
    ),
    refused_responses(
        "strict-text-format",
        "text.format.schema",
        "Invalid schema for response_format 'answer'",
        text={"format": {"type": "json_schema", "name": "answer", "strict": True, "schema": OPEN_OBJECT}},
    ),
    refused_responses(
        "json-mode-says-json", "input", "must contain the word 'json'", text={"format": {"type": "json_object"}}
    ),
    refused_responses("ranges", "temperature", "decimal above maximum", temperature=2.5),
    refused_responses("ranges", "max_output_tokens", "Expected a value >= 16", max_output_tokens=9),
]

RESPONSES_ACCEPTED: list[JsonObject] = [
    responses(said("Hi"), CALL, OUTPUT),
    responses(OUTPUT, previous_response_id="resp_1"),
    responses(OUTPUT, conversation="conv_1"),
    {"prompt": {"id": "pmpt_1"}},
    {"model": "gpt-5", "conversation": "conv_1"},
    responses(said("Hi"), {"type": "reasoning", "id": "rs_1", "summary": []}, CALL, OUTPUT),
    responses(said("Hi"), {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "x"}),
    responses({"type": "item_reference", "id": "fc_1"}, OUTPUT),
    responses(said([{"type": "input_text", "text": "Hi"}]), said([{"type": "output_text", "text": "Hm"}], "assistant")),
    responses(said("Hi"), said("Hello", "assistant"), said("Be brief", "developer")),
    responses(tools=[{"type": "web_search"}, {"type": "function", "name": "pay", "parameters": OPEN_OBJECT}]),
    responses(text={"format": {"type": "json_object"}}, instructions="Reply in JSON."),
    responses(max_output_tokens=16, temperature=0),
]

# Anthropic

TOOL: JsonObject = {"name": "pay", "input_schema": OPEN_OBJECT}
THINKING: JsonObject = {"type": "enabled", "budget_tokens": 1024}
THOUGHT: JsonObject = {"type": "thinking", "thinking": "Hm.", "signature": "s"}


def uses(*ids: str, before: tuple[JsonObject, ...] = ()) -> JsonObject:
    return said([*before, *({"type": "tool_use", "id": each, "name": "pay", "input": {}} for each in ids)], "assistant")


def results(*ids: str, after: str = "") -> JsonObject:
    blocks: list[JsonObject] = [{"type": "tool_result", "tool_use_id": each, "content": "done"} for each in ids]
    return said([*blocks, *([{"type": "text", "text": after}] if after else [])])


def messages(*given: JsonObject, **more: Any) -> JsonObject:
    return {"model": "claude-1", "max_tokens": 64, "messages": list(given or [said("Hi")]), **more}


def refused_messages(rule: str, place: str, words: str, *given: JsonObject, **more: Any) -> Case:
    return Case("anthropic", messages(*given, **more), rule, place, words)


ANTHROPIC_REFUSED = [
    Case(
        "anthropic",
        {"model": "claude-1", "messages": [said("Hi")]},
        "required-fields",
        "max_tokens",
        "max_tokens: Field required",
    ),
    Case("anthropic", {"model": "claude-1", "max_tokens": 9}, "required-fields", "messages", "Field required"),
    Case(
        "anthropic", messages() | {"messages": []}, "messages-not-empty", "messages", "at least one message is required"
    ),
    refused_messages("no-system-message", "messages.0.role", 'Unexpected role "system"', said("Be brief", "system")),
    refused_messages(
        "content-types",
        "messages.0.content.0",
        "Input tag 'image_url' found using 'type' does not match any of the expected tags",
        said([{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]),
    ),
    refused_messages(
        "content-not-empty",
        "messages.2",
        "messages.2: all messages must have non-empty content except for the optional final assistant message",
        said("Hi"),
        said("Hello", "assistant"),
        said([]),
    ),
    refused_messages("content-not-empty", "messages.0", "non-empty content", said("")),
    refused_messages(
        "text-not-blank",
        "messages.0.content.0",
        "text content blocks must be non-empty",
        said([{"type": "text", "text": ""}]),
    ),
    refused_messages(
        "text-not-blank",
        "messages.0.content.0",
        "must contain non-whitespace text",
        said([{"type": "text", "text": "\n"}]),
    ),
    refused_messages(
        "no-trailing-space", "messages.1", "cannot end with trailing whitespace", said("Hi"), said("So ", "assistant")
    ),
    refused_messages(
        "unique-call-ids",
        "messages.3.content.0",
        "`tool_use` ids must be unique",
        said("Hi"),
        uses("t1"),
        results("t1"),
        uses("t1"),
        results("t1"),
    ),
    refused_messages(
        "calls-have-results",
        "messages.1",
        "messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: t1.",
        said("Hi"),
        uses("t1"),
        said("Go on"),
    ),
    refused_messages("calls-have-results", "messages.1", "after: t2.", said("Hi"), uses("t1", "t2"), results("t1")),
    refused_messages("calls-have-results", "messages.1", "after: t1.", said("Hi"), uses("t1")),
    refused_messages(
        "calls-have-results",
        "messages.1",
        "after: t1.",
        said("Hi"),
        uses("t1"),
        said([{"type": "text", "text": "Here:"}, *results("t1")["content"]]),
    ),
    refused_messages(
        "calls-have-results",
        "messages.1",
        "after: t2.",
        said("Hi"),
        uses("t1", "t2"),
        results("t1", after="And:"),
        results("t2"),
    ),
    refused_messages(
        "calls-have-results", "messages.1", "after: t1.", said("Hi"), uses("t1"), said("x"), results("t1")
    ),
    refused_messages(
        "roles-of-blocks",
        "messages.2",
        "`tool_use` blocks can only be in `assistant` messages",
        said("Hi"),
        said("Hello", "assistant"),
        uses("t1") | {"role": "user"},
    ),
    refused_messages(
        "call-ids",
        "messages.1.content.0.tool_use.id",
        "String should match pattern '^[a-zA-Z0-9_-]+$'",
        said("Hi"),
        uses("call|1"),
        results("call|1"),
    ),
    refused_messages(
        "results-follow-calls",
        "messages.0.content.0",
        "unexpected `tool_use_id` found in `tool_result` blocks: t1.",
        results("t1"),
    ),
    refused_messages(
        "results-follow-calls",
        "messages.2.content.1",
        "blocks: t2.",
        said("Hi"),
        uses("t1"),
        results("t1", "t2"),
    ),
    refused_messages(
        "roles-of-blocks",
        "messages.3",
        "`tool_result` blocks can only be in `user` messages",
        said("Hi"),
        uses("t1"),
        results("t1"),
        results("t1") | {"role": "assistant"},
    ),
    refused_messages(
        "single-results",
        "messages.2.content.1",
        "each tool_use must have a single result.",
        said("Hi"),
        uses("t1"),
        results("t1", "t1"),
    ),
    refused_messages(
        "call-input",
        "messages.1.content.0.tool_use.input",
        "Input should be a valid dictionary",
        said("Hi"),
        said([{"type": "tool_use", "id": "t1", "name": "pay", "input": "{}"}], "assistant"),
        results("t1"),
    ),
    refused_messages(
        "thinking-sent-back",
        "messages.1.content.0.type",
        "Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
        said("Hi"),
        uses("t1"),
        results("t1"),
        thinking=THINKING,
        max_tokens=2048,
    ),
    refused_messages(
        "signatures",
        "messages.1.content.0.thinking.signature",
        "Field required",
        said("Hi"),
        said([{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "Ha"}], "assistant"),
        said("Go on"),
    ),
    refused_messages(
        "thinking-budget",
        "thinking.enabled.budget_tokens",
        "greater than or equal to 1024",
        thinking=THINKING | {"budget_tokens": 512},
        max_tokens=2048,
    ),
    refused_messages(
        "thinking-budget", "max_tokens", "must be greater than `thinking.budget_tokens`", thinking=THINKING
    ),
    refused_messages(
        "thinking-temperature",
        "temperature",
        "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode.",
        thinking={"type": "adaptive"},
        temperature=0.5,
    ),
    refused_messages("ranges", "temperature", "temperature: range: 0..1", temperature=1.2),
    refused_messages(
        "thinking-forces-no-tool",
        "tool_choice",
        "Thinking may not be enabled when tool_choice forces tool use.",
        thinking=THINKING,
        max_tokens=2048,
        tools=[TOOL],
        tool_choice={"type": "any"},
    ),
    refused_messages("unique-tool-names", "tools", "Tool names must be unique.", tools=[TOOL, TOOL]),
    refused_messages(
        "tool-names", "tools.0.custom.name", "String should match pattern", tools=[TOOL | {"name": "look up"}]
    ),
    refused_messages("input-schemas", "tools.0.custom.input_schema", "Field required", tools=[{"name": "pay"}]),
    refused_messages(
        "input-schemas",
        "tools.0.custom.input_schema.type",
        "Input should be 'object'",
        tools=[TOOL | {"input_schema": {"type": "array"}}],
    ),
    refused_messages(
        "input-schemas",
        "tools.0.custom.input_schema",
        "input_schema does not support oneOf, allOf, or anyOf at the top level",
        tools=[TOOL | {"input_schema": OPEN_OBJECT | {"anyOf": [{"required": ["city"]}]}}],
    ),
    refused_messages(
        "cached-blocks",
        "",
        "A maximum of 4 blocks with cache_control may be provided. Found 5.",
        said([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}] * 5),
    ),
]

ANTHROPIC_ACCEPTED = [
    messages(said("Hi"), uses("t1"), results("t1")),
    messages(said("Hi"), uses("t1", "t2"), results("t2", "t1", after="Go on")),
    messages(said("Hi"), uses("t1", "t2"), results("t1"), results("t2")),
    messages(said("Hi"), said("there")),
    messages(said("Hello", "assistant"), said("Hi")),
    messages(said("Hi"), said("So", "assistant")),
    messages(said("Hi"), said("", "assistant")),
    messages(said("Hi"), said([], "assistant"), said("Go on")),
    messages(said("Hi"), said("Hm ", "assistant"), said("Go on")),
    messages(said("Hi"), said([{"type": "text", "text": "Let me see."}], "assistant"), uses("t1"), results("t1")),
    messages(said("Hi"), uses("t1", before=(THOUGHT,)), results("t1"), thinking=THINKING, max_tokens=2048),
    messages(said("Hi"), said("Hm", "assistant"), said("Go on"), thinking=THINKING, max_tokens=2048),
    messages(
        said("Hi"),
        uses("t1"),
        results("t1"),
        said("Done", "assistant"),
        said("More"),
        thinking=THINKING,
        max_tokens=2048,
    ),
    messages(
        said("Hi"),
        uses("t1", before=(THOUGHT,)),
        results("t1"),
        uses("t2"),
        results("t2"),
        thinking=THINKING,
        max_tokens=2048,
    ),
    messages(thinking=THINKING, max_tokens=512, tools=[TOOL]),
    messages(
        said(
            [{"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}, {"type": "text", "text": "x"}]
        )
    ),
    messages(tools=[{"type": "web_search_20250305", "name": "web_search"}, TOOL], tool_choice={"type": "none"}),
    messages(said([{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}] * 4)),
    messages(said("Hi"), uses("t1"), said([{"type": "tool_result", "tool_use_id": "t1"}])),
    messages(said("Hi"), uses("t1"), said("Go on")) | {"model": "deepseek-chat"},
    messages(temperature=1, stop_sequences=["\n\nHuman:"]),
]

# Gemini


def turn(role: str, *parts: JsonObject) -> JsonObject:
    return {"role": role, "parts": list(parts)}


HI = turn("user", {"text": "Hi"})
PAYS = turn("model", {"functionCall": {"name": "pay", "args": {}}})
PAID = turn("user", {"functionResponse": {"name": "pay", "response": {"result": "done"}}})


def contents(*turns: JsonObject, **more: Any) -> JsonObject:
    return {"contents": list(turns or [HI]), **more}


POSITIVE_SUM: JsonObject = {
    "type": "OBJECT",
    "properties": {"sum": {"anyOf": [{"type": "INTEGER", "exclusiveMinimum": 0}]}},
}


def declares(*names: str) -> list[JsonObject]:
    return [{"functionDeclarations": [{"name": name} for name in names]}]


def refused_contents(rule: str, place: str, words: str, *turns: JsonObject, **more: Any) -> Case:
    return Case("gemini", contents(*turns, **more), rule, place, words)


AS_MANY = "number of function response parts is equal to the number of function call parts of the function call turn."

GEMINI_REFUSED = [
    Case("gemini", {"contents": []}, "contents-required", "contents", "contents is not specified"),
    refused_contents("parts-required", "contents.0.parts", "must not be empty", turn("user")),
    refused_contents(
        "known-roles", "contents.0.role", "Please use a valid role: user, model.", turn("bot", {"text": "Hi"})
    ),
    refused_contents(
        "calls-follow-user",
        "contents.0",
        "Please ensure that function call turn comes immediately after a user turn or after a function response turn.",
        PAYS,
        PAID,
    ),
    refused_contents(
        "results-follow-calls",
        "contents.0",
        "Please ensure that function response turn comes immediately after a function call turn.",
        PAID,
    ),
    refused_contents(
        "results-follow-calls", "contents.2", "function response turn", HI, turn("model", {"text": "Hm"}), PAID
    ),
    refused_contents("as-many-results", "contents.1", AS_MANY, HI, PAYS, HI),
    refused_contents("as-many-results", "contents.1", AS_MANY, HI, turn("model", *PAYS["parts"], *PAYS["parts"]), PAID),
    refused_contents(
        "function-names", "tools.0.functionDeclarations.0.name", "Invalid function name.", tools=declares("9 x")
    ),
    refused_contents(
        "required-is-defined",
        "tools.0.functionDeclarations.0.parameters.required.0",
        "tools[0].function_declarations[0].parameters.required[0]: property is not defined",
        tools=[{"functionDeclarations": [{"name": "pay", "parameters": {"type": "OBJECT", "required": ["sum"]}}]}],
    ),
    refused_contents(
        "unique-function-names",
        "tools.1.functionDeclarations.0.name",
        "Duplicate function declaration found: pay",
        tools=declares("pay") + declares("pay"),
    ),
    refused_contents(
        "known-keywords",
        "tools.0.functionDeclarations.0.parameters",
        "\"exclusiveMinimum\" at 'tools[0].function_declarations[0].parameters.properties[0].value.any_of[0]'",
        tools=[{"functionDeclarations": [{"name": "pay", "parameters": POSITIVE_SUM}]}],
    ),
    refused_contents(
        "known-keywords",
        "tools.0.functionDeclarations.0.parameters",
        "Unknown name \"$schema\" at 'tools[0].function_declarations[0].parameters': Cannot find field.",
        tools=[{"functionDeclarations": [{"name": "pay", "parameters": OPEN_OBJECT | {"$schema": "x"}}]}],
    ),
    refused_contents(
        "config-needs-functions",
        "toolConfig",
        "Function calling config is set without function_declarations.",
        tools=[{"googleSearch": {}}],
        toolConfig={"functionCallingConfig": {"mode": "AUTO"}},
    ),
    refused_contents(
        "thought-signatures",
        "contents.3",
        "function call `default_api:pay` , position 4.",
        HI,
        turn("model", PAYS["parts"][0] | {"thoughtSignature": "s"}),
        PAID,
        PAYS,
        PAID,
        model="gemini-3-pro-preview",
    ),
]

GEMINI_ACCEPTED = [
    contents(HI, PAYS, PAID),
    contents(HI, turn("model", *PAYS["parts"], *PAYS["parts"]), PAID, PAID),
    contents(HI, turn("model", {"text": "Let me see."}), PAYS, PAID),
    contents(HI, PAYS, turn("function", *PAID["parts"]), turn("model", {"text": "Done"}), HI),
    contents(HI, HI),
    contents({"parts": [{"text": "Hi"}]}),
    contents(HI, turn("model", {"text": "So"})),
    contents(
        HI, turn("model", {"function_call": {"name": "pay"}}), turn("user", {"function_response": {"name": "pay"}})
    ),
    contents(tools=[*declares("pay"), {"googleSearch": {}}]),
    contents(generationConfig={"temperature": 2}),
    contents(HI, PAYS, turn("tool", *PAID["parts"])),
    contents(turn("system", {"text": "Be brief."}), HI, model="gemini-3.6-flash"),
    contents(HI, PAYS, turn("function", *PAID["parts"]), model="gemini-flash-latest"),
    contents(
        tools=[{"googleSearch": {}}],
        toolConfig={"functionCallingConfig": {"mode": "AUTO"}, "includeServerSideToolInvocations": True},
        model="gemini-3-flash-preview",
    ),
    contents(tools=[{"functionDeclarations": [{"name": "pay", "parametersJsonSchema": POSITIVE_SUM}]}]),
]

# Bedrock


def block(kind: str, **fields: Any) -> JsonObject:
    return {kind: fields}


def converse(*given: JsonObject, **more: Any) -> JsonObject:
    return {"messages": list(given or [said([{"text": "Hi"}])]), **more}


CONFIG: JsonObject = {"toolConfig": {"tools": [{"toolSpec": {"name": "pay", "inputSchema": {"json": OPEN_OBJECT}}}]}}
HELLO = said([{"text": "Hi"}])


def converse_uses(*ids: str) -> JsonObject:
    return said([block("toolUse", toolUseId=each, name="pay", input={}) for each in ids], "assistant")


def converse_results(*ids: str, **more: Any) -> JsonObject:
    return said([block("toolResult", **({"toolUseId": each, "content": [{"text": "done"}]} | more)) for each in ids])


def refused_converse(rule: str, place: str, words: str, *given: JsonObject, **more: Any) -> Case:
    return Case("bedrock", converse(*given, **more), rule, place, words)


BEDROCK_REFUSED = [
    refused_converse(
        "starts-with-user",
        "messages.0.role",
        "A conversation must start with a user message.",
        said([{"text": "Hello"}], "assistant"),
        HELLO,
    ),
    refused_converse(
        "content-not-empty", "messages.0", "The content field in the Message object at messages.0", said([])
    ),
    refused_converse("text-not-blank", "messages.0.content.0", "messages.0.content.0 is blank.", said([{"text": " "}])),
    refused_converse(
        "tools-are-configured",
        "toolConfig",
        "The toolConfig field must be defined",
        HELLO,
        converse_uses("t1"),
        converse_results("t1"),
    ),
    refused_converse(
        "calls-have-results",
        "messages.1",
        "Expected toolResult blocks at messages.2.content for the following Ids: t1",
        HELLO,
        converse_uses("t1"),
        HELLO,
        **CONFIG,
    ),
    refused_converse(
        "calls-have-results",
        "messages.1",
        "Expected toolResult blocks at messages.2.content for the following Ids: t2",
        HELLO,
        converse_uses("t1", "t2"),
        converse_results("t1"),
        converse_results("t2"),
        **CONFIG,
    ),
    refused_converse(
        "results-follow-calls",
        "messages.0",
        "The number of toolResult blocks at messages.0.content exceeds the number of toolUse blocks of previous turn.",
        converse_results("t1"),
        **CONFIG,
    ),
    refused_converse(
        "single-results",
        "messages.2",
        "The toolResult blocks at messages.2.content contain duplicate Ids: t1",
        HELLO,
        converse_uses("t1", "t2"),
        said([*converse_results("t1", "t1")["content"], *converse_results("t2")["content"]]),
        **CONFIG,
    ),
    refused_converse(
        "errors-say-why",
        "messages.2.content.0.toolResult",
        "cannot be empty when status value is error.",
        HELLO,
        converse_uses("t1"),
        converse_results("t1", status="error", content=[]),
        **CONFIG,
    ),
    refused_converse(
        "json-results-are-objects",
        "messages.2.content.0.toolResult.content.0.json",
        "Provide a json object for the field",
        HELLO,
        converse_uses("t1"),
        converse_results("t1", content=[{"json": [1]}]),
        **CONFIG,
    ),
    refused_converse(
        "call-ids",
        "messages.1.content.0.toolUse.toolUseId",
        "failed to satisfy constraint",
        HELLO,
        converse_uses("t 1"),
        converse_results("t 1"),
        **CONFIG,
    ),
    refused_converse(
        "tool-names",
        "toolConfig.tools.0.toolSpec.name",
        "toolConfig.tools.1.member.toolSpec.name",
        toolConfig={"tools": [{"toolSpec": {"name": "look up"}}]},
    ),
    refused_converse(
        "ranges", "inferenceConfig.temperature", "less than or equal to 1", inferenceConfig={"temperature": 1.5}
    ),
]

BEDROCK_ACCEPTED = [
    converse(HELLO, converse_uses("t1"), converse_results("t1"), **CONFIG),
    converse(HELLO, converse_uses("t1", "t2"), converse_results("t2", "t1"), **CONFIG),
    converse(HELLO, said([{"text": "So"}], "assistant")),
    converse(HELLO, HELLO),
    converse(HELLO, converse_uses("t1"), converse_uses("t2"), converse_results("t1", "t2"), **CONFIG),
    converse(HELLO, converse_uses("t1"), converse_results("t1", status="error"), **CONFIG),
    converse(HELLO, converse_uses("t1"), converse_results("t1", content=[]), **CONFIG),
    converse(HELLO, converse_uses("t1"), said([*converse_results("t1")["content"], {"text": "Go on"}]), **CONFIG),
    converse(inferenceConfig={"temperature": 1, "maxTokens": 9}),
]

REFUSED = [*CHAT_REFUSED, *RESPONSES_REFUSED, *ANTHROPIC_REFUSED, *GEMINI_REFUSED, *BEDROCK_REFUSED]
ACCEPTED = [
    Case(protocol, body)
    for protocol, bodies in {
        "openai_chat": CHAT_ACCEPTED,
        "openai_responses": RESPONSES_ACCEPTED,
        "anthropic": ANTHROPIC_ACCEPTED,
        "gemini": GEMINI_ACCEPTED,
        "bedrock": BEDROCK_ACCEPTED,
    }.items()
    for body in bodies
]
