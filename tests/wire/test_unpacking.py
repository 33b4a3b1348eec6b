"""Bodies that come compressed are unpacked piece by piece."""

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.wire.unpacking import UnpackingError, unpacker_of


@pytest.mark.parametrize(
    ("encoding", "pack"), [("gzip", gzip.compress), (" X-GZIP", gzip.compress), ("deflate", zlib.compress)]
)
@given(body=st.binary(max_size=200), cut=st.integers(1, 30))
def test_pieces_unpack_to_the_body(encoding, pack, body, cut):
    packed, unpacker = pack(body), unpacker_of(encoding)
    pieces = [packed[start : start + cut] for start in range(0, len(packed), cut)]
    assert b"".join(map(unpacker.unpack, pieces)) == body


def test_members_that_follow_one_another_are_one_body():
    assert unpacker_of("gzip").unpack(gzip.compress(b"a") + gzip.compress(b"b")) == b"ab"


def test_what_was_flushed_comes_at_once():
    packer = zlib.compressobj(wbits=31)
    assert unpacker_of("gzip").unpack(packer.compress(b"a") + packer.flush(zlib.Z_SYNC_FLUSH)) == b"a"


def test_a_body_that_is_not_packed_as_it_says_is_an_error():
    with pytest.raises(UnpackingError):
        unpacker_of("gzip").unpack(b"plain text, no gzip")


@pytest.mark.parametrize("encoding", ["", "identity", "br", "gzip, br"])
def test_other_encodings_are_left_alone(encoding):
    assert unpacker_of(encoding) is None
