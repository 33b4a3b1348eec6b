"""A client that plays a model's lines, for tests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from types import TracebackType
from typing import NamedTuple, Self, TypeAlias

from understudy.agent.client import ChunkType, LLMResponse, StreamChunk, response_of
from understudy.errors import ScriptError
from understudy.messages import JsonObject, Response, ToolCall
from understudy.tools import ToolSpec

Answer: TypeAlias = str | ToolCall | LLMResponse | BaseException
Line: TypeAlias = Answer | Callable[[Sequence[JsonObject], list[ToolSpec]], Answer]

_WORDS = re.compile(r"\s*\S+\s*|\s+")


class ScriptedCall(NamedTuple):
    """What a scripted client was asked."""

    messages: Sequence[JsonObject]
    tools: list[ToolSpec]


class ScriptedClient:
    """Answers with the lines of a script, in order.

    A line is a text, a ToolCall, a list of them, a TextResponse or a Response; an exception, which is
    raised; or a function of messages and tools that gives one of these. Used in a `with` block, it
    complains at the end about lines that were left over.

    `calls` keeps what was asked.

    Raises:
        ScriptError: it is asked more often than there are lines.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = list(lines)
        self.calls: list[ScriptedCall] = []

    @property
    def left(self) -> list[Line]:
        """The lines that have not been played."""
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
        """Raises ScriptError if lines are left."""
        if left := self.left:
            raise ScriptError(
                f"{len(left)} of {len(self._lines)} lines were never asked for; next would be {left[0]!r}"
            )

    def _next(self, messages: Sequence[JsonObject], tools: list[ToolSpec]) -> Response:
        position = len(self.calls)
        if position >= len(self._lines):
            raise ScriptError(f"asked a {position + 1}. time, but the script has {position} lines")
        self.calls.append(ScriptedCall(messages, tools))
        line = self._lines[position]
        answer = line(messages, tools) if callable(line) else line
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
