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
    is_framed,
    splitter_for,
)

from .strategies import filled_texts, names

BODY = (
    ": keepalive\n\nevent: greeting\ndata: Grüße, 世界 🎭\n\n"
    "data\nid: 7\nretry: 10\n: comment\ndata:  two\ndata:lines\n\nevent: nothing\n\ndata: last\n\n"
)
EVENTS = [
    ServerSentEvent("Grüße, 世界 🎭", "greeting"),
    ServerSentEvent("\n two\nlines", id="7"),
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
def test_json_stays_the_same_and_is_one_line_however_lines_are_reported(text):
    line = escape_line_breaks(orjson.dumps({"text": text}))
    assert orjson.loads(line) == {"text": text}
    assert len(line.decode().splitlines()) == 1


EVENT_STREAM, JSON_LINES = "text/event-stream", "application/x-ndjson"
pieces = st.lists(st.sampled_from([b"data: x", b": hi", b"\r", b"\n", b"\r\n", b"\xff", b"event: a", b""]), max_size=30)


def split(content_type, pieces):
    splitter = splitter_for(content_type)
    return [*(frame for piece in pieces for frame in splitter.feed(piece)), *splitter.close()]


def test_events_end_behind_an_empty_line_of_any_kind():
    body = b"data: a\n\ndata: b\r\n\r\ndata: c\r\rdata: d\n\r\nrest"
    assert split(EVENT_STREAM, [body]) == [
        b"data: a\n\n",
        b"data: b\r\n\r\n",
        b"data: c\r\r",
        b"data: d\n\r\n",
        b"rest",
    ]


def test_comments_and_keep_alives_stay_where_they_came():
    assert split(EVENT_STREAM, [b": hi\n\nid: 1\n: more\ndata: a\n\n\n\n"]) == [
        b": hi\n\n",
        b"id: 1\n: more\ndata: a\n\n",
        b"\n\n",
    ]


def test_an_event_is_reported_as_soon_as_it_is_complete():
    splitter = splitter_for("Text/Event-Stream; charset=utf-8")
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\ndata") == [b"data: a\n\n"]


def test_a_carriage_return_waits_for_its_line_feed():
    splitter = splitter_for(EVENT_STREAM)
    assert splitter.feed(b"data: a\r\n\r") == []
    assert splitter.feed(b"\n") == [b"data: a\r\n\r\n"]


def test_lines_of_json_are_frames():
    assert split(JSON_LINES, [b'{"a"', b":1}\n{}\n", b"{"]) == [b'{"a":1}\n', b"{}\n", b"{"]


@pytest.mark.parametrize("content_type", ["", "application/json"])
def test_other_bodies_are_left_in_the_pieces_they_came_in(content_type):
    assert split(content_type, [b"a\n\nb", b"", b"c"]) == [b"a\n\nb", b"c"]
    assert not is_framed(content_type)


@pytest.mark.parametrize("content_type", [EVENT_STREAM, JSON_LINES])
@given(pieces=pieces)
def test_frames_are_the_same_however_the_body_was_cut_and_are_all_of_it(content_type, pieces):
    body = b"".join(pieces)
    whole = split(content_type, [body])
    assert b"".join(whole) == body
    assert split(content_type, pieces) == whole
    assert split(content_type, [bytes([byte]) for byte in body]) == whole


def test_a_huge_event_in_many_pieces_is_cut_in_no_time():
    piece = b"x" * 65_536
    frames = split(EVENT_STREAM, [b"data: ", *[piece] * 500, b"\n\n"])
    assert [len(frame) for frame in frames] == [6 + 500 * 65_536 + 2]
