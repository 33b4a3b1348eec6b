"""Replaying tools: calls are answered from a recording, and nothing runs."""

import asyncio
import logging
import threading

import orjson
import pytest

from offbook import run
from offbook.errors import (
    InputError,
    RecordingFormatError,
    RecordingMismatchError,
    ToolArgumentsError,
    ToolTimeoutError,
)
from offbook.messages import ToolCall
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import RecordedToolError, ToolExchange, hash_arguments
from offbook.recording.match.cursor import UnusedEntry
from offbook.recording.recorded_tools import RecordedTools
from offbook.recording.stores.locate import open_store
from offbook.session.replayed_tools import ReplayedToolCall, replay_tools
from offbook.tools.dispatch import run_tool, run_tools
from offbook.tools.function_tool import tool_of
from offbook.tools.toolbox import Toolbox


def get_weather(city: str = "") -> str:
    """A tool that must not run."""
    raise AssertionError(f"ran for {city}")


async def fetch(url: str = "") -> str:
    """The like."""
    raise AssertionError(f"ran for {url}")


TOOLS = [get_weather, fetch]


def replay(calls, **options):
    """The tools, with these recorded calls of get_weather."""
    return replay_tools(TOOLS, {"_tools": {"get_weather": calls}}, **options)


def said(result, **arguments):
    return {"arguments": arguments, "result": result}


def test_a_call_is_answered_by_the_first_unused_exchange_with_its_arguments():
    tools = replay([said("rain", city="Oslo"), said("sun", city="Rome"), said("snow", city="Oslo")])
    assert tools["get_weather"](city="Rome") == "sun"
    assert [tools["get_weather"](city="Oslo") for _ in range(2)] == ["rain", "snow"]
    assert tools.unused() == []
    assert tools.calls == [ReplayedToolCall("get_weather", {"city": city}) for city in ("Rome", "Oslo", "Oslo")]


def test_exchanges_without_arguments_answer_any_call_in_order():
    tools = replay([{"result": 1}, {"result": 2}, said(3, city="Oslo")])
    assert [tools["get_weather"](city=city) for city in ("a", "b", "Oslo")] == [1, 2, 3]


def test_an_object_answers_every_call_that_it_fits():
    tools = replay({"result": "rain"})
    assert [tools["get_weather"](city=str(n)) for n in range(3)] == ["rain"] * 3
    tools = replay(said("rain", city="Oslo"))
    assert [tools["get_weather"](city="Oslo") for _ in range(3)] == ["rain"] * 3
    with pytest.raises(RecordingMismatchError):
        tools["get_weather"](city="Rome")


@pytest.mark.parametrize("result", [None, True, 1, 1.5, "text", [1, {"a": None}], {"a": {"b": []}}])
def test_results_are_plain_json_values_and_the_callers_own(result):
    tools = replay({"result": result})
    first = tools["get_weather"]()
    assert first == result
    if isinstance(first, list | dict):
        first.clear()
    assert tools["get_weather"]() == result


def test_a_call_without_result_or_error_gives_none():
    assert replay([{}])["get_weather"](city="Oslo") is None


def test_a_recorded_error_is_raised_again_each_time():
    tools = replay({"error": {"type": "PermissionError", "message": "no"}})
    for _ in range(2):
        with pytest.raises(PermissionError, match="no"):
            tools["get_weather"]()
    assert [call.error_type for call in tools.calls] == ["PermissionError", "PermissionError"]
    with pytest.raises(RecordedToolError, match="gone"):
        replay({"error": {"type": "OutOfStockError", "message": "gone"}})["get_weather"]()


def test_what_was_not_served_is_unused_also_of_tools_that_nobody_has():
    recording = {"_tools": {"get_weather": [{"result": 1}, {"result": 2}], "gone": {"result": 3}}}
    tools = replay_tools(TOOLS, recording)
    tools["get_weather"]()
    assert tools.unused() == [UnusedEntry("get_weather", 1), UnusedEntry("gone", 0)]


@pytest.mark.parametrize(
    ("calls", "kind"), [(None, "missing"), ([said(1, city="Rome")], "drifted"), (said(1, city="Rome"), "drifted")]
)
def test_strict_refuses_what_does_not_fit(calls, kind):
    tools = replay_tools(TOOLS, {} if calls is None else {"_tools": {"get_weather": calls}})
    with pytest.raises(RecordingMismatchError) as caught:
        tools["get_weather"](city="Oslo")
    assert caught.value.kind == kind
    assert caught.value.key == "get_weather"
    assert tools.calls == []


