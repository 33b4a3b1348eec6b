"""Gemini generateContent: requests as contents and parts, whole and streamed responses, usage and errors."""

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

import msgspec
import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    convert_request,
    decode_answer,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import (
    SYSTEM_ROLES,
    CallIds,
    ChatMessage,
    ChatToolCall,
    DataUrl,
    arguments_object,
    parse_data_url,
    read_messages,
)
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.decoding import convert
from offbook.errors import MalformedResponseError, RequestError
from offbook.messages import (
    Accumulator,
    Content,
    JsonObject,
    Message,
    ReasoningDelta,
    Request,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    incomplete_stream_error,
    json_text,
)
from offbook.text import shorten

T = TypeVar("T")
_KNOWN = (
    *("systemInstruction", "generationConfig", "maxOutputTokens"),
    *("inlineData", "fileData", "mimeType", "fileUri", "functionCall", "functionResponse", "thoughtSignature"),
    *("functionDeclarations", "parametersJsonSchema", "toolConfig", "functionCallingConfig", "allowedFunctionNames"),
)
_CAMEL = {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", name): name for name in _KNOWN}


def in_camel_case(fields: JsonObject) -> JsonObject:
    """Return the fields with the known names in camel case."""
    return {_CAMEL.get(name, name): value for name, value in fields.items()}


def read_fields(value: object, shape: type[T]) -> T:
    """Convert a JSON object to `shape`, whether its names are in snake case or camel case.

    Raises:
        RequestError: `value` is not an object, or a field is missing or has the wrong type.
    """
    return convert_request(in_camel_case(convert_request(value, dict[str, Any])), shape)


FILE_SCHEMES = ("http://", "https://", "gs://")


class _InlineData(Struct, rename="camel"):
    mime_type: str = ""
    data: str = ""


class _FileData(Struct, rename="camel"):
    file_uri: str = ""
    mime_type: str | None = None


def encode_parts(content: Content) -> list[JsonObject]:
    """Encode content as parts. Parts other than text and images pass through unchanged."""
    if isinstance(content, str):
        return [{"text": content}]
    return [_encode_part(part) for part in content or ()]


def _encode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text)}:
            return {"text": text}
        case {"type": "image_url", "image_url": {"url": str(url)} as image}:
            return _encode_image(url, image.get("format")) or part
        case _:
            return part


def _encode_image(url: str, media_type: str | None) -> JsonObject | None:
    if inline := parse_data_url(url):
        return {"inlineData": {"mimeType": inline.media_type, "data": inline.data}}
    if url.startswith(FILE_SCHEMES):
        return {"fileData": without_none({"mimeType": media_type, "fileUri": url})}
    return None


def decode_parts(parts: list[JsonObject]) -> Content:
    """Decode parts with camel-case names to content. Text alone becomes a string, and an empty list None.

    Raises:
        RequestError: a part has the wrong shape.
    """
    content = [_decode_part(part) for part in parts]
    match content:
        case []:
            return None
        case [{"type": "text", "text": str(text)}]:
            return text
        case _:
            return content


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"text": str(text)}:
            return {"type": "text", "text": text}
        case {"inlineData": inline}:
            return _decode_inline(read_fields(inline, _InlineData)) or part
        case {"fileData": file}:
            return _decode_file(read_fields(file, _FileData)) or part
        case _:
            return part


def _decode_inline(inline: _InlineData) -> JsonObject | None:
    if not inline.mime_type.startswith("image/"):
        return None
    data = inline.data.replace("-", "+").replace("_", "/")  # the vendor's SDK writes URL-safe base64
    return {"type": "image_url", "image_url": {"url": str(DataUrl(inline.mime_type, data))}}


def _decode_file(file: _FileData) -> JsonObject | None:
    if file.mime_type is not None and not file.mime_type.startswith("image/"):
        return None
    return {"type": "image_url", "image_url": without_none({"url": file.file_uri, "format": file.mime_type})}


SKIP_SIGNATURE = "skip_thought_signature_validator"
"""The vendor's documented placeholder for the missing signature of an earlier call."""
_WIRE_ROLES = {"assistant": "model"}


class GeminiContent(Struct):
    """A content. The API also takes one part in place of a list, and one content in place of a list."""

    parts: list[dict[str, Any]] | dict[str, Any] = field(default_factory=list)
    role: str | None = None

    def camel_parts(self) -> list[JsonObject]:
        parts = [self.parts] if isinstance(self.parts, dict) else self.parts
        return [in_camel_case(part) for part in parts]


class FunctionCallShape(Struct):
    name: str = ""
    args: dict[str, Any] | None = None
    id: str | None = None


