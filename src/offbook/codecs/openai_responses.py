"""OpenAI responses: requests as items, whole and streamed responses, usage and errors."""

from collections.abc import Generator, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import orjson
from msgspec import Raw, Struct, field

from offbook.codecs.base import (
    NO_ID,
    Codec,
    FramedStreamDecoder,
    WireRequest,
    content_blocks,
    convert_request,
    decode_answer,
    stream_error,
    undeclared_fields,
    without_none,
)
from offbook.codecs.chat_message import CalledTool
from offbook.codecs.framing import ServerSentEvent, SseDecoder, encode_sse_event
from offbook.codecs.openai_chat import OpenAIUsage, TokenDetails, decode_usage, encode_error
from offbook.errors import ProviderError
from offbook.messages import (
    Content,
    JsonObject,
    ReasoningDelta,
    Request,
    Response,
    StreamDelta,
    TextDelta,
    ToolCall,
    ToolCallDelta,
    Usage,
    deltas_of,
    incomplete_stream_error,
)
from offbook.text import shorten

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
        """Return the text of a message, including a refusal, or "" for other items."""
        parts = (self.content or ()) if self.type == "message" else ()
        return "".join(part.text or part.refusal or "" for part in parts)

    def reasoning(self) -> str:
        """Return reasoning text: the summary, and the content if the model shows it. Other items give ""."""
        parts = (*(self.summary or ()), *(self.content or ())) if self.type == "reasoning" else ()
        return PARAGRAPH.join(part.text for part in parts if part.text)

    def to_tool_call(self) -> ToolCall:
        return ToolCall.parse(self.name or "", self.arguments or "", id=self.call_id)


def read_item(data: Raw) -> OutputItem:
    """Decode an item. Only the type of an unknown kind is kept, such as a search on the vendor's servers."""
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
    """Return the completed item, with its message text, reasoning or call arguments."""
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
    """The usage of chat completions under this API's names."""

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


def encode_content(content: Content, *, text_type: str = "input_text") -> str | list[JsonObject]:
    """Encode content. `text_type` is the type of text parts: `output_text` for the model's own messages."""
    if isinstance(content, list):
        return [_encode_part(part, text_type) for part in content]
    return "" if content is None else content


def decode_content(content: str | list[JsonObject]) -> str | list[JsonObject]:
    """Decode content to the OpenAI chat format. A single plain text part becomes a string."""
    if isinstance(content, str):
        return content
    parts = [_decode_part(part) for part in content]
    if len(parts) == 1 and parts[0].keys() == {"type", "text"}:
        return str(parts[0]["text"])
    return parts


def _encode_part(part: JsonObject, text_type: str) -> JsonObject:
    match part:
        case {"type": "text", "text": str(text), **rest}:
            return {"type": text_type, "text": text, **rest}
        case {"type": "image_url", "image_url": {"url": str(url)} as image, **rest}:
            detail = {name: value for name, value in image.items() if name != "url"}
            return {"type": "input_image", "image_url": url, **detail, **rest}
        case {"type": "file", "file": dict(file), **rest}:
            return {"type": "input_file", **file, **rest}
    return part


def _decode_part(part: JsonObject) -> JsonObject:
    match part:
        case {"type": "input_text" | "output_text", "text": str(text), **rest}:
            return {"type": "text", "text": text, **_without_empty(rest)}
        case {"type": "input_image", "image_url": str(url), **image}:
            return {"type": "image_url", "image_url": {"url": url, **_without_empty(image)}}
        case {"type": "input_file", **file}:
            return {"type": "file", "file": _without_empty(file)}
    return part


def _without_empty(fields: JsonObject) -> JsonObject:
    """Drop fields that are None or empty lists, such as `annotations` of a response that a client sends back."""
    return {name: value for name, value in fields.items() if value is not None and value != []}


ITEM_ROLE = "item"
"""The role of a message that consists of one item unknown to the OpenAI chat format."""
REASONING_ITEMS = "reasoning_items"
"""The field of an assistant message for its preceding reasoning items, which only this API reads."""
_OWN_FIELDS = ("async", "caller", "namespace", "phase")


class _Message(Struct):
    role: str
    content: str | list[dict[str, Any]]


