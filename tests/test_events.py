"""Events: frozen values, and the sinks they go to."""

import inspect
import logging
from typing import get_args

import pytest
from msgspec import Struct

from offbook import events
from offbook.clock import run
from offbook.events import (
    NULL_SINK,
    BreakerChanged,
    CallRecorded,
    Event,
    MemorySink,
    NullSink,
    ReplayMissed,
    ReplayServed,
    Sinks,
)
from tests.observe.traffic import drive

SERVED = ReplayServed("greet", "m", "step_id", "greet", "0" * 64)
EVENTS = [SERVED, ReplayMissed("greet", "m", "missing"), CallRecorded("greet", "openai", "m", 1.5)]


def test_a_memory_sink_keeps_events_in_order():
    sink = MemorySink()
    for event in EVENTS:
        sink.emit(event)
    assert sink.events == EVENTS


def test_sinks_do_not_share_their_events():
    MemorySink().emit(SERVED)
    assert MemorySink().events == []


def test_the_null_sink_takes_everything_and_gives_nothing():
    assert isinstance(NULL_SINK, NullSink)
    assert [NULL_SINK.emit(event) for event in EVENTS] == [None, None, None]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_cannot_be_changed(event):
    with pytest.raises(AttributeError):
        event.step_id = "other"


def test_the_fields_of_a_served_call_can_be_read_as_items():
    assert {name: SERVED[name] for name in SERVED.__struct_fields__} == {
        name: getattr(SERVED, name) for name in SERVED.__struct_fields__
    }
    assert SERVED["matched_by"] == "step_id"


@pytest.mark.parametrize("name", ["prompt", "__class__", "__getitem__"])
def test_nothing_but_fields_can_be_read_as_items(name):
    with pytest.raises(KeyError, match=name):
        SERVED[name]


def test_every_event_has_its_place_in_the_union():
    declared = {
        of for _, of in inspect.getmembers(events, inspect.isclass) if issubclass(of, Struct) and of is not Struct
    }
    assert set(get_args(Event)) == declared - {events.CallContent}  # which is no event: no sink gets it unasked
    assert all(of.__struct_config__.frozen for of in declared)


OPENED, CLOSED = BreakerChanged("openai", "open"), BreakerChanged("openai", "closed")


class BrokenSink:
    """Fails at every event."""

    def __init__(self):
        self.calls = 0

    def emit(self, event):
        self.calls += 1
        raise ValueError("out of paper")


def test_every_sink_gets_every_event_in_order():
    first, second = MemorySink(), MemorySink()
    sinks = Sinks(first, second)
    for event in (OPENED, CLOSED):
        sinks.emit(event)
    assert first.events == second.events == [OPENED, CLOSED]


def test_a_sink_that_raises_does_not_keep_events_from_the_others():
    broken, memory = BrokenSink(), MemorySink()
    sinks = Sinks(broken, memory)
    for event in (OPENED, CLOSED):
        sinks.emit(event)
    assert memory.events == [OPENED, CLOSED]
    assert broken.calls == 2


def test_each_sink_that_raises_is_reported_once_with_its_traceback(caplog):
    sinks = Sinks(BrokenSink(), BrokenSink())
    with caplog.at_level(logging.ERROR, logger="offbook.events"):
        for event in (OPENED, CLOSED):
            sinks.emit(event)
    assert [record.getMessage().partition(";")[0] for record in caplog.records] == [
        "BrokenSink failed on BreakerChanged",
        "BrokenSink failed on BreakerChanged",
    ]
    assert "out of paper" in caplog.records[0].exc_text


def test_a_run_is_the_same_with_a_broken_sink(tmp_path):
    alone, beside = MemorySink(), MemorySink()
    for name, sink in (("alone", alone), ("beside", Sinks(BrokenSink(), beside))):
        (tmp_path / name).mkdir()
        run(drive(sink, tmp_path / name), virtual_time=True)
    assert beside.events == alone.events
