"""The values between an agent and a model: messages, tool calls and results, requests, responses, streams, replies."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Set, ValuesView
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import msgspec
import orjson
from msgspec import Struct, field
from msgspec.structs import force_setattr, replace

from offbook.errors import ProviderConnectionError, RequestError, ToolFaultError

JsonObject: TypeAlias = dict[str, Any]
Content: TypeAlias = str | list[JsonObject] | None


def json_text(value: Any) -> str:
    """Return a JSON value as compact text. Unlike orjson, it writes integers beyond 64 bits."""
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        if "64-bit" not in str(error):
            raise
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class ToolCall(Struct, frozen=True):
    """A tool call that a model requests.

    `raw_arguments` is set only if the model wrote arguments that are not a JSON object; `args` is then empty.
    `error` is set only by a fault: dispatching the call must then fail with it.
    """

    tool: str
    args: JsonObject = field(default_factory=dict)
    id: str | None = None
    reasoning: str | None = None
    raw_arguments: str | None = None
    error: str | None = None

    @classmethod
    def parse(cls, tool: str, arguments: str, *, id: str | None = None) -> ToolCall:
        """Return the call with these arguments. Text that is not a JSON object becomes `raw_arguments`."""
        if not arguments.strip():
            return cls(tool, id=id)
        try:
            args = orjson.loads(arguments)
        except orjson.JSONDecodeError:
            args = None
        if isinstance(args, dict):
            return cls(tool, args, id)
        return cls(tool, id=id, raw_arguments=arguments)

    @property
    def arguments(self) -> str:
        """The arguments as JSON text, as sent."""
        return json_text(self.args) if self.raw_arguments is None else self.raw_arguments

    def raise_for_fault(self) -> None:
        """Raise the error of an injected fault. Code that runs tools calls this where the tool itself could raise.

        Raises:
            ToolFaultError: a fault set `error`.
        """
        if self.error is not None:
            raise ToolFaultError(self.error, tool=self.tool)


def made_tool_calls(messages: Sequence[JsonObject]) -> Iterator[tuple[JsonObject, JsonObject]]:
    """Yield each well-formed tool call of a conversation with its function."""
    for message in messages:
        made = message.get("tool_calls")
        for call in made if isinstance(made, list | tuple) else ():
            if isinstance(call, dict) and isinstance(function := call.get("function"), dict):
                yield call, function


def tool_results(messages: Sequence[JsonObject]) -> Iterator[tuple[str, JsonObject]]:
    """Yield each result of a tool in a conversation, after the name of its tool; empty if no call has its id."""
    names = {str(call.get("id")): str(function.get("name")) for call, function in made_tool_calls(messages)}
    for message in messages:
        if message.get("role") == "tool":
            yield names.get(str(message.get("tool_call_id")), ""), message


class Message(Struct, frozen=True):
    """One message of a conversation. Content is text or a list of parts, which pass through unchanged."""

    role: str
    content: Content = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None

    def to_dict(self) -> JsonObject:
        """Return the message as a plain dict in the OpenAI chat format."""
        message: JsonObject = {"role": self.role, "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.tool, "arguments": call.arguments}}
                for call in self.tool_calls
            ]
        optional = {"tool_call_id": self.tool_call_id, "name": self.name, "reasoning_content": self.reasoning}
        return message | {name: value for name, value in optional.items() if value is not None}


NO_EXTRA: Mapping[str, Any] = MappingProxyType({})


class Request(Struct, frozen=True):
    """A request to a model.

    Messages and tools are plain dicts in the OpenAI chat format. `extra` holds parameters of the protocol without a
    field here, and is merged into the body unchanged. The fields from `stream` on are not part of the fingerprint:
    `call` is the number of the call within its step, from 1 (0 if calls are not counted), and `attempt` the number of
    the attempt within the call.
    """

    messages: tuple[JsonObject, ...]
    model: str
    temperature: float | None = None
    max_tokens: int | None = None
    tools: tuple[JsonObject, ...] = ()
    tool_choice: str | JsonObject | None = None
    extra: Mapping[str, Any] = NO_EXTRA
    stream: bool = False
    step_id: str | None = None
    attempt: int = 1
    call: int = 0
    workflow: str = ""


def plain_messages(messages: Sequence[JsonObject | Message]) -> tuple[JsonObject, ...]:
    """Return the messages as plain dicts.

    Raises:
        RequestError: `messages` is not a sequence of dicts with a role, or of Message.
    """
    if type(messages) is list:
        for message in messages:
            if type(message) is not dict or "role" not in message:
                break
        else:
            return tuple(messages)
    if isinstance(messages, str | bytes | Mapping) or not isinstance(messages, Iterable):
        raise RequestError("messages must be a list of dicts or Message", hint='[{"role": "user", "content": "Hi"}]')
    return tuple(_plain_message(message, index) for index, message in enumerate(messages))


def _plain_message(message: object, index: int) -> JsonObject:
    if isinstance(message, Message):
        return message.to_dict()
    if not isinstance(message, Mapping):
        raise RequestError(f"expected a dict or Message, got {type(message).__name__}", place=f"messages[{index}]")
    if "role" not in message:
        raise RequestError("the message has no role", place=f"messages[{index}]")
    return dict(message)


class Usage(Struct, frozen=True):
    """Tokens counted by the provider. `cached_tokens` are part of the prompt, `reasoning_tokens` of the completion.

    A `total_tokens` that is missing, or zero next to other counts, is the sum of prompt and completion.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        if not self.total_tokens:
            force_setattr(self, "total_tokens", self.prompt_tokens + self.completion_tokens)

    @classmethod
    def of(
        cls, prompt: int, completion: int, *, total: int | None = None, cached: int = 0, reasoning: int = 0
    ) -> Usage:
        """Return usage whose total is by default the sum of prompt and completion."""
        return cls(prompt, completion, total or 0, cached, reasoning)


