"""Mocks that answer from a recording."""

import logging

import pytest

from offbook import InputError, RecordingMismatchError, ToolCall, record_tools
from offbook.recording.format.file import document_from_dict
from offbook.scenarios import Mocks, replayed, sequence
from offbook.tools import run_tool
from tests.scenarios.mocks.resolving import resolve_all, virtually

RECORDING = {
    "_version": 2,
    "_tools": {
        "lookup": [
            {"arguments": {"id": 1}, "result": "first"},
            {"arguments": {"id": 2}, "result": {"name": "two"}},
            {"arguments": {"id": 1}, "result": "second"},
            {"arguments": {"id": 3}, "error": {"type": "ValueError", "message": "no such thing"}},
        ],
        "ping": {"result": "pong"},
    },
}
ONE, TWO, THREE = ("lookup", {"id": 1}), ("lookup", {"id": 2}), ("lookup", {"id": 3})


def test_a_call_is_answered_by_the_first_unused_exchange_with_equal_arguments_in_each_conversation():
    mocks = Mocks({"lookup": replayed(RECORDING)})
    for _ in range(2):
        results = virtually(resolve_all(mocks.conversation(), TWO, ONE, ONE))
        assert results == [{"name": "two"}, "first", "second"]


def test_conversations_side_by_side_use_up_nothing_of_each_other():
    async def side_by_side():
        mocks = Mocks({"lookup": replayed(RECORDING)})
        a, b = mocks.conversation(), mocks.conversation()
        return [*await resolve_all(a, ONE), *await resolve_all(b, ONE), *await resolve_all(a, ONE)]

    assert virtually(side_by_side()) == ["first", "first", "second"]


def test_a_recorded_error_is_raised_again():
    tools = Mocks({"lookup": replayed(RECORDING)}).conversation()
    assert virtually(resolve_all(tools, THREE)) == [{"error": "no such thing"}]


def test_a_tool_may_have_another_name_in_the_recording():
    tools = Mocks({"health": replayed(RECORDING, "ping"), "again": replayed(RECORDING, tool="ping")}).conversation()
    assert virtually(resolve_all(tools, "health", "health", "again")) == ["pong"] * 3


@pytest.mark.parametrize(
    ("calls", "kind"), [([("lookup", {"id": 9})], "drifted"), ([TWO, TWO], "exhausted"), (["other"], "missing")]
)
def test_a_call_that_nothing_fits_ends_the_conversation(calls, kind):
    tools = Mocks({"lookup": replayed(RECORDING), "other": replayed(RECORDING)}).conversation()
    with pytest.raises(RecordingMismatchError) as caught:
        virtually(resolve_all(tools, *calls))
    assert caught.value.kind == kind
    assert tools.calls[-1].error == str(caught.value)


def test_if_lenient_a_call_that_nothing_fits_is_answered_with_what_is_near(caplog):
    tools = Mocks({"lookup": replayed(RECORDING, strict=False), "no": replayed(RECORDING, strict=False)}).conversation()
    with caplog.at_level(logging.WARNING, logger="offbook.replay"):
        assert virtually(resolve_all(tools, ("lookup", {"id": 9}), "no")) == ["first", None]
    assert len(caplog.records) == 2


@pytest.mark.parametrize("name", ["run.json", "sqlite:///run.db"])
def test_what_was_recorded_is_served_from_its_store(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def get_weather(city: str):
        return {"city": city, "sky": "grey"}

    with record_tools([get_weather], name) as recorded:
        virtually(run_tool(recorded["get_weather"], ToolCall("get_weather", {"city": "Oslo"})))
    tools = Mocks({"get_weather": replayed(name)}).conversation()
    assert virtually(resolve_all(tools, ("get_weather", {"city": "Oslo"}))) == [{"city": "Oslo", "sky": "grey"}]
    with pytest.raises(RecordingMismatchError, match=r"^\S*run\.(json|db): tool 'get_weather': it has one answer"):
        virtually(resolve_all(tools, ("get_weather", {"city": "Rome"})))


def test_a_recording_may_be_a_document_and_part_of_a_sequence():
    answers = sequence([replayed(document_from_dict(RECORDING, source="run")), "over"])
    assert virtually(resolve_all(Mocks({"ping": answers}).conversation(), "ping", "ping")) == ["pong", "over"]


def test_a_recording_that_cannot_be_read_is_refused_where_it_is_declared(tmp_path):
    with pytest.raises(InputError, match=r"gone\.json"):
        replayed(tmp_path / "gone.json")


def test_an_old_recording_is_refused_unless_lenient():
    old = {"_tools": RECORDING["_tools"], "_version": 1}
    with pytest.raises(InputError, match="version 1 cannot be replayed strictly"):
        replayed(old)
    tools = Mocks({"ping": replayed(old, strict=False)}).conversation()
    assert virtually(resolve_all(tools, "ping")) == ["pong"]
