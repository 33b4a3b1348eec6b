"""A body is cut into the frames of its protocol, and no byte of it is lost."""

import gzip
import zlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.framing import is_framed, splitter_for
from offbook.messages import Response, TextDelta
from offbook.vendors import CODECS
from offbook.wire.proxy.capture import DecompressionError, decompressor_for, is_last_frame

EVENTS, LINES = "text/event-stream", "application/x-ndjson"
pieces = st.lists(st.sampled_from([b"data: x", b": hi", b"\r", b"\n", b"\r\n", b"\xff", b"event: a", b""]), max_size=30)


def split(content_type, pieces):
    splitter = splitter_for(content_type)
    return [*(frame for piece in pieces for frame in splitter.feed(piece)), *splitter.close()]


def test_events_end_behind_an_empty_line_of_any_kind():
    body = b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\nrest"
    assert split(EVENTS, [body]) == [
        b"data: a\n\n",
        b"data: b\r\n\r\n",
        b"data: c\r\r",
        b"data: d\n\r\n",
        b"rest",
    ]


def test_comments_and_keep_alives_stay_where_they_came():
    assert split(EVENTS, [b": hi\n\nid: 1\n: more\ndata: a\n\n\n\n"]) == [
        b": hi\n\n",
        b"id: 1\n: more\ndata: a\n\n",
        b"\n\n",
    ]


def test_an_event_is_told_as_soon_as_it_is_complete():
    splitter = splitter_for("Text/Event-Stream; charset=utf-8")
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\ndata") == [b"data: a\n\n"]


def test_a_carriage_return_waits_for_its_line_feed():
    splitter = splitter_for(EVENTS)
    assert splitter.feed(b"data: a\r\n\r") == []
    assert splitter.feed(b"\n") == [b"data: a\r\n\r\n"]


def test_lines_of_json_are_frames():
    assert split(LINES, [b'{"a"', b":1}\n{}\n", b"{"]) == [b'{"a":1}\n', b"{}\n", b"{"]


@pytest.mark.parametrize("content_type", ["", "application/json"])
def test_other_bodies_are_left_in_the_pieces_they_came_in(content_type):
    assert split(content_type, [b"a\n\nb", b"", b"c"]) == [b"a\n\nb", b"c"]
    assert not is_framed(content_type)


@pytest.mark.parametrize("content_type", [EVENTS, LINES])
@given(pieces=pieces)
def test_frames_are_the_same_however_the_body_was_cut_and_are_all_of_it(content_type, pieces):
    body = b"".join(pieces)
    whole = split(content_type, [body])
    assert b"".join(whole) == body
    assert split(content_type, pieces) == whole
    assert split(content_type, [bytes([byte]) for byte in body]) == whole


def test_a_huge_event_in_many_pieces_is_cut_in_no_time():
    piece = b"x" * 65_536
    frames = split(EVENTS, [b"data: ", *[piece] * 500, b"\n\n"])
    assert [len(frame) for frame in frames] == [6 + 500 * 65_536 + 2]


TEXT = '"done": true, "type":"message_stop"\ndata: [DONE]'


@pytest.mark.parametrize("protocol", [name for name in sorted(CODECS) if name != "gemini"])
def test_the_last_frame_of_a_protocol_is_known_and_no_other_is_taken_for_it(protocol):
    response = Response(TEXT, "m")
    *frames, last = CODECS[protocol].encode_stream(response, [TextDelta(TEXT)])
    assert is_last_frame(last)
    assert not any(is_last_frame(frame) for frame in frames)


def test_spaces_do_not_matter():
    assert is_last_frame(b"data:[DONE]\n\n")
    assert is_last_frame(b'event: response.completed\r\ndata: {"type": "response.completed"}\r\n\r\n')


def test_a_text_that_quotes_an_end_is_none():
    assert not is_last_frame(b"data: " + orjson.dumps({"content": TEXT}) + b"\n\n")


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), (" X-GZIP", gzip.compress), ("deflate", zlib.compress)]
)
@given(body=st.binary(max_size=200), cut=st.integers(1, 30))
def test_pieces_unpack_to_the_body(encoding, pack, body, cut):
    packed, unpacker = pack(body), decompressor_for(encoding)
    pieces = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert b"".join(map(unpacker.decompress, pieces)) == body


def test_members_that_follow_one_another_are_one_body():
    assert decompressor_for("gzip").decompress(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


def test_what_was_flushed_comes_at_once():
    packer = zlib.compressobj(wbits=31)
    assert decompressor_for("gzip").decompress(packer.compress(b"a") + packer.flush(zlib.Z_SYNC_FLUSH)) == b"a"


def test_a_body_that_is_not_packed_as_it_says_is_an_error():
    with pytest.raises(DecompressionError):
        decompressor_for("gzip").decompress(b"plain text, no gzip")


@pytest.mark.parametrize("encoding", ["", "identity", "br", "gzip, br"])
def test_other_encodings_are_left_alone(encoding):
    assert decompressor_for(encoding) is None