def test_strict_refuses_what_is_used_up():
    tools = replay([said(1, city="Oslo")])
    tools["get_weather"](city="Oslo")
    with pytest.raises(RecordingMismatchError) as caught:
        tools["get_weather"](city="Oslo")
    assert caught.value.kind == "exhausted"


def test_lenient_answers_with_the_next_then_the_last_and_warns_in_one_line(caplog):
    tools = replay([said("rain", city="Oslo"), said("sun", city="Rome")], strict=False)
    with caplog.at_level(logging.WARNING, logger="offbook.replay"):
        assert [tools["get_weather"](city="Bonn") for _ in range(3)] == ["rain", "sun", "sun"]
    assert [call.mismatch for call in tools.calls] == ["drifted", "drifted", "exhausted"]
    assert [record.getMessage() for record in caplog.records] == [
        f"recording: a call of 'get_weather' is {kind}; answered from the recording nevertheless"
        for kind in ("drifted", "drifted", "exhausted")
    ]


def test_lenient_answers_with_the_default_where_there_is_nothing(caplog):
    tools = replay_tools(TOOLS, {}, strict=False, default="dunno")
    with caplog.at_level(logging.WARNING, logger="offbook.replay"):
        assert tools["get_weather"]() == "dunno"
    assert [record.getMessage() for record in caplog.records] == [
        "recording: a call of 'get_weather' is missing; answered with the default"
    ]
    assert tools.calls == [ReplayedToolCall("get_weather", {}, "missing")]
    assert replay_tools(TOOLS, {}, strict=False)["get_weather"]() is None


@pytest.mark.parametrize("location", ["run.json", "sqlite:///run.db"])
def test_a_recording_is_named_as_everywhere(tmp_path, monkeypatch, location):
    monkeypatch.chdir(tmp_path)
    document = Document(tools={"get_weather": [ToolExchange(arguments={"city": "Oslo"}, result="rain")]})
    open_store(location).save(document)
    with replay_tools(TOOLS, location) as tools:
        assert tools["get_weather"](city="Oslo") == "rain"
        with pytest.raises(RecordingMismatchError) as missed:
            tools["get_weather"](city="Oslo")
        assert missed.value.kind == "exhausted"
        assert str(missed.value).startswith(f"{location}: ")
    assert replay_tools(TOOLS, document)["get_weather"](city="Oslo") == "rain"
    with pytest.raises(InputError, match="no such recording"):
        replay_tools(TOOLS, "none.json")
    with pytest.raises(RecordingFormatError, match="expected a dict"):
        replay_tools(TOOLS, [1])


def test_a_recording_of_version_1_is_only_read_leniently():
    old = {"_version": 1, "_tools": {"get_weather": {"result": 1}}}
    with pytest.raises(RecordingFormatError, match="cannot be replayed strictly"):
        replay_tools(TOOLS, old)
    assert replay_tools(TOOLS, old, strict=False)["get_weather"]() == 1


def test_a_redacted_exchange_answers_the_arguments_that_it_had():
    call = said("in", password="<redacted>") | {"arguments_hash": hash_arguments({"password": "hunter2"})}
    tools = replay_tools({"log_in": lambda password: None}, {"_tools": {"log_in": [call]}})
    with pytest.raises(RecordingMismatchError) as caught:
        tools["log_in"](password="<redacted>")
    assert "nothing differs that can be shown: the recorded request was redacted" in caught.value.difference
    assert tools["log_in"](password="hunter2") == "in"


async def test_arguments_are_checked_as_the_real_tool_checks_them():
    tools = replay({"result": "rain"})
    with pytest.raises(ToolArgumentsError):
        tools["get_weather"].bind({"town": "Oslo"})
    outcome = await run_tool(tools["get_weather"], ToolCall("get_weather", {"city": 5}))
    assert isinstance(outcome.error, ToolArgumentsError)
    assert tools.calls == []


async def test_a_mismatch_is_never_reported_to_the_model():
    with pytest.raises(RecordingMismatchError):
        await run_tools(replay_tools(TOOLS, {}), [ToolCall("get_weather", {"city": "Oslo"})])


async def test_a_coroutine_function_is_one_still():
    tools = replay_tools(TOOLS, {"_tools": {"fetch": [said("<a>", url="a")]}})
    assert await tools["fetch"](url="a") == "<a>"


