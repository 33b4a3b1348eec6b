"""When answers are due."""

import pytest

from offbook.errors import InputError
from tests.wire.calls import answer_to, call_of, entry_of, recording_of, session_of, text_of

CHUNKS = [[10.0, "one "], [25.0, "two "], [40.0, "three"]]
STREAMED = {"content": "one two three", "chunks": CHUNKS, "latency_ms": 50.0}
FRAMES = [[7.0, "data: 1\n\n"], [9.0, "data: 2\n\n"]]
WIRE = {"protocol": "openai_chat", "headers": {"content-type": "text/event-stream"}, "frames": FRAMES}


def times(answer):
    return [at_ms for at_ms, _ in answer.frames]


def test_nothing_is_waited_for_unless_it_is_asked_for():
    for stream in (False, True):
        answer = answer_to(session_of({"a": STREAMED}), call_of(stream=stream))
        assert (times(answer), answer.end_ms) == ([0.0], 0.0)


@pytest.mark.parametrize("stream", [False, True])
def test_a_constant_latency_puts_the_whole_answer_off(stream):
    answer = answer_to(session_of({"a": STREAMED}, latency_ms=30.0), call_of(stream=stream))
    assert (times(answer), answer.end_ms) == ([30.0], 30.0)
    assert text_of(answer) == "one two three"


def test_made_up_answers_and_defaults_are_put_off_too():
    session = session_of({}, latency_ms=30.0)
    assert times(answer_to(session, call_of())) == [30.0]


def test_a_replayed_stream_has_its_recorded_times():
    answer = answer_to(session_of({"a": STREAMED}, latency_model="replay"), call_of(stream=True))
    assert (times(answer), answer.end_ms) == ([0.0, 10.0, 25.0, 40.0, 50.0], 50.0)
    at_25 = dict(answer.frames)[25.0]
    assert b"two " in at_25
    assert b"three" not in at_25
    assert b"[DONE]" in answer.frames[-1][1]


def test_a_replayed_whole_answer_comes_when_it_came():
    answer = answer_to(session_of({"a": STREAMED}, latency_model="replay"), call_of())
    assert times(answer) == [50.0]


def test_replayed_bytes_come_when_they_came():
    call = call_of(stream=True)
    recording = recording_of(entry_of(call, wire=WIRE, latency_ms=12.0))
    assert answer_to(session_of(recording, latency_model="replay"), call).frames == (
        (7.0, b"data: 1\n\n"),
        (9.0, b"data: 2\n\n"),
    )
    assert times(answer_to(session_of(recording), call)) == [0.0]
    assert times(answer_to(session_of(recording, latency_ms=5.0), call)) == [5.0]


def test_a_normal_latency_is_drawn_for_each_call_the_same_for_the_same_seed():
    def drawn(seed):
        session = session_of({"a": STREAMED | {"model": "real"}}, latency_model="normal", latency_ms=100.0, seed=seed)
        return [times(answer_to(session, call_of())) for _ in range(5)]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len({at_ms for [at_ms] in drawn(1)}) == 5
    assert all(50.0 < at_ms < 150.0 for [at_ms] in drawn(1))


def test_a_fault_keeps_the_times_of_what_it_lets_through():
    session = session_of({"a": STREAMED}, latency_model="replay", faults=["everywhere: stream_truncate 3 raise=cut"])
    answer = answer_to(session, call_of(stream=True))
    assert (times(answer), answer.end_ms, answer.ending) == ([0.0, 10.0, 25.0], 25.0, "cut")


def test_a_stall_comes_on_top_of_the_recorded_times():
    session = session_of({"a": STREAMED}, latency_model="replay", faults=["everywhere: stream_stall 2 for_ms=1000"])
    answer = answer_to(session, call_of(stream=True))
    assert (times(answer), answer.end_ms) == ([0.0, 10.0, 1025.0, 1040.0, 1050.0], 1050.0)


@pytest.mark.parametrize("ending", ["ConnectionError", "cut", "TimeoutError"])
def test_bytes_of_a_stream_that_broke_off_break_off_again(ending):
    call = call_of(stream=True)
    fault = {"type": "stream_truncate", "after_chunks": 2, "raise": ending}
    recording = recording_of(entry_of(call, wire=WIRE, fault=fault))
    answer = answer_to(session_of(recording, latency_model="replay"), call)
    assert answer.content == b"data: 1\n\ndata: 2\n\n"
    assert answer.ending == {"ConnectionError": "reset", "cut": "cut", "TimeoutError": "silence"}[ending]
    assert answer.end_ms == (float("inf") if ending == "TimeoutError" else 9.0)


@pytest.mark.parametrize("options", [{"latency_model": "slow"}, {"latency_ms": -1.0}, {"latency_ms": float("nan")}])
def test_latencies_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError):
        session_of({}, **options)


def test_an_old_recording_is_not_strict_enough():
    with pytest.raises(InputError, match="version"):
        session_of({"a": {"content": "x"}, "_version": 1}, strict=True)
    assert text_of(answer_to(session_of({"a": {"content": "x"}}, strict=False), call_of())) == "x"


def test_rules_that_cannot_be_read_are_refused_at_their_place():
    with pytest.raises(InputError, match=r"_meta\.normalise\.mask"):
        session_of({"_version": 2, "_meta": {"normalise": {"mask": ["("]}}})
