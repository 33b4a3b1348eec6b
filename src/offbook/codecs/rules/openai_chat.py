"""Refusals of OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from offbook.codecs.rules.json_schema import function_schema_breach, strict_schema_breach
from offbook.codecs.rules.openai_breaches import (
    MAX_CALL_ID,
    arguments_breaches,
    empty_array,
    missing,
    name_breaches,
    parameters_breaches,
    range_breaches,
    refused,
    too_long,
)
from offbook.codecs.rules.rule import Breach, ProtocolRules, a_dict, a_list, objects, quoted, text
from offbook.messages import JsonObject

RULES = ProtocolRules()

SDK = "openai-python 3.49.0: types/chat/completion_create_params.py"
ROLES = ("system", "assistant", "user", "function", "tool", "developer")
MAX_TOOLS, MAX_STOPS = 128, 4


def _calls(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the tool calls of all messages with their places."""
    for position, message in objects(body.get("messages")):
        for place, call in objects(message.get("tool_calls")):
            yield f"messages[{position}].tool_calls[{place}]", call


def _functions(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the functions among the tools with their places."""
    for position, tool in objects(body.get("tools")):
        if tool.get("type") == "function":
            yield f"tools[{position}].function", a_dict(tool.get("function"))


@RULES.add(
    "`messages` is missing or empty",
    source="https://github.com/CopilotKit/CopilotKit/issues/529, https://github.com/SilasMarvin/lsp-ai/issues/108",
    seen="2025-09-29",
)
def messages_required(body: JsonObject) -> Iterator[Breach]:
    if "messages" not in body:
        yield missing("messages")
    elif body["messages"] == []:
        yield empty_array("messages")


@RULES.add(
    "`model` is missing",
    source=SDK,
    seen="2026-11-18",
)
def model_required(body: JsonObject) -> Iterator[Breach]:
    if "model" not in body:
        yield Breach("model", "is missing", "you must provide a model parameter", {"param": None, "code": None})


@RULES.add(
    "a message has an unknown role",
    source="openai-python 3.49.0: types/chat/chat_completion_role.py",
    seen="2026-11-18",
)
def known_roles(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        param = f"messages[{position}].role"
        if "role" not in message:
            yield missing(param)
        elif (role := message["role"]) not in ROLES:
            supported = ", ".join(f"'{each}'" for each in ROLES[:-1]) + f", and '{ROLES[-1]}'"
            words = f"Invalid value: '{role}'. Supported values are: {supported}."
            yield refused(param, f"is {role!r}", words, "invalid_value")


@RULES.add(
    "a tool message does not say which call it answers",
    source="https://github.com/langchain-ai/langchain/issues/22600",
    seen="2024-06-06",
)
def tool_call_id_required(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        if message.get("role") == "tool" and message.get("tool_call_id") is None:
            words = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
            yield refused(f"messages.[{position}].tool_call_id", "is missing", words)


@RULES.add(
    "`tool_calls` of a message is an empty list",
    source="https://github.com/home-assistant/core/pull/118577",
    seen="2024-05-31",
)
def no_empty_tool_calls(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        if message.get("tool_calls") == []:
            yield empty_array(f"messages[{position}].tool_calls")


@RULES.add(
    "a message without tool calls has no content",
    source="https://github.com/langchain-ai/langchainjs/issues/4153",
    seen="2024-07-25",
)
def content_required(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        role = message.get("role")
        is_other = role == "assistant" and any(
            message.get(name) for name in ("tool_calls", "function_call", "refusal", "audio")
        )
        if role in ROLES and role != "function" and message.get("content") is None and not is_other:
            words = "Invalid value for 'content': expected a string, got null."
            yield refused(f"messages.[{position}].content", "is null", words)


@RULES.add(
    "the id of a tool call is longer than 64 characters; some models take 40 at most, and are not told apart",
    source="https://github.com/openclaw/openclaw/pull/875",
    seen="2026-01-13",
)
def call_ids_short(body: JsonObject) -> Iterator[Breach]:
    for param, call in _calls(body):
        if len(given := text(call.get("id"))) > MAX_CALL_ID:
            yield too_long(f"{param}.id", most=MAX_CALL_ID, length=len(given))


@RULES.add(
    "the arguments of a tool call are an object instead of its JSON as a text",
    source="https://github.com/aaif-goose/goose-mobile/pull/20",
    seen="2025-03-06",
)
def arguments_are_text(body: JsonObject) -> Iterator[Breach]:
    for param, call in _calls(body):
        yield from arguments_breaches(f"{param}.function.arguments", a_dict(call.get("function")).get("arguments"))


@RULES.add(
    "a tool result answers no call of the assistant message before it",
    source="https://github.com/miurla/morphic/issues/136",
    seen="2024-05-11",
)
def results_follow_calls(body: JsonObject) -> Iterator[Breach]:
    asked: set[str] = set()
    follows = False
    for position, message in objects(body.get("messages")):
        if message.get("role") != "tool":
            calls = [call for _, call in objects(message.get("tool_calls"))]
            asked = {text(call.get("id")) for call in calls}
            follows = message.get("role") == "assistant" and bool(calls)
        elif not follows:
            words = (
                "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with "
                "'tool_calls'."
            )
            reason = f"result for {message.get('tool_call_id')!r}, which no message before it asks for"
            yield refused(f"messages.[{position}].role", reason, words, place=f"messages.{position}")
        elif text(message.get("tool_call_id")) not in asked:
            given = message.get("tool_call_id")
            words = f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous message."
            reason = f"result for {given!r}, which the message before it does not ask for"
            yield refused(f"messages.[{position}].tool_call_id", reason, words, place=f"messages.{position}")


@RULES.add(
    "a tool call has no result right after its message",
    source="https://github.com/BerriAI/litellm/issues/10083",
    seen="2025-04-17",
)
def calls_have_results(body: JsonObject) -> Iterator[Breach]:
    messages = a_list(body.get("messages"))
    for position, message in objects(messages):
        calls = [text(call.get("id")) for _, call in objects(message.get("tool_calls"))]
        if message.get("role") != "assistant" or not calls:
            continue
        after = position + 1
        answered: set[str] = set()
        while after < len(messages) and a_dict(messages[after]).get("role") == "tool":
            answered.add(text(messages[after].get("tool_call_id")))
            after += 1
        if lacking := [each for each in calls if each not in answered]:
            words = (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(lacking)}"
            )
            param = f"messages.[{after}].role" if after < len(messages) else "messages"
            yield refused(param, f"{quoted(lacking)} no result", words, place=f"messages.{position}")


@RULES.add(
    "`tools` has more than 128 entries; an empty list, which frameworks send, is accepted",
    source="https://github.com/code-yeongyu/oh-my-openagent/issues/2848",
    seen="2026-03-26",
)
def number_of_tools(body: JsonObject) -> Iterator[Breach]:
    if (length := len(a_list(body.get("tools")))) > MAX_TOOLS:
        yield too_long("tools", most=MAX_TOOLS, length=length, kind="array")


@RULES.add(
    "the name of a function has other characters than letters, digits, `_` and `-`, or more than 64 of them",
    source="https://github.com/brekkylab/ailoy/pull/109, https://github.com/cline/cline/pull/11885, "
    "openai-python 3.49.0: types/shared_params/function_definition.py",
    seen="2026-11-18",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        yield from name_breaches(param, function)


@RULES.add(
    "the schema of a strict function leaves the strict subset",
    source="https://github.com/livekit/agents/issues/5302, https://github.com/camel-ai/camel/issues/2231, "
    "https://github.com/vercel-labs/json-render/issues/180",
    seen="2026-04-01",
)
def strict_functions(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        if function.get("strict") is True and isinstance(function.get("parameters"), dict):
            yield from parameters_breaches(param, function, strict_schema_breach)


@RULES.add(
    "the parameters of a function are not those of an object, have a union or an `enum` at the top, or an array "
    "without `items`",
    source="https://github.com/ComposioHQ/composio/issues/1829, "
    "https://github.com/nspady/google-calendar-mcp/issues/39, https://github.com/modelscope/ms-agent/pull/610",
    seen="2025-08-06",
)
def function_parameters(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        yield from parameters_breaches(param, function, function_schema_breach)


@RULES.add(
    "the schema of a strict response format leaves the strict subset",
    source="https://github.com/dottxt-ai/outlines/issues/1666, https://github.com/vercel/ai/issues/6484, "
    "https://github.com/vectorize-io/hindsight/pull/3944",
    seen="2026-08-31",
)
def strict_response_format(body: JsonObject) -> Iterator[Breach]:
    form = a_dict(a_dict(body.get("response_format")).get("json_schema"))
    schema = a_dict(form.get("schema"))
    if form.get("strict") is True and schema and (found := strict_schema_breach(schema)):
        words = f"Invalid schema for response_format '{form.get('name')}': {found.words}"
        place = f"response_format.json_schema.schema{found.place}"
        yield refused("response_format", found.reason, words, place=place)


@RULES.add(
    "`tool_choice`, other than `none`, or `parallel_tool_calls` without `tools`; with an empty list of them, only a "
    "`tool_choice` that forces a call",
    source="https://github.com/writer/writer-framework/pull/1013, https://github.com/local-inference-lab/vllm/pull/195",
    seen="2026-07-29",
)
def choice_needs_tools(body: JsonObject) -> Iterator[Breach]:
    is_empty = body.get("tools") == []
    for name in ("tool_choice", "parallel_tool_calls"):
        is_lenient = is_empty and (name == "parallel_tool_calls" or body.get(name) == "auto")
        if body.get(name) not in (None, "none") and not body.get("tools") and not is_lenient:
            words = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            yield refused(name, "is given without tools", words)


@RULES.add(
    "JSON mode, and no message says `json`",
    source="https://github.com/ultimatejimmy/xray.koplugin/issues/33",
    seen="2026-05-09",
)
def json_mode_says_json(body: JsonObject) -> Iterator[Breach]:
    is_json = a_dict(body.get("response_format")).get("type") == "json_object"
    if is_json and "json" not in str(body.get("messages")).lower():
        words = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield refused("messages", "do not say json", words)


@RULES.add(
    "`stream_options` without `stream`",
    source="https://github.com/BerriAI/litellm/issues/5803",
    seen="2024-09-20",
)
def stream_options_need_stream(body: JsonObject) -> Iterator[Breach]:
    if body.get("stream_options") is not None and not body.get("stream"):
        words = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield refused("stream_options", "is given without stream", words)


@RULES.add(
    "a number is out of its range, or there are more than four stop sequences",
    source=f"{SDK}, https://github.com/betalgo/openai/issues/360",
    seen="2026-11-18",
)
def ranges(body: JsonObject) -> Iterator[Breach]:
    yield from range_breaches(body, temperature=(0, 2), top_p=(0, 1), top_logprobs=(0, 20))
    yield from range_breaches(body, frequency_penalty=(-2, 2), presence_penalty=(-2, 2))
    yield from range_breaches(body, max_tokens=(1, None), max_completion_tokens=(1, None))
    if (length := len(a_list(body.get("stop")))) > MAX_STOPS:
        yield too_long("stop", most=MAX_STOPS, length=length, kind="array")


_REASONING_MODEL = re.compile(r"(o[134]|gpt-5(\.\d)?)(-mini|-nano|-pro|-preview)?(-\d{4}-\d{2}-\d{2})?")


@RULES.add(
    "`max_tokens` for a reasoning model (o1, o3, o4, GPT-5)",
    source="https://github.com/pydantic/pydantic-ai/issues/1205, https://github.com/anomalyco/opencode/issues/37964, "
    "https://github.com/truefoundry/models/pull/827",
    seen="2026-07-20",
)
def reasoning_parameters(body: JsonObject) -> Iterator[Breach]:
    if _REASONING_MODEL.fullmatch(text(body.get("model"))) and body.get("max_tokens") is not None:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        yield refused("max_tokens", "is not supported with this model", words, "unsupported_parameter")
