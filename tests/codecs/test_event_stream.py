"""Binary event streams: ours are botocore's, however the bytes are cut, and nothing that is broken passes."""

from base64 import b64encode
from binascii import crc32
from contextlib import suppress
from itertools import pairwise

import orjson
import pytest
from botocore.eventstream import ChecksumMismatch, EventStreamBuffer
from hypothesis import given, settings
from hypothesis import strategies as st

from offbook.codecs.event_stream import (
    EVENT_STREAM_TYPE,
    EventMessage,
    EventStreamDecoder,
    decode_message,
    encode_event,
    encode_exception,
    encode_message,
    event_documents,
    read_frame,
)
from offbook.codecs.framing import is_framed, splitter_for
from offbook.errors import MalformedResponseError
from offbook.recording.format.wire_record import wire_bytes, wire_text

from .strategies import filled_texts, texts

header_names = st.text(st.characters(codec="ascii", exclude_categories=["C"]), min_size=1, max_size=20)
messages = st.tuples(st.dictionaries(header_names, texts, max_size=4), st.binary(max_size=60))
bodies = st.lists(messages, min_size=1, max_size=4)

OTHER_TYPES = {  # of a header: its type, and its value
    "yes": b"\x00",
    "no": b"\x01",
    "byte": b"\x02\x7f",
    "short": b"\x03\x00\x01",
    "int": b"\x04\x00\x00\x00\x01",
    "long": b"\x05" + bytes(8),
    "bytes": b"\x06\x00\x03abc",
    "time": b"\x08" + bytes(8),
    "uuid": b"\x09" + bytes(16),
}


def encoded(body):
    return b"".join(encode_message(headers, payload) for headers, payload in body)


def decode(*pieces):
    decoder = EventStreamDecoder()
    return [(message.headers, message.payload) for piece in pieces for message in decoder.feed(piece)]


def botocore_reads(data):
    buffer = EventStreamBuffer()
    buffer.add_data(data)
    return [(event.headers, event.payload) for event in buffer]


@given(body=bodies)
def test_botocore_reads_what_we_encode_as_we_do(body):
    data = encoded(body)
    assert botocore_reads(data) == decode(data) == body


@settings(max_examples=10)
@given(body=bodies, data=st.data())
def test_messages_are_the_same_wherever_their_bytes_are_cut(body, data):
    whole = encoded(body)
    assert decode(*(whole[i : i + 1] for i in range(len(whole)))) == body
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=4).map(sorted))
    pieces = [whole[i:j] for i, j in pairwise([0, *cuts, len(whole)])]
    assert decode(*pieces) == body
    splitter = splitter_for(EVENT_STREAM_TYPE)
    frames = [frame for piece in pieces for frame in splitter.feed(piece)] + splitter.close()
    assert frames == [encode_message(headers, payload) for headers, payload in body]


def test_a_stream_cut_anywhere_yields_the_messages_before_the_cut_and_keeps_its_bytes():
    first, second = encode_event("messageStart", b"{}"), encode_event("messageStop", b'{"stopReason":"end_turn"}')
    for end in range(len(first + second)):
        cut = (first + second)[:end]
        assert len(decode(cut)) == (end >= len(first))
        splitter = splitter_for(EVENT_STREAM_TYPE)
        assert b"".join([*splitter.feed(cut), *splitter.close()]) == cut


def test_no_changed_byte_passes():
    message = encode_event("contentBlockDelta", b'{"delta":{"text":"Hi"},"contentBlockIndex":0}')
    for place in range(len(message)):
        broken = message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :]
        with pytest.raises(MalformedResponseError):
            decode_message(broken)
        assert read_frame(broken) is None
        with pytest.raises(ChecksumMismatch):
            botocore_reads(broken)
        with suppress(MalformedResponseError):
            assert decode(broken) == []


def test_headers_of_all_types_are_read_past():
    head = b"".join(bytes([len(name)]) + name.encode() + value for name, value in OTHER_TYPES.items())
    head += b"\x04text\x07\x00\x02ok"
    start = (16 + len(head)).to_bytes(4) + len(head).to_bytes(4)
    message = start + crc32(start).to_bytes(4) + head
    message += crc32(message).to_bytes(4)
    [(headers, payload)] = botocore_reads(message)
    assert headers.keys() == {*OTHER_TYPES, "text"}
    assert decode_message(message) == EventMessage({"text": headers["text"]}, payload)
    assert read_frame(message) is None  # we cannot write it again
    assert wire_bytes(wire_text(message)) == message


@given(head=st.binary(max_size=40))
def test_headers_that_are_none_are_malformed(head):
    start = (16 + len(head)).to_bytes(4) + len(head).to_bytes(4)
    message = start + crc32(start).to_bytes(4) + head
    message += crc32(message).to_bytes(4)
    with suppress(MalformedResponseError):
        assert decode_message(message).payload == b""


@given(text=filled_texts)
def test_a_chunk_carries_its_event_as_base64(text):
    frame = encode_event("chunk", text.encode())
    [(_, payload)] = botocore_reads(frame)
    assert payload == b'{"bytes":"%b"}' % b64encode(text.encode())
    assert event_documents(frame + frame) == [text.encode()] * 2


@given(body=bodies, text=filled_texts, padding=texts)
def test_a_recording_holds_every_frame_to_the_byte(body, text, padding):
    chunk = orjson.dumps({"p": padding, "bytes": b64encode(text.encode()).decode(), "q": 1})
    headers = {":event-type": "chunk", ":message-type": "event"}
    for frame in (encoded(body), encode_message(headers, chunk), encode_exception("x", b"{}"), encoded(body)[:-1]):
        assert wire_bytes(wire_text(frame)) == frame


def test_the_type_is_known_by_its_media_type():
    assert is_framed(f"{EVENT_STREAM_TYPE}; charset=utf-8")
    assert event_documents(b"data: no such thing\n\n") is None
