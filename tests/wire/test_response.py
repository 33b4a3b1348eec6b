"""Answers as values."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.wire.response import HttpResponse, http_bytes, split_events, whole_response

FRAMES = ((0.0, b"a"), (0.0, b"b"), (5.0, b"c"), (0.0, b"d"))
frames = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.binary(max_size=3)), max_size=8).map(tuple)


@given(frames)
def test_frames_that_are_due_together_become_one_and_no_byte_is_lost(given_frames):
    answer = HttpResponse(200, frames=given_frames)
    together = answer.merged()
    assert together.content == answer.content
    assert all(one != other for (one, _), (other, _) in zip(together.frames, together.frames[1:], strict=False))
    assert together.merged() == together


def test_frames_keep_their_order_when_they_are_joined():
    assert HttpResponse(200, frames=FRAMES).merged().frames == ((0.0, b"ab"), (5.0, b"c"), (0.0, b"d"))


def test_an_answer_can_be_put_off():
    late = HttpResponse(200, frames=FRAMES, is_streamed=True, end_ms=9.0).delayed(7.0)
    assert late.frames == tuple((7.0, data) for _, data in FRAMES)
    assert late.end_ms == 7.0
    assert late.merged().frames == ((7.0, b"abcd"),)


def test_a_whole_answer_is_json_of_a_known_length():
    answer = whole_response(200, b"{}")
    assert answer.sent_headers == {"content-type": "application/json", "content-length": "2"}
    assert answer.is_single_frame


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
def test_a_content_type_among_the_headers_comes_first(name):
    assert whole_response(200, b"", headers={name: "text/html"}).headers == {"content-type": "text/html"}


@pytest.mark.parametrize("ending", ["cut", "reset", "silence"])
def test_an_answer_that_breaks_off_tells_no_length(ending):
    answer = HttpResponse(200, frames=((0.0, b"half"),), ending=ending)
    assert "content-length" not in answer.sent_headers
    assert not answer.is_single_frame


@pytest.mark.parametrize("name", ["content-length", "transfer-encoding"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_headers_do_not_lie_about_the_length(name, is_streamed):
    answer = HttpResponse(200, {name: "1", "x": "y"}, ((0.0, b"abc"),), is_streamed=is_streamed)
    assert answer.sent_headers == ({"x": "y"} if is_streamed else {"x": "y", "content-length": "3"})


STREAM = HttpResponse(200, {"content-type": "text/event-stream"}, ((0.0, b"data: 1\n\n"),), is_streamed=True)


def test_a_whole_answer_tells_its_length():
    assert whole_response(404, b"{}").immediate_bytes == (
        b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_a_stream_is_one_chunk():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    assert STREAM.immediate_bytes == head + b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    assert replace(STREAM, frames=()).immediate_bytes == head + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        whole_response(200, b"{}").delayed(1.0),
        replace(STREAM, frames=((0.0, b"a"), (1.0, b"b"))),
        replace(STREAM, ending="cut"),
        replace(STREAM, ending="reset"),
        HttpResponse(None, ending="silence"),
        HttpResponse(None),
    ],
    ids=["late", "in pieces", "cut", "reset", "silent", "nothing"],
)
def test_an_answer_that_takes_time_or_breaks_off_does_not_leave_in_one_piece(answer):
    assert answer.immediate_bytes is None


@pytest.mark.parametrize("status", [101, 204, 304, 299, 799])
def test_a_status_with_rules_of_its_own_takes_a_closer_look(status):
    assert http_bytes(status, {}, b"", is_streamed=False) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", "b\r\nc: d"), ("a", "\0"), ("a", "ä"), ("a b", "c"), ("a\r\nb", "c"), ("", "c"), ("connection", "close")],
)
def test_a_header_that_could_do_harm_takes_a_closer_look(name, value):
    assert http_bytes(200, {"content-length": "0", name: value}, b"", is_streamed=False) is None


SSE = {"content-type": "text/event-stream; charset=utf-8"}
LINES = {"content-type": "application/x-ndjson"}
EVENTS = [b"event: a\ndata: 1\n\n", b"data: 2\r\n\r\n", b": comment\n\n", b"data: 3\n\n", b"data: [DONE]\n\n"]


def streamed(headers, *frames):
    return HttpResponse(200, headers, frames, is_streamed=True)


def test_events_that_came_together_are_due_together():
    answer = streamed(SSE, (5.0, b"".join(EVENTS)))
    assert split_events(answer) == tuple((5.0, event) for event in EVENTS)


@given(st.lists(st.integers(0, sum(map(len, EVENTS)))).map(sorted))
def test_an_event_is_due_with_the_last_of_its_bytes(cuts):
    body = b"".join(EVENTS)
    places = [0, *cuts, len(body)]
    frames = [(float(end), body[start:end]) for start, end in pairwise(places)]
    apart = split_events(streamed(SSE, *frames))
    ends = [sum(map(len, EVENTS[: count + 1])) for count in range(len(EVENTS))]
    assert [data for _, data in apart] == EVENTS
    assert [at_ms for at_ms, _ in apart] == [min(end for end in places if end >= needed) for needed in ends]


def test_lines_are_told_apart_and_a_last_one_may_lack_its_end():
    answer = streamed(LINES, (1.0, b"{}\n{"), (2.0, b"}\n{}"))
    assert split_events(answer) == ((1.0, b"{}\n"), (2.0, b"{}\n"), (2.0, b"{}"))


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}])
def test_other_answers_keep_their_frames(headers):
    answer = streamed(headers, (1.0, b"[{},\r\n"), (2.0, b"{}]"))
    assert split_events(answer) == answer.frames
