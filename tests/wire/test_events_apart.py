"""The events of a stream are told apart, wherever its bytes were cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.wire.answer import Answer
from offbook.wire.events_apart import events_apart

SSE = {"content-type": "text/event-stream; charset=utf-8"}
LINES = {"content-type": "application/x-ndjson"}
EVENTS = [b"event: a\ndata: 1\n\n", b"data: 2\r\n\r\n", b": comment\n\n", b"data: 3\r\r", b"data: [DONE]\n\n"]


def streamed(headers, *frames):
    return Answer(200, headers, frames, is_streamed=True)


def test_events_that_came_together_are_due_together():
    answer = streamed(SSE, (5.0, b"".join(EVENTS)))
    assert events_apart(answer) == tuple((5.0, event) for event in EVENTS)


@given(st.lists(st.integers(0, sum(map(len, EVENTS)))).map(sorted))
def test_an_event_is_due_with_the_last_of_its_bytes(cuts):
    body = b"".join(EVENTS)
    places = [0, *cuts, len(body)]
    frames = [(float(end), body[start:end]) for start, end in pairwise(places)]
    apart = events_apart(streamed(SSE, *frames))
    ends = [sum(map(len, EVENTS[: count + 1])) for count in range(len(EVENTS))]
    assert [data for _, data in apart] == EVENTS
    assert [at_ms for at_ms, _ in apart] == [min(end for end in places if end >= needed) for needed in ends]


def test_lines_are_told_apart_and_a_last_one_may_lack_its_end():
    answer = streamed(LINES, (1.0, b"{}\n{"), (2.0, b"}\n{}"))
    assert events_apart(answer) == ((1.0, b"{}\n"), (2.0, b"{}\n"), (2.0, b"{}"))


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/json"}])
def test_other_answers_keep_their_frames(headers):
    answer = streamed(headers, (1.0, b"[{},\r\n"), (2.0, b"{}]"))
    assert events_apart(answer) == answer.frames