class _FunctionResponse(Struct):
    name: str = ""
    response: dict[str, Any] | None = None
    id: str | None = None


def encode_system(messages: Sequence[ChatMessage]) -> JsonObject | None:
    """Return all system messages as one system instruction, or None."""
    parts = [part for message in messages if message.role in SYSTEM_ROLES for part in encode_parts(message.content)]
    return {"parts": parts} if parts else None


def encode_contents(messages: Sequence[ChatMessage], *, signed: bool) -> list[JsonObject]:
    """Encode a conversation without system messages and empty messages.

    `signed` means that the model rejects earlier calls without a signature.
    """
    contents: list[JsonObject] = []
    tools: dict[str | None, str] = {}
    for are_results, group in groupby(messages, key=lambda message: message.role == "tool"):
        if are_results:
            contents.append({"role": "user", "parts": [_encode_result(message, tools) for message in group]})
            continue
        for message in group:
            tools |= {call.id: call.function.name for call in message.tool_calls or ()}
            thoughts = [{"text": message.reasoning_content, "thought": True}] if message.reasoning_content else []
            calls = [_encode_signed_call(call) for call in message.tool_calls or ()]
            if signed and calls:
                calls[0].setdefault("thoughtSignature", SKIP_SIGNATURE)
            parts = [*thoughts, *encode_parts(message.content), *calls]
            if parts and message.role not in SYSTEM_ROLES:
                contents.append({"role": _WIRE_ROLES.get(message.role, message.role), "parts": parts})
    return contents


def _encode_signed_call(call: ChatToolCall) -> JsonObject:
    google = call.extra_content and call.extra_content.google
    signature = google.thought_signature if google else None
    return encode_call(call.to_tool_call()) | without_none({"thoughtSignature": signature})


def encode_call(call: ToolCall) -> JsonObject:
    """Return a tool call as a part."""
    return {"functionCall": without_none({"id": call.id, "name": call.tool, "args": arguments_object(call)})}


def _encode_result(message: ChatMessage, tools: dict[str | None, str]) -> JsonObject:
    name = tools.get(message.tool_call_id) or message.name or ""
    result = {"id": message.tool_call_id, "name": name, "response": {"result": message.content}}
    return {"functionResponse": without_none(result)}


def _decode_content(content: GeminiContent, ids: CallIds) -> list[JsonObject]:
    parts = content.camel_parts()
    if content.role == "model":
        return [_decode_model_content(parts, ids)]
    results = [_decode_result(part["functionResponse"], ids) for part in parts if "functionResponse" in part]
    rest = [part for part in parts if "functionResponse" not in part]
    if results and not rest:
        return results
    return [*results, Message(content.role or "user", decode_parts(rest)).to_dict()]


def _decode_model_content(parts: list[JsonObject], ids: CallIds) -> JsonObject:
    thoughts = [part.get("text") for part in parts if part.get("thought")]
    calls = [part for part in parts if "functionCall" in part]
    rest = [part for part in parts if not part.get("thought") and "functionCall" not in part]
    message = Message(
        role="assistant",
        content=decode_parts(rest),
        tool_calls=tuple(_decode_call(part["functionCall"], ids) for part in calls),
        reasoning="".join(text for text in thoughts if isinstance(text, str)) or None,
    ).to_dict()
    for call, part in zip(message.get("tool_calls", ()), calls, strict=True):
        if part.get("thoughtSignature", SKIP_SIGNATURE) != SKIP_SIGNATURE:
            call["extra_content"] = {"google": {"thought_signature": part["thoughtSignature"]}}
    return message


def _decode_call(value: object, ids: CallIds) -> ToolCall:
    call = convert_request(value, FunctionCallShape)
    return ToolCall(call.name, call.args or {}, ids.of_call(call.name, given=call.id))


def _decode_result(value: object, ids: CallIds) -> JsonObject:
    result = convert_request(value, _FunctionResponse)
    call_id = ids.of_result(result.name, given=result.id)
    return {"role": "tool", "tool_call_id": call_id, "content": _unwrap(result.response or {})}


def _unwrap(response: JsonObject) -> str:
    value = response["result"] if list(response) == ["result"] else response
    return value if isinstance(value, str) else orjson.dumps(value).decode()


class _PlainSchema(Struct, rename="camel", forbid_unknown_fields=True):
    """The JSON schemas that `parameters` supports; `parametersJsonSchema` supports any."""

    type: str | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    nullable: bool | None = None
    default: Any = None
    example: Any = None
    enum: list[str] | None = None
    any_of: list["_PlainSchema"] | None = None
    properties: dict[str, "_PlainSchema"] | None = None
    required: list[str] | None = None
    property_ordering: list[str] | None = None
    min_properties: int | None = None
    max_properties: int | None = None
    items: "_PlainSchema | None" = None
    min_items: int | None = None
    max_items: int | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    minimum: float | None = None
    maximum: float | None = None


