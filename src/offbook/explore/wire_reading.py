"""What an answer says that went over the wire: the tools it asks for, and what its frames bring."""

from __future__ import annotations

from collections.abc import Iterator

import orjson

from offbook.codecs.codec import Codec
from offbook.codecs.sse import encode_event
from offbook.errors import OffbookError
from offbook.explore.run import ChunkKind
from offbook.explore.witness import kind_of
from offbook.messages import Accumulator, Response, StreamDelta, ToolCall
from offbook.recording.wire_pieces import json_documents
from offbook.wire.answer import Answer
from offbook.wire.asked import Asked
from offbook.wire.events_apart import events_apart


def tools_asked_for(asked: Asked, answer: Answer) -> tuple[ToolCall, ...]:
    """The calls of tools in an answer; none if it cannot be read as one."""
    codec = asked.route.codec
    if codec is None or answer.status != 200:
        return ()
    try:
        response = _streamed(asked, answer, codec) if answer.is_streamed else codec.decode_response(answer.content)
    except OffbookError:
        return ()
    return response.tool_calls


def chunks_of(asked: Asked, answer: Answer) -> tuple[ChunkKind, ...]:
    """What each frame of a streamed answer brings, as far as it can be read."""
    codec = asked.route.codec
    if codec is None or not answer.is_streamed:
        return ()
    chunks: list[ChunkKind] = []
    decoder = codec.stream_decoder()
    try:
        for frame in _frames(asked, answer):
            deltas = list(decoder.feed(frame))
            chunks.append(kind_of(deltas[0]) if deltas else "other")
    except OffbookError:
        return tuple(chunks)
    return tuple(chunks)


def _streamed(asked: Asked, answer: Answer, codec: Codec) -> Response:
    decoder, joined = codec.stream_decoder(), Accumulator()
    deltas: list[StreamDelta] = [delta for frame in _frames(asked, answer) for delta in decoder.feed(frame)]
    rest, response = decoder.close()
    for delta in deltas + rest:
        joined.add(delta)
    return joined.join(response)


def _frames(asked: Asked, answer: Answer) -> Iterator[bytes]:
    """The events, or the items of an array as if they were events."""
    if not asked.is_array:
        yield from (data for _, data in events_apart(answer))
        return
    for document in json_documents(answer.content):
        yield encode_event(orjson.dumps(document))
