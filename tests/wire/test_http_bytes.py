"""Answers that leave in one piece."""

import pytest
from msgspec.structs import replace

from offbook.wire.answer import Answer, whole
from offbook.wire.http_bytes import http_bytes

STREAM = Answer(200, {"content-type": "text/event-stream"}, ((0.0, b"data: 1\n\n"),), is_streamed=True)


def test_a_whole_answer_tells_its_length():
    assert whole(404, b"{}").at_once == (
        b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}"
    )


def test_a_stream_is_one_chunk():
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    assert STREAM.at_once == head + b"9\r\ndata: 1\n\n\r\n0\r\n\r\n"
    assert replace(STREAM, frames=()).at_once == head + b"0\r\n\r\n"


@pytest.mark.parametrize(
    "answer",
    [
        whole(200, b"{}").after(1.0),
        replace(STREAM, frames=((0.0, b"a"), (1.0, b"b"))),
        replace(STREAM, ending="cut"),
        replace(STREAM, ending="reset"),
        Answer(None, ending="silence"),
        Answer(None),
    ],
    ids=["late", "in pieces", "cut", "reset", "silent", "nothing"],
)
def test_an_answer_that_takes_time_or_breaks_off_does_not_leave_in_one_piece(answer):
    assert answer.at_once is None


@pytest.mark.parametrize("status", [101, 204, 304, 299, 799])
def test_a_status_with_rules_of_its_own_takes_a_closer_look(status):
    assert http_bytes(status, {}, b"", is_streamed=False) is None


@pytest.mark.parametrize(
    ("name", "value"),
    [("a", "b\r\nc: d"), ("a", "\0"), ("a", "ä"), ("a b", "c"), ("a\r\nb", "c"), ("", "c"), ("connection", "close")],
)
def test_a_header_that_could_do_harm_takes_a_closer_look(name, value):
    assert http_bytes(200, {"content-length": "0", name: value}, b"", is_streamed=False) is None
