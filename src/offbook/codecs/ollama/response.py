"""Ollama chat: whole responses, usage and error bodies."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from offbook.codecs.base import NO_ID, decode_answer, error_message, without_none
from offbook.codecs.chat_message import ChatToolCall
from offbook.codecs.ollama.request import OllamaMessage, encode_calls
from offbook.errors import MalformedResponseError
from offbook.messages import (
    Accumulator,
    JsonObject,
    ReasoningDelta,
    Response,
    StreamDelta,
    TextDelta,
    ToolCallDelta,
    Usage,
)

CREATED_AT = "1970-01-01T00:00:00Z"
_DONE_REASONS = {"tool_calls": "stop"}


class ChatResponse(Struct):
    """A whole response, or one line of a streamed one."""

    message: OllamaMessage | None = None
    model: str = ""
    done: bool = False
    done_reason: str | None = None
    prompt_eval_count: int | None = None
    eval_count: int | None = None
    error: str | dict[str, Any] | None = None

    @property
    def usage(self) -> Usage:
        return Usage.of(self.prompt_eval_count or 0, self.eval_count or 0)


def decode_response(data: bytes) -> Response:
    answer = decode_answer(data, ChatResponse)
    if answer.message is None:
        raise MalformedResponseError("the response has no message", raw=data.decode("utf-8", "replace"))
    joined = Accumulator()
    for delta in decode_deltas(answer.message):
        joined.add(delta)
    return with_finish_reason(joined.join(Response(model=answer.model, usage=answer.usage)), answer.done_reason)


def decode_deltas(message: OllamaMessage, *, calls_before: int = 0) -> list[StreamDelta]:
    """Return the message as deltas. Calls without an id are numbered, starting at `calls_before`."""
    deltas: list[StreamDelta] = []
    if message.thinking:
        deltas.append(ReasoningDelta(message.thinking))
    if message.content:
        deltas.append(TextDelta(message.content))
    deltas.extend(_decode_call(call, index) for index, call in enumerate(message.tool_calls or (), calls_before))
    return deltas


def _decode_call(call: ChatToolCall, index: int) -> ToolCallDelta:
    return ToolCallDelta(index, call.to_tool_call().arguments, call.id or f"call_{index}", call.function.name)


def with_finish_reason(response: Response, done_reason: str | None) -> Response:
    """Return the response with its finish reason."""
    is_calling = done_reason == "stop" and response.tool_calls
    return replace(response, finish_reason="tool_calls" if is_calling else done_reason)


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    """Encode a response. The protocol has no ids."""
    calls = encode_calls(response.tool_calls) or None
    optional = without_none({"thinking": response.reasoning, "tool_calls": calls})
    return encode_partial_response(response, {"content": response.content} | optional) | encode_end(response)


def encode_partial_response(response: Response, message: JsonObject) -> JsonObject:
    """Return a response, or a line of one, without its end."""
    return {
        "model": response.model,
        "created_at": CREATED_AT,
        "message": {"role": "assistant"} | message,
        "done": False,
    }


def encode_end(response: Response) -> JsonObject:
    """Return the fields that only the last line has. Durations are in nanoseconds."""
    reason = _DONE_REASONS.get(response.finish_reason or "", response.finish_reason)
    return without_none({"done": True, "done_reason": reason}) | {
        "total_duration": 0,
        "load_duration": 0,
        "prompt_eval_count": response.usage.prompt_tokens,
        "prompt_eval_duration": 0,
        "eval_count": response.usage.completion_tokens,
        "eval_duration": 0,
    }


def encode_error(status_code: int, message: str) -> JsonObject:
    return {"error": message}


def decode_error(data: bytes) -> str:
    return error_message(data, "error")
