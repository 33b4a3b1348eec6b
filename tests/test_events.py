"""Events: frozen values, and the sinks they go to."""

import inspect
from typing import get_args

import pytest
from msgspec import Struct

from offbook import events
from offbook.events import NULL_SINK, CallRecorded, Event, MemorySink, NullSink, ReplayMissed, ReplayServed

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
    assert set(get_args(Event)) == declared
    assert all(of.__struct_config__.frozen for of in declared)
