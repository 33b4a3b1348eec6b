"""Spans in a file."""

import json

import pytest

from offbook.clock import run
from offbook.errors import InputError
from offbook.gateway.gateway import ProviderGateway
from offbook.observe import SpanFileSink
from offbook.session.provider import MockProvider
from tests.observe.traffic import request

ANSWERS = {"ask": [{"fault": {"type": "timeout", "after_ms": 2000}}, {"content": "Hello!"}]}


async def ask(sink):
    gateway = ProviderGateway(sink=sink)
    gateway.register(MockProvider(responses=ANSWERS, sink=sink))
    await gateway.send(request("ask"))


def test_each_span_is_a_line_of_json_in_the_order_in_which_they_ended(tmp_path):
    path = tmp_path / "new" / "spans.jsonl"
    with SpanFileSink(path) as sink:
        run(ask(sink), virtual_time=True)
    failed, answered, call = (json.loads(line) for line in path.read_text().splitlines())
    assert [span["name"] for span in (failed, answered)] == ["attempt mock", "attempt mock"]
    assert failed["attributes"]["mock.fault_type"] == "timeout"
    assert call["name"].startswith("chat ")
    assert failed["parent_id"] == answered["parent_id"] == call["context"]["span_id"]


def test_what_was_written_before_is_replaced(tmp_path):
    path = tmp_path / "spans.jsonl"
    path.write_text("old")
    SpanFileSink(path).close()
    assert path.read_text() == ""


def test_it_can_be_closed_twice(tmp_path):
    sink = SpanFileSink(tmp_path / "spans.jsonl")
    sink.close()
    sink.close()


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    with pytest.raises(InputError) as caught:
        SpanFileSink(tmp_path)
    assert caught.value.source == str(tmp_path)
