"""OpenAI responses: whole responses."""

from msgspec import Raw, Struct

from offbook.codecs.codec import NO_ID
from offbook.codecs.openai_responses.item import finished_item, piece_of, read_item
from offbook.codecs.parsing import decode_answer
from offbook.errors import ProviderError
from offbook.messages import JsonObject, Response, Usage, deltas_of

_FINISH_REASONS = {"max_output_tokens": "length"}
_INCOMPLETE_REASONS = {"length": "max_output_tokens"}


class _InputDetails(Struct):
    cached_tokens: int | None = None


class _OutputDetails(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    input_tokens_details: _InputDetails | None = None
    output_tokens_details: _OutputDetails | None = None


class _IncompleteDetails(Struct):
    reason: str | None = None


class ErrorShape(Struct):
    message: str | None = None


class Outcome(Struct, kw_only=True):
    """How a response ended."""

    model: str = ""
    status: str | None = None
    incomplete_details: _IncompleteDetails | None = None
    error: ErrorShape | None = None
    usage: _Usage | None = None

    def finish_reason(self, *, has_calls: bool) -> str | None:
        """Why it ended: the protocol tells an answer with calls by its items alone."""
        if self.status == "completed":
            return "tool_calls" if has_calls else "stop"
        reason = self.incomplete_details and self.incomplete_details.reason
        return _FINISH_REASONS.get(reason, reason) if reason else self.status


class _Answer(Outcome, kw_only=True):
    output: list[Raw]


def decode_response(data: bytes) -> Response:
    """The response. Raises ProviderError where it says that it failed."""
    answer = decode_answer(data, _Answer)
    if answer.status == "failed":
        message = (answer.error and answer.error.message) or "it does not say why"
        raise ProviderError(f"the response failed: {message}", body=data.decode("utf-8", "replace"))
    items = [read_item(item) for item in answer.output]
    calls = tuple(item.to_tool_call() for item in items if item.type == "function_call")
    return Response(
        content="".join(item.said() for item in items),
        model=answer.model,
        usage=decode_usage(answer.usage),
        finish_reason=answer.finish_reason(has_calls=bool(calls)),
        tool_calls=calls,
        reasoning="".join(item.thought() for item in items) or None,
    )


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    output = [finished_item(index, delta, piece_of(delta), id) for index, delta in enumerate(deltas_of(response))]
    return ended(response, output, id)


def envelope(response: Response, id: str) -> JsonObject:
    """A response before it has output."""
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


def ended(response: Response, output: list[JsonObject], id: str) -> JsonObject:
    """The response with its output, its usage and why it ended."""
    end = {"output": output, "usage": _encode_usage(response.usage)}
    return envelope(response, id) | end | _encode_finish_reason(response.finish_reason)


def decode_usage(usage: _Usage | None) -> Usage:
    if usage is None:
        return Usage()
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    return Usage(
        prompt_tokens=prompt,
        completion_tokens=completion,
        total_tokens=prompt + completion if usage.total_tokens is None else usage.total_tokens,
        cached_tokens=(usage.input_tokens_details and usage.input_tokens_details.cached_tokens) or 0,
        reasoning_tokens=(usage.output_tokens_details and usage.output_tokens_details.reasoning_tokens) or 0,
    )


def _encode_usage(usage: Usage) -> JsonObject:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.total_tokens,
    }


def _encode_finish_reason(finish_reason: str | None) -> JsonObject:
    """The status, and where that is not all there is to tell, why the response is incomplete."""
    if finish_reason is None:
        return {"status": None}
    if finish_reason in ("stop", "tool_calls"):
        return {"status": "completed"}
    reason = _INCOMPLETE_REASONS.get(finish_reason, finish_reason)
    return {"status": "incomplete", "incomplete_details": {"reason": reason}}
