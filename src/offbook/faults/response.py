"""Faults of the response itself: unreadable, empty, filtered, cut off, or with a broken tool call."""

from collections.abc import AsyncIterator
from copy import deepcopy
from typing import Any, NoReturn

import orjson
from msgspec import field
from msgspec.structs import replace

from offbook.codecs.openai_chat import OpenAIChatCodec
from offbook.errors import MalformedResponseError
from offbook.faults.fault import Fault, FaultedCall
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, ToolCall, WholeReply


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Sends `raw` through the real codec, whose parse error surfaces; it raises also what that codec could read."""

    raw: str = ""

    async def apply(self, call: FaultedCall) -> NoReturn:
        try:
            OpenAIChatCodec.decode_response(self.raw.encode("utf-8", "replace"))
        except MalformedResponseError as error:
            error.attribute(call.provider)
            raise
        raise MalformedResponseError("the answer is declared malformed", provider=call.provider, raw=self.raw)


class WrongShape(Fault, frozen=True, tag="wrong_shape"):
    """Sends `raw` through the real codec, whose complaint surfaces; it raises also what that codec could read.

    Raises:
        ValueError: `raw` is no JSON.
    """

    raw: str = '{"status": "ok"}'

    def __post_init__(self) -> None:
        try:
            orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"raw cannot be read as JSON: {error}; malformed_response takes any text") from None

    async def apply(self, call: FaultedCall) -> NoReturn:
        await MalformedResponse(self.raw).apply(call)


class EmptyResponse(Fault, frozen=True, tag="empty_response"):
    """Answers with no text and no tool call, and ends by `stop` as if all were well."""

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider))


class ContentFilter(Fault, frozen=True, tag="content_filter"):
    """Answers with nothing, and ends by `content_filter`."""

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider, finish_reason="content_filter"))


class PartialResponse(Fault, frozen=True, tag="partial_response"):
    """Gives the content, but counts no completion tokens and ends by `length`."""

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        return StreamedReply(_cut_off_events(clean), source=clean)


async def _cut_off_events(clean: Reply) -> AsyncIterator[StreamEvent]:
    try:
        async for event in clean:
            yield StreamEnd(_cut_off(event.response)) if isinstance(event, StreamEnd) else event
    finally:
        await clean.aclose()


def _cut_off(response: Response) -> Response:
    prompt = response.usage.prompt_tokens
    usage = replace(response.usage, completion_tokens=0, total_tokens=prompt, reasoning_tokens=0)
    return replace(response, usage=usage, finish_reason="length")


def tool_call_reply(tool_call: ToolCall, call: FaultedCall) -> Reply:
    """The reply to `call` that is nothing but `tool_call`, under an id that grows with the conversation."""
    request = call.request
    numbered = replace(tool_call, id=f"call_fault_{len(request.messages)}")
    return WholeReply(
        Response(model=request.model, provider=call.provider, finish_reason="tool_calls", tool_calls=(numbered,))
    )


class InvalidToolArgs(Fault, frozen=True, tag="invalid_tool_args"):
    """The model asks for the first tool it was given, with arguments that break off."""

    async def apply(self, call: FaultedCall) -> Reply:
        tools = call.request.tools
        name = str(tools[0].get("function", {}).get("name", "tool")) if tools else "tool"
        return tool_call_reply(ToolCall(name, raw_arguments='{"value": "brok'), call)


class UnknownTool(Fault, frozen=True, tag="unknown_tool"):
    """The model asks for a tool named `no_such_tool`."""

    async def apply(self, call: FaultedCall) -> Reply:
        return tool_call_reply(ToolCall("no_such_tool"), call)


class ToolCallFault(Fault, frozen=True, tag="tool_call_fault"):
    """The model asks for `tool` with `args`, and that call's `raise_for_fault()` raises a ToolFaultError: `error`."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict)
    error: str = "the tool failed"

    async def apply(self, call: FaultedCall) -> Reply:
        return tool_call_reply(ToolCall(self.tool, deepcopy(self.args), error=self.error), call)
