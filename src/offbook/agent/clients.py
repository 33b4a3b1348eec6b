"""The client protocol of a runner, with clients for providers, for models without tool calling, and for scripts."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from enum import StrEnum
from inspect import signature
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

from msgspec import Struct

from offbook.errors import InputError, ScriptError
from offbook.messages import (
    NO_EXTRA,
    JsonObject,
    ReasoningDelta,
    Request,
    Response,
    StreamEnd,
    StreamEvent,
    StreamRestart,
    TextDelta,
    ToolCall,
    WholeReply,
)
from offbook.providers.provider import Provider
from offbook.schema_errors import describe_type
from offbook.text import ordinal, pluralize, shorten
from offbook.tools import ToolSpec


class TextResponse(Struct, frozen=True):
    """A model's answer that has only text."""

    content: str


LLMResponse: TypeAlias = list[ToolCall] | TextResponse | Response


class ChunkType(StrEnum):
    """The kind of a stream chunk. RESTART discards the chunks before it; FINAL is the last chunk."""

    TEXT_DELTA = "text_delta"
    REASONING_DELTA = "reasoning_delta"
    TOOL_CALL_DELTA = "tool_call_delta"
    RESTART = "restart"
    FINAL = "final"


class StreamChunk(Struct, frozen=True):
    """A piece of a streamed answer. `response` is set on the FINAL chunk only."""

    type: ChunkType
    content: str = ""
    response: LLMResponse | None = None


class LLMClient(Protocol):
    """A model that a runner can call.

    `messages` is in the OpenAI chat format, with arguments as objects. It is an immutable view; call `list`
    on it if you need a list.
    """

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> LLMResponse: ...

    def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]: ...


def response_of(answer: LLMResponse | ToolCall) -> Response:
    """Return a client's answer as a Response.

    Raises:
        InputError: the answer has none of the types that a client may return.
    """
    if isinstance(answer, Response):
        for call in answer.tool_calls:
            if not isinstance(call, ToolCall):
                raise _not_a_response(f"a Response with {describe_type(call)} in its calls")
        return answer
    if isinstance(answer, TextResponse):
        return Response(answer.content)
    calls = (answer,) if isinstance(answer, ToolCall) else answer
    if isinstance(calls, list | tuple) and all([isinstance(call, ToolCall) for call in calls]):  # noqa: C419 - quicker
        return Response(tool_calls=tuple(calls))
    raise _not_a_response(describe_type(answer))


def _not_a_response(given: str) -> InputError:
    hint = "return a list of ToolCall, a TextResponse or a Response; read_response() converts an SDK's answer"
    return InputError(f"expected tool calls or text, got {given}", source="client", hint=hint)


class ProviderClient:
    """Calls a provider: a gateway, a recorder, a replay or a vendor.

    Args:
        model: the model's name at its provider.
        step_id: the key of the calls in a recording; all calls of a run are recorded under it, in order.
        temperature, max_tokens, tool_choice, extra: as for `Provider.complete`.
        workflow: the name of the agent in events and metrics.
    """

    def __init__(
        self,
        provider: Provider,
        model: str,
        *,
        step_id: str | None = None,
        temperature: float | None = None,
        max_tokens: int | None = None,
        tool_choice: str | JsonObject | None = None,
        extra: Mapping[str, Any] = NO_EXTRA,
        workflow: str = "",
    ) -> None:
        self._provider, self._model, self._step_id = provider, model, step_id
        self._temperature, self._max_tokens, self._tool_choice = temperature, max_tokens, tool_choice
        self._extra, self._workflow = extra, workflow

    def check_price(self) -> None:
        """Check that the cost of calls will be known. Raises InputError otherwise."""
        self._provider.check_price(self._request((), None, stream=False))

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> Response:
        reply = await self._provider.send(self._request(messages, tools, stream=False))
        return reply.response if isinstance(reply, WholeReply) else await reply.collect()

    async def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        reply = await self._provider.send(self._request(messages, tools, stream=True))
        try:
            async for event in reply:
                yield _chunk_of(event)
        finally:
            await reply.aclose()

    def _request(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None, *, stream: bool) -> Request:
        return Request(
            tuple(messages),
            self._model,
            temperature=self._temperature,
            max_tokens=self._max_tokens,
            tools=tuple([spec.function for spec in tools or ()]),
            tool_choice=self._tool_choice,
            extra=self._extra,
            stream=stream,
            step_id=self._step_id,
            workflow=self._workflow,
        )


