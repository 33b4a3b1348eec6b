"""Several sinks as one."""

import logging

from offbook.clock import run
from offbook.events import BreakerChanged, MemorySink, Sinks
from tests.observe.traffic import drive

OPENED, CLOSED = BreakerChanged("openai", "open"), BreakerChanged("openai", "closed")


class BrokenSink:
    """Fails at every event."""

    def __init__(self):
        self.told = 0

    def emit(self, event):
        self.told += 1
        raise ValueError("out of paper")


def test_every_sink_is_told_every_event_in_order():
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
    assert broken.told == 2


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
