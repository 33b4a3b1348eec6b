"""Refusals of Bedrock Converse that hold for every model."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import takewhile

from offbook.codecs.rules.rule import Breach, ProtocolRules, a_dict, a_list, objects, quoted, text
from offbook.messages import JsonObject

RULES = ProtocolRules()

MODEL = "botocore 1.44.0: data/bedrock-runtime/service-2.json, "
NAME_PATTERN, ID_PATTERN = "[a-zA-Z0-9_-]+", "[a-zA-Z0-9_.:-]+"
MAX_LENGTH = 64


def _blocks(message: object, kind: str) -> list[tuple[int, JsonObject]]:
    """Return the blocks of one kind in a message, with their positions."""
    content = objects(a_dict(message).get("content"))
    return [(place, block[kind]) for place, block in content if isinstance(block.get(kind), dict)]


def _ids(message: object, kind: str) -> list[str]:
    return [text(block.get("toolUseId")) for _, block in _blocks(message, kind)]


def _constraint(value: object, place: str, constraint: str) -> str:
    return f"1 validation error detected: Value '{value}' at '{place}' failed to satisfy constraint: {constraint}"


@RULES.add(
    "the first message is not the user's",
    source="https://github.com/elastic/kibana/pull/246393, https://github.com/strands-agents/sdk-typescript/issues/727",
    seen="2026-03-23",
)
def starts_with_user(body: JsonObject) -> Iterator[Breach]:
    if a_dict(next(iter(a_list(body.get("messages"))), None)).get("role") == "assistant":
        words = "A conversation must start with a user message. Try again with a conversation that starts with a user"
        yield Breach("messages.0.role", "is 'assistant'", f"{words} message.")


@RULES.add(
    "a message has no content",
    source="https://github.com/theopenco/llmgateway/pull/3127",
    seen="2026-07-18",
)
def content_not_empty(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        if message.get("content") == []:
            words = (
                f"The content field in the Message object at messages.{position} is empty. Add a ContentBlock object "
                "to the content field and try again."
            )
            yield Breach(f"messages.{position}", "has no content", words)


@RULES.add(
    "a text is blank",
    source="https://github.com/langchain-ai/langchain-aws/issues/403",
    seen="2025-03-27",
)
def text_not_blank(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for place, block in objects(message.get("content")):
            if isinstance(block.get("text"), str) and not block["text"].strip():
                at = f"messages.{position}.content.{place}"
                words = f"The text field in the ContentBlock object at {at} is blank."
                yield Breach(at, "is blank text", f"{words} Add text to the text field, and try again.")


@RULES.add(
    "the conversation has tool calls or results, and the request has no `toolConfig`",
    source="https://github.com/patriceckhart/zot/pull/18",
    seen="2026-06-08",
)
def tools_are_configured(body: JsonObject) -> Iterator[Breach]:
    messages = [message for _, message in objects(body.get("messages"))]
    if any(_blocks(each, kind) for each in messages for kind in ("toolUse", "toolResult")) and not body.get(
        "toolConfig"
    ):
        words = "The toolConfig field must be defined when using toolUse and toolResult content blocks."
        yield Breach("toolConfig", "is missing, and tools were called", words)


@RULES.add(
    "a tool call has no result in the next message",
    source="https://github.com/camel-ai/camel/issues/3954, https://github.com/anomalyco/opencode/pull/41780",
    seen="2026-08-11",
)
def calls_have_results(body: JsonObject) -> Iterator[Breach]:
    messages = a_list(body.get("messages"))
    for position, message in objects(messages):
        turn = takewhile(lambda each: a_dict(each).get("role") == "assistant", messages[position:])
        after = position + len(list(turn))  # the messages of one turn of the assistant share the results after it
        answered = _ids(messages[after], "toolResult") if after < len(messages) else []
        calls = [call for _, call in _blocks(message, "toolUse") if call.get("type") != "server_tool_use"]
        lacking = [each for call in calls if (each := text(call.get("toolUseId"))) not in answered]
        if message.get("role") == "assistant" and lacking:
            words = f"Expected toolResult blocks at messages.{after}.content for the following Ids"
            yield Breach(f"messages.{position}", f"{quoted(lacking)} no result", f"{words}: {', '.join(lacking)}")


@RULES.add(
    "a message has two results of one tool call",
    source="https://github.com/BerriAI/litellm/issues/20047",
    seen="2026-01-30",
    is_about_answers=True,
)
def single_results(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        ids = _ids(message, "toolResult")
        if twice := [each for place, each in enumerate(ids) if each in ids[:place]]:
            words = f"The toolResult blocks at messages.{position}.content contain duplicate Ids: {', '.join(twice)}"
            yield Breach(f"messages.{position}", f"second result for {twice[0]!r}", words)


@RULES.add(
    "a message has more tool results than the one before it has tool calls",
    source="https://github.com/strands-agents/harness-sdk/issues/1435",
    seen="2026-01-09",
)
def results_follow_calls(body: JsonObject) -> Iterator[Breach]:
    asked: list[str] = []
    for position, message in objects(body.get("messages")):
        if message.get("role") == "assistant":
            asked = [*asked, *_ids(message, "toolUse")]
            continue
        results = _ids(message, "toolResult")
        if len(results) > len(asked):
            words = (
                f"The number of toolResult blocks at messages.{position}.content exceeds the number of toolUse blocks "
                "of previous turn."
            )
            unknown = next((each for each in results if each not in asked), results[-1])
            yield Breach(f"messages.{position}", f"result for {unknown!r}, which nothing asks for", words)
        asked = asked if results else []


@RULES.add(
    "a tool result with the status `error` is empty",
    source="https://github.com/aws-samples/sample-multi-agent-orchestration-chat-on-agentcore/issues/15",
    seen="2026-06-01",
)
def errors_say_why(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for place, result in _blocks(message, "toolResult"):
            if result.get("status") == "error" and not result.get("content"):
                at = f"messages.{position}.content.{place}.toolResult"
                yield Breach(
                    at,
                    "is an error without content",
                    f"The content field at {at} cannot be empty when status value is error.",
                )


@RULES.add(
    "the `json` of a tool result is not an object",
    source="https://github.com/sigoden/aichat/pull/1550",
    seen="2026-09-09",
)
def json_results_are_objects(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for place, result in _blocks(message, "toolResult"):
            for inner, part in objects(result.get("content")):
                if "json" in part and not isinstance(part["json"], dict):
                    at = f"messages.{position}.content.{place}.toolResult.content.{inner}.json"
                    words = f"The format of the value at {at} is invalid."
                    reason = "is not an object"
                    yield Breach(at, reason, f"{words} Provide a json object for the field and try again.")


@RULES.add(
    "the id of a tool call has other characters than letters, digits, `_`, `.`, `:` and `-`, or more than 64 of them",
    source=f"{MODEL}ToolUseId, https://github.com/run-llama/llama_index/pull/22775",
    seen="2026-11-18",
)
def call_ids(body: JsonObject) -> Iterator[Breach]:
    for position, message in objects(body.get("messages")):
        for kind in ("toolUse", "toolResult"):
            for place, block in _blocks(message, kind):
                given = block.get("toolUseId")
                if isinstance(given, str) and (breach := _name_constraint(given, ID_PATTERN)):
                    at = f"messages.{position + 1}.member.content.{place + 1}.member.{kind}.toolUseId"
                    here = f"messages.{position}.content.{place}.{kind}.toolUseId"
                    yield Breach(here, f"is {given!r}", _constraint(given, at, breach))


@RULES.add(
    "the name of a tool has other characters than letters, digits, `_` and `-`, or more than 64 of them",
    source=f"{MODEL}ToolName",
    seen="2026-11-18",
)
def tool_names(body: JsonObject) -> Iterator[Breach]:
    for position, tool in objects(a_dict(body.get("toolConfig")).get("tools")):
        name = a_dict(tool.get("toolSpec")).get("name")
        if isinstance(name, str) and (breach := _name_constraint(name, NAME_PATTERN)):
            at = f"toolConfig.tools.{position + 1}.member.toolSpec.name"
            yield Breach(f"toolConfig.tools.{position}.toolSpec.name", f"is {name!r}", _constraint(name, at, breach))


def _name_constraint(value: str, pattern: str) -> str:
    """Return the constraint that a name or an id violates, or ""."""
    if len(value) > MAX_LENGTH:
        return f"Member must have length less than or equal to {MAX_LENGTH}"
    if not value:
        return "Member must have length greater than or equal to 1"
    return "" if re.fullmatch(pattern, value) else f"Member must satisfy regular expression pattern: {pattern}"


@RULES.add(
    "the temperature is not between 0 and 1",
    source="https://github.com/stdapi-ai/stdapi.ai/issues/224",
    seen="2026-09-10",
)
def ranges(body: JsonObject) -> Iterator[Breach]:
    value = a_dict(body.get("inferenceConfig")).get("temperature")
    if isinstance(value, int | float) and not 0 <= value <= 1:
        side = "less than or equal to 1" if value > 1 else "greater than or equal to 0"
        words = _constraint(value, "inferenceConfig.temperature", f"Member must have value {side}")
        yield Breach("inferenceConfig.temperature", f"is {value}", words)
