"""Faults of a model's response: unreadable, empty, filtered, refused, cut off, or with wrong tool calls."""

import re
from abc import abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from copy import deepcopy
from typing import Annotated, Any, ClassVar, Literal, NoReturn, Self

import orjson
from msgspec import Meta, field
from msgspec.structs import replace

from offbook.errors import MalformedResponseError
from offbook.faults.fault import Count, Fault, FaultedCall, FaultTrait, FaultVariant, add_mark
from offbook.messages import (
    JsonObject,
    Reply,
    Response,
    StreamedReply,
    StreamEnd,
    StreamEvent,
    ToolCall,
    WholeReply,
    made_tool_calls,
)


class MalformedResponse(Fault, frozen=True, tag="malformed_response"):
    """Raises the MalformedResponseError of a codec that parses `raw`, even if the codec could parse it."""

    breaks_response: ClassVar[bool] = True

    raw: str = ""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("malformed_response", cls(raw="<html>Bad Gateway</html>"), is_persistent=True),)

    async def apply(self, call: FaultedCall) -> NoReturn:
        raw = add_mark(self.raw, call.mark)
        from offbook.codecs.openai_chat import decode_response  # noqa: PLC0415 - only a fault that fires needs it

        try:
            decode_response(raw.encode("utf-8", "replace"))
        except MalformedResponseError as error:
            error.attribute(call.provider)
            raise
        raise MalformedResponseError("the answer is malformed by declaration", provider=call.provider, raw=raw)


class WrongShape(Fault, frozen=True, tag="wrong_shape"):
    """Raises the MalformedResponseError of a codec that decodes the JSON `raw`, even if the codec could decode it.

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

    The `content` is complete (`whole`), or breaks off (`half`): the text in its middle or, with tool calls, the
    arguments of the last one, which are then incomplete JSON. JSON breaks off inside its last value: a parser that
    closes it takes a part of a number, or of a text, for the whole.
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
    """Cut the last part of the response. Cut data, such as arguments, gets no mark, which would break
    it differently.
    """
    if response.tool_calls:
        *others, last = response.tool_calls
        return replace(response, tool_calls=(*others, _halve_arguments(last)))
    text, is_data = response.content, _is_data(response.content)
    cut = text[: _middle(text, is_data=is_data)]
    return replace(response, content=f"{cut} {mark}" if mark and cut and not is_data else cut)


def _halve_arguments(call: ToolCall) -> ToolCall:
    arguments = call.arguments
    return replace(call, args={}, raw_arguments=arguments[: _middle(arguments, is_data=True)])


def _is_data(text: str) -> bool:
    """Return whether the text is for a program, not a person: JSON, fenced or not, or without letters."""
    fenced = _FENCE.fullmatch(text)
    try:
        orjson.loads(fenced["inside"] if fenced else text)
    except orjson.JSONDecodeError:
        return not any(char.isalpha() for char in text)
    return True


_FENCE = re.compile(r"\s*```\w*\n(?P<inside>.*?)```\s*", re.DOTALL)
_VALUE = re.compile(r'"(?:[^"\\]|\\.)*"|[^\s\[\]{},:"`]+')
_CLOSING = re.compile(r"[\s\]}`]*")


def _middle(text: str, *, is_data: bool) -> int:
    """Return the breaking point of a text: its middle or, for data, the middle of its last value."""
    for last in deque(_VALUE.finditer(text), maxlen=1) if is_data else ():
        if _CLOSING.fullmatch(text, last.end()):
            return (last.start() + last.end()) // 2
    return len(text) // 2


def _tool_call_reply(tool_call: ToolCall, call: FaultedCall) -> Reply:
    """Return a reply with only `tool_call`, and an id that is new in the conversation."""
    request = call.request
    numbered = replace(tool_call, id=f"call_fault_{len(request.messages)}")
    return WholeReply(
        Response(model=request.model, provider=call.provider, finish_reason="tool_calls", tool_calls=(numbered,))
    )


class _ToolCallsFault(Fault, frozen=True):
    """A fault of an answer's tool calls.

    With a `number`, counted from 1, only that tool call changes. An answer with fewer calls does not change.
    """

    number: Count = 0

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        async with aclosing(clean):
            response = await clean.collect()
        return WholeReply(replace(response, tool_calls=tuple(self._changed_calls(response.tool_calls, call.mark))))

    def _changed_calls(self, calls: Sequence[ToolCall], mark: str) -> Iterator[ToolCall]:
        for number, call in enumerate(calls, 1):
            if self.number in (0, number):
                yield from self.changed(call, mark, number)
            else:
                yield call

    @abstractmethod
    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        """Yield the calls that the model makes instead of this one, which has that number in its answer."""


class InvalidToolArgs(_ToolCallsFault, frozen=True, tag="invalid_tool_args"):
    """The model calls a tool with arguments that break off: by default the first tool that it was given."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("invalid_tool_args", cls(), needs_tools=True, strikes_each=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        if self.number:
            return await super().apply(call)
        tools = call.request.tools
        name = str(tools[0].get("function", {}).get("name", "tool")) if tools else "tool"
        return _tool_call_reply(ToolCall(name, raw_arguments=add_mark(_BROKEN_OFF, call.mark)), call)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield replace(call, args={}, raw_arguments=add_mark(_BROKEN_OFF, mark))


