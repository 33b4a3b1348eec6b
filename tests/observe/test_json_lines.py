"""Events as JSON lines."""

import io
import json
import subprocess
import sys
from typing import get_args

import pytest

from offbook.clock import SYSTEM_CLOCK, run
from offbook.errors import InputError
from offbook.events import BreakerChanged, CallRecorded, CallStarted, Event, FaultFired, MemorySink, Sinks
from offbook.observe import JsonLinesSink, read_events
from tests.observe.traffic import SLOW_S, drive

STARTED = CallStarted("greet", "m", "tour", 1)


def log_of(folder, *, clock=None):
    """What a run writes."""
    folder.mkdir()
    with JsonLinesSink(folder / "events.jsonl", clock=clock) as sink:
        run(drive(sink, folder), virtual_time=True)
    return (folder / "events.jsonl").read_bytes()


def test_an_event_is_a_line_with_its_name_and_fields():
    file = io.StringIO()
    JsonLinesSink(file).emit(STARTED)
    assert file.getvalue() == '{"event":"CallStarted","step_id":"greet","model":"m","workflow":"tour","call":1}\n'


def test_what_is_read_back_is_what_happened(tmp_path):
    memory = MemorySink()
    with JsonLinesSink(tmp_path / "events.jsonl") as sink:
        run(drive(Sinks(memory, sink), tmp_path), virtual_time=True)
    assert list(read_events(tmp_path / "events.jsonl")) == memory.events
    assert {type(event) for event in memory.events} == set(get_args(Event))


def test_a_fault_that_fired_at_a_tool_names_it(tmp_path):
    event = FaultFired(None, "", "tool_lost", call=2, tool="refund")
    with JsonLinesSink(tmp_path / "events.jsonl") as sink:
        sink.emit(event)
    assert json.loads((tmp_path / "events.jsonl").read_text())["tool"] == "refund"
    assert list(read_events(tmp_path / "events.jsonl")) == [event]


def test_text_of_any_language_survives(tmp_path):
    event = BreakerChanged("modèle ☀\u2028\n", "open")
    with JsonLinesSink(tmp_path / "events.jsonl") as sink:
        sink.emit(event)
        sink.emit(event)
    assert list(read_events(tmp_path / "events.jsonl")) == [event, event]


@pytest.mark.parametrize("clock", [None, SYSTEM_CLOCK], ids=["without times", "with times"])
def test_two_equal_runs_write_the_same_bytes(tmp_path, clock):
    first, second = log_of(tmp_path / "first", clock=clock), log_of(tmp_path / "second", clock=clock)
    assert first == second
    assert first.count(b"\n") > 30


def test_times_are_those_of_the_clock(tmp_path):
    lines = [json.loads(line) for line in log_of(tmp_path / "run", clock=SYSTEM_CLOCK).splitlines()]
    recorded = next(place for place, line in enumerate(lines) if line["event"] == "CallRecorded")
    assert lines[0]["at_s"] == 0.0
    assert lines[recorded]["at_s"] - lines[recorded - 1]["at_s"] == pytest.approx(SLOW_S)
    assert [line["at_s"] for line in lines] == sorted(line["at_s"] for line in lines)


def test_no_time_is_reported_without_a_clock(tmp_path):
    assert b"at_s" not in log_of(tmp_path / "run")


def test_times_do_not_hinder_reading_back(tmp_path):
    timed, bare = log_of(tmp_path / "timed", clock=SYSTEM_CLOCK), log_of(tmp_path / "bare")
    assert timed != bare
    assert list(read_events(tmp_path / "timed/events.jsonl")) == list(read_events(tmp_path / "bare/events.jsonl"))


def test_a_line_is_there_before_the_next_event_and_survives_a_kill(tmp_path):
    path = tmp_path / "events.jsonl"
    program = f"""
import os, signal
from offbook.events import BreakerChanged
from offbook.observe import JsonLinesSink
JsonLinesSink({str(path)!r}).emit(BreakerChanged("openai", "open"))
os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", program], check=False)
    assert list(read_events(path)) == [BreakerChanged("openai", "open")]


def test_a_path_starts_anew(tmp_path):
    path = tmp_path / "events.jsonl"
    for event in (BreakerChanged("openai", "open"), STARTED):
        with JsonLinesSink(path) as sink:
            sink.emit(event)
    assert list(read_events(path)) == [STARTED]


def test_a_file_is_added_to_and_left_open():
    file = io.StringIO("kept\n")
    file.seek(0, io.SEEK_END)
    with JsonLinesSink(file) as sink:
        sink.emit(STARTED)
    assert not file.closed
    assert file.getvalue().startswith("kept\n{")


def test_a_sink_can_be_closed_twice(tmp_path):
    sink = JsonLinesSink(tmp_path / "events.jsonl")
    sink.close()
    sink.close()


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"event": "CallStarted", "step_id": "gr', "malformed"),
        ("[]", "object"),
        ("", "truncated"),
        ('{"step_id": null}', "`event`"),
        ('{"event": "CallStartd"}', "unknown event 'CallStartd'"),
        ('{"event": ["CallStarted"]}', r"\$\.event"),
        ('{"event": "CallStarted", "step_id": 3, "model": "m"}', "step_id"),
        ('{"event": "CallRecorded", "step_id": null, "provider": "p", "model": "m"}', "latency_s"),
    ],
)
def test_a_line_that_is_no_event_is_named(tmp_path, line, reason):
    path = tmp_path / "events.jsonl"
    good = '{"event":"CallRecorded","step_id":null,"provider":"p","model":"m","latency_s":1}'
    path.write_text(f"{good}\n{line}\n{good}\n")
    events = read_events(path)
    assert next(events) == CallRecorded(None, "p", "m", 1.0)
    with pytest.raises(InputError, match=reason) as raised:
        next(events)
    assert raised.value.source == str(path)
    assert raised.value.place == "line 2"


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(InputError, match="No such file") as raised:
        list(read_events(tmp_path / "none.jsonl"))
    assert raised.value.source == str(tmp_path / "none.jsonl")


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "no folder").touch()
    with pytest.raises(InputError, match="File exists") as raised:
        JsonLinesSink(tmp_path / "no folder" / "events.jsonl")
    assert raised.value.source == str(tmp_path / "no folder" / "events.jsonl")


def test_a_missing_folder_is_made(tmp_path):
    with JsonLinesSink(tmp_path / "some" / "folder" / "events.jsonl") as sink:
        sink.emit(BreakerChanged("openai", "open"))
    assert len(list(read_events(tmp_path / "some" / "folder" / "events.jsonl"))) == 1