class Response(Struct, frozen=True):
    """The complete response of a model.

    `finish_reason` is `stop`, `length`, `tool_calls`, `content_filter`, or another value of the provider.
    """

    content: str = ""
    model: str = ""
    provider: str = ""
    usage: Usage = Usage()
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    finish_reason: str | None = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str | None = None

    def to_message(self) -> Message:
        """Return the assistant message that continues the conversation."""
        return Message(
            role="assistant", content=self.content or None, tool_calls=self.tool_calls, reasoning=self.reasoning
        )


class TextDelta(Struct, frozen=True):
    """A piece of the response's text."""

    text: str


class ReasoningDelta(Struct, frozen=True):
    """A piece of the model's reasoning."""

    text: str


class ToolCallDelta(Struct, frozen=True):
    """A piece of a tool call. The first piece of each `index` carries `id` and `tool`; `arguments` is JSON text."""

    index: int
    arguments: str = ""
    id: str | None = None
    tool: str | None = None


class StreamEnd(Struct, frozen=True):
    """The last event of every stream that did not break: the complete response."""

    response: Response


class StreamRestart(Struct, frozen=True):
    """The stream broke and starts over: discard all events so far."""

    reason: str


StreamDelta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
StreamEvent: TypeAlias = StreamDelta | StreamRestart | StreamEnd