class _FunctionCall(Struct):
    call_id: str
    name: str
    arguments: str


class _FunctionCallOutput(Struct):
    call_id: str
    output: str | list[dict[str, Any]]


def encode_conversation(messages: Sequence[JsonObject]) -> tuple[str | None, list[JsonObject]]:
    """Return the leading system message as instructions, and the remaining messages as items.

    `reasoning_content` is omitted: the API accepts only its own reasoning items.
    """
    match messages:
        case [{"role": "system", "content": str(instructions)}, *rest]:
            return instructions, _encode_messages(rest)
    return None, _encode_messages(messages)


def decode_conversation(instructions: str | None, items: str | Iterable[JsonObject]) -> list[JsonObject]:
    """Decode a conversation to the OpenAI chat format.

    Raises:
        RequestError: an item lacks a required field.
    """
    messages: list[JsonObject] = [] if instructions is None else [{"role": "system", "content": instructions}]
    if isinstance(items, str):
        return [*messages, {"role": "user", "content": items}]
    turn = _AssistantTurn()
    for item in items:
        if not turn.add(item):
            messages += turn.end()
            turn = _AssistantTurn()
            if not turn.add(item):
                messages.append(_decode_other(item))
    return messages + turn.end()


class _AssistantTurn:
    """Collects the items that make up one assistant message: reasoning, then text, then calls."""

    def __init__(self) -> None:
        self._message: JsonObject = {}
        self._calls: list[JsonObject] = []
        self._reasoning: list[JsonObject] = []

    def add(self, item: JsonObject) -> bool:
        """Add the item if it belongs to this turn. Return whether it does."""
        match item:
            case {"type": "function_call"}:
                read = convert_request(item, _FunctionCall)
                function = {"name": read.name, "arguments": read.arguments}
                self._calls.append({"id": read.call_id, "type": "function", "function": function} | _own_fields(item))
            case {"type": "reasoning"} if not self._message and not self._calls:
                self._reasoning.append(item)
            case {"role": "assistant"} if not self._message and not self._calls:
                self._message = _decode_message(item)
            case _:
                return False
        return True

    def end(self) -> list[JsonObject]:
        """Return the message, if the turn has any content."""
        fields = {
            "tool_calls": self._calls,
            "reasoning_content": "".join(convert_request(item, OutputItem).reasoning() for item in self._reasoning),
            REASONING_ITEMS: self._reasoning,
        }
        filled = {name: value for name, value in fields.items() if value}
        return [{"role": "assistant", "content": None} | self._message | filled] if self._message or filled else []


def _encode_messages(messages: Iterable[JsonObject]) -> list[JsonObject]:
    return [item for message in messages for item in _encode_message(message)]


def _encode_message(message: JsonObject) -> list[JsonObject]:
    role, content, calls = message.get("role"), message.get("content"), message.get("tool_calls") or ()
    if role == ITEM_ROLE and isinstance(content, list):
        return content
    if role == "tool":
        item = {"type": "function_call_output", "call_id": message.get("tool_call_id")}
        return [item | {"output": encode_content(message.get("content"))} | _own_fields(message)]
    spoken: list[JsonObject] = []
    if content or not (calls or message.get(REASONING_ITEMS)):
        text_type = "output_text" if role == "assistant" else "input_text"
        spoken = [{"role": role, "content": encode_content(content, text_type=text_type)} | _own_fields(message)]
    return [*(message.get(REASONING_ITEMS) or ()), *spoken, *(_encode_call(call) for call in calls)]


def _encode_call(call: JsonObject) -> JsonObject:
    read = convert_request(call, CalledTool)
    arguments = read.function.arguments
    text = arguments if isinstance(arguments, str) else orjson.dumps(arguments).decode()
    item = {"type": "function_call", "call_id": read.id, "name": read.function.name, "arguments": text}
    return item | _own_fields(call)


def _decode_other(item: JsonObject) -> JsonObject:
    """Decode an item outside an assistant turn."""
    match item.get("type", "message"):
        case "message" if item.keys() != {"id"}:  # that is a reference
            return _decode_message(item)
        case "function_call_output" if item.get("call_id") is not None:
            read = convert_request(item, _FunctionCallOutput)
            message = {"role": "tool", "tool_call_id": read.call_id, "content": decode_content(read.output)}
            return message | _own_fields(item)
    return {"role": ITEM_ROLE, "content": [item]}


