"""The last frame of a stream is known, and compressed bodies are decompressed."""

import gzip
import zlib

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.messages import Response, TextDelta
from offbook.vendors import CODECS
from offbook.wire.proxy.capture import DecompressionError, decompressor_for, is_last_frame

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
