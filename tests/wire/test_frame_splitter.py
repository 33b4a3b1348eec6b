"""A body is cut into the frames of its protocol, and no byte of it is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.wire.frame_splitter import is_framed, splitter_of

EVENTS, LINES = "text/event-stream", "application/x-ndjson"
pieces = st.lists(st.sampled_from([b"data: x", b": hi", b"\r", b"\n", b"\r\n", b"\xff", b"event: a", b""]), max_size=30)


def split(content_type, pieces):
    splitter = splitter_of(content_type)
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
    splitter = splitter_of("Text/Event-Stream; charset=utf-8")
    assert splitter.feed(b"data: a\n") == []
    assert splitter.feed(b"\ndata") == [b"data: a\n\n"]


def test_a_carriage_return_waits_for_its_line_feed():
    splitter = splitter_of(EVENTS)
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