class _Tool(Struct, rename="camel"):
    function_declarations: list[dict[str, Any]] | None = None


class _FunctionCalling(Struct, rename="camel"):
    mode: str = "AUTO"
    allowed_function_names: list[str] | None = None


def encode_tools(tools: Iterable[JsonObject]) -> list[JsonObject]:
    """Encode all functions as one tool. Other tools pass through unchanged."""
    declarations: list[JsonObject] = []
    others: list[JsonObject] = []
    for tool in tools:
        match tool:
            case {"type": "function", "function": dict(function)}:
                # The vendor rejects `strict`.
                kept = {name: value for name, value in function.items() if name not in ("parameters", "strict")}
                parameters = function.get("parameters")
                name = "parameters" if _is_plain_schema(parameters) else "parametersJsonSchema"
                declarations.append(kept | without_none({name: parameters}))
            case _:
                others.append(tool)
    return [{"functionDeclarations": declarations}, *others] if declarations else others


def _is_plain_schema(schema: object) -> bool:
    try:
        convert(schema, _PlainSchema)
    except msgspec.ValidationError:
        return False
    return True


def _decode_tool(tool: JsonObject) -> list[JsonObject]:
    """Decode each declared function as a separate tool."""
    declarations = read_fields(tool, _Tool).function_declarations
    if declarations is None:
        return [tool]
    rest = {name: value for name, value in in_camel_case(tool).items() if name != "functionDeclarations"}
    return [*map(_decode_function, declarations), *([rest] if rest else [])]


def _decode_function(declaration: JsonObject) -> JsonObject:
    function = in_camel_case(declaration)
    if "parametersJsonSchema" in function:
        function["parameters"] = function.pop("parametersJsonSchema")
    return {"type": "function", "function": function}