class Accumulator:
    """Joins stream deltas into a response."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, list[ToolCallDelta]] = {}

    def add(self, delta: StreamDelta) -> None:
        match delta:
            case TextDelta(text):
                self._text.append(text)
            case ReasoningDelta(text):
                self._reasoning.append(text)
            case ToolCallDelta(index):
                self._calls.setdefault(index, []).append(delta)

    def join(self, rest: Response) -> Response:
        """Return `rest` with the content, reasoning and tool calls of all deltas."""
        return replace(
            rest,
            content="".join(self._text),
            reasoning="".join(self._reasoning) or None,
            tool_calls=tuple(_join_call(self._calls[index]) for index in sorted(self._calls)),
        )


def _join_call(pieces: list[ToolCallDelta]) -> ToolCall:
    tool = next((piece.tool for piece in pieces if piece.tool is not None), "")
    call_id = next((piece.id for piece in pieces if piece.id is not None), None)
    return ToolCall.parse(tool, "".join(piece.arguments for piece in pieces), id=call_id)


def deltas_of(response: Response) -> list[StreamDelta]:
    """Return the response as deltas: one for its reasoning, one for its text and one for each tool call."""
    deltas: list[StreamDelta] = []
    if response.reasoning:
        deltas.append(ReasoningDelta(response.reasoning))
    if response.content:
        deltas.append(TextDelta(response.content))
    for index, call in enumerate(response.tool_calls):
        deltas.append(ToolCallDelta(index, call.arguments, call.id, call.tool))
    return deltas


def incomplete_stream_error() -> ProviderConnectionError:
    """Return the error of a stream that ends without its last event."""
    return ProviderConnectionError("the stream ended before its last event")


class Reply(ABC):
    """A response that may still be arriving: iterate over its events, or `collect()` the whole response."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    @abstractmethod
    async def collect(self) -> Response:
        """Return the complete response. Raises the error that broke the stream, if any."""

    async def aclose(self) -> None:
        """Release the reply's resources. Safe to call at any time."""


class WholeReply(Reply):
    """A reply that has already arrived."""

    __slots__ = ("response",)

    def __init__(self, response: Response) -> None:
        self.response = response

    async def __aiter__(self) -> AsyncIterator[StreamEvent]:
        for delta in deltas_of(self.response):
            yield delta
        yield StreamEnd(self.response)

    async def collect(self) -> Response:
        return self.response


class Closable(Protocol):
    """A resource of a reply, such as another reply or a connection."""

    async def aclose(self) -> None: ...


class StreamedReply(Reply):
    """A reply whose events arrive one by one. They can be read once.

    Closing the reply also closes `source`, the origin of the events, even if reading never began.
    """

    def __init__(self, events: AsyncIterator[StreamEvent], *, source: Closable | None = None) -> None:
        self._events, self._source = events, source

    def __aiter__(self) -> AsyncIterator[StreamEvent]:
        return self._events

    async def collect(self) -> Response:
        response: Response | None = None
        async for event in self._events:
            if isinstance(event, StreamEnd):
                response = event.response
        if response is None:
            raise incomplete_stream_error()
        return response

    async def aclose(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()
        if self._source is not None:
            await self._source.aclose()


_MEMORY_ADDRESS = re.compile(r"(?: object)? at 0x[0-9a-fA-F]+(?=>)")


def result_text(value: object) -> str:
    """Return text unchanged, and everything else as JSON.

    Dates, enums, dataclasses, Structs and pydantic models have their usual JSON, sets are sorted, and JSON that is only
    a string has no quotes around it. Bytes are described by their length, and objects without JSON by `str`, without
    their memory address. Never raises.
    """
    if isinstance(value, str):
        return str.__str__(value)
    try:
        encoded = orjson.dumps(value, default=_plain_value, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        return plain_str(value)
    return str(orjson.loads(encoded)) if encoded.startswith(b'"') else encoded.decode()


def plain_str(value: object) -> str:
    """Return the value by `str` without addresses in memory, or its type if that fails."""
    try:
        return _MEMORY_ADDRESS.sub("", str(value))
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _plain_value(value: Any) -> object:
    """Convert a value of a type unknown to orjson to one that it knows."""
    if isinstance(value, Struct):
        return orjson.Fragment(msgspec.json.encode(value, enc_hook=_plain_value))
    if hasattr(type(value), "model_dump_json"):
        return orjson.Fragment(value.model_dump_json())
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, Set):
        return _sorted_values(value)
    return list(value) if isinstance(value, Sequence | ValuesView) else plain_str(value)


def _sorted_values(values: Set[Any]) -> list[object]:
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=result_text)
