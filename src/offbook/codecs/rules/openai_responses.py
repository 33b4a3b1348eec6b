"""Refusals of OpenAI's responses."""

from __future__ import annotations

from collections.abc import Iterator

from offbook.codecs.rules.json_schema import function_schema_breach, strict_schema_breach
from offbook.codecs.rules.openai_breaches import (
    MAX_CALL_ID,
    arguments_breaches,
    missing,
    name_breaches,
    parameters_breaches,
    range_breaches,
    refused,
    too_long,
)
from offbook.codecs.rules.rule import Breach, ProtocolRules, a_dict, objects, quoted, text
from offbook.messages import JsonObject

RULES = ProtocolRules()

SDK = "openai-python 3.49.0: types/responses/response_create_params.py"
STORED = ("previous_response_id", "conversation")
"""Fields that refer to a conversation that the API has: the request is not all of it."""

ELSEWHERE = ("item_reference", "compaction")
"""Items that stand for others, which only the API knows."""

BRINGS_TOOLS = ("additional_tools", "tool_search_output")

MIN_OUTPUT_TOKENS = 16


def _functions(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the functions among the tools with their places."""
    for position, tool in objects(body.get("tools")):
        if tool.get("type") == "function":
            yield f"tools[{position}]", tool


@RULES.add(
    "none of `input`, `prompt`, `conversation` and `previous_response_id`",
    source=SDK,
    seen="2026-11-18",
)
def input_required(body: JsonObject) -> Iterator[Breach]:
    if not any(body.get(name) is not None for name in ("input", "prompt", *STORED)):
        words = "One of \"input\" or \"previous_response_id\" or 'prompt' or 'conversation_id' must be provided."
        yield refused("input", "is missing", words, "missing_required_parameter")


@RULES.add(
    "`model` is missing, and there is neither a `prompt` nor a `conversation`",
    source=SDK,
    seen="2026-11-18",
)
def model_required(body: JsonObject) -> Iterator[Breach]:
    if "model" not in body and body.get("prompt") is None and body.get("conversation") is None:
        yield missing("model")


@RULES.add(
    "a message has content of a type that its role does not have",
    source="https://github.com/jeremychone/rust-genai/pull/119, "
    "openai-python 3.49.0: types/responses/response_input_content_param.py",
    seen="2026-11-18",
)
def content_types(body: JsonObject) -> Iterator[Breach]:
    for position, item in objects(body.get("input")):
        if item.get("type", "message") != "message":
            continue
        for place, part in objects(item.get("content")):
            kind, is_said = part.get("type"), item.get("role") == "assistant"
            if is_said and kind in ("input_text", "text"):
                supported = "'output_text' and 'refusal'"
            elif not is_said and kind in ("text", "image_url"):
                supported = "'input_text', 'input_image', 'input_file', and 'input_audio'"
            else:
                continue
            words = f"Invalid value: '{kind}'. Supported values are: {supported}."
            reason = f"{kind!r} in a message of the {item.get('role')}"
            yield refused(f"input[{position}].content[{place}]", reason, words, "invalid_value")


@RULES.add(
    "a tool result answers no call before it, and the request refers to no stored conversation",
    source="https://github.com/microsoft/vscode/issues/320060",
    seen="2026-06-05",
)
def results_have_calls(body: JsonObject) -> Iterator[Breach]:
    items = objects(body.get("input"))
    if _is_stored(body) or _has(items, ELSEWHERE):
        return
    asked = {""}  # an output may name its tool instead of a call
    for position, item in items:
        if item.get("type") == "function_call":
            asked.add(text(item.get("call_id")))
        elif item.get("type") == "function_call_output" and (given := text(item.get("call_id"))) not in asked:
            words = f"No tool call found for function call output with call_id {given}."
            reason = f"result for {given!r}, which nothing before it asks for"
            yield refused("input", reason, words, place=f"input.{position}")


def _is_stored(body: JsonObject) -> bool:
    """Return whether the API has a part of the request, such as the conversation before it."""
    return any(body.get(name) is not None for name in ("prompt", *STORED))


def _has(items: list[tuple[int, JsonObject]], kinds: tuple[str, ...]) -> bool:
    # The type of a reference may be left out: it has an id and nothing else.
    return any(item.get("type", "item_reference" if item.keys() <= {"id"} else None) in kinds for _, item in items)


@RULES.add(
    "a tool call has no result, and is not `async`",
    source="https://github.com/symgraph/GhidrAssist/issues/78, https://github.com/querymt/querymt/issues/944",
    seen="2026-09-16",
)
def calls_have_results(body: JsonObject) -> Iterator[Breach]:
    items = objects(body.get("input"))
    if _has(items, ELSEWHERE):
        return
    answered = {text(item.get("call_id")) for _, item in items if item.get("type") == "function_call_output"}
    for position, item in items:
        is_waited_for = item.get("type") == "function_call" and not item.get("async")
        if is_waited_for and (call_id := text(item.get("call_id"))) not in answered:
            words = f"No tool output found for function call {call_id}."
            yield refused("input", f"{quoted([call_id])} no result", words, place=f"input.{position}")


@RULES.add(
    "a stored reasoning item is not followed by what it led to",
    source="https://github.com/continuedev/continue/issues/8933",
    seen="2025-11-28",
    is_about_answers=True,
)
def reasoning_is_followed(body: JsonObject) -> Iterator[Breach]:
    items = [item for _, item in objects(body.get("input"))]
    for position, item in enumerate(items):
        if item.get("type") != "reasoning" or item.get("encrypted_content") or not text(item.get("id")):
            continue
        following = items[position + 1] if position + 1 < len(items) else {"role": "user"}
        if following.get("type", "message") == "message" and following.get("role") in ("user", "system", "developer"):
            words = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            yield refused("input", "reasoning without what it led to", words, place=f"input.{position}")


@RULES.add(
    "the id of a function call's item does not begin with `fc`, such as that of the call itself, or that of an "
    "assistant's message not with `msg`",
    source="https://github.com/nodetool-ai/nodetool/pull/4252, https://github.com/Wei-Shaw/sub2api/issues/3785, "
    "https://github.com/Wei-Shaw/sub2api/issues/3981, https://github.com/langchain-ai/langchain/issues/39113",
    seen="2026-07-29",
)
def item_ids(body: JsonObject) -> Iterator[Breach]:
    for position, item in objects(body.get("input")):
        given, kind = text(item.get("id")), item.get("type")
        is_said = kind == "message" and item.get("role") == "assistant"
        prefix = "fc" if kind == "function_call" else "msg" if is_said else ""
        if given and not given.startswith(prefix):
            param = f"input[{position}].id"
            words = f"Invalid '{param}': '{given}'. Expected an ID that begins with '{prefix}'."
            yield refused(param, f"is {given!r}", words, "invalid_value")


@RULES.add(
    "the arguments of a function call are an object instead of its JSON as a text",
    source="openai-python 3.49.0: types/responses/response_function_tool_call_param.py",
    seen="2026-11-19",
)
def arguments_are_text(body: JsonObject) -> Iterator[Breach]:
    for position, item in objects(body.get("input")):
        if item.get("type") == "function_call":
            yield from arguments_breaches(f"input[{position}].arguments", item.get("arguments"))


@RULES.add(
    "the id of a call is longer than 64 characters",
    source="https://github.com/openclaw/openclaw/pull/875",
    seen="2026-01-13",
)
def call_ids_short(body: JsonObject) -> Iterator[Breach]:
    for position, item in objects(body.get("input")):
        if len(given := text(item.get("call_id"))) > MAX_CALL_ID:
            yield too_long(f"input[{position}].call_id", most=MAX_CALL_ID, length=len(given))


@RULES.add(
    "the name of a function has other characters than letters, digits, `_` and `-`, or more than 64 of them",
    source="https://github.com/brekkylab/ailoy/pull/109",
    seen="2025-06-09",
)
def function_names(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        yield from name_breaches(param, function)


@RULES.add(
    "the schema of a strict function leaves the strict subset",
    source="https://github.com/lastmile-ai/openai-agents-mcp/issues/2",
    seen="2025-03-14",
)
def strict_functions(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        if function.get("strict") is True and function.get("parameters"):
            yield from parameters_breaches(param, function, strict_schema_breach)


@RULES.add(
    "the parameters of a function are not those of an object, have a union or an `enum` at the top, or an array "
    "without `items`",
    source="https://github.com/openai/codex/issues/26993, https://github.com/tidewave-ai/tidewave_phoenix/pull/224",
    seen="2026-06-11",
)
def function_parameters(body: JsonObject) -> Iterator[Breach]:
    for param, function in _functions(body):
        yield from parameters_breaches(param, function, function_schema_breach)


@RULES.add(
    "`tool_choice` is a function that is not in `tools`, and nothing else in the request can bring it",
    source="https://github.com/raine/claude-code-proxy/issues/10, https://github.com/vllm-project/vllm/pull/40399",
    seen="2026-06-15",
)
def choice_is_offered(body: JsonObject) -> Iterator[Breach]:
    choice = a_dict(body.get("tool_choice"))
    if choice.get("type") != "function" or "name" not in choice:
        return
    if _is_stored(body) or _has(objects(body.get("input")), BRINGS_TOOLS):
        return
    tools = [tool for _, tool in objects(body.get("tools"))]
    tools += [inner for tool in tools for _, inner in objects(tool.get("tools"))]
    if choice.get("name") not in [tool.get("name") for tool in tools if tool.get("type") == "function"]:
        words = "Tool choice 'function' not found in 'tools' parameter."
        yield refused("tool_choice", f"is {choice.get('name')!r}, which is not offered", words)


@RULES.add(
    "`tool_choice` is `required`, and there are no tools",
    source="https://github.com/vllm-project/vllm/pull/40399",
    seen="2026-04-20",
)
def choice_needs_tools(body: JsonObject) -> Iterator[Breach]:
    may_have_tools = body.get("tools") or _is_stored(body) or _has(objects(body.get("input")), BRINGS_TOOLS)
    if body.get("tool_choice") == "required" and not may_have_tools:
        words = "Tool choice 'required' must be specified with 'tools' parameter."
        yield refused("tool_choice", "is 'required' without tools", words)


@RULES.add(
    "the schema of a strict text format leaves the strict subset",
    source="https://github.com/vercel/ai/issues/6484",
    seen="2025-05-26",
)
def strict_text_format(body: JsonObject) -> Iterator[Breach]:
    form = a_dict(a_dict(body.get("text")).get("format"))
    schema = a_dict(form.get("schema"))
    if form.get("strict") is True and schema and (found := strict_schema_breach(schema)):
        words = f"Invalid schema for response_format '{form.get('name')}': {found.words}"
        place = f"text.format.schema{found.place}"
        yield refused("text.format.schema", found.reason, words, "invalid_json_schema", place=place)


@RULES.add(
    "JSON mode, and neither input nor instructions say `json`",
    source="openai-python 3.49.0: types/shared_params/response_format_json_object.py",
    seen="2026-11-18",
)
def json_mode_says_json(body: JsonObject) -> Iterator[Breach]:
    is_json = a_dict(a_dict(body.get("text")).get("format")).get("type") == "json_object"
    if is_json and not _is_stored(body) and "json" not in f"{body.get('input')} {body.get('instructions')}".lower():
        words = (
            "Response input messages must contain the word 'json' in some form to use 'text.format' of type "
            "'json_object'."
        )
        yield refused("input", "does not say json", words)


@RULES.add(
    "a number is out of its range",
    source=f"{SDK}, https://github.com/earendil-works/pi/issues/6265",
    seen="2026-11-18",
)
def ranges(body: JsonObject) -> Iterator[Breach]:
    yield from range_breaches(body, temperature=(0, 2), top_p=(0, 1), top_logprobs=(0, 20))
    yield from range_breaches(body, max_output_tokens=(MIN_OUTPUT_TOKENS, None))