_BROKEN_OFF = '{"value": "brok'


class UnknownTool(_ToolCallsFault, frozen=True, tag="unknown_tool"):
    """The model calls a tool named `no_such_tool`."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("unknown_tool", cls(), needs_tools=True, strikes_each=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        if self.number:
            return await super().apply(call)
        return _tool_call_reply(ToolCall("no_such_tool", {"value": call.mark} if call.mark else {}), call)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield replace(call, tool="no_such_tool", args=call.args | ({"value": mark} if mark else {}))


class ToolCallFault(Fault, frozen=True, tag="tool_call_fault"):
    """The model calls `tool` with `args`; `raise_for_fault()` of that call raises a ToolFaultError: `error`."""

    tool: Annotated[str, Meta(min_length=1)]
    args: dict[str, Any] = field(default_factory=dict)
    error: str = "the tool failed"

    async def apply(self, call: FaultedCall) -> Reply:
        error = add_mark(self.error, call.mark)
        return _tool_call_reply(ToolCall(self.tool, deepcopy(self.args), error=error), call)


class OneMoreTool(Fault, frozen=True, tag="one_more_tool"):
    """The model repeats the first tool call of the conversation.

    Before there is one, and where no tools are offered or allowed, it answers as usual. Agents look before they act, so
    the first call seldom has a side effect; the fault tests whether a loop ends.
    """

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"asks_for_more"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        lasting = FaultVariant(
            "one_more_tool",
            cls(),
            is_persistent=True,
            outlasts_call=True,
            is_only_persistent=True,
            needs_tools=True,
        )
        return (lasting,)

    async def apply(self, call: FaultedCall) -> Reply:
        request = call.request
        may_call = bool(request.tools) and request.tool_choice != "none"
        first = next(_made_calls(request.messages), None) if may_call else None
        return await call.clean() if first is None else _tool_call_reply(first, call)


def _made_calls(messages: Sequence[JsonObject]) -> Iterator[ToolCall]:
    """Yield the tool calls of a conversation."""
    for _, function in made_tool_calls(messages):
        yield ToolCall.parse(str(function.get("name", "")), str(function.get("arguments", "")))


class WrongTypes(_ToolCallsFault, frozen=True, tag="wrong_types"):
    """The model gives every argument of its tool calls as a value of another type."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant("wrong_types", cls(), needs_tools=True, needs_tool_calls=True, strikes_each=True),)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield replace(call, args={name: _of_another_type(value, mark) for name, value in call.args.items()})


def _of_another_type(value: Any, mark: str) -> Any:
    match value:
        case str():
            return {"value": add_mark(value, mark)}
        case dict():
            return [value, mark] if mark else [value]
        case _:
            return add_mark(f"not what it was: {value}", mark)


