"""Refusals of Anthropic's messages API."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from offbook.codecs.rules.rule import Breach, ProtocolRules, a_dict, a_list, objects, quoted, text
from offbook.messages import JsonObject

RULES = ProtocolRules()

SDK = "anthropic-sdk-python 2.8.0: types/"
NAME_PATTERN, MAX_NAME = "^[a-zA-Z0-9_-]{1,128}$", 128
MIN_BUDGET, MAX_CACHED_BLOCKS = 1024, 4
THINKING = ("thinking", "redacted_thinking")
TAGS = (
    *("document", "image", "redacted_thinking", "search_result", "server_tool_use", "text", "thinking", "tool_result"),
    *("tool_use", "web_search_tool_result"),
)
"""The types of blocks, as the refusal of another one lists them."""


def _breach(place: str, reason: str, words: str) -> Breach:
    """Return a breach whose message names its place, as this API's messages do."""
    return Breach(place, reason, f"{place}: {words}")


def _blocks(body: JsonObject) -> Iterator[tuple[str, JsonObject]]:
    """Yield the content blocks of all messages with their places."""
    for position, message in objects(body.get("messages")):
        for place, block in objects(message.get("content")):
            yield f"messages.{position}.content.{place}", block


def _blocks_of(message: object, kind: str) -> list[JsonObject]:
    return [block for _, block in objects(a_dict(message).get("content")) if block.get("type") == kind]


@RULES.add(
    "`model`, `messages` or `max_tokens` is missing",
    source=f"{SDK}message_create_params.py",
    seen="2026-11-18",
)
def required_fields(body: JsonObject) -> Iterator[Breach]:
    for name in ("model", "messages", "max_tokens"):
        if name not in body:
            yield _breach(name, "is missing", "Field required")


@RULES.add(
    "`messages` is empty",
    source="https://github.com/zebbern/Devonz/issues/4",
    seen="2026-02-19",
)
def messages_not_empty(body: JsonObject) -> Iterator[Breach]:
    if body.get("messages") == []:
        yield _breach("messages", "is empty", "at least one message is required")


@RULES.add(
    "the first of the `messages` has the role `system`",
    source="https://github.com/Maol-1997/cursor-claude-connector/issues/3",
    seen="2025-07-17",
)
def no_system_message(body: JsonObject) -> Iterator[Breach]:
    if a_dict(next(iter(a_list(body.get("messages"))), None)).get("role") == "system":
        words = (
            'messages: Unexpected role "system". The Messages API accepts a top-level `system` parameter, not '
            '"system" as an input message role.'
        )
        yield Breach("messages.0.role", "is 'system'", words)


@RULES.add(
    "a block has the type `image_url`, which is OpenAI's",
    source="https://github.com/AstrBotDevs/AstrBot/pull/4444",
    seen="2026-01-13",
)
def content_types(body: JsonObject) -> Iterator[Breach]:
    for place, block in _blocks(body):
        if block.get("type") == "image_url":
            words = "Input tag 'image_url' found using 'type' does not match any of the expected tags"
            yield _breach(place, "is of type 'image_url'", f"{words}: {', '.join(map(repr, TAGS))}")