def encode_tool_choice(choice: str | JsonObject | None) -> JsonObject:
    """Return the tool config for a choice.

    Raises:
        RequestError: the choice is an object that does not name one function.
    """
    match choice:
        case None:
            return {}
        case str():
            return {"functionCallingConfig": {"mode": "ANY" if choice == "required" else choice.upper()}}
        case {"function": {"name": str(name)}}:
            return {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": [name]}}
        case _:
            hint = '"auto", "none", "required" or {"type": "function", "function": {"name": "…"}}'
            raise RequestError(f"Gemini does not support {choice!r}", source="tool_choice", hint=hint)


def decode_tool_choice(config: JsonObject) -> tuple[str | JsonObject | None, JsonObject]:
    """Return the choice in a tool config, and the rest of the config.

    Raises:
        RequestError: the config has the wrong shape.
    """
    rest = in_camel_case(config)
    calling = rest.pop("functionCallingConfig", None)
    if calling is None:
        return None, rest
    match read_fields(calling, _FunctionCalling):
        case _FunctionCalling(mode="ANY", allowed_function_names=[name]):
            return {"type": "function", "function": {"name": name}}, rest
        case _FunctionCalling(mode=mode, allowed_function_names=None | []):
            return "required" if mode == "ANY" else mode.lower(), rest
        case _:
            return None, dict(config)


_PATH = re.compile(
    r"(?:/v1[a-z0-9]*)?/(?:(?:projects/[^/?]+/locations/[^/?]+/)?publishers/google/)?(?:models/)?"
    r"(?P<model>[^?]*[^?/]):(?P<method>generateContent|streamGenerateContent)(?:\?.*)?"
)
_WANTS_SIGNATURES = re.compile(r"(.*/)?gemini-(?![12][.-])")


class _Limits(Struct, rename="camel"):
    temperature: float | None = None
    max_output_tokens: int | None = None


class _Body(Struct, rename="camel"):
    contents: list[GeminiContent] | GeminiContent
    system_instruction: GeminiContent | None = None
    tools: list[dict[str, Any]] | None = None
    tool_config: dict[str, Any] | None = None
    generation_config: dict[str, Any] | None = None


def encode_request(request: Request) -> WireRequest:
    messages = read_messages(request.messages)
    limits = without_none({"temperature": request.temperature, "maxOutputTokens": request.max_tokens})
    fields: JsonObject = {
        "contents": encode_contents(messages, signed=_WANTS_SIGNATURES.match(request.model) is not None),
        "systemInstruction": encode_system(messages),
        "tools": encode_tools(request.tools) or None,
    }
    merged = {
        "toolConfig": encode_tool_choice(request.tool_choice) | _extra(request, "toolConfig"),
        "generationConfig": limits | _extra(request, "generationConfig"),
    }
    return WireRequest(_path(request), without_none(fields) | dict(request.extra) | _without_empty(merged))


def _path(request: Request) -> str:
    model = request.model if "/" in request.model else f"models/{request.model}"
    return f"/{model}:streamGenerateContent?alt=sse" if request.stream else f"/{model}:generateContent"


def _extra(request: Request, name: str) -> JsonObject:
    return convert_request(request.extra.get(name) or {}, dict[str, Any])


def decode_request(wire: WireRequest) -> Request:
    path = _PATH.fullmatch(wire.path)
    if path is None:
        raise RequestError(
            f"{wire.path!r} does not name a model", source="path", hint="/models/{model}:generateContent"
        )
    body = read_fields(wire.body, _Body)
    config = in_camel_case(body.generation_config or {})
    limits = convert_request(config, _Limits)
    tool_choice, tool_config = decode_tool_choice(body.tool_config or {})
    ids = CallIds()  # numbers the calls that have none
    contents = [body.contents] if isinstance(body.contents, GeminiContent) else body.contents
    said = (message for content in contents for message in _decode_content(content, ids))
    return Request(
        messages=(*_system(body.system_instruction), *said),
        model=path["model"],
        temperature=limits.temperature,
        max_tokens=limits.max_output_tokens,
        tools=tuple(decoded for tool in body.tools or () for decoded in _decode_tool(tool)),
        tool_choice=tool_choice,
        extra=undeclared_fields(in_camel_case(wire.body), _Body)
        | _without_empty({"toolConfig": tool_config, "generationConfig": undeclared_fields(config, _Limits)}),
        stream=path["method"] == "streamGenerateContent",
    )


def _system(instruction: GeminiContent | None) -> list[JsonObject]:
    return [] if instruction is None else [Message("system", decode_parts(instruction.camel_parts())).to_dict()]


def _without_empty(fields: JsonObject) -> JsonObject:
    return {name: value for name, value in fields.items() if value}


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
        """The vendor's finish reason, if the response has ended. A blocked prompt also ends it."""
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
            deltas.append(_call_delta(part.function_call, calls_before))
            calls_before += 1
    return deltas


def _call_delta(call: FunctionCallShape, index: int) -> ToolCallDelta:
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


class GeminiStreamDecoder(FramedStreamDecoder[ServerSentEvent]):
    """Decodes frames, each a partial response. A frame with a finish reason completes the stream."""

    def __init__(self) -> None:
        super().__init__(SseDecoder())
        self._rest = Response()
        self._calls = 0
        self._ending: str | None = None

    def _end(self) -> Response:
        if self._ending is None:
            raise incomplete_stream_error()
        return with_finish_reason(self._joined.join(self._rest), self._ending)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        answer = decode_answer(event.data, GenerateContentResponse)
        if answer.error is not None:
            raise stream_error(answer.error.get("message") or shorten(event.data), raw=event.data)
        self._ending = answer.end or self._ending
        self._rest = Response(
            model=self._rest.model or answer.model_version,
            usage=self._rest.usage if answer.usage_metadata is None else decode_usage(answer.usage_metadata),
        )
        deltas = decode_deltas(answer.parts, calls_before=self._calls)
        self._calls += sum(isinstance(delta, ToolCallDelta) for delta in deltas)
        return deltas


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode the deltas as frames. Tool calls are sent whole, after the text."""
    calls = Accumulator()
    for delta in deltas:
        match delta:
            case TextDelta(text):
                yield _frame(response, text_part(text), id)
            case ReasoningDelta(text):
                yield _frame(response, thought_part(text), id)
            case ToolCallDelta():
                calls.add(delta)
    for call in calls.join(response).tool_calls:
        yield _frame(response, encode_call(call), id)
    end = encode_candidate(response, [text_part("")], id=id) | {"usageMetadata": encode_usage(response.usage)}
    yield encode_sse_event(orjson.dumps(end))


def _frame(response: Response, part: JsonObject, id: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_candidate(response, [part], id=id, is_last=False)))


def encode_stream_error(message: str) -> bytes:
    return encode_sse_event(orjson.dumps(encode_error(500, message)))


def auth_headers(api_key: str) -> dict[str, str]:
    return {"x-goog-api-key": api_key} if api_key else {}


CODEC = Codec(
    name="gemini",
    stream_type="text/event-stream",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=GeminiStreamDecoder,
    encode_error=encode_error,
    auth_headers=auth_headers,
)
"""The `:generateContent` and `:streamGenerateContent` protocol."""
