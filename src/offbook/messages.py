"""The values between an agent and a model: messages, tool calls, requests, responses, stream events, replies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

import orjson
from msgspec import Struct, field
from msgspec.structs import replace

from offbook.errors import ProviderConnectionError, RequestError, ToolFaultError

JsonObject: TypeAlias = dict[str, Any]
Content: TypeAlias = str | list[JsonObject] | None


class ToolCall(Struct, frozen=True):
    """A model's wish to have a tool run.

    `raw_arguments` is set only when the model wrote arguments that are not a JSON object; `args` is
    then empty. `error` is set only by a fault: dispatching the call must then fail with it.
    """

    tool: str
    args: JsonObject = field(default_factory=dict)
    id: str | None = None
    reasoning: str | None = None
    raw_arguments: str | None = None
    error: str | None = None

    @classmethod
    def parse(cls, tool: str, arguments: str, *, id: str | None = None) -> ToolCall:
        """A call from arguments as JSON text; text that is no JSON object is kept as `raw_arguments`."""
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
        """The arguments as JSON text, as they go over the wire."""
        return orjson.dumps(self.args).decode() if self.raw_arguments is None else self.raw_arguments

    def raise_for_fault(self) -> None:
        """Fail as a fault demands. Whoever runs tools calls this where the tool itself could raise.

        Raises:
            ToolFaultError: a fault set `error`.
        """
        if self.error is not None:
            raise ToolFaultError(self.error, tool=self.tool)


class Message(Struct, frozen=True):
    """One message of a conversation. Content is text or a list of parts, which are never looked into."""

    role: str
    content: Content = None
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    reasoning: str | None = None

    def to_dict(self) -> JsonObject:
        """This message as a plain dict in the OpenAI chat shape."""
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
    """What is asked of a model.

    Messages and tools are plain dicts in the OpenAI chat shape. `extra` holds parameters of the
    protocol that have no field here and goes into the body as it is. The other fields say who asks
    and how, and are no part of the fingerprint: `call` is which call of its step this is, from 1 (0
    where nobody counts), and `attempt` which try of that call.
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
    """The messages as plain dicts.

    Raises:
        RequestError: if `messages` is no sequence of dicts with a role, or of Message.
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
    """Tokens counted by the provider. `cached_tokens` are part of the prompt, `reasoning_tokens` of the completion."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @classmethod
    def of(cls, prompt: int, completion: int, *, cached: int = 0, reasoning: int = 0) -> Usage:
        """Usage whose total is the sum of prompt and completion."""
        return cls(prompt, completion, prompt + completion, cached, reasoning)


class Response(Struct, frozen=True):
    """What a model answered, complete.

    `finish_reason` is `stop`, `length`, `tool_calls` or `content_filter`, or the provider's own word
    where it fits none of these.
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
        """The assistant message that continues the conversation after this response."""
        return Message(
            role="assistant", content=self.content or None, tool_calls=self.tool_calls, reasoning=self.reasoning
        )


class TextDelta(Struct, frozen=True):
    """A piece of the answer's text."""

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
    """The last event of every stream that was not broken: the complete response."""

    response: Response


class StreamRestart(Struct, frozen=True):
    """What came so far is void: the stream broke, and starts over."""

    reason: str


StreamDelta: TypeAlias = TextDelta | ReasoningDelta | ToolCallDelta
StreamEvent: TypeAlias = StreamDelta | StreamRestart | StreamEnd


class Accumulator:
    """Joins stream deltas to a response."""

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
        """`rest` with the content, reasoning and tool calls that the deltas make up."""
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
    """The response as deltas, one for its reasoning, one for its text and one for each tool call."""
    deltas: list[StreamDelta] = []
    if response.reasoning:
        deltas.append(ReasoningDelta(response.reasoning))
    if response.content:
        deltas.append(TextDelta(response.content))
    for index, call in enumerate(response.tool_calls):
        deltas.append(ToolCallDelta(index, call.arguments, call.id, call.tool))
    return deltas


class Reply(ABC):
    """A response on its way: iterate over its stream events, or `collect()` the whole response."""

    @abstractmethod
    def __aiter__(self) -> AsyncIterator[StreamEvent]: ...

    @abstractmethod
    async def collect(self) -> Response:
        """The complete response. Raises what broke the stream, if something did."""

    async def aclose(self) -> None:
        """Let go of what the reply holds. Safe to call at any time."""


class WholeReply(Reply):
    """A reply that has arrived already."""

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
    """Something that a reply may hold on to, such as another reply or a connection."""

    async def aclose(self) -> None: ...


class StreamedReply(Reply):
    """A reply whose events come one by one; they can be read once.

    `source` is where they come from: closing the reply closes it, even if nobody began to read.
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
            raise ProviderConnectionError("the stream ended before its last event")
        return response

    async def aclose(self) -> None:
        close = getattr(self._events, "aclose", None)
        if close is not None:
            await close()
        if self._source is not None:
            await self._source.aclose()
