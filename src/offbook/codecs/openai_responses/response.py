"""OpenAI responses: whole responses, usage and error bodies."""

from msgspec import Raw, Struct, field

from offbook.codecs.base import NO_ID, decode_answer
from offbook.codecs.openai_chat import OpenAIUsage, TokenDetails, decode_usage
from offbook.errors import ProviderError
from offbook.messages import (
    JsonObject,
    ReasoningDelta,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    deltas_of,
)

PARAGRAPH = "\n\n"
"""The separator between the parts of one summary."""
_KINDS = ("message", "reasoning", "function_call")


class _TypedItem(Struct):
    type: str


class _Part(Struct):
    text: str | None = None
    refusal: str | None = None


class OutputItem(Struct):
    """An item of any type; the type decides which fields are set."""

    type: str
    content: list[_Part] | None = None
    summary: list[_Part] | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: str | None = None

    def text(self) -> str:
        """Return the text of a message, including a refusal; empty for other items."""
        parts = (self.content or ()) if self.type == "message" else ()
        return "".join(part.text or part.refusal or "" for part in parts)

    def reasoning(self) -> str:
        """Return the text of reasoning: its summary, and its content if the model shows it; empty for other items."""
        parts = (*(self.summary or ()), *(self.content or ())) if self.type == "reasoning" else ()
        return PARAGRAPH.join(part.text for part in parts if part.text)

    def to_tool_call(self) -> ToolCall:
        return ToolCall.parse(self.name or "", self.arguments or "", id=self.call_id)


def read_item(data: Raw) -> OutputItem:
    """Decode an item. Of other kinds, such as a search on the vendor's servers, only the type is kept."""
    kind = decode_answer(bytes(data), _TypedItem).type
    return decode_answer(bytes(data), OutputItem) if kind in _KINDS else OutputItem(kind)


def started_item(index: int, first: StreamDelta, id: str) -> JsonObject:
    """Return the item at `index` of a response, before it has content. `first` is its first delta."""
    match first:
        case TextDelta():
            item = {"type": "message", "id": f"msg_{id}_{index}", "role": "assistant", "content": []}
            return item | {"status": "in_progress"}
        case ReasoningDelta():
            return {"type": "reasoning", "id": f"rs_{id}_{index}", "summary": []}
        case ToolCallDelta(position, _, call_id, tool):
            call = {"call_id": call_id or f"call_{id}_{position}", "name": tool or "", "arguments": ""}
            return {"type": "function_call", "id": f"fc_{id}_{index}"} | call | {"status": "in_progress"}


def finished_item(index: int, first: StreamDelta, text: str, id: str) -> JsonObject:
    """Return the item with all of its text: that of a message, of reasoning, or the arguments of a call."""
    item = started_item(index, first, id)
    match first:
        case TextDelta():
            return item | {"content": [text_part(text)], "status": "completed"}
        case ReasoningDelta():
            return item | {"summary": [summary_part(text)]}
        case ToolCallDelta():
            return item | {"arguments": text, "status": "completed"}


def delta_text(delta: StreamDelta) -> str:
    """Return the text that the delta adds to its item."""
    return delta.arguments if isinstance(delta, ToolCallDelta) else delta.text


def text_part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def summary_part(text: str) -> JsonObject:
    return {"type": "summary_text", "text": text}


_FINISH_REASONS = {"max_output_tokens": "length"}
_INCOMPLETE_REASONS = {"length": "max_output_tokens"}


class _Usage(OpenAIUsage):
    """The usage of chat completions, under other names."""

    prompt_tokens: int | None = field(default=None, name="input_tokens")
    completion_tokens: int | None = field(default=None, name="output_tokens")
    prompt_tokens_details: TokenDetails | None = field(default=None, name="input_tokens_details")
    completion_tokens_details: TokenDetails | None = field(default=None, name="output_tokens_details")


class _IncompleteDetails(Struct):
    reason: str | None = None


class ErrorShape(Struct):
    message: str | None = None


class ResponseStatus(Struct, kw_only=True):
    """The outcome of a response."""

    model: str = ""
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    error: ErrorShape | None = None
    usage: _Usage | None = None

    def finish_reason(self, *, has_calls: bool) -> str | None:
        """Return why the response ended. The protocol marks a response with calls by its items alone."""
        if self.status == "completed":
            return "tool_calls" if has_calls else "stop"
        reason = self.incomplete_details and self.incomplete_details.reason
        return _FINISH_REASONS.get(reason, reason) if reason else self.status


class _WholeResponse(ResponseStatus, kw_only=True):
    output: list[Raw]


def decode_response(data: bytes) -> Response:
    """Decode a response. Raises ProviderError if it reports a failure."""
    answer = decode_answer(data, _WholeResponse)
    if answer.status == "failed":
        message = (answer.error and answer.error.message) or "no reason given"
        raise ProviderError(f"the response failed: {message}", body=data.decode("utf-8", "replace"))
    items = [read_item(item) for item in answer.output]
    calls = tuple(item.to_tool_call() for item in items if item.type == "function_call")
    return Response(
        content="".join(item.text() for item in items),
        model=answer.model,
        usage=decode_usage(answer.usage),
        finish_reason=answer.finish_reason(has_calls=bool(calls)),
        tool_calls=calls,
        reasoning="".join(item.reasoning() for item in items) or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    output = [finished_item(index, delta, delta_text(delta), id) for index, delta in enumerate(deltas_of(response))]
    return finished_response(response, output, id)


def response_envelope(response: Response, id: str) -> JsonObject:
    """Return a response before it has output."""
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": 0,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": response.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
        "usage": None,
    }


def finished_response(response: Response, output: list[JsonObject], id: str) -> JsonObject:
    """Return the response with its output, usage and finish reason."""
    end = {"output": output, "usage": _encode_usage(response.usage)}
    return response_envelope(response, id) | end | _encode_finish_reason(response.finish_reason)


def _encode_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _encode_finish_reason(finish_reason: str | None) -> JsonObject:
    """Return the status and, for an incomplete response, the reason."""
    if finish_reason is None:
        return {"status": None}
    if finish_reason in ("stop", "tool_calls"):
        return {"status": "completed"}
    reason = _INCOMPLETE_REASONS.get(finish_reason, finish_reason)
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}
