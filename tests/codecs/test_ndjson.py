"""JSON lines, however the network cuts them."""

import orjson
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.ndjson import NdjsonDecoder, encode_line


def decode(*pieces):
    decoder = NdjsonDecoder()
    return [line for piece in pieces for line in decoder.feed(piece)] + decoder.close()


def test_a_line_comes_as_soon_as_its_end():
    decoder = NdjsonDecoder()
    assert decoder.feed(b'{"a":') == []
    assert decoder.feed(b'1}\n{"b"') == [b'{"a":1}']
    assert decoder.feed(b":2}\n") == [b'{"b":2}']
    assert decoder.close() == []


def test_blank_lines_are_dropped():
    assert decode(b"\n{}\n\n \r\n{}\n") == [b"{}", b"{}"]


def test_the_end_of_the_body_ends_a_line():
    assert decode(b"{}") == [b"{}"]


@given(st.lists(st.text(), max_size=4))
def test_lines_read_the_same_wherever_the_bytes_are_cut(texts):
    body = b"".join(encode_line(orjson.dumps(text)) for text in texts)
    lines = decode(body)
    assert [orjson.loads(line) for line in lines] == texts
    assert decode(*(body[i : i + 1] for i in range(len(body)))) == lines
    for position in range(len(body) + 1):
        assert decode(body[:position], body[position:]) == lines