def _decode_message(item: JsonObject) -> JsonObject:
    read = convert_request(item, _Message)
    return {"role": read.role, "content": decode_content(read.content)} | _own_fields(item)


def _own_fields(carrier: JsonObject) -> JsonObject:
    """Return the fields that only this API knows. They stay on the message in the OpenAI chat format."""
    return {name: carrier[name] for name in _OWN_FIELDS if carrier.get(name) is not None}


_FUNCTION_FIELDS = ("name", "description", "parameters", "strict")
_DEFAULTS = {"parameters": None, "strict": False}
"""The defaults of a function: unlike chat completions, this API treats an omitted `strict` as true."""


class _ChatTool(Struct):
    function: dict[str, Any]


class _FunctionTool(Struct):
    name: str


def encode_tool(tool: JsonObject) -> JsonObject:
    """Encode a function tool with its extra fields. Other tools pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    function = convert_request(tool, _ChatTool).function
    return _DEFAULTS | function | {name: value for name, value in tool.items() if name != "function"}


def decode_tool(tool: JsonObject) -> JsonObject:
    """Decode a function tool. Tools that run on the vendor's servers pass through unchanged."""
    if tool.get("type") != "function":
        return tool
    convert_request(tool, _FunctionTool)
    fields = {"strict": None} | tool
    given = {name: value for name, value in fields.items() if name not in _DEFAULTS or value is not _DEFAULTS[name]}
    function = {name: value for name, value in given.items() if name in _FUNCTION_FIELDS}
    return {name: value for name, value in given.items() if name not in function} | {"function": function}


def encode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    match choice:
        case {"type": "function", "function": {"name": name}}:
            return {"type": "function", "name": name}
    return choice


def decode_choice(choice: str | JsonObject | None) -> str | JsonObject | None:
    """Decode a choice to the OpenAI chat format. A choice unknown to that format passes through unchanged."""
    match choice:
        case {"type": "function", "name": name}:
            return {"type": "function", "function": {"name": name}}
    return choice


PATH = "/responses"


class _Body(Struct):
    """A request body. A `prompt` or `conversation` on the vendor's servers may hold further content."""

    input: str | list[dict[str, Any]] | None = None
    model: str = ""
    instructions: str | None = None
    temperature: float | None = None
    max_output_tokens: int | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    stream: bool | None = None


def encode_request(request: Request) -> WireRequest:
    instructions, items = encode_conversation(request.messages)
    fields: JsonObject = {
        "model": request.model,
        "instructions": instructions,
        "input": items,
        "temperature": request.temperature,
        "max_output_tokens": request.max_tokens,
        "tools": [encode_tool(tool) for tool in request.tools] or None,
        "tool_choice": encode_choice(request.tool_choice),
        "stream": True if request.stream else None,
    }
    return WireRequest(PATH, without_none(fields) | dict(request.extra))


def decode_request(wire: WireRequest) -> Request:
    """Decode a request. References to server state, such as `previous_response_id`, stay in `extra`."""
    body = convert_request(wire.body, _Body)
    return Request(
        messages=tuple(decode_conversation(body.instructions, body.input or [])),
        model=body.model,
        temperature=body.temperature,
        max_tokens=body.max_output_tokens,
        tools=tuple(decode_tool(tool) for tool in body.tools or ()),
        tool_choice=decode_choice(body.tool_choice),
        extra=undeclared_fields(wire.body, _Body),
        stream=bool(body.stream),
    )


class _TypedEvent(Struct):
    type: str = ""
    error: ErrorShape | str | None = None


class _ItemEvent(Struct):
    output_index: int
    item: Raw


class _DeltaEvent(Struct):
    output_index: int
    delta: str


class _SummaryPartEvent(Struct):
    output_index: int
    summary_index: int


class _EndEvent(Struct):
    response: ResponseStatus


