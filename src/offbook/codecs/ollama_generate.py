"""Ollama's generate: one prompt with a system prompt and images in, text out, whole and streamed."""

from collections.abc import Iterable, Iterator
from typing import Any

import orjson
from msgspec import Struct
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
from offbook.codecs.framing import encode_ndjson_line
from offbook.codecs.ollama import (
    CODEC as CHAT,
)
from offbook.codecs.ollama import (
    ChatResponse,
    Limits,
    OllamaMessage,
    OllamaStreamDecoder,
    decode_content,
    encode_content,
    encode_end,
    encode_options,
    encode_partial_response,
    response_of,
)
from offbook.errors import MalformedResponseError
from offbook.messages import JsonObject, ReasoningDelta, Request, Response, StreamDelta, TextDelta

PATH = "/api/generate"
_PROMPT_FIELDS = ("suffix", "context")


class _Body(Struct):
    model: str
    prompt: str = ""
    system: str | None = None
    images: list[str] | None = None
    stream: bool | None = None
    options: dict[str, Any] | None = None


def encode_request(request: Request) -> WireRequest:
    """Encode a request. Raises RequestError if it is more than a system prompt and one prompt."""
    prompt = read_prompt(request, fields=_PROMPT_FIELDS)
    text, images = encode_content(prompt.content)
    fields: JsonObject = {
        "model": request.model,
        "prompt": text,
        "system": prompt.system or None,
        "images": images or None,
        "stream": request.stream,
    }
    return WireRequest(PATH, without_none(fields) | prompt.fields | dict(request.extra) | encode_options(request))


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. It streams unless `stream` is false. A request without a prompt only loads a model."""
    body = convert_request(wire.body, _Body)
    if not body.prompt and not body.images:
        raise OtherProtocolError("a request without a prompt loads a model", source="request body", place="prompt")
    prompt_fields = {name: wire.body[name] for name in _PROMPT_FIELDS if name in wire.body}
    content = decode_content(body.prompt, body.images or [])
    limits = convert_request(body.options or {}, Limits)
    options = undeclared_fields(body.options or {}, Limits)
    extra = {name: value for name, value in undeclared_fields(wire.body, _Body).items() if name not in prompt_fields}
    return Request(
        messages=SinglePrompt(content, body.system or "", prompt_fields).to_messages(),
        model=body.model,
        temperature=limits.temperature,
        max_tokens=limits.num_predict,
        extra=extra | ({"options": options} if options else {}),
        stream=body.stream is not False,
    )


class _Line(ChatResponse):
    """A whole response, or one line of a streamed one: text where chat has a message."""

    response: str | None = None
    thinking: str | None = None

    def as_chat(self) -> ChatResponse:
        if self.response is None and self.thinking is None:
            return self
        return replace(self, message=OllamaMessage(content=self.response, thinking=self.thinking))


def decode_response(data: bytes) -> Response:
    answer = decode_answer(data, _Line)
    if answer.response is None:
        raise MalformedResponseError("the response has no text", raw=data.decode("utf-8", "replace"))
    return response_of(answer.as_chat())


def encode_response(response: Response, *, id: str = NO_ID) -> JsonObject:
    """Encode a response without ids and tool calls, which this protocol lacks."""
    return _encode_line(response, response.content, response.reasoning) | encode_end(response)


def _encode_line(response: Response, text: str, thinking: str | None = None) -> JsonObject:
    line = encode_partial_response(response, {})
    del line["message"]
    return line | {"response": text} | without_none({"thinking": thinking})


class OllamaGenerateStreamDecoder(OllamaStreamDecoder):
    """Decodes lines, each a partial response. A line with `done` completes the stream."""

    def _decode_line(self, line: bytes) -> ChatResponse:
        return decode_answer(line, _Line).as_chat()


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    for delta in deltas:
        match delta:
            case TextDelta(text):
                yield encode_ndjson_line(orjson.dumps(_encode_line(response, text)))
            case ReasoningDelta(text):
                yield encode_ndjson_line(orjson.dumps(_encode_line(response, "", text)))
    yield encode_ndjson_line(orjson.dumps(_encode_line(response, "") | encode_end(response)))


CODEC = replace(
    CHAT,
    name="ollama_generate",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    stream_decoder=OllamaGenerateStreamDecoder,
)
"""The `/api/generate` protocol, with the error bodies of chat."""