@RULES.add(
    "a message of the user has no content",
    source="https://github.com/microsoft/autogen/issues/6083, https://github.com/theopenco/llmgateway/pull/3127",
    seen="2026-07-18",
)
def content_not_empty(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        if message.get("content") in ("", []) and message.get("role") == "user":
            words = "all messages must have non-empty content except for the optional final assistant message"
            yield _breach(f"messages.{position}", "has no content", words)


@RULES.add(
    "a text block is empty, or has nothing but white space",
    source="https://github.com/anthropics/claude-code/issues/49171, https://github.com/home-assistant/core/issues/175637",
    seen="2026-07-04",
)
def text_not_blank(body: JsonObject) -> Iterator[Breach]:
    for place, block in _blocks(body):
        if block.get("type") == "text" and isinstance(block.get("text"), str) and not block["text"].strip():
            kind = "contain non-whitespace text" if block["text"] else "be non-empty"
            yield Breach(place, "is blank text", f"messages: text content blocks must {kind}")


@RULES.add(
    "the last message is the assistant's, and ends with white space",
    source="https://github.com/tailcallhq/forgecode/issues/1872",
    seen="2025-11-08",
)
def no_trailing_space(body: JsonObject) -> Iterator[Breach]:
    messages = a_list(body.get("messages"))
    last = a_dict(messages[-1]) if messages else {}
    content = last.get("content")
    end = text(content) or text(a_dict(next(reversed(a_list(content)), None)).get("text"))
    if last.get("role") == "assistant" and end != end.rstrip():
        words = "messages: final assistant content cannot end with trailing whitespace"
        yield Breach(f"messages.{len(messages) - 1}", "ends with white space", words)


@RULES.add(
    "two tool calls have the same id",
    source="https://github.com/trycua/cua/issues/524",
    seen="2025-10-28",
    is_about_answers=True,
)
def unique_call_ids(body: JsonObject) -> Iterator[Breach]:
    seen: set[str] = set()
    for place, block in _blocks(body):
        if block.get("type") == "tool_use":
            if (call_id := text(block.get("id"))) in seen:
                yield _breach(place, f"tool call {call_id!r} appears twice", "`tool_use` ids must be unique")
            seen.add(call_id)


@RULES.add(
    "a tool call has no result at the start of the next message",
    source="https://github.com/anthropics/claude-code/issues/8210, "
    "https://github.com/V1ki/dsh-plugin-subscriptions/issues/22, "
    "https://github.com/NousResearch/hermes-agent/pull/65369",
    seen="2026-08-22",
)
def calls_have_results(body: JsonObject) -> Iterator[Breach]:
    messages = a_list(body.get("messages"))
    for position, message in objects(messages):
        calls = [text(block.get("id")) for block in _blocks_of(message, "tool_use")]
        if message.get("role") != "assistant" or not calls:
            continue
        after = position + 1
        while after < len(messages) and a_dict(messages[after]).get("role") == "assistant":  # they count as one turn
            after += 1
        answered = {text(block.get("tool_use_id")) for block in _leading_results(messages[after:])}
        if lacking := [each for each in calls if each not in answered]:
            words = (
                f"`tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(lacking)}. Each "
                "`tool_use` block must have a corresponding `tool_result` block in the next message."
            )
            yield _breach(f"messages.{position}", f"{quoted(lacking)} no result", words)


def _leading_results(messages: list[Any]) -> Iterator[JsonObject]:
    """Yield the tool results of the next turn of the user up to its first text or image."""
    for message in messages:
        content = a_dict(message).get("content")
        if a_dict(message).get("role") != "user" or isinstance(content, str):
            return
        for _, block in objects(content):
            if block.get("type") in ("text", "image"):
                return
            if block.get("type") == "tool_result":
                yield block


@RULES.add(
    "a tool result is in a message of the assistant, or a tool call in one of the user",
    source="https://github.com/tghamm/Anthropic.SDK/issues/128, "
    "https://github.com/V1ki/dsh-plugin-subscriptions/issues/22",
    seen="2026-08-22",
)
def roles_of_blocks(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for role, kind, owner in (("assistant", "tool_result", "user"), ("user", "tool_use", "assistant")):
            if message.get("role") == role and _blocks_of(message, kind):
                words = f"`{kind}` blocks can only be in `{owner}` messages"
                yield _breach(f"messages.{position}", f"has a {kind} block, and is the {role}'s", words)


@RULES.add(
    "the id of a tool call has other characters than letters, digits, `_` and `-`",
    source="https://github.com/HKUDS/nanobot/pull/4356",
    seen="2026-06-15",
    is_about_answers=True,
)
def call_ids(body: JsonObject) -> Iterator[Breach]:
    for place, block in _blocks(body):
        given = block.get("id") if block.get("type") == "tool_use" else None
        if isinstance(given, str) and not re.fullmatch(r"[a-zA-Z0-9_-]+", given):
            words = "String should match pattern '^[a-zA-Z0-9_-]+$'"
            yield _breach(f"{place}.tool_use.id", f"is {given!r}", words)


@RULES.add(
    "a tool result answers no call of the message before it",
    source="https://github.com/anthropics/claude-code/issues/13460",
    seen="2025-12-09",
)
def results_follow_calls(body: JsonObject) -> Iterator[Breach]:
    if a_dict(body.get("thread")).get("type") == "continue":  # the API keeps the messages before
        return
    asked: set[str] = set()
    before = ""
    for position, message in objects(body.get("messages")):
        if message.get("role") == "assistant":
            calls = {text(block.get("id")) for block in _blocks_of(message, "tool_use")}
            asked = asked | calls if before == "assistant" else calls
        before = text(message.get("role"))
        for place, block in objects(message.get("content")):
            if block.get("type") == "tool_result" and text(block.get("tool_use_id")) not in asked:
                given = text(block.get("tool_use_id"))
                words = (
                    f"unexpected `tool_use_id` found in `tool_result` blocks: {given}. Each `tool_result` block must "
                    "have a corresponding `tool_use` block in the previous message."
                )
                reason = f"result for {given!r}, which the message before it does not ask for"
                yield _breach(f"messages.{position}.content.{place}", reason, words)


@RULES.add(
    "a tool call has two results",
    source="https://github.com/vectorize-io/hindsight/pull/4250",
    seen="2026-09-09",
    is_about_answers=True,
)
def single_results(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        seen: set[str] = set()
        for place, block in objects(message.get("content")):
            if block.get("type") == "tool_result":
                if (given := text(block.get("tool_use_id"))) in seen:
                    words = (
                        f"each tool_use must have a single result. Found multiple `tool_result` blocks with id: {given}"
                    )
                    yield _breach(f"messages.{position}.content.{place}", f"second result for {given!r}", words)
                seen.add(given)


@RULES.add(
    "the input of a tool call is not an object",
    source=f"{SDK}tool_use_block_param.py",
    seen="2026-11-18",
)
def call_input(body: JsonObject) -> Iterator[Breach]:
    for place, block in _blocks(body):
        if block.get("type") == "tool_use" and not isinstance(block.get("input", {}), dict):
            yield _breach(f"{place}.tool_use.input", "is not an object", "Input should be a valid dictionary")


@RULES.add(
    "thinking is enabled, and the last turn of the assistant with tool calls does not start with its thinking",
    source="https://github.com/deepset-ai/haystack-core-integrations/issues/2146",
    seen="2025-08-04",
    is_about_answers=True,
)
def thinking_sent_back(body: JsonObject) -> Iterator[Breach]:
    if a_dict(body.get("thinking")).get("type") != "enabled":
        return
    messages = a_list(body.get("messages"))
    ends_with_results = bool(messages) and bool(_blocks_of(messages[-1], "tool_result"))
    for position, message in reversed(objects(messages)):
        if message.get("role") != "assistant":
            continue
        first = a_dict(next(iter(a_list(message.get("content"))), None)).get("type")
        follows_results = position > 0 and bool(_blocks_of(messages[position - 1], "tool_result"))
        if ends_with_results and not follows_results and isinstance(first, str) and first not in THINKING:
            words = (
                f"Expected `thinking` or `redacted_thinking`, but found `{first}`. When `thinking` is enabled, a final "
                "`assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and "
                "`tool_result` blocks). We recommend you include thinking blocks from previous turns. To avoid this "
                "requirement, disable `thinking`. Please consult our documentation at "
                "https://docs.claude.com/en/docs/build-with-claude/extended-thinking"
            )
            yield _breach(f"messages.{position}.content.0.type", f"is {first!r}, not thinking", words)
        return


@RULES.add(
    "a thinking block has no signature",
    source=f"{SDK}thinking_block_param.py",
    seen="2026-11-18",
    is_about_answers=True,
)
def signatures(body: JsonObject) -> Iterator[Breach]:
    for place, block in _blocks(body):
        if block.get("type") == "thinking" and "signature" not in block:
            yield _breach(f"{place}.thinking.signature", "is missing", "Field required")


@RULES.add(
    "the thinking budget is below 1024, or not below `max_tokens`",
    source="https://github.com/themaximalist/llm.js/issues/30",
    seen="2026-08-19",
)
def thinking_budget(body: JsonObject) -> Iterator[Breach]:
    thinking, limit = a_dict(body.get("thinking")), body.get("max_tokens")
    budget = thinking.get("budget_tokens")
    if thinking.get("type") != "enabled" or not isinstance(budget, int):
        return
    if budget < MIN_BUDGET:
        words = f"Input should be greater than or equal to {MIN_BUDGET}"
        yield _breach("thinking.enabled.budget_tokens", f"is {budget}", words)
    elif isinstance(limit, int) and budget >= limit and not body.get("tools"):  # interleaved thinking may exceed it
        words = (
            "`max_tokens` must be greater than `thinking.budget_tokens`. Please consult our documentation at "
            "https://docs.claude.com/en/docs/build-with-claude/extended-thinking#max-tokens-and-context-window-size"
        )
        yield Breach("max_tokens", f"is {limit}, not above the thinking budget of {budget}", words)


@RULES.add(
    "thinking is enabled or adaptive, and the temperature is not 1",
    source="https://github.com/mnfst/modelparams.dev/issues/214",
    seen="2026-08-09",
)
def thinking_temperature(body: JsonObject) -> Iterator[Breach]:
    value = body.get("temperature")
    if a_dict(body.get("thinking")).get("type") in ("enabled", "adaptive") and value not in (None, 1):
        words = (
            "`temperature` may only be set to 1 when thinking is enabled or in adaptive mode. Please consult our "
            "documentation at https://platform.claude.com/docs/en/build-with-claude/extended-thinking"
        )
        yield Breach("temperature", f"is {value} while thinking is enabled", words)


@RULES.add(
    "the temperature is not between 0 and 1",
    source="https://github.com/anthropics/anthropic-sdk-python/issues/893, "
    "https://github.com/odysseus-dev/odysseus/issues/1615",
    seen="2026-08-05",
)
def ranges(body: JsonObject) -> Iterator[Breach]:
    value = body.get("temperature")
    if isinstance(value, int | float) and not 0 <= value <= 1 and value != -1:  # some models take -1 as none
        yield _breach("temperature", f"is {value}, not between 0 and 1", "range: 0..1")


@RULES.add(
    "thinking is enabled, and `tool_choice` forces a tool",
    source="https://github.com/mastra-ai/mastra/issues/7507",
    seen="2025-09-05",
)
def thinking_forces_no_tool(body: JsonObject) -> Iterator[Breach]:
    choice = a_dict(body.get("tool_choice")).get("type")
    if a_dict(body.get("thinking")).get("type") == "enabled" and choice in ("any", "tool"):
        words = "Thinking may not be enabled when tool_choice forces tool use."
        yield Breach("tool_choice", "forces a tool while thinking is enabled", words)


@RULES.add(
    "two tools have the same name",
    source="https://github.com/danny-avila/LibreChat/issues/13162",
    seen="2026-05-17",
)
def unique_tool_names(body: JsonObject) -> Iterator[Breach]:
    names = Counter(text(tool.get("name")) for _, tool in objects(body.get("tools")))
    for name, count in names.items():
        if count > 1 and name:
            yield Breach("tools", f"{name!r} is there {count} times", "tools: Tool names must be unique.")


def _own_tools(body: JsonObject) -> Iterator[tuple[int, JsonObject]]:
    """Yield the tools that the client runs itself, with their positions."""
    for position, tool in objects(body.get("tools")):
        if tool.get("type") in (None, "custom"):
            yield position, tool


@RULES.add(
    "the name of a tool has other characters than letters, digits, `_` and `-`, or more than 128 of them",
    source="https://github.com/github/copilot-cli/issues/2581",
    seen="2026-04-08",
)
def tool_names(body: JsonObject) -> Iterator[Breach]:
    for position, tool in _own_tools(body):
        place = f"tools.{position}.custom.name"
        name = tool.get("name")
        if name is None:
            yield _breach(place, "is missing", "Field required")
        elif isinstance(name, str) and not re.fullmatch(r"[a-zA-Z0-9_-]{1,128}", name):
            yield _breach(place, f"is {name!r}", f"String should match pattern '{NAME_PATTERN}'")


@RULES.add(
    "a tool has no `input_schema`, or one that is not of an object, or that has a union at the top",
    source=f"{SDK}tool_param.py, https://github.com/windoze95/cantinarr/issues/497",
    seen="2026-08-23",
)
def input_schemas(body: JsonObject) -> Iterator[Breach]:
    for position, tool in _own_tools(body):
        place = f"tools.{position}.custom.input_schema"
        if "input_schema" not in tool:
            yield _breach(place, "is missing", "Field required")
        elif isinstance(schema := tool["input_schema"], dict) and schema.get("type") != "object":
            words = "Field required" if "type" not in schema else "Input should be 'object'"
            yield _breach(f"{place}.type", f"is {schema.get('type')!r}", words)
        elif any(isinstance(a_dict(tool["input_schema"]).get(name), list) for name in ("oneOf", "allOf", "anyOf")):
            words = "input_schema does not support oneOf, allOf, or anyOf at the top level"
            yield _breach(place, "has a union at the top", words)


@RULES.add(
    "more than four blocks are marked to be cached",
    source="https://github.com/NousResearch/hermes-agent/pull/27170",
    seen="2026-05-16",
)
def cached_blocks(body: JsonObject) -> Iterator[Breach]:
    system = [block for _, block in objects(body.get("system"))]
    said = [block for _, block in _blocks(body)]
    inner = [each for block in said for _, each in objects(block.get("content"))]
    tools = [tool for _, tool in objects(body.get("tools"))]
    count = sum(bool(each.get("cache_control")) for each in (*system, *said, *inner, *tools))
    if count > MAX_CACHED_BLOCKS:
        words = f"A maximum of {MAX_CACHED_BLOCKS} blocks with cache_control may be provided. Found {count}."
        yield Breach("", f"{count} blocks are marked to be cached", words)
