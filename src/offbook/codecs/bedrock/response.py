"""Bedrock Converse: whole responses, usage and errors."""

from typing import Any

from msgspec import Struct, field

from offbook.codecs.base import NO_ID, decode_answer, error_message
from offbook.codecs.chat_message import arguments_object
from offbook.messages import JsonObject, Response, ToolCall, Usage

_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
    "content_filtered": "content_filter",
    "guardrail_intervened": "content_filter",
}
_STOP_REASONS = {
    "stop": "end_turn",
    "length": "max_tokens",
    "tool_calls": "tool_use",
    "content_filter": "content_filtered",
}
_ERROR_KINDS = {
    401: "UnrecognizedClientException",
    403: "AccessDeniedException",
    404: "ResourceNotFoundException",
    408: "ModelTimeoutException",
    424: "ModelErrorException",
    429: "ThrottlingException",
    503: "ServiceUnavailableException",
}


class ToolUse(Struct):
    tool_use_id: str = field(default="", name="toolUseId")
    name: str = ""
    input: dict[str, Any] | None = None


class _ReasoningText(Struct):
    text: str = ""


class _Reasoning(Struct):
    reasoning_text: _ReasoningText | None = field(default=None, name="reasoningText")


class _ContentBlock(Struct):
    """A block of any kind: the field that is set decides which."""

    text: str | None = None
    tool_use: ToolUse | None = field(default=None, name="toolUse")
    reasoning: _Reasoning | None = field(default=None, name="reasoningContent")


class _Message(Struct):
    content: list[_ContentBlock]


class _Output(Struct):
    message: _Message


class ConverseUsage(Struct):
    input_tokens: int = field(default=0, name="inputTokens")
    output_tokens: int = field(default=0, name="outputTokens")
    cache_read: int = field(default=0, name="cacheReadInputTokens")
    cache_write: int = field(default=0, name="cacheWriteInputTokens")


class _Body(Struct):
    output: _Output
    stop_reason: str | None = field(default=None, name="stopReason")
    usage: ConverseUsage = field(default_factory=ConverseUsage)


def decode_response(data: bytes) -> Response:
    """Decode a response. It does not name its model."""
    body = decode_answer(data, _Body)
    blocks = body.output.message.content
    thoughts = [block.reasoning.reasoning_text for block in blocks if block.reasoning is not None]
    uses = [block.tool_use for block in blocks if block.tool_use is not None]
    return Response(
        content="".join(block.text or "" for block in blocks),
        usage=decode_usage(body.usage),
        finish_reason=decode_stop_reason(body.stop_reason),
        tool_calls=tuple(ToolCall(use.name, use.input or {}, use.tool_use_id or None) for use in uses),
        reasoning="".join(thought.text for thought in thoughts if thought is not None) or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    blocks: list[JsonObject] = []
    if response.reasoning:
        blocks.append({"reasoningContent": {"reasoningText": {"text": response.reasoning}}})
    if response.content:
        blocks.append({"text": response.content})
    for index, call in enumerate(response.tool_calls):
        use = {"toolUseId": call.id or call_id(id, index), "name": call.tool, "input": arguments_object(call)}
        blocks.append({"toolUse": use})
    return {
        "output": {"message": {"role": "assistant", "content": blocks}},
        "stopReason": encode_finish_reason(response.finish_reason),
        "usage": encode_usage(response.usage),
        "metrics": {"latencyMs": 0},
    }


def call_id(id: str, index: int) -> str:
    """Return the id for a call that has none; clients refer to it in the result."""
    return f"tooluse_{id}_{index}"


def decode_stop_reason(stop_reason: str | None) -> str | None:
    return None if stop_reason is None else _FINISH_REASONS.get(stop_reason, stop_reason)


def encode_finish_reason(finish_reason: str | None) -> str | None:
    return None if finish_reason is None else _STOP_REASONS.get(finish_reason, finish_reason)


def decode_usage(usage: ConverseUsage) -> Usage:
    prompt_tokens = usage.input_tokens + usage.cache_read + usage.cache_write
    return Usage.of(prompt_tokens, usage.output_tokens, cached=usage.cache_read)


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "inputTokens": usage.prompt_tokens - usage.cached_tokens,
        "outputTokens": usage.completion_tokens,
        "totalTokens": usage.prompt_tokens + usage.completion_tokens,
        "cacheReadInputTokens": usage.cached_tokens,
        "cacheWriteInputTokens": 0,
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    default = "ValidationException" if status_code < 500 else "InternalServerException"
    return {"message": message, "__type": _ERROR_KINDS.get(status_code, default)}


def decode_error(data: bytes) -> str:
    return error_message(data, "message")