def _chunk_of(event: StreamEvent) -> StreamChunk:
    match event:
        case TextDelta(text):
            return StreamChunk(ChunkType.TEXT_DELTA, text)
        case ReasoningDelta(text):
            return StreamChunk(ChunkType.REASONING_DELTA, text)
        case StreamRestart(reason):
            return StreamChunk(ChunkType.RESTART, reason)
        case StreamEnd(response):
            return StreamChunk(ChunkType.FINAL, response=response)
        case _:
            return StreamChunk(ChunkType.TOOL_CALL_DELTA, event.arguments)


ScriptedAnswer: TypeAlias = str | ToolCall | LLMResponse | BaseException
ScriptLine: TypeAlias = (
    ScriptedAnswer
    | Callable[[Sequence[JsonObject], list[ToolSpec]], ScriptedAnswer]
    | Callable[[Sequence[JsonObject]], ScriptedAnswer]
)

MAX_SHOWN_CHARS = 200
_WORDS = re.compile(r"\s*\S+\s*|\s+")


class ClientCall(NamedTuple):
    """One call of a scripted client."""

    messages: Sequence[JsonObject]
    tools: list[ToolSpec]


class ScriptedClient:
    """Answers with the lines of a script, in order.

    A line is a string, a ToolCall, a list of ToolCall, a TextResponse or a Response; an exception, which is
    raised; or a function that returns one of these, called with the messages and the tools, or with the
    messages only if it takes one argument. As a context manager, it raises at the end if lines are unused.

    `calls` has every call, including those after the last line.

    Raises:
        InputError: `lines` is a single line instead of a list.
        ScriptError: it is called more often than there are lines.
    """

    def __init__(self, lines: Iterable[ScriptLine]) -> None:
        if isinstance(lines, str | Mapping) or not isinstance(lines, Iterable):
            hint = f"ScriptedClient([{'…' if callable(lines) else repr(lines)}])"
            raise InputError(f"expected a list of lines, got {describe_type(lines)}", source="lines", hint=hint)
        self._lines = list(lines)
        self.calls: list[ClientCall] = []

    @property
    def left(self) -> list[ScriptLine]:
        """The lines that have not been used."""
        return self._lines[len(self.calls) :]

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> Response:
        return self._next(messages, tools or [])

    async def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        response = self._next(messages, tools or [])
        for word in _WORDS.findall(response.content):
            yield StreamChunk(ChunkType.TEXT_DELTA, word)
        for call in response.tool_calls:
            yield StreamChunk(ChunkType.TOOL_CALL_DELTA, call.arguments)
        yield StreamChunk(ChunkType.FINAL, response=response)

    def assert_used_up(self) -> None:
        """Raise ScriptError if lines are unused."""
        if left := self.left:
            all_lines = pluralize(len(self._lines), "line")
            raise ScriptError(f"{len(left)} of {all_lines} unused; the next is {left[0]!r}")

    def _next(self, messages: Sequence[JsonObject], tools: list[ToolSpec]) -> Response:
        position = len(self.calls)
        self.calls.append(ClientCall(messages, tools))
        if position >= len(self._lines):
            lines = pluralize(len(self._lines), "line")
            reason = f"called a {ordinal(len(self.calls))} time, but the script has {lines}"
            raise ScriptError("\n  ".join([reason, *map(_last_message_line, messages[-1:])]), messages=messages)
        line = self._lines[position]
        answer = _call_line(line, messages, tools) if callable(line) else line
        if isinstance(answer, BaseException):
            raise answer
        return Response(answer) if isinstance(answer, str) else response_of(answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.assert_used_up()


def _call_line(
    line: Callable[..., ScriptedAnswer], messages: Sequence[JsonObject], tools: list[ToolSpec]
) -> ScriptedAnswer:
    return line(messages, tools) if _takes_both(line) else line(messages)


def _takes_both(line: Callable[..., Any]) -> bool:
    try:
        signature(line).bind((), ())
    except TypeError:
        return False
    except ValueError:  # some functions written in C have no signature
        return True
    return True


def _last_message_line(message: JsonObject) -> str:
    content = str(message.get("content") or message.get("tool_calls") or "")
    short = shorten(content, MAX_SHOWN_CHARS)
    return f"the last message ({message.get('role')}): {short}"


_INTRODUCTION = """\
You have tools. To call one, answer with a JSON object on a line of its own, and nothing else:
{"tool": "<name>", "args": {<arguments>}}
To call several, write one object a line. The results follow in the next message. These are the tools:"""


class PromptedTools:
    """A client for a model without tool calling, in front of another client.

    The system prompt describes the tools and how to call one. Earlier calls and results are sent as text, and the
    guards rescue the model's calls from its text, unless their policy forbids it.
    """

    def __init__(self, client: LLMClient) -> None:
        self._client = client

    async def send(self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None) -> LLMResponse:
        return await self._client.send(prompt_tools(messages, tools or []))

    async def send_stream(
        self, messages: Sequence[JsonObject], tools: list[ToolSpec] | None = None
    ) -> AsyncIterator[StreamChunk]:
        answer = self._client.send_stream(prompt_tools(messages, tools or []))
        async with aclosing(answer) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                yield chunk


def prompt_tools(messages: Iterable[JsonObject], tools: Sequence[ToolSpec]) -> list[JsonObject]:
    """Return a conversation in the OpenAI chat format as one without tools, which the system prompt describes.

    Neighbouring messages of the user are joined: the templates of many models require that roles alternate.
    """
    written: list[JsonObject] = []
    for message in map(_as_text, messages):
        if written and _is_users_text(message) and _is_users_text(written[-1]):
            written[-1] = {"role": "user", "content": f"{written[-1]['content']}\n\n{message['content']}"}
        else:
            written.append(message)
    return _with_tools(written, tools) if tools else written


def _is_users_text(message: JsonObject) -> bool:
    return message["role"] == "user" and isinstance(message["content"], str)


def _with_tools(messages: list[JsonObject], tools: Sequence[ToolSpec]) -> list[JsonObject]:
    lines = "\n".join([_INTRODUCTION, *map(_tool_line, tools)])
    if messages and messages[0]["role"] == "system":
        return [{"role": "system", "content": f"{messages[0]['content']}\n\n{lines}"}, *messages[1:]]
    return [{"role": "system", "content": lines}, *messages]


def _tool_line(tool: ToolSpec) -> str:
    about = f": {tool.description}" if tool.description else ""
    return f"- {tool.name}{about}\n  arguments: {_json(tool.schema)}"


def _as_text(message: JsonObject) -> JsonObject:
    """Return a message with its calls and results as text."""
    role, content = message["role"], message.get("content") or ""
    if role == "tool":
        return {"role": "user", "content": f"Result of {message.get('name', 'the call')}:\n{content}"}
    calls = [_prompted_call(call["function"]) for call in message.get("tool_calls") or ()]
    return {"role": role, "content": "\n".join(filter(None, [content, *calls])) if calls else content}


def _prompted_call(function: JsonObject) -> str:
    arguments: Any = function["arguments"]
    given = arguments if isinstance(arguments, str) else _json(arguments)
    return f'{{"tool": {_json(function["name"])}, "args": {given or "{}"}}}'


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
