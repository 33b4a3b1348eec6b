"""Answers as values."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.wire.answer import Answer, whole

FRAMES = ((0.0, b"a"), (0.0, b"b"), (5.0, b"c"), (0.0, b"d"))
frames = st.lists(st.tuples(st.sampled_from([0.0, 1.0, 2.0]), st.binary(max_size=3)), max_size=8).map(tuple)


@given(frames)
def test_frames_that_are_due_together_become_one_and_no_byte_is_lost(given_frames):
    answer = Answer(200, frames=given_frames)
    together = answer.together()
    assert together.content == answer.content
    assert all(one != other for (one, _), (other, _) in zip(together.frames, together.frames[1:], strict=False))
    assert together.together() == together


def test_frames_keep_their_order_when_they_are_joined():
    assert Answer(200, frames=FRAMES).together().frames == ((0.0, b"ab"), (5.0, b"c"), (0.0, b"d"))


def test_an_answer_can_be_put_off():
    late = Answer(200, frames=FRAMES, is_streamed=True, end_ms=9.0).after(7.0)
    assert late.frames == tuple((7.0, data) for _, data in FRAMES)
    assert late.end_ms == 7.0
    assert late.together().frames == ((7.0, b"abcd"),)


def test_a_whole_answer_is_json_of_a_known_length():
    answer = whole(200, b"{}")
    assert answer.sent_headers == {"content-type": "application/json", "content-length": "2"}
    assert answer.is_at_once


@pytest.mark.parametrize("name", ["Content-Type", "content-type"])
def test_a_content_type_among_the_headers_comes_first(name):
    assert whole(200, b"", headers={name: "text/html"}).headers == {"content-type": "text/html"}


@pytest.mark.parametrize("ending", ["cut", "reset", "silence"])
def test_an_answer_that_breaks_off_tells_no_length(ending):
    answer = Answer(200, frames=((0.0, b"half"),), ending=ending)
    assert "content-length" not in answer.sent_headers
    assert not answer.is_at_once


@pytest.mark.parametrize("name", ["content-length", "transfer-encoding"])
@pytest.mark.parametrize("is_streamed", [False, True])
def test_headers_do_not_lie_about_the_length(name, is_streamed):
    answer = Answer(200, {name: "1", "x": "y"}, ((0.0, b"abc"),), is_streamed=is_streamed)
    assert answer.sent_headers == ({"x": "y"} if is_streamed else {"x": "y", "content-length": "3"})
