"""Refusals of OpenAI's chat completions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from offbook.codecs.rules.json_schema import SchemaBreach, function_schema_breach, strict_schema_breach
from offbook.codecs.rules.rule import Breach, Rules, a_dict, a_list, objects, quoted, text
from offbook.messages import JsonObject

RULES = Rules()

SDK = "openai-python 3.49.0: types/chat/completion_create_params.py"

ROLES = ("system", "assistant", "user", "function", "tool", "developer")
NAME = re.compile(r"[a-zA-Z0-9_.-]+")
"""A dot is accepted here, because some models accept it."""

NAME_PATTERN = "^[a-zA-Z0-9_-]+$"
_DECIMALS = ("temperature", "top_p", "frequency_penalty", "presence_penalty")
MAX_NAME, MAX_CALL_ID, MAX_TOOLS, MAX_STOPS = 64, 64, 128, 4


def missing(param: str) -> Breach:
    """Return the breach of a request that lacks a parameter."""
    code = "missing_required_parameter"
    return Breach(
        _dotted(param), "is missing", f"Missing required parameter: '{param}'.", {"param": param, "code": code}
    )


def empty_array(param: str) -> Breach:
    """Return the breach of an array that must not be empty."""
    message = (
        f"Invalid '{param}': empty array. Expected an array with minimum length 1, but got an empty array instead."
    )
    return Breach(_dotted(param), "is empty", message, {"param": param, "code": "empty_array"})


def too_long(param: str, *, most: int, length: int, kind: str = "string") -> Breach:
    """Return the breach of a string or array that is too long."""
    article = "an array" if kind == "array" else "a string"
    message = (
        f"Invalid '{param}': {kind} too long. Expected {article} with maximum length {most}, "
        f"but got {article} with length {length} instead."
    )
    fields = {"param": param, "code": f"{kind}_above_max_length"}
    return Breach(_dotted(param), f"is longer than {most}", message, fields)


def out_of_range(param: str, value: float, *, least: float | None = None, most: float | None = None) -> Breach:
    """Return the breach of a number below `least` or above `most`."""
    kind = "decimal" if param in _DECIMALS else "integer"
    side, sign, bound = ("below minimum", ">=", least) if most is None else ("above maximum", "<=", most)
    code = f"{kind}_{'below_min' if most is None else 'above_max'}_value"
    message = f"Invalid '{param}': {kind} {side} value. Expected a value {sign} {bound}, but got {value} instead."
    return Breach(_dotted(param), f"is {value}, not {sign} {bound}", message, {"param": param, "code": code})


def _dotted(param: str) -> str:
    return param.replace("[", ".").replace("]", "")


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
            yield Breach(f"messages.{position}.role", f"is {role!r}", words, {"param": param, "code": "invalid_value"})


@RULES.add(
    "a tool message does not say which call it answers",
    source="https://github.com/langchain-ai/langchain/issues/22600",
    seen="2024-06-06",
)
def tool_call_id_required(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        if message.get("role") == "tool" and message.get("tool_call_id") is None:
            words = "Missing parameter 'tool_call_id': messages with role 'tool' must have a 'tool_call_id'."
            fields = {"param": f"messages.[{position}].tool_call_id", "code": None}
            yield Breach(f"messages.{position}.tool_call_id", "is missing", words, fields)


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
            param = f"messages.[{position}].content"
            yield Breach(f"messages.{position}.content", "is null", words, {"param": param, "code": None})


@RULES.add(
    "the id of a tool call is longer than 64 characters; some models take 40 at most, and are not told apart",
    source="https://github.com/openclaw/openclaw/pull/875",
    seen="2026-01-13",
)
def call_ids_short(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for place, call in objects(message.get("tool_calls")):
            if len(given := text(call.get("id"))) > MAX_CALL_ID:
                yield too_long(f"messages[{position}].tool_calls[{place}].id", most=MAX_CALL_ID, length=len(given))


def arguments_breach(param: str, given: object) -> Breach | None:
    """Return the breach of a tool call's arguments that are an object instead of its JSON."""
    if not isinstance(given, dict):
        return None
    words = f"Invalid type for '{param}': expected a string, but got an object instead."
    return Breach(_dotted(param), "is an object, not its JSON", words, {"param": param, "code": "invalid_type"})


