"""Gemini generateContent: whole responses, usage and error bodies."""

from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from offbook.codecs.base import NO_ID, decode_answer, error_message, without_none
from offbook.codecs.gemini.content import FunctionCallShape, encode_call
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
    json_text,
)

_UNSPECIFIED = "FINISH_REASON_UNSPECIFIED"
_BLOCKED = "SAFETY"
_FINISH_REASONS = {
    _UNSPECIFIED: None,
    "STOP": "stop",
    "MAX_TOKENS": "length",
    _BLOCKED: "content_filter",
    "RECITATION": "content_filter",
    "BLOCKLIST": "content_filter",
    "PROHIBITED_CONTENT": "content_filter",
    "SPII": "content_filter",
}
_WIRE_REASONS = {
    None: _UNSPECIFIED,
    "stop": "STOP",
    "tool_calls": "STOP",
    "length": "MAX_TOKENS",
    "content_filter": _BLOCKED,
}
_STATUS_WORDS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


class PartShape(Struct, rename="camel"):
    text: str | None = None
    thought: bool | None = None
    function_call: FunctionCallShape | None = None


class _Content(Struct):
    parts: list[PartShape] | None = None


class _Candidate(Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    index: int | None = None


class _PromptFeedback(Struct, rename="camel"):
    block_reason: str | None = None


class GeminiUsage(Struct, rename="camel"):
    prompt_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    cached_content_token_count: int | None = None
    total_token_count: int | None = None


class GenerateContentResponse(Struct, rename="camel"):
    """A whole response, or one frame of a streamed one."""

    candidates: list[_Candidate] = field(default_factory=list)
    prompt_feedback: _PromptFeedback | None = None
    usage_metadata: GeminiUsage | None = None
    model_version: str = ""
    error: dict[str, Any] | None = None

    @property
    def parts(self) -> list[PartShape]:
        """The parts of the first candidate."""
        return [part for content in self._contents() for part in content.parts or ()]

    @property
    def end(self) -> str | None:
        """The vendor's finish reason, if the response has ended; a blocked prompt ends it too."""
        if self.prompt_feedback is not None and self.prompt_feedback.block_reason is not None:
            return _BLOCKED
        return next((candidate.finish_reason for candidate in self.candidates if not candidate.index), None)

    def _contents(self) -> list[_Content]:
        return [one.content for one in self.candidates if not one.index and one.content is not None]


def decode_response(data: bytes) -> Response:
    answer = decode_answer(data, GenerateContentResponse)
    if not answer.candidates and answer.end is None:
        raise MalformedResponseError("the response has no candidates", raw=data.decode("utf-8", "replace"))
    joined = Accumulator()
    for delta in decode_deltas(answer.parts):
        joined.add(delta)
    rest = Response(model=answer.model_version, usage=decode_usage(answer.usage_metadata))
    return with_finish_reason(joined.join(rest), answer.end)


def decode_deltas(parts: list[PartShape], *, calls_before: int = 0) -> list[StreamDelta]:
    """Return the parts as deltas. Calls without an id are numbered, starting at `calls_before`."""
    deltas: list[StreamDelta] = []
    for part in parts:
        if part.text:
            deltas.append(ReasoningDelta(part.text) if part.thought else TextDelta(part.text))
        if part.function_call is not None:
            deltas.append(_decode_call(part.function_call, calls_before))
            calls_before += 1
    return deltas


def _decode_call(call: FunctionCallShape, index: int) -> ToolCallDelta:
    return ToolCallDelta(index, json_text(call.args or {}), call.id or f"call_{index}", call.name)


def with_finish_reason(response: Response, end: str | None) -> Response:
    """Return the response with the finish reason for the vendor's `end`."""
    reason = _FINISH_REASONS.get(end, end) if end else None
    return replace(response, finish_reason="tool_calls" if reason == "stop" and response.tool_calls else reason)


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    reasoning = [thought_part(response.reasoning)] if response.reasoning else []
    text = [text_part(response.content)] if response.content else []
    parts = [*reasoning, *text, *map(encode_call, response.tool_calls)]
    return encode_candidate(response, parts, id=id) | {"usageMetadata": encode_usage(response.usage)}


def encode_candidate(response: Response, parts: list[JsonObject], *, id: str, is_last: bool = True) -> JsonObject:
    """Return a response, or a frame of one, with these parts and without usage."""
    content = {"parts": parts, "role": "model"} if parts else {"role": "model"}
    reason = _WIRE_REASONS.get(response.finish_reason, response.finish_reason) if is_last else None
    candidate = without_none({"content": content, "finishReason": reason, "index": 0})
    return {"candidates": [candidate], "modelVersion": response.model, "responseId": id}


def text_part(text: str) -> JsonObject:
    return {"text": text}


def thought_part(text: str) -> JsonObject:
    return {"text": text, "thought": True}


def decode_usage(usage: GeminiUsage | None) -> Usage:
    if usage is None:
        return Usage()
    thoughts = usage.thoughts_token_count or 0
    return Usage.of(
        (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0),
        (usage.candidates_token_count or 0) + thoughts,
        total=usage.total_token_count,
        cached=usage.cached_content_token_count or 0,
        reasoning=thoughts,
    )


def encode_usage(usage: Usage) -> JsonObject:
    thoughts = min(usage.reasoning_tokens, usage.completion_tokens)
    counts = {
        "promptTokenCount": usage.prompt_tokens,
        "candidatesTokenCount": usage.completion_tokens - thoughts,
        "totalTokenCount": usage.total_tokens,
    }
    optional = {"cachedContentTokenCount": usage.cached_tokens, "thoughtsTokenCount": thoughts}
    return counts | {name: count for name, count in optional.items() if count}


def encode_error(status_code: int, message: str) -> JsonObject:
    word = _STATUS_WORDS.get(status_code, "INVALID_ARGUMENT" if status_code < 500 else "INTERNAL")
    return {"error": {"code": status_code, "message": message, "status": word}}


def decode_error(data: bytes) -> str:
    return error_message(data, "error", "message")
