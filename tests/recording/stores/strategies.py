"""Hypothesis strategies for what stores keep."""

import msgspec
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from offbook.faults import ConnectionReset, HttpError, MalformedResponse, StreamTruncate, Timeout
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import (
    ABSENT,
    Exchange,
    RecordedError,
    RecordedToolCall,
    StreamPiece,
    ToolCallPiece,
    ToolExchange,
)
from offbook.recording.format.wire_record import WireRecord, wire_text
from tests.codecs.strategies import json_values, names, texts, usages

times_ms = st.floats(0, 1e6)
objects = st.dictionaries(texts, json_values, max_size=3)
recorded_calls = st.builds(
    RecordedToolCall, name=names, arguments=objects | texts, id=st.none() | names, reasoning=st.none() | texts
)
call_pieces = st.builds(ToolCallPiece, st.integers(0, 3), st.none() | names, st.none() | names, texts)
pieces = texts | st.builds(StreamPiece, reasoning=texts) | st.builds(StreamPiece, tool_call=call_pieces)
faults = st.one_of(
    st.just(ConnectionReset()),
    st.builds(HttpError, st.integers(400, 599), headers=st.dictionaries(names, texts, max_size=2), body=texts),
    st.builds(MalformedResponse, raw=texts),
    st.builds(StreamTruncate, st.integers(0, 9), st.sampled_from(["ConnectionError", "clean", "error_event"])),
    st.builds(Timeout, after_ms=times_ms),
)
moments = st.datetimes().map(lambda moment: moment.isoformat(timespec="microseconds"))
raws = st.just(ABSENT) | objects.map(lambda fields: Raw(msgspec.json.encode(fields)))
fingerprints = st.sampled_from(["a" * 64, "b" * 64, "c" * 64])
wire_texts = texts | st.binary(max_size=20).map(wire_text)
wires = st.builds(
    WireRecord,
    protocol=st.sampled_from(["openai_chat", "http"]),
    status=st.integers(100, 599),
    headers=st.dictionaries(names, st.text(st.characters(min_codepoint=32, max_codepoint=126)), max_size=2),
    body=st.none() | wire_texts,
) | st.builds(
    WireRecord,
    protocol=st.just("anthropic"),
    frames=st.lists(st.tuples(times_ms, wire_texts), max_size=3),
)

exchanges = st.builds(
    Exchange,
    content=texts,
    model=st.just("") | names,
    provider=st.just("") | names,
    usage=st.none() | usages,
    cost_usd=st.floats(0, 100),
    latency_ms=times_ms,
    finish_reason=st.none() | st.sampled_from(["stop", "length", "tool_calls"]),
    tool_calls=st.none() | st.lists(recorded_calls, min_size=1, max_size=2),
    reasoning=st.none() | texts,
    chunks=st.none() | st.lists(st.tuples(times_ms, pieces), min_size=1, max_size=3),
    fault=st.none() | faults,
    recorded_at=st.none() | moments,
    request_hash=st.none() | fingerprints,
    request=raws,
    wire=st.none() | wires,
)
keys = names | st.sampled_from(["Grüße", "步骤/1", "a b", "0", "🎭", "a.json", 'quote"d'])
tool_exchanges = st.builds(
    ToolExchange,
    arguments=st.just(UNSET) | objects,
    result=st.just(UNSET) | json_values,
    result_type=st.none() | names,
    error=st.none() | st.builds(RecordedError, names, texts),
    latency_ms=times_ms,
    recorded_at=st.none() | moments,
    arguments_hash=st.none() | fingerprints,
)
tool_names = names | st.sampled_from(["get-weather", "_private", "a b"])
entries = exchanges | st.lists(exchanges, min_size=1, max_size=3)


def documents(entries=entries):
    return st.builds(
        Document,
        meta=objects,
        entries=st.dictionaries(keys, entries, max_size=4),
        rest=st.dictionaries(names.map(lambda name: f"_x_{name}"), json_values, max_size=2),
        tools=st.dictionaries(
            tool_names, tool_exchanges | st.lists(tool_exchanges, min_size=1, max_size=3), max_size=2
        ),
    )
