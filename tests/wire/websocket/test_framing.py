"""Frames: what one side encodes the other parses, however it is cut; and the same as the library `websockets` does."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import OP_TEXT, Close, Frame
from websockets.streams import StreamReader

from offbook.wire.websocket.framing import (
    BINARY,
    CLOSE,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    CloseMessage,
    FrameParser,
    FramingError,
    SocketMessage,
    accept_key,
    decode_close,
    encode_close,
    encode_frame,
    is_key,
    masked,
)

SIZES = [0, 1, 3, 125, 126, 127, 65_535, 65_536]
payloads = st.binary(max_size=300) | st.sampled_from([b"x" * size for size in SIZES])
messages = st.builds(SocketMessage, st.just(BINARY), payloads) | st.builds(
    SocketMessage, st.sampled_from([PING, PONG]), st.binary(max_size=125)
)


def encode(message, *, is_masked=True):
    return encode_frame(message.opcode, message.data, is_masked=is_masked)


def pieces_of(data, cuts):
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(places)]


@given(st.lists(messages, max_size=6), st.lists(st.integers(0, 10**6), max_size=8), st.booleans())
def test_what_is_encoded_is_parsed_however_it_arrives(sent, cuts, is_masked):
    parser = FrameParser(expects_mask=is_masked)
    data = b"".join(encode(message, is_masked=is_masked) for message in sent)
    parsed = [message for piece in pieces_of(data, cuts) for message in parser.feed(piece)]
    assert parsed == sent
    assert parser.unparsed == b""


@given(st.binary(max_size=40), st.binary(max_size=40), st.binary(min_size=1, max_size=20))
def test_fragments_are_joined_and_control_frames_may_come_between(first, second, ping):
    parser = FrameParser(expects_mask=False)
    opening = bytes([BINARY]) + encode_frame(BINARY, first)[1:]
    data = opening + encode_frame(PING, ping) + encode_frame(CONTINUATION, second)
    pieces = [data[at : at + 1] for at in range(len(data))]
    parsed = [message for piece in pieces for message in parser.feed(piece)]
    assert parsed == [SocketMessage(PING, ping), SocketMessage(BINARY, first + second)]


@pytest.mark.parametrize("size", SIZES)
def test_frames_are_those_of_another_library(size):
    payload = b"x" * size
    assert encode_frame(TEXT, payload) == Frame(OP_TEXT, payload).serialize(mask=False)
    reader = StreamReader()
    reader.feed_data(encode_frame(TEXT, payload, is_masked=True))
    parsing = Frame.parse(reader.read_exact, mask=True)
    with pytest.raises(StopIteration) as done:
        next(parsing)
    assert done.value.value.data == payload


@given(st.binary(max_size=200), st.binary(min_size=4, max_size=4))
def test_a_mask_is_taken_off_by_putting_it_on_again(payload, mask):
    assert masked(masked(payload, mask), mask) == payload
    assert masked(payload, mask) == bytes(byte ^ mask[place % 4] for place, byte in enumerate(payload))


@given(st.binary(max_size=200), st.booleans())
def test_no_bytes_do_anything_but_parse_or_break_the_protocol(data, expects_mask):
    parser = FrameParser(expects_mask=expects_mask, max_message_bytes=1000)
    with suppress(FramingError):
        for message in parser.feed(data):
            assert len(message.data) <= 1000


BROKEN = {
    "masked": encode_frame(TEXT, b"a"),
    "extension": b"\xc1\x80\0\0\0\0",
    "opcode": b"\x83\x80\0\0\0\0",
    "control frame": b"\x09\x80\0\0\0\0",
    "continues nothing": encode_frame(CONTINUATION, b"a", is_masked=True),
    "UTF-8": encode_frame(TEXT, b"\xff", is_masked=True),
    "more than": b"\x82\xff" + (10**9).to_bytes(8),
}


@pytest.mark.parametrize("reason", BROKEN)
def test_what_breaks_the_protocol_is_refused_with_a_reason(reason):
    with pytest.raises(FramingError, match=reason):
        list(FrameParser(expects_mask=True).feed(BROKEN[reason]))


@given(st.integers(1000, 4999), st.text(max_size=200))
def test_a_close_frame_says_what_it_was_made_of_as_far_as_that_fits(code, reason):
    (message,) = FrameParser(expects_mask=False).feed(encode_close(CloseMessage(code, reason)))
    assert message.opcode == CLOSE
    try:
        close = decode_close(message.data)
    except FramingError:
        assert code in range(1004, 3000)
        return
    assert close == CloseMessage() or (close.code == code and reason.startswith(close.reason))
    assert len(message.data) <= 125
    if close.code != 1005:
        assert Close.parse(message.data).code == code


def test_the_handshake_is_answered_as_the_standard_says():
    assert accept_key("dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
    assert is_key("dGhlIHNhbXBsZSBub25jZQ==")
    assert not is_key("short")
    assert not is_key("é")
