"""OpenAI's legacy completions: one prompt in, text out, whole and streamed."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.codecs.base import (
    NO_ID,
    OtherProtocolError,
    WireRequest,
    convert_request,
    decode_answer,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import SinglePrompt, read_prompt
from offbook.codecs.framing import encode_sse_event
from offbook.codecs.openai_chat import (
    CODEC as CHAT,
)
from offbook.codecs.openai_chat import (
    DONE,
    OpenAIChatStreamDecoder,
    OpenAIUsage,
    decode_usage,
    encode_usage,
    first_choice,
    reported_error,
)
from offbook.errors import RequestError
from offbook.messages import JsonObject, Request, Response, StreamDelta, TextDelta

PATH = "/completions"
_PROMPT_FIELDS = ("suffix",)


class _Body(Struct):
    prompt: str | list[Any]
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    stream: bool | None = None
    stream_options: Any = None


def encode_request(request: Request) -> WireRequest:
    """Encode a request. Raises RequestError if it is not a single text."""
    prompt = read_prompt(request, fields=_PROMPT_FIELDS)
    if prompt.system or not isinstance(prompt.content, str):
        raise RequestError("a completion has one text, and no system prompt", source="messages")
    fields: JsonObject = {
        "model": request.model,
        "prompt": prompt.content,
        "temperature": request.temperature,
        "max_tokens": request.max_tokens,
        "stream": True if request.stream else None,
        "stream_options": {"include_usage": True} if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | prompt.fields | dict(request.extra))


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. Requests with several prompts or token ids are not a conversation, and are handled as plain
    HTTP.
    """
    body = convert_request(wire.body, _Body)
    prompt_fields = {name: wire.body[name] for name in _PROMPT_FIELDS if name in wire.body}
    return Request(
        messages=SinglePrompt(_text(body.prompt), fields=prompt_fields).to_messages(),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_tokens,
        extra={name: value for name, value in undeclared_fields(wire.body, _Body).items() if name not in prompt_fields},
        stream=bool(body.stream),
    )


def _text(prompt: str | list[Any]) -> str:
    match prompt:
        case str(text) | [str(text)]:
            return text
        case _:
            raise OtherProtocolError("the prompt is not one text", source="request body", place="prompt")


class _Choice(Struct):
    text: str = ""
    finish_reason: str | None = None
    index: int = 0


class _WholeCompletion(Struct):
    choices: list[_Choice]
    model: str = ""
    usage: OpenAIUsage | None = None


def decode_response(data: bytes) -> Response:
    completion = decode_answer(data, _WholeCompletion)
    choice = first_choice(completion.choices, data)
    usage = decode_usage(completion.usage)
    return Response(choice.text, completion.model, usage=usage, finish_reason=choice.finish_reason)


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    """Encode a response. The protocol has text alone: reasoning and tool calls are left out."""
    choice = _encode_choice(response.content, _finish_reason(response))
    return _envelope(response, id) | {"choices": [choice], "usage": encode_usage(response.usage)}


def _envelope(response: Response, id: str) -> JsonObject:
    return {"id": f"cmpl-{id}", "object": "text_completion", "created": 0, "model": response.model}


def _encode_choice(text: str, finish_reason: str | None = None) -> JsonObject:
    return {"index": 0, "text": text, "logprobs": None, "finish_reason": finish_reason}


def _finish_reason(response: Response) -> str | None:
    return "stop" if response.finish_reason == "tool_calls" else response.finish_reason


class _Chunk(Struct):
    choices: list[_Choice] = field(default_factory=list)
    model: str = ""
    usage: OpenAIUsage | None = None
    error: dict[str, Any] | str | None = None


class OpenAICompletionsStreamDecoder(OpenAIChatStreamDecoder):
    """Decodes completion chunks. A stream is complete after its finish reason or `[DONE]`."""

    def _decode_chunk(self, data: str) -> list[StreamDelta]:
        chunk = decode_answer(data, _Chunk)
        if chunk.error is not None:
            raise reported_error(chunk.error, data)
        first = [choice for choice in chunk.choices if choice.index == 0]
        self._note(chunk.model, chunk.usage, [choice.finish_reason for choice in first])
        return [TextDelta(choice.text) for choice in first if choice.text]


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    envelope = _envelope(response, id)
    for delta in deltas:
        if isinstance(delta, TextDelta):
            yield _frame(envelope, [_encode_choice(delta.text)])
    yield _frame(envelope, [_encode_choice("", _finish_reason(response))])
    yield _frame(envelope | {"usage": encode_usage(response.usage)}, [])
    yield encode_sse_event(DONE.encode())


def _frame(fields: JsonObject, choices: list[JsonObject]) -> bytes:
    return encode_sse_event(orjson.dumps(fields | {"choices": choices}))


CODEC = replace(
    CHAT,
    name="openai_completions",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    stream_decoder=OpenAICompletionsStreamDecoder,
)
"""The `/completions` protocol, with the error bodies of chat completions."""
