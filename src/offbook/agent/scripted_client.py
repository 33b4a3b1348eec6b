"""A client that plays a model's lines, for tests."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from inspect import signature
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from offbook.agent.client import ChunkType, LLMResponse, StreamChunk, response_of
from offbook.argument import described
from offbook.errors import InputError, ScriptError
from offbook.messages import JsonObject, Response, ToolCall
from offbook.tools import ToolSpec
from offbook.wording import counted, ordinal

Answer: TypeAlias = str | ToolCall | LLMResponse | BaseException
Line: TypeAlias = (
    Answer | Callable[[Sequence[JsonObject], list[ToolSpec]], Answer] | Callable[[Sequence[JsonObject]], Answer]
)

SHOWN_CHARS = 200
_WORDS = re.compile(r"\s*\S+\s*|\s+")


class ScriptedCall(NamedTuple):
    """What a scripted client was asked."""

    messages: Sequence[JsonObject]
    tools: list[ToolSpec]


class ScriptedClient:
    """Answers with the lines of a script, in order.

    A line is a text, a ToolCall, a list of them, a TextResponse or a Response; an exception, which is
    raised; or a function that gives one of these, called with the messages and the tools, or with the
    messages alone if it takes no more. Used in a `with` block, it complains at the end about lines that
    were left over.

    `calls` keeps what was asked, also once too often.

    Raises:
        InputError: `lines` is no list of lines, but one.
        ScriptError: it is asked more often than there are lines.
    """

    def __init__(self, lines: Iterable[Line]) -> None:
        if isinstance(lines, str | Mapping) or not isinstance(lines, Iterable):
            hint = f"ScriptedClient([{'…' if callable(lines) else repr(lines)}])"
            raise InputError(f"expected a list of lines, got {described(lines)}", source="lines", hint=hint)
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
            all_lines = counted(len(self._lines), "line")
            raise ScriptError(f"{len(left)} of {all_lines} never asked for; next would be {left[0]!r}")

    def _next(self, messages: Sequence[JsonObject], tools: list[ToolSpec]) -> Response:
        position = len(self.calls)
        self.calls.append(ScriptedCall(messages, tools))
        if position >= len(self._lines):
            raise self._used_up(messages)
        line = self._lines[position]
        answer = _called(line, messages, tools) if callable(line) else line
        if isinstance(answer, BaseException):
            raise answer
        return Response(answer) if isinstance(answer, str) else response_of(answer)

    def _used_up(self, messages: Sequence[JsonObject]) -> ScriptError:
        lines = counted(len(self._lines), "line")
        told = f"asked a {ordinal(len(self.calls))} time, but the script has {lines}"
        return ScriptError("\n  ".join([told, *map(_shown, messages[-1:])]), messages=messages)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.assert_used_up()


def _called(line: Callable[..., Answer], messages: Sequence[JsonObject], tools: list[ToolSpec]) -> Answer:
    return line(messages, tools) if _takes_both(line) else line(messages)


def _takes_both(line: Callable[..., Any]) -> bool:
    try:
        signature(line).bind((), ())
    except TypeError:
        return False
    except ValueError:  # some functions that are written in C do not tell what they take
        return True
    return True


def _shown(message: JsonObject) -> str:
    said = str(message.get("content") or message.get("tool_calls") or "")
    short = said if len(said) <= SHOWN_CHARS else f"{said[:SHOWN_CHARS]}…"
    return f"the last message ({message.get('role')}): {short}"