async def test_parallel_calls_each_get_their_own_answer_in_whatever_order_they_come():
    tools = replay([said(n, city=str(n)) for n in range(20)])
    calls = [ToolCall("get_weather", {"city": str(n)}) for n in reversed(range(20))]
    outcomes = await run_tools(Toolbox(tools), calls)
    assert [outcome.value for outcome in outcomes] == list(reversed(range(20)))


def test_threads_may_share_replayed_tools():
    tools = replay([{"result": n} for n in range(200)])
    results = []
    threads = [
        threading.Thread(target=lambda: results.extend(tools["get_weather"]() for _ in range(50))) for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(results) == list(range(200))


def elapsed_s(tools, *names):
    """How much virtual time calls of the tools take, one after another."""

    async def work():
        for name in names:
            await run_tool(tools[name], ToolCall(name))
        return asyncio.get_running_loop().time()

    return run(work(), virtual_time=True)


@pytest.mark.parametrize(
    ("options", "expected_s"),
    [({}, 0.0), ({"latency_ms": 100}, 0.2), ({"latency_model": "replay"}, 1.75)],
)
def test_calls_take_the_time_that_the_latency_says(options, expected_s):
    recording = {
        "_tools": {"get_weather": [{"latency_ms": 1500}], "fetch": [{"latency_ms": 250, "error": {"type": "OSError"}}]}
    }
    assert elapsed_s(replay_tools(TOOLS, recording, **options), "get_weather", "fetch") == pytest.approx(expected_s)


def test_the_default_takes_its_time_too():
    tools = replay_tools(TOOLS, {}, strict=False, latency_ms=100)
    assert elapsed_s(tools, "get_weather") == pytest.approx(0.1)


def test_a_latency_that_makes_no_sense_is_refused():
    with pytest.raises(InputError, match="unknown latency model"):
        replay_tools(TOOLS, {}, latency_model="slow")
    with pytest.raises(InputError, match="zero or more"):
        replay_tools(TOOLS, {}, latency_ms=-1)


async def test_a_time_limit_costs_no_thread_and_holds_under_latency():
    limited = [tool_of(get_weather, timeout_s=1)]
    recording = {"_tools": {"get_weather": {"result": 1, "latency_ms": 5000}}}
    threads = threading.active_count()
    outcome = await run_tool(replay_tools(limited, recording)["get_weather"], ToolCall("get_weather"))
    assert outcome.value == 1
    assert threading.active_count() == threads


def test_a_recorded_latency_over_the_time_limit_is_too_late_again():
    async def work():
        limited = [tool_of(get_weather, timeout_s=1)]
        recording = {"_tools": {"get_weather": {"result": 1, "latency_ms": 5000}}}
        tools = replay_tools(limited, recording, latency_model="replay")
        return await run_tool(tools["get_weather"], ToolCall("get_weather"))

    assert isinstance(run(work(), virtual_time=True).error, ToolTimeoutError)


async def test_replayed_tools_are_a_context_manager_either_way():
    with replay({"result": 1}) as tools:
        assert tools["get_weather"]() == 1
    async with replay({"result": 1}) as tools:
        assert tools["get_weather"]() == 1
    tools.close()


OFFERED = {"type": "function", "function": {"name": "refund", "parameters": {"type": "object"}}}
ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "find_order", "arguments": {}}]}


def written(path, document):
    path.write_bytes(orjson.dumps({"_version": 2, **document}))
    return path


def test_tools_are_called_or_offered_or_recorded(tmp_path):
    request = {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
        "tools": [OFFERED, {"type": "web_search"}],
    }
    tools = {"mail": [{"arguments": {}, "result": "sent"}]}
    path = written(tmp_path / "run.json", {"any": [ASKING, {"content": "x", "request": request}], "_tools": tools})
    names = RecordedTools(path)
    assert names.called == ("find_order", "mail")
    assert names.known == {"find_order", "mail", "refund"}


def test_a_recording_may_show_no_tools(tmp_path):
    assert RecordedTools(written(tmp_path / "run.json", {"any": {"content": "Hi"}})).known == frozenset()


def test_a_folder_shows_the_tools_of_all_its_recordings(tmp_path):
    written(tmp_path / "a.json", {"any": [ASKING]})
    (tmp_path / "more").mkdir()
    written(tmp_path / "more" / "b.json", {"_tools": {"mail": [{"arguments": {}, "result": "sent"}]}})
    assert RecordedTools(tmp_path).called == ("find_order", "mail")
