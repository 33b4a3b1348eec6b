"""Server-sent events, however a server writes them and the network cuts them."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.codecs.framing import (
    NdjsonDecoder,
    ServerSentEvent,
    SseDecoder,
    encode_ndjson_line,
    encode_sse_event,
    escape_line_breaks,
)

from .strategies import filled_texts, names

BODY = (
    ": keepalive\n\nevent: greeting\ndata: Grüße, 世界 🎭\n\n"
    "data\nid: 7\nretry: 10\n: comment\ndata:  two\ndata:lines\n\nevent: nothing\n\ndata: last\n\n"
)
EVENTS = [
    ServerSentEvent("Grüße, 世界 🎭", "greeting"),
    ServerSentEvent("\n two\nlines"),
    ServerSentEvent("last"),
]


def decode(*pieces):
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)] + decoder.close()


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "BOM"])
class TestDecoding:
    def test_reads_events_and_drops_the_rest(self, line_end, mark):
        assert decode((mark + BODY).replace("\n", line_end).encode()) == EVENTS

    def test_reads_the_same_wherever_the_bytes_are_cut(self, line_end, mark):
        body = (mark + BODY).replace("\n", line_end).encode()
        assert decode(*(body[i : i + 1] for i in range(len(body)))) == EVENTS
        for position in range(len(body) + 1):
            assert decode(body[:position], body[position:]) == EVENTS


def test_an_event_comes_as_soon_as_its_blank_line():
    decoder = SseDecoder()
    assert decoder.feed(b"data: one\n") == []
    assert decoder.feed(b"\ndata: two") == [ServerSentEvent("one")]
    assert decoder.feed(b"\r\n\r\n") == [ServerSentEvent("two")]


@pytest.mark.parametrize(
    "body", [b"data: last", b"data: last\n", b"data: last\r", b"data: last\r\n", b"data: last\n\n"]
)
def test_the_end_of_the_body_ends_an_event(body):
    assert decode(body) == [ServerSentEvent("last")]


@pytest.mark.parametrize("body", [b"", b"\n\n\n", b": comment", b"event: only", b"\xef\xbb\xbf", b"unknown: field\n\n"])
def test_a_body_without_data_has_no_events(body):
    assert decode(body) == []


def test_an_event_name_counts_for_its_own_event_alone():
    assert decode(b"event: first\ndata: 1\n\ndata: 2\n\n") == [ServerSentEvent("1", "first"), ServerSentEvent("2")]


def test_a_byte_order_mark_inside_the_body_is_text():
    assert decode("data: \ufeffx\n\n".encode()) == [ServerSentEvent("\ufeffx")]


@pytest.mark.parametrize("body", [b"data: a\xffb\n\n", b"data: a\xffb\n\n\xe4"])
def test_bytes_that_are_no_utf_8_are_replaced(body):
    assert decode(body) == [ServerSentEvent("a�b")]


def test_an_encoded_event_is_lines_with_a_space_after_the_colon():
    assert encode_sse_event(b"{}") == b"data: {}\n\n"
    assert encode_sse_event(b"{}", "ping") == b"event: ping\ndata: {}\n\n"


@given(st.lists(st.tuples(filled_texts, st.just("") | names), max_size=4))
def test_what_is_encoded_is_decoded_again(events):
    body = b"".join(encode_sse_event(orjson.dumps(text), name) for text, name in events)
    assert [(orjson.loads(event.data), event.event) for event in decode(body)] == events


def decode_ndjson(*pieces):
    decoder = NdjsonDecoder()
    return [line for piece in pieces for line in decoder.feed(piece)] + decoder.close()


def test_a_line_comes_as_soon_as_its_end():
    decoder = NdjsonDecoder()
    assert decoder.feed(b'{"a":') == []
    assert decoder.feed(b'1}\n{"b"') == [b'{"a":1}']
    assert decoder.feed(b":2}\n") == [b'{"b":2}']
    assert decoder.close() == []


def test_blank_lines_are_dropped():
    assert decode_ndjson(b"\n{}\n\n \r\n{}\n") == [b"{}", b"{}"]


def test_the_end_of_the_body_ends_a_line():
    assert decode_ndjson(b"{}") == [b"{}"]


@given(st.lists(st.text(), max_size=4))
def test_lines_read_the_same_wherever_the_bytes_are_cut(texts):
    body = b"".join(encode_ndjson_line(orjson.dumps(text)) for text in texts)
    lines = decode_ndjson(body)
    assert [orjson.loads(line) for line in lines] == texts
    assert decode_ndjson(*(body[i : i + 1] for i in range(len(body)))) == lines
    for position in range(len(body) + 1):
        assert decode_ndjson(body[:position], body[position:]) == lines


breaks = st.sampled_from(["\u0085", "\u2028", "\u2029", "\n", "\r", "\x0b", "\x0c", "\x1c", "\x1d", "\x1e"])


@given(st.lists(st.text() | breaks).map("".join))
def test_json_stays_the_same_and_is_one_line_however_lines_are_told(text):
    line = escape_line_breaks(orjson.dumps({"text": text}))
    assert orjson.loads(line) == {"text": text}
    assert len(line.decode().splitlines()) == 1