@RULES.add(
    "the arguments of a tool call are an object instead of its JSON as a text",
    source="https://github.com/aaif-goose/goose-mobile/pull/20",
    seen="2025-03-06",
)
def arguments_are_text(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for place, call in objects(message.get("tool_calls")):
            param = f"messages[{position}].tool_calls[{place}].function.arguments"
            if breach := arguments_breach(param, a_dict(call.get("function")).get("arguments")):
                yield breach


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
            yield Breach(f"messages.{position}", reason, words, {"param": f"messages.[{position}].role", "code": None})
        elif text(message.get("tool_call_id")) not in asked:
            given = message.get("tool_call_id")
            words = f"Invalid parameter: 'tool_call_id' of '{given}' not found in 'tool_calls' of previous message."
            reason = f"result for {given!r}, which the message before it does not ask for"
            param = f"messages.[{position}].tool_call_id"
            yield Breach(f"messages.{position}", reason, words, {"param": param, "code": None})


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
            yield Breach(f"messages.{position}", f"{quoted(lacking)} no result", words, {"param": param, "code": None})


@RULES.add(
    "`tools` has more than 128 entries; an empty list, which frameworks send, is accepted",
    source="https://github.com/code-yeongyu/oh-my-openagent/issues/2848",
    seen="2026-03-26",
)
def number_of_tools(body: JsonObject) -> Iterator[Breach]:
    if (length := len(a_list(body.get("tools")))) > MAX_TOOLS:
        yield too_long("tools", most=MAX_TOOLS, length=length, kind="array")


def name_breach(name: str, param: str) -> Breach | None:
    """Return the breach of a function name that is too long or has invalid characters."""
    if len(name) > MAX_NAME:
        return too_long(param, most=MAX_NAME, length=len(name))
    if NAME.fullmatch(name):
        return None
    expected = f"Expected a string that matches the pattern '{NAME_PATTERN}'."
    words = f"Invalid '{param}': string does not match pattern. {expected}"
    return Breach(_dotted(param), f"is {name!r}", words, {"param": param, "code": "invalid_value"})


@RULES.add(
    "the name of a function has other characters than letters, digits, `_` and `-`, or more than 64 of them",
    source="https://github.com/brekkylab/ailoy/pull/109, https://github.com/cline/cline/pull/11885, "
    "openai-python 3.49.0: types/shared_params/function_definition.py",
    seen="2026-11-18",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for position, tool in objects(body.get("tools")):
        if tool.get("type") == "function":
            function = a_dict(tool.get("function"))
            param = f"tools[{position}].function.name"
            if "name" not in function:
                yield missing(param)
            elif breach := name_breach(text(function["name"]), param):
                yield breach


@RULES.add(
    "the schema of a strict function leaves the strict subset",
    source="https://github.com/livekit/agents/issues/5302, https://github.com/camel-ai/camel/issues/2231, "
    "https://github.com/vercel-labs/json-render/issues/180",
    seen="2026-04-01",
)
def strict_functions(body: JsonObject) -> Iterator[Breach]:
    for position, tool in objects(body.get("tools")):
        function = a_dict(tool.get("function"))
        schema = function.get("parameters")
        is_strict = function.get("strict") is True and isinstance(schema, dict)
        if is_strict and (found := strict_schema_breach(a_dict(schema))):
            yield parameters_breach(f"tools[{position}].function.parameters", function.get("name"), found)


@RULES.add(
    "the parameters of a function are not those of an object, have a union or an `enum` at the top, or an array "
    "without `items`",
    source="https://github.com/ComposioHQ/composio/issues/1829, "
    "https://github.com/nspady/google-calendar-mcp/issues/39, https://github.com/modelscope/ms-agent/pull/610",
    seen="2025-08-06",
)
def function_parameters(body: JsonObject) -> Iterator[Breach]:
    for position, tool in objects(body.get("tools")):
        function = a_dict(tool.get("function"))
        if found := function_schema_breach(a_dict(function.get("parameters"))):
            yield parameters_breach(f"tools[{position}].function.parameters", function.get("name"), found)


def parameters_breach(param: str, name: object, found: SchemaBreach) -> Breach:
    """Return the breach of a function's schema."""
    words = f"Invalid schema for function '{name}': {found.words}"
    fields = {"param": param, "code": "invalid_function_parameters"}
    return Breach(f"{_dotted(param)}{found.place}", found.reason, words, fields)


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
        yield Breach(place, found.reason, words, {"param": "response_format", "code": None})


@RULES.add(
    "`tool_choice`, other than `none`, or `parallel_tool_calls` without `tools`",
    source="https://github.com/writer/writer-framework/pull/1013",
    seen="2025-07-15",
)
def choice_needs_tools(body: JsonObject) -> Iterator[Breach]:
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) not in (None, "none") and not body.get("tools"):
            words = f"Invalid value for '{name}': '{name}' is only allowed when 'tools' are specified."
            yield Breach(name, "is given without tools", words, {"param": name, "code": None})


@RULES.add(
    "JSON mode, and no message says `json`",
    source="https://github.com/ultimatejimmy/xray.koplugin/issues/33",
    seen="2026-05-09",
)
def json_mode_says_json(body: JsonObject) -> Iterator[Breach]:
    is_json = a_dict(body.get("response_format")).get("type") == "json_object"
    if is_json and "json" not in str(body.get("messages")).lower():
        words = "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
        yield Breach("messages", "do not say json", words, {"param": "messages", "code": None})


@RULES.add(
    "`stream_options` without `stream`",
    source="https://github.com/BerriAI/litellm/issues/5803",
    seen="2024-09-20",
)
def stream_options_need_stream(body: JsonObject) -> Iterator[Breach]:
    if body.get("stream_options") is not None and not body.get("stream"):
        words = "The 'stream_options' parameter is only allowed when 'stream' is enabled."
        yield Breach("stream_options", "is given without stream", words, {"param": "stream_options", "code": None})


@RULES.add(
    "a number is out of its range, or there are more than four stop sequences",
    source=f"{SDK}, https://github.com/betalgo/openai/issues/360",
    seen="2026-11-18",
)
def ranges(body: JsonObject) -> Iterator[Breach]:
    yield from ranges_of(body, {"temperature": (0, 2), "top_p": (0, 1), "frequency_penalty": (-2, 2)})
    yield from ranges_of(body, {"presence_penalty": (-2, 2), "top_logprobs": (0, 20)})
    yield from ranges_of(body, {"max_tokens": (1, None), "max_completion_tokens": (1, None)})
    if (length := len(a_list(body.get("stop")))) > MAX_STOPS:
        yield too_long("stop", most=MAX_STOPS, length=length, kind="array")


def ranges_of(body: JsonObject, ranges: dict[str, tuple[int, int | None]]) -> Iterator[Breach]:
    """Yield the out-of-range numbers of a request."""
    for name, (least, most) in ranges.items():
        value = body.get(name)
        if not isinstance(value, int | float) or isinstance(value, bool):
            continue
        if value < least:
            yield out_of_range(name, value, least=least)
        elif most is not None and value > most:
            yield out_of_range(name, value, most=most)


_REASONING_MODEL = re.compile(r"o[134](-mini|-pro|-preview)?(-\d{4}-\d{2}-\d{2})?")


@RULES.add(
    "`max_tokens` for a reasoning model (o1, o3, o4)",
    source="https://github.com/pydantic/pydantic-ai/issues/1205",
    seen="2025-03-21",
)
def reasoning_parameters(body: JsonObject) -> Iterator[Breach]:
    if not _REASONING_MODEL.fullmatch(text(body.get("model"))):
        return
    if body.get("max_tokens") is not None:
        words = (
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
        )
        fields = {"param": "max_tokens", "code": "unsupported_parameter"}
        yield Breach("max_tokens", "is not supported with this model", words, fields)
