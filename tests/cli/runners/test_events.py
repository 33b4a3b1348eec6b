"""Where the events of a run go."""

import urllib.request
from contextlib import closing
from socket import socket

import pytest

from offbook.cli.runners.events import EventOptions
from offbook.errors import InputError
from offbook.events import WorkflowEnded
from offbook.observe.json_lines import read_events

ENDED = WorkflowEnded("greet", "succeeded", 1.0)
COUNTED = 'offbook_workflow_runs_total{status="succeeded",workflow="greet"} 1.0'


def free_port():
    with closing(socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_without_options_events_go_nowhere():
    with EventOptions().open() as sink:
        sink.emit(ENDED)


def test_a_trace_metrics_and_spans_get_the_same_events(tmp_path):
    trace, metrics, spans = (str(tmp_path / name) for name in ("events.jsonl", "run.prom", "spans.jsonl"))
    with EventOptions(trace=trace, metrics=metrics, spans=spans).open() as sink:
        sink.emit(ENDED)
    assert list(read_events(trace)) == [ENDED]
    assert COUNTED in (tmp_path / "run.prom").read_text().splitlines()
    assert (tmp_path / "spans.jsonl").exists()


def test_metrics_are_written_however_the_run_ends(tmp_path):
    path = tmp_path / "new" / "run.prom"
    with pytest.raises(KeyboardInterrupt), EventOptions(metrics=str(path)).open() as sink:  # noqa: PT012
        sink.emit(ENDED)
        raise KeyboardInterrupt
    assert COUNTED in path.read_text().splitlines()


def test_metrics_are_served_at_a_port_while_the_run_lasts():
    port = free_port()
    with EventOptions(metrics=str(port)).open() as sink:
        sink.emit(ENDED)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as scraped:
            assert COUNTED in scraped.read().decode().splitlines()
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")


def test_a_port_that_is_taken_is_refused_before_the_run():
    with closing(socket()) as busy_socket:
        busy_socket.bind(("127.0.0.1", 0))
        busy_socket.listen()
        port = busy_socket.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is not available"), EventOptions(metrics=str(port)).open():
            pass


def test_a_file_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    ran = []
    with pytest.raises(InputError) as caught, EventOptions(metrics=str(tmp_path)).open():
        ran.append("once")
    assert caught.value.source == str(tmp_path)
    assert ran == []