class WrongValues(_ToolCallsFault, frozen=True, tag="wrong_values"):
    """The model gives every argument of its tool calls another value of the same type, which may be plausible."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        form = FaultVariant(
            "wrong_values", cls(), is_optional=True, needs_tools=True, needs_tool_calls=True, strikes_each=True
        )
        return (form,)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield replace(call, args={name: _of_another_value(value, mark) for name, value in call.args.items()})


def _of_another_value(value: Any, mark: str) -> Any:
    match value:
        case bool():
            return not value
        case int() | float():
            return value + 1
        case str():
            return f"{value}-{mark or 2}"
        case list():
            return value[:-1]
        case dict():
            return {name: _of_another_value(each, mark) for name, each in value.items()}
        case _:
            return value


class WrongNames(_ToolCallsFault, frozen=True, tag="wrong_names"):
    """The model gives every argument of its tool calls under another name."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"lies"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        form = FaultVariant("wrong_names", cls(), is_optional=True, needs_tools=True, needs_tool_calls=True)
        return (form,)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield replace(call, args={f"the_{name}": value for name, value in call.args.items()})


class _ChangedContent(Fault, frozen=True):
    """A plausible answer of the model with another content. An answer that does not fit is not changed."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"lies"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        return (FaultVariant(str(cls.__struct_config__.tag), cls(), is_optional=True),)

    async def apply(self, call: FaultedCall) -> Reply:
        clean = await call.clean()
        async with aclosing(clean):
            return WholeReply(self.changed(await clean.collect(), call))

    @abstractmethod
    def changed(self, response: Response, call: FaultedCall) -> Response:
        """Return the response that the caller gets."""


class GarbledContent(_ChangedContent, frozen=True, tag="garbled_content"):
    """Answers with the words of its text in the reverse order."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"lies", "reads_like_answer"})

    def changed(self, response: Response, call: FaultedCall) -> Response:
        words = response.content.split()
        return replace(response, content=add_mark(" ".join(reversed(words)), call.mark)) if words else response


class WrongFields(_ChangedContent, frozen=True, tag="wrong_fields"):
    """Answers with a JSON object, as structured output, whose fields have other names."""

    def changed(self, response: Response, call: FaultedCall) -> Response:
        fenced = _FENCE.fullmatch(response.content)
        try:
            value = orjson.loads(fenced["inside"] if fenced else response.content)
        except orjson.JSONDecodeError:
            return response
        if not isinstance(value, dict):
            return response
        return replace(response, content=orjson.dumps({f"the_{name}": each for name, each in value.items()}).decode())


class PreviousAnswer(_ChangedContent, frozen=True, tag="previous_answer"):
    """Gives the model's previous answer in the conversation again."""

    def changed(self, response: Response, call: FaultedCall) -> Response:
        said = [message for message in call.request.messages if message.get("role") == "assistant"]
        if not said:
            return response
        calls = tuple(
            replace(each, id=f"call_again_{number}") for number, each in enumerate(_made_calls(said[-1:]), len(said))
        )
        content, reason = said[-1].get("content"), "tool_calls" if calls else "stop"
        text = content if isinstance(content, str) else ""
        return replace(response, content=text, tool_calls=calls, reasoning=None, finish_reason=reason)


class DoubledToolCalls(_ToolCallsFault, frozen=True, tag="doubled_tool_calls"):
    """The model makes each of its tool calls twice, the second time under another id."""

    traits: ClassVar[frozenset[FaultTrait]] = frozenset({"loses_answer"})

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        form = FaultVariant(
            "doubled_tool_calls", cls(), is_optional=True, needs_tools=True, needs_tool_calls=True, strikes_each=True
        )
        return (form,)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield call
        yield replace(call, id=f"{call.id or f'call_{number}'}_again")


class SharedToolId(_ToolCallsFault, frozen=True, tag="shared_tool_id"):
    """The model gives its parallel tool calls one id; with a `number`, that call has its neighbour's id."""

    @classmethod
    def variants(cls) -> tuple[FaultVariant[Self], ...]:
        form = FaultVariant(
            "shared_tool_id", cls(), is_optional=True, needs_tools=True, needs_tool_calls=True, strikes_each=True
        )
        return (form,)

    def _changed_calls(self, calls: Sequence[ToolCall], mark: str) -> Iterator[ToolCall]:
        for number, call in enumerate(calls, 1):
            if self.number not in (0, number):
                yield call
            else:
                neighbour = calls[0] if number > 1 or self.number == 0 else calls[-1]
                yield replace(call, id=neighbour.id)

    def changed(self, call: ToolCall, mark: str, number: int) -> Iterator[ToolCall]:
        yield call
