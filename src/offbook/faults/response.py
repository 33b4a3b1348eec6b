"""Faults of the response itself: unreadable, empty, filtered, refused, or cut off."""

from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import ClassVar, Literal, NoReturn, Self

import orjson
from msgspec.structs import replace

from offbook.errors import MalformedResponseError
from offbook.faults.fault import Fault, FaultedCall, FaultTrait, FaultVariant, add_mark
from offbook.messages import Reply, Response, StreamedReply, StreamEnd, StreamEvent, ToolCall, WholeReply


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Raises the MalformedResponseError of a codec that parses `raw`, also if the codec could parse it."""

    breaks_response: ClassVar[bool] = True

    raw: str = ""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("malformed_response", cls(raw="<html>Bad Gateway</html>"), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        raw = add_mark(self.raw, call.mark)
        from offbook.codecs.openai_chat import OpenAIChatCodec  # noqa: PLC0415 - only a fault that fires needs it

        try:
            OpenAIChatCodec.decode_response(raw.encode("utf-8", "replace"))
        except MalformedResponseError as error:
            error.attribute(call.provider)
            raise
        raise MalformedResponseError("the answer is malformed by declaration", provider=call.provider, raw=raw)


class WrongShape(Fault, frozen=True, tag="wrong_shape"):
    """Raises the MalformedResponseError of a codec that decodes the JSON `raw`, also if the codec could decode it.

    Raises:
        ValueError: `raw` is not JSON.
    """

    breaks_response: ClassVar[bool] = True

    raw: str = '{"status": "ok"}'

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("wrong_shape", cls(), is_persistent=True),)

    def __post_init__(self) -> None:
        try:
            orjson.loads(self.raw)
        except orjson.JSONDecodeError as error:
            raise ValueError(f"raw is not JSON: {error}; malformed_response takes any text") from None

    async def apply(self, call: FaultedCall) -> NoReturn:
        await MalformedResponse(self.raw).apply(call)


class EmptyResponse(Fault, frozen=True, tag="empty_response"):
    """Answers without text and tool calls, with the finish reason `stop`."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"empties_answer"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("empty_response", cls(), is_persistent=True, outlasts_call=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider))


class ContentFilter(Fault, frozen=True, tag="content_filter"):
    """Answers without text and tool calls, with the finish reason `content_filter`."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"empties_answer"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("content_filter", cls(), is_persistent=True, outlasts_call=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        return WholeReply(Response(model=call.request.model, provider=call.provider, finish_reason="content_filter"))


class Refusal(Fault, frozen=True, tag="refusal"):
    """Answers with a refusal as `content` and without tool calls, with the finish reason `stop`."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"reads_like_answer"})

    content: str = "I'm sorry, but I can't help with that."

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("refusal", cls(), is_persistent=True, outlasts_call=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        text = add_mark(self.content, call.mark)
        return WholeReply(Response(text, model=call.request.model, provider=call.provider))


class PartialResponse(Fault, frozen=True, tag="partial_response"):
    """Answers without completion tokens and with the finish reason `length`.

    The `content` is all there (`whole`), or it breaks off (`half`): the text in its middle, or, if there are tool
    calls, the arguments of the last one, which are then not complete JSON.
    """

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"cuts_answer"})

    content: Literal["whole", "half"] = "whole"

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("partial_response", cls("half"), is_persistent=True, outlasts_call=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        if self.content == "whole":
            return StreamedReply(_ended_by_length(clean), source=clean)
        async with aclosing(clean):
            return WholeReply(_end_by_length(_halve(await clean.collect(), call.mark)))


async def _ended_by_length(clean: Reply) -> AsyncIterator[StreamEvent]:
    async with aclosing(clean):
        async for event in clean:
            yield StreamEnd(_end_by_length(event.response)) if isinstance(event, StreamEnd) else event


def _end_by_length(response: Response) -> Response:
    prompt = response.usage.prompt_tokens
    usage = replace(response.usage, completion_tokens=0, total_tokens=prompt, reasoning_tokens=0)
    return replace(response, usage=usage, finish_reason="length")


def _halve(response: Response, mark: str) -> Response:
    """Cut what comes last in the response. Cut arguments carry no mark: it could make them another kind of broken."""
    if response.tool_calls:
        *others, last = response.tool_calls
        return replace(response, tool_calls=(*others, _halve_arguments(last)))
    text = response.content[: len(response.content) // 2]
    return replace(response, content=f"{text} {mark}" if mark and text else text)


def _halve_arguments(call: ToolCall) -> ToolCall:
    return replace(call, args={}, raw_arguments=call.arguments[: len(call.arguments) // 2])