class _ErrorEvent(_TypedEvent):
    """An error event. Servers put the message in different places."""

    message: str | None = None
    response: ResponseStatus | None = None

    def reason(self) -> str | None:
        errors = (self.message, self.error, self.response and self.response.error)
        texts = (error.message if isinstance(error, ErrorShape) else error for error in errors)
        return next((text for text in texts if text), None)


class OpenAIResponsesStreamDecoder(FramedStreamDecoder[ServerSentEvent]):
    """Decodes response events. A stream is complete after `response.completed` or `response.incomplete`."""

    def __init__(self) -> None:
        super().__init__(SseDecoder())
        self._call_of_item: dict[int, int] = {}
        self._streamed: set[int] = set()
        self._outcome: ResponseStatus | None = None

    def _end(self) -> Response:
        outcome = self._outcome
        if outcome is None:
            raise incomplete_stream_error()
        finish_reason = outcome.finish_reason(has_calls=bool(self._call_of_item))
        rest = Response(model=outcome.model, usage=decode_usage(outcome.usage), finish_reason=finish_reason)
        return self._joined.join(rest)

    def _read(self, event: ServerSentEvent) -> list[StreamDelta]:
        typed = _TypedEvent() if self._outcome is not None else decode_answer(event.data, _TypedEvent)
        match typed.type:
            case "response.output_item.added":
                return self._open(decode_answer(event.data, _ItemEvent))
            case "response.output_item.done":
                return self._finish(decode_answer(event.data, _ItemEvent))
            case "response.reasoning_summary_part.added":
                return self._start_part(decode_answer(event.data, _SummaryPartEvent))
            case "response.completed" | "response.incomplete":
                self._outcome = _read_end(event)
            case "response.failed" | "error":
                raise _reported_error(event)
            case "" if typed.error is not None:
                raise _reported_error(event)
            case kind if kind.endswith(".delta"):
                return self._continue(kind, event.data)
        return []

    def _start_part(self, part: _SummaryPartEvent) -> list[StreamDelta]:
        return [ReasoningDelta(PARAGRAPH)] if part.summary_index and part.output_index in self._streamed else []

    def _open(self, event: _ItemEvent) -> list[StreamDelta]:
        """Start a call. Any other content of the item arrives again later, in pieces or at its end."""
        item = read_item(event.item)
        if item.type != "function_call" or event.output_index in self._call_of_item:
            return []
        call_index = self._call_of_item[event.output_index] = len(self._call_of_item)
        return [ToolCallDelta(call_index, "", item.call_id, item.name)]

    def _continue(self, kind: str, data: str) -> list[StreamDelta]:
        match kind:
            case "response.output_text.delta" | "response.refusal.delta":
                return [TextDelta(self._piece(data).delta)]
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return [ReasoningDelta(self._piece(data).delta)]
            case "response.function_call_arguments.delta":
                piece = decode_answer(data, _DeltaEvent)
                call_index = self._call_of_item.get(piece.output_index)
                if call_index is None:  # an unannounced call is sent whole with the end of its item
                    return []
                self._streamed.add(piece.output_index)
                return [ToolCallDelta(call_index, piece.delta)]
        return []

    def _piece(self, data: str) -> _DeltaEvent:
        piece = decode_answer(data, _DeltaEvent)
        self._streamed.add(piece.output_index)
        return piece

    def _finish(self, event: _ItemEvent) -> list[StreamDelta]:
        """Return the content of the item, if the server sent it whole instead of in pieces."""
        if event.output_index in self._streamed:
            return []
        item, deltas = read_item(event.item), self._open(event)
        if reasoning := item.reasoning():
            deltas.append(ReasoningDelta(reasoning))
        if text := item.text():
            deltas.append(TextDelta(text))
        if item.type == "function_call" and item.arguments:
            deltas.append(ToolCallDelta(self._call_of_item[event.output_index], item.arguments))
        return deltas


def _read_end(event: ServerSentEvent) -> ResponseStatus:
    """Return the event's outcome. Raises ProviderError for a failure, whatever the event's name."""
    outcome = decode_answer(event.data, _EndEvent).response
    if outcome.status == "failed":
        raise _reported_error(event)
    return outcome


