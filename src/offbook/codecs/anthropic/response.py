"""Anthropic messages: whole responses, usage and error bodies."""

from typing import Any

from msgspec import Struct

from offbook.codecs.base import NO_ID, decode_answer, error_message
from offbook.codecs.chat_message import arguments_object
from offbook.messages import JsonObject, Response, ToolCall, Usage

REQUEST_ID = f"req_{NO_ID}"
_FINISH_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}
_ERROR_KINDS = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}


class ContentBlock(Struct):
    """A block of any type; the type decides which fields are set."""

    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _OutputDetails(Struct):
    thinking_tokens: int | None = None


class AnthropicUsage(Struct):
    input_tokens: int | None = None
    cache_creation_input_tokens: int | None = None
    cache_read_input_tokens: int | None = None
    output_tokens: int | None = None
    output_tokens_details: _OutputDetails | None = None


class _Message(Struct):
    content: list[ContentBlock]
    model: str = ""
    stop_reason: str | None = None
    usage: AnthropicUsage | None = None


def decode_response(data: bytes) -> Response:
    message = decode_answer(data, _Message)
    blocks = message.content
    return Response(
        content="".join(block.text or "" for block in blocks if block.type == "text"),
        model=message.model,
        usage=decode_usage(message.usage or AnthropicUsage()),
        finish_reason=decode_stop_reason(message.stop_reason),
        tool_calls=tuple(
            ToolCall(block.name or "", block.input or {}, block.id) for block in blocks if block.type == "tool_use"
        ),
        reasoning="".join(block.thinking or "" for block in blocks if block.type == "thinking") or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    blocks: list[JsonObject] = []
    if response.reasoning:
        blocks.append(thinking_block(response.reasoning))
    if response.content:
        blocks.append(text_block(response.content))
    for index, call in enumerate(response.tool_calls):
        blocks.append(tool_use_block(call.id or call_id(id, index), call.tool) | {"input": arguments_object(call)})
    end = {"stop_reason": encode_finish_reason(response.finish_reason), "usage": encode_usage(response.usage)}
    return message_envelope(response, id) | {"content": blocks} | end


def message_envelope(response: Response, id: str) -> JsonObject:
    """Return a message before it has content."""
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": response.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }


def text_block(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def thinking_block(thinking: str) -> JsonObject:
    return {"type": "thinking", "thinking": thinking, "signature": ""}


def tool_use_block(call_id: str, tool: str | None) -> JsonObject:
    """Return a tool use without input."""
    return {"type": "tool_use", "id": call_id, "name": tool or "", "input": {}}


def call_id(id: str, index: int) -> str:
    """Return the id for a call that has none; clients refer to it in the result."""
    return f"toolu_{id}_{index}"


def decode_stop_reason(stop_reason: str | None) -> str | None:
    return None if stop_reason is None else _FINISH_REASONS.get(stop_reason, stop_reason)


def encode_finish_reason(finish_reason: str | None) -> str | None:
    return None if finish_reason is None else _STOP_REASONS.get(finish_reason, finish_reason)


def decode_usage(usage: AnthropicUsage) -> Usage:
    cached = usage.cache_read_input_tokens or 0
    details = usage.output_tokens_details
    return Usage.of(
        (usage.input_tokens or 0) + (usage.cache_creation_input_tokens or 0) + cached,
        usage.output_tokens or 0,
        cached=cached,
        reasoning=(details and details.thinking_tokens) or 0,
    )


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt_tokens - usage.cached_tokens,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    kind = _ERROR_KINDS.get(status_code, "invalid_request_error" if status_code < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": REQUEST_ID}


def decode_error(data: bytes) -> str:
    return error_message(data, "error", "message")
