"""The chunks of a streamed answer: what each carries, and the places among them that are worth a fault."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, get_args

from offbook.messages import ReasoningDelta, StreamDelta, TextDelta

_ToolChunk = Literal["tool_call", "tool_key", "tool_value"]
ChunkKind = Literal["text", "reasoning", _ToolChunk, "other"]
"""What a chunk of a streamed answer carries. A chunk of a tool call continues a key or a value of its arguments, or
begins something new. `other` are the events around those, which only the wire has."""

MAX_TOOL_PLACES = 8
"""How many places inside tool calls are all tried; of more, one of each kind is."""


class ChunkKinds:
    """Tells the kinds of the chunks of one stream, in order."""

    def __init__(self) -> None:
        self._scans: dict[int, _JsonScan] = {}

    def next(self, delta: StreamDelta) -> ChunkKind:
        """Return the kind of the next chunk."""
        if isinstance(delta, TextDelta):
            return "text"
        if isinstance(delta, ReasoningDelta):
            return "reasoning"
        scan = self._scans.setdefault(delta.index, _JsonScan())
        kind = scan.place
        scan.read(delta.arguments)
        return kind


class _JsonScan:
    """Reads JSON piece by piece, and knows whether it is inside a key or a value."""

    def __init__(self) -> None:
        self._open: list[str] = []
        self._in_string = self._is_escaped = self._in_scalar = self._expects_key = False

    @property
    def place(self) -> _ToolChunk:
        """Where the JSON so far ends."""
        if self._in_string:
            return "tool_key" if self._expects_key else "tool_value"
        return "tool_value" if self._in_scalar else "tool_call"

    def read(self, text: str) -> None:
        for char in text:
            if self._in_string:
                self._read_string(char)
            else:
                self._read_structure(char)

    def _read_string(self, char: str) -> None:
        if self._is_escaped:
            self._is_escaped = False
        elif char == "\\":
            self._is_escaped = True
        else:
            self._in_string = char != '"'

    def _read_structure(self, char: str) -> None:
        self._in_string = char == '"'
        self._in_scalar = char not in '"{}[]:,' and not char.isspace()
        if char in "{[":
            self._open.append(char)
        elif char in "}]" and self._open:
            self._open.pop()
        if char in "{,":
            self._expects_key = self._open[-1:] == ["{"]
        elif char in ":[":
            self._expects_key = False


def places_in(chunks: Sequence[ChunkKind]) -> Iterator[tuple[str, int]]:
    """Yield the places in a stream by name, as the number of chunks before them.

    They are before it starts, inside text, inside tool calls, and before its end. Inside tool calls, all are if they
    are few; else the first and the last one, and one each inside a key and a value of the arguments.
    """
    yield "start", 0
    texts = [place for place, kind in enumerate(chunks) if kind == "text"]
    if len(texts) > 1:
        yield "text", texts[len(texts) // 2]
    yield from _places_in_tool_calls(chunks)
    telling = [place for place, kind in enumerate(chunks) if kind != "other"]
    if telling and len(chunks) > 1:
        yield "end", telling[-1] + 1


def _places_in_tool_calls(chunks: Sequence[ChunkKind]) -> Iterator[tuple[str, int]]:
    places = [place for place, kind in enumerate(chunks) if kind in get_args(_ToolChunk) and place > 0]
    if len(places) <= MAX_TOOL_PLACES:
        yield from ((f"tool call {number}", place) for number, place in enumerate(places, 1))
        return
    yield "tool call, first", places[0]
    for name, kind in (("key", "tool_key"), ("value", "tool_value")):
        inside = [place for place in places[1:-1] if chunks[place] == kind]
        if inside:
            yield f"tool call, {name}", inside[len(inside) // 2]
    yield "tool call, last", places[-1]
