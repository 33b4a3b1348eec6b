"""OpenAI chat completions: whole responses, usage and error bodies."""

from typing import Any

from msgspec import Struct, field

from offbook.codecs.base import NO_ID, decode_answer, error_message, without_none
from offbook.errors import MalformedResponseError
from offbook.messages import JsonObject, Response, ToolCall, Usage


class FunctionShape(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class ToolCallShape(Struct):
    function: FunctionShape = field(default_factory=FunctionShape)
    id: str | None = None
    index: int | None = None


class MessageShape(Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCallShape] | None = None


class _PromptDetails(Struct):
    cached_tokens: int | None = None


class _CompletionDetails(Struct):
    reasoning_tokens: int | None = None


class OpenAIUsage(Struct):
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    total_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    completion_tokens_details: _CompletionDetails | None = None


class _WholeChoice(Struct):
    message: MessageShape
    finish_reason: str | None = None


class _Completion(Struct):
    choices: list[_WholeChoice]
    model: str = ""
    usage: OpenAIUsage | None = None


def decode_response(data: bytes) -> Response:
    completion = decode_answer(data, _Completion)
    if not completion.choices:
        raise MalformedResponseError("the response has no choices", raw=data.decode("utf-8", "replace"))
    choice = completion.choices[0]
    message = choice.message
    return Response(
        content=text_of(message.content) or message.refusal or "",
        model=completion.model,
        usage=decode_usage(completion.usage),
        finish_reason=choice.finish_reason,
        tool_calls=tuple(_decode_call(call) for call in message.tool_calls or ()),
        reasoning=message.reasoning_content or message.reasoning or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    calls = [
        {
            "id": call.id or call_id(id, index),
            "type": "function",
            "function": {"name": call.tool, "arguments": call.arguments},
        }
        for index, call in enumerate(response.tool_calls)
    ]
    message: JsonObject = {"role": "assistant", "content": response.content or None}
    optional = without_none({"reasoning_content": response.reasoning, "tool_calls": calls or None})
    return {
        "id": response_id(id),
        "object": "chat.completion",
        "created": 0,
        "model": response.model,
        "choices": [
            {"index": 0, "message": message | optional, "logprobs": None, "finish_reason": response.finish_reason}
        ],
        "usage": encode_usage(response.usage),
    }


def response_id(id: str) -> str:
    return f"chatcmpl-{id}"


def call_id(id: str, index: int) -> str:
    """Return the id for a call that has none; clients refer to it in the result."""
    return f"call_{id}_{index}"


def text_of(content: str | list[dict[str, Any]] | None) -> str:
    """Return the text of a message's content: the content itself, or its text parts joined."""
    if isinstance(content, str):
        return content
    return "".join(str(part.get("text") or "") for part in content or () if part.get("type") == "text")


def _decode_call(call: ToolCallShape) -> ToolCall:
    arguments = call.function.arguments
    if isinstance(arguments, dict):
        return ToolCall(call.function.name or "", arguments, call.id)
    return ToolCall.parse(call.function.name or "", arguments or "", id=call.id)


def decode_usage(usage: OpenAIUsage | None) -> Usage:
    if usage is None:
        return Usage()
    return Usage.of(
        usage.prompt_tokens or 0,
        usage.completion_tokens or 0,
        total=usage.total_tokens,
        cached=(usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0,
        reasoning=(usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens) or 0,
    )


def encode_usage(usage: Usage) -> JsonObject:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.total_tokens,
        "prompt_tokens_details": {"cached_tokens": usage.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    kinds = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}
    kind = kinds.get(status_code, "invalid_request_error" if status_code < 500 else "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": None}}


def decode_error(data: bytes) -> str:
    return error_message(data, "error", "message")