def _reported_error(event: ServerSentEvent) -> ProviderError:
    return stream_error(decode_answer(event.data, _ErrorEvent).reason() or shorten(event.data), raw=event.data)


def encode_stream(response: Response, deltas: Iterable[StreamDelta], *, id: str = NO_ID) -> Iterator[bytes]:
    """Encode a response's events, each delta in an item of its kind. The pieces of a tool call must be adjacent."""
    for number, event in enumerate(_events(response, deltas, id)):
        yield encode_sse_event(orjson.dumps(event | {"sequence_number": number}), event["type"])


def _events(response: Response, deltas: Iterable[StreamDelta], id: str) -> Iterator[JsonObject]:
    yield {"type": "response.created", "response": response_envelope(response, id)}
    yield {"type": "response.in_progress", "response": response_envelope(response, id)}
    output: list[JsonObject] = []
    for index, pieces in enumerate(content_blocks(deltas)):
        output.append((yield from _item_events(index, pieces, id)))
    end = finished_response(response, output, id)
    kind = "response.incomplete" if end["status"] == "incomplete" else "response.completed"
    yield {"type": kind, "response": end}


def _item_events(index: int, pieces: Iterator[StreamDelta], id: str) -> Generator[JsonObject, None, JsonObject]:
    """Yield the events of one item, and return the finished item."""
    first = next(pieces)
    started, text = started_item(index, first, id), ""
    place = {"item_id": started["id"], "output_index": index} | _part_place(first)
    yield {"type": "response.output_item.added", "output_index": index, "item": started}
    match first:
        case TextDelta():
            yield {"type": "response.content_part.added", **place, "part": text_part("")}
        case ReasoningDelta():
            yield {"type": "response.reasoning_summary_part.added", **place, "part": summary_part("")}
    for delta in chain([first], pieces):
        text += delta_text(delta)
        yield _delta_event(delta, place)
    yield from _part_done(first, place, text)
    finished = finished_item(index, first, text, id)
    yield {"type": "response.output_item.done", "output_index": index, "item": finished}
    return finished


def _part_place(first: StreamDelta) -> JsonObject:
    match first:
        case TextDelta():
            return {"content_index": 0}
        case ReasoningDelta():
            return {"summary_index": 0}
        case ToolCallDelta():
            return {}


def _delta_event(delta: StreamDelta, place: JsonObject) -> JsonObject:
    match delta:
        case TextDelta(text):
            return {"type": "response.output_text.delta", **place, "delta": text, "logprobs": []}
        case ReasoningDelta(text):
            return {"type": "response.reasoning_summary_text.delta", **place, "delta": text}
        case ToolCallDelta(_, arguments):
            return {"type": "response.function_call_arguments.delta", **place, "delta": arguments}


def _part_done(first: StreamDelta, place: JsonObject, text: str) -> Iterator[JsonObject]:
    match first:
        case TextDelta():
            yield {"type": "response.output_text.done", **place, "text": text, "logprobs": []}
            yield {"type": "response.content_part.done", **place, "part": text_part(text)}
        case ReasoningDelta():
            yield {"type": "response.reasoning_summary_text.done", **place, "text": text}
            yield {"type": "response.reasoning_summary_part.done", **place, "part": summary_part(text)}
        case ToolCallDelta(_, _, _, tool):
            done = {"name": tool or "", "arguments": text}
            yield {"type": "response.function_call_arguments.done", **place, **done}


def encode_stream_error(message: str) -> bytes:
    """Encode an error event. Its sequence number is unknown here, and clients ignore it."""
    error = {"type": "server_error", "code": "server_error", "message": message, "param": None}
    return encode_sse_event(orjson.dumps({"type": "error", "sequence_number": 0, "error": error}), "error")


CODEC = Codec(
    name="openai_responses",
    stream_type="text/event-stream; charset=utf-8",
    encode_request=encode_request,
    decode_request=decode_request,
    encode_response=encode_response,
    decode_response=decode_response,
    encode_stream=encode_stream,
    encode_stream_error=encode_stream_error,
    stream_decoder=OpenAIResponsesStreamDecoder,
    encode_error=encode_error,
)
"""The `/responses` protocol, with the error bodies of chat completions."""
