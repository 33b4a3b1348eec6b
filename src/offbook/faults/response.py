"""Faults of the response itself: unreadable, empty, filtered, cut off, or with a broken tool call."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from copy import deepcopy
from typing import Any, ClassVar, NoReturn, Self

import orjson
from msgspec import field
from msgspec.structs import replace

from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.errors import MalformedResponseError
from offbook.faults.fault import Fault, FaultedCall, FaultVariant
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, ToolCall, WholeReply


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Raises the MalformedResponseError of a codec that parses `raw`, also if the codec could parse it."""

    breaks_response: ClassVar[bool] = True

    raw: str = ""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("malformed_response", cls(raw="<html>Bad Gateway</html>")),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        try:
            OpenAIChatCodec.decode_response(self.raw.encode("utf-8", "replace"))
        except MalformedResponseError as error:
            error.attribute(call.provider)
            raise
        raise MalformedResponseError("the answer is malformed by declaration", provider=call.provider, raw=self.raw)


class WrongShape(Fault, frozen=True, tag="wrong_shape"):
    """Raises the MalformedResponseError of a codec that decodes the JSON `raw`, also if the codec could decode it.

    Raises:
        ValueError: `raw` is not JSON.
    """

    breaks_response: ClassVar[bool] = True

    raw: str = '{"status": "ok"}'

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("wrong_shape", cls()),)

    def __post_init__(self) -> None:
        try:
            orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"raw is not JSON: {error}; malformed_response takes any text") from None

    async def apply(self, call: FaultedCall) -> NoReturn:
        await MalformedResponse(self.raw).apply(call)


class EmptyResponse(Fault, frozen=True, tag="empty_response"):
    """Answers without text and tool calls, with the finish reason `stop`."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("empty_response", cls()),)

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider))


class ContentFilter(Fault, frozen=True, tag="content_filter"):
    """Answers without text and tool calls, with the finish reason `content_filter`."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("content_filter", cls()),)

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider, finish_reason="content_filter"))


class PartialResponse(Fault, frozen=True, tag="partial_response"):
    """Answers with the content, but without completion tokens and with the finish reason `length`."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("partial_response", cls()),)

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(_cut_off_events(clean), source=clean)


async def _cut_off_events(clean: Reply) -> AsyncIterator[StreamEvent]:
    async with aclosing(clean):
        async for event in clean:
            yield StreamEnd(_cut_off(event.response)) if isinstance(event, StreamEnd) else event


def _cut_off(response: Response) -> Response:
    prompt = response.usage.prompt_tokens
    usage = replace(response.usage, completion_tokens=0, total_tokens=prompt, reasoning_tokens=0)
    return replace(response, usage=usage, finish_reason="length")


def _tool_call_reply(tool_call: ToolCall, call: FaultedCall) -> Reply:
    """Return a reply that has only `tool_call`, with an id that is new in the conversation."""
    request = call.request
    numbered = replace(tool_call, id=f"call_fault_{len(request.messages)}")
    return WholeReply(
        Response(model=request.model, provider=call.provider, finish_reason="tool_calls", tool_calls=(numbered,))
    )


class InvalidToolArgs(Fault, frozen=True, tag="invalid_tool_args"):
    """The model calls the first tool it was given, with arguments that break off."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("invalid_tool_args", cls(), needs_tools=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        tools = call.request.tools
        name = str(tools[0].get("function", {}).get("name", "tool")) if tools else "tool"
        return _tool_call_reply(ToolCall(name, raw_arguments='{"value": "brok'), call)


class UnknownTool(Fault, frozen=True, tag="unknown_tool"):
    """The model calls a tool named `no_such_tool`."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("unknown_tool", cls(), needs_tools=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return _tool_call_reply(ToolCall("no_such_tool"), call)


class ToolCallFault(Fault, frozen=True, tag="tool_call_fault"):
    """The model calls `tool` with `args`; `raise_for_fault()` of that call raises a ToolFaultError: `error`."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    error: str = "the tool failed"

    async def apply(self, call: FaultedCall) -> Reply:
        return _tool_call_reply(ToolCall(self.tool, deepcopy(self.args), error=self.error), call)
