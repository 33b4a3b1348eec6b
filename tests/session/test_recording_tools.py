"""Recording tools: they do what they did, and every call of them is kept."""

import asyncio
import datetime as dt
import json
import threading
from functools import partial

import pytest

from offbook import RecordingProvider, Redactor, run
from offbook.errors import (
    InputError,
    RecordingFormatError,
    RecordingMismatchError,
    RecordingWriteError,
    ToolArgumentsError,
    ToolResolutionError,
    ToolTimeoutError,
)
from offbook.messages import ToolCall
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import RecordedError, ToolExchange, hash_arguments
from offbook.recording.stores.locate import open_store
from offbook.session.recording_tools import record_tools
from offbook.session.replayed_tools import replay_tools
from offbook.tools.definition import ToolDef, ToolSpec
from offbook.tools.dispatch import run_tool
from offbook.tools.function_tool import tool_of
from offbook.tools.toolbox import Toolbox
from tests.fakes import Echo, user

LIVE_KEY = "sk-" + "proj-" + "Zx81" * 8


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch):
    """A place for a recording, of each kind."""
    monkeypatch.chdir(tmp_path)
    return request.param


def calls_of(location, tool):
    """The recorded calls of a tool, always a list."""
    calls = open_store(location).load().tools.get(tool, [])
    assert isinstance(calls, list)
    return calls


def outcomes(location, tool):
    """Each recorded call's arguments, and its result or error."""
    return [(call.arguments, call.error or call.answer) for call in calls_of(location, tool)]


def get_weather(city: str, day: dt.date | None = None) -> dict:
    """The weather."""
    if city == "Atlantis":
        raise LookupError("no such city")
    return {"city": city, "day": day}


async def fetch(url: str) -> str:
    await asyncio.sleep(0.25)
    return f"<{url}>"


def test_a_call_does_what_it_did_and_is_kept_as_the_model_made_it(location):
    with record_tools([get_weather], location) as tools:
        assert tools["get_weather"](city="Oslo", day="2026-01-02") == {
            "city": "Oslo",
            "day": dt.date(2026, 1, 2),
        }
    (call,) = calls_of(location, "get_weather")
    assert call.arguments == {"city": "Oslo", "day": "2026-01-02"}
    assert call.result == {"city": "Oslo", "day": "2026-01-02"}
    assert call.result_type is None
    assert call.error is None
    assert call.arguments_hash is None
    assert call.recorded_at > "2020"


def test_an_error_is_kept_and_raised(location):
    with record_tools([get_weather], location) as tools:
        with pytest.raises(LookupError, match="no such city"):
            tools["get_weather"](city="Atlantis")
        tools["get_weather"](city="Oslo")
    first, second = calls_of(location, "get_weather")
    assert first.error == RecordedError("LookupError", "no such city")
    assert second.error is None


def test_time_is_taken_by_the_clock_of_the_loop(location):
    async def work():
        async with record_tools([fetch], location) as tools:
            assert await tools["fetch"](url="a") == "<a>"

    run(work(), virtual_time=True)
    (call,) = calls_of(location, "fetch")
    assert call.latency_ms == 250.0
    assert call.recorded_at == "2000-01-01T00:00:00.250000+00:00"


def test_without_a_loop_real_time_is_taken(location):
    with record_tools({"count": lambda: sum(range(100_000))}, location) as tools:
        tools["count"]()
    assert 0 < calls_of(location, "count")[0].latency_ms < 10_000


async def test_the_agent_sees_no_difference(location):
    """Same specs, same checks, same texts, of functions, coroutine functions and hand-made tools."""
    by_hand = ToolDef(ToolSpec("by_hand", "Made by hand.", {"type": "object"}), lambda **args: args, ["fetch"])
    real = Toolbox([get_weather, fetch, by_hand])
    calls = [
        ToolCall("get_weather", {"city": "Oslo", "day": "2026-01-02"}),
        ToolCall("get_weather", {"city": "Atlantis"}),
        ToolCall("get_weather", {"town": "Oslo"}),
        ToolCall("fetch", {"url": "a"}),
        ToolCall("by_hand", {"x": [1, {"y": None}]}),
    ]
    with record_tools(real, location) as tools:
        assert tools.functions == real.functions
        assert [tool.prerequisites for tool in tools.values()] == [tool.prerequisites for tool in real.values()]
        for call in calls:
            expected = await run_tool(real[call.tool], call)
            assert (await run_tool(tools[call.tool], call)).text == expected.text
    with replay_tools(real, location) as replayed:
        assert replayed.functions == real.functions
        for call in calls:
            expected = await run_tool(real[call.tool], call)
            assert (await run_tool(replayed[call.tool], call)).text == expected.text
        assert replayed.unused() == []
    assert len(calls_of(location, "get_weather")) == 2


def test_arguments_that_the_tool_refuses_are_no_call(location):
    with record_tools([get_weather, tool_of(fetch, timeout_s=1)], location) as tools:
        with pytest.raises(ToolArgumentsError):
            tools["get_weather"].bind({"town": "Oslo"})
        with pytest.raises(ToolArgumentsError):
            tools["get_weather"](town="Oslo")
        with pytest.raises(ToolArgumentsError):
            run(tools["fetch"](uri="x"))
    assert open_store(location).load().tools == {}


def test_what_a_tool_does_to_its_arguments_is_not_kept(location):
    def consume(items: list):
        items.clear()
        return "done"

    with record_tools([consume], location) as tools:
        tools["consume"](items=[1, 2])
    assert outcomes(location, "consume") == [({"items": [1, 2]}, "done")]


def test_what_has_no_json_is_kept_as_text_with_its_type(location):
    with record_tools({"now": lambda: dt.date(2026, 1, 2)}, location) as tools:
        assert tools["now"]() == dt.date(2026, 1, 2)
    (call,) = calls_of(location, "now")
    assert call.result == "2026-01-02"
    assert call.result_type == "date"


async def test_what_can_be_waited_for_is_kept_when_it_has_ended(location):
    async def broken():
        raise ToolResolutionError("nothing there")

    tools = {"partial": partial(fetch, url="p"), "later": lambda: fetch("l"), "broken": lambda number=0: broken()}
    with record_tools(tools, location) as recorded:
        assert await recorded["partial"]() == "<p>"
        assert await recorded["later"]() == "<l>"
        with pytest.raises(ToolResolutionError):
            await recorded["broken"]()
    assert outcomes(location, "later") == [({}, "<l>")]
    assert outcomes(location, "broken") == [({}, RecordedError("ToolResolutionError", "nothing there"))]


async def test_parallel_calls_are_all_kept(location):
    async def slow(n: int) -> int:
        await asyncio.sleep(0.01 / (n + 1))
        return n

    with record_tools([slow], location) as tools:
        assert await asyncio.gather(*(tools["slow"](n=n) for n in range(20))) == list(range(20))
    assert sorted(call.answer for call in calls_of(location, "slow")) == list(range(20))


def test_a_call_that_was_too_late_is_kept_as_what_the_agent_saw(location):
    async def slow():
        await asyncio.sleep(60)

    async def work(tools):
        return await run_tool(tools["slow"], ToolCall("slow"))

    real = {"slow": tool_of(slow, timeout_s=5)}
    with record_tools(real, location) as tools:
        live = run(work(tools), virtual_time=True)
    assert isinstance(live.error, ToolTimeoutError)
    (call,) = calls_of(location, "slow")
    assert call.error.type == "ToolTimeoutError"
    assert call.latency_ms == 5000.0
    assert run(work(replay_tools(real, location)), virtual_time=True).text == live.text


async def test_a_synchronous_tool_with_a_time_limit_runs_in_a_thread_and_is_kept(location):
    def where() -> bool:
        return threading.current_thread() is threading.main_thread()

    with record_tools([tool_of(where, timeout_s=5)], location) as tools:
        assert (await run_tool(tools["where"], ToolCall("where"))).value is False
    assert outcomes(location, "where") == [({}, False)]


async def test_an_error_of_a_tool_with_a_time_limit_is_kept_and_raised(location):
    def refuse():
        raise ValueError("no")

    with record_tools([tool_of(refuse, timeout_s=5)], location) as tools, pytest.raises(ValueError, match="no"):
        await tools["refuse"]()
    assert outcomes(location, "refuse") == [({}, RecordedError("ValueError", "no"))]


async def test_a_coroutine_that_fails_is_kept_and_raised(location):
    async def refuse():
        raise ValueError("no")

    with record_tools([refuse], location) as tools, pytest.raises(ValueError, match="no"):
        await tools["refuse"]()
    assert outcomes(location, "refuse") == [({}, RecordedError("ValueError", "no"))]


def test_a_call_that_is_cancelled_is_not_kept(location):
    async def work():
        with record_tools([fetch], location) as tools:
            task = asyncio.create_task(tools["fetch"](url="a"))
            await asyncio.sleep(0.1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run(work(), virtual_time=True)
    assert open_store(location).load().tools == {}


def test_an_error_of_the_test_is_not_kept(location):
    def nested():
        raise RecordingMismatchError("no answer", kind="missing")

    with record_tools([nested], location) as tools, pytest.raises(RecordingMismatchError):
        tools["nested"]()
    assert open_store(location).load().tools == {}


def test_secrets_are_taken_out_and_the_call_still_matches(location):
    def log_in(password: str, note: str) -> dict:
        if note == "fail":
            raise ValueError(f"bad key {LIVE_KEY}")
        return {"token": LIVE_KEY, "customer": "CUST-123456"}

    with record_tools([log_in], location, redactor=Redactor(patterns=(r"CUST-\d{6}",))) as tools:
        tools["log_in"](password="hunter2", note="one")
        with pytest.raises(ValueError, match="bad key"):
            tools["log_in"](password="hunter3", note="fail")
    first, second = calls_of(location, "log_in")
    assert first.arguments == {"password": "<redacted>", "note": "one"}
    assert first.arguments_hash == hash_arguments({"password": "hunter2", "note": "one"})
    assert first.result["customer"] == "<redacted>"
    assert first.result["token"].startswith("<redacted:openai-key:")
    assert second.error.message.startswith("bad key <redacted:openai-key:")
    replayed = replay_tools([log_in], location)
    with pytest.raises(ValueError, match="bad key"):
        replayed["log_in"](password="hunter3", note="fail")
    assert replayed["log_in"](password="hunter2", note="one") == first.result


async def test_a_recorder_of_models_may_write_the_same_recording_at_the_same_time(location):
    async with RecordingProvider(Echo(), location) as provider, record_tools([get_weather], location) as tools:
        for number in range(5):
            await provider.complete(user(str(number)), "m", step_id="loop")
            tools["get_weather"](city=str(number))
    document = open_store(location).load()
    assert [exchange.content for exchange in document.exchanges("loop")] == [f"{n} #{n + 1}" for n in range(5)]
    assert [call.arguments["city"] for call in document.tools["get_weather"]] == ["0", "1", "2", "3", "4"]


def test_a_further_tool_can_be_put_in_place(location):
    with record_tools((), location) as tools:
        assert tools.wrap(tool_of(get_weather))(city="Oslo")["city"] == "Oslo"
        assert tools.wrap(tools.wrap(tool_of(get_weather))).bind({"city": "Rome"}) == {"city": "Rome"}
    assert len(calls_of(location, "get_weather")) == 1
    with replay_tools((), location) as tools:
        assert tools.wrap(tool_of(get_weather))(city="Oslo")["city"] == "Oslo"
        assert tools.unused() == []


def test_threads_may_share_recorded_tools(location):
    def double(n: int) -> int:
        return 2 * n

    def work(tools, first):
        for n in range(first, first + 50):
            assert tools["double"](n=n) == 2 * n

    with record_tools([double], location, record="all") as tools:
        threads = [threading.Thread(target=work, args=(tools, 50 * number)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(call.answer for call in calls_of(location, "double")) == [2 * n for n in range(200)]


async def test_a_call_that_cannot_be_recorded_is_an_error_that_no_model_gets(tmp_path):
    """`run_tool` gives other errors of a tool to the model, which would go on without the recording."""
    path = tmp_path / "runs" / "run.json"
    tools = record_tools({"get": lambda: "rain"}, path)
    path.unlink()
    path.parent.rmdir()
    with pytest.raises(RecordingWriteError, match="no such file or directory"):
        await run_tool(tools["get"], ToolCall("get", {}))


def test_a_call_is_on_disk_before_its_caller_goes_on(location):
    tools = record_tools([get_weather], location)
    tools["get_weather"](city="Oslo")
    assert len(calls_of(location, "get_weather")) == 1
    tools.close()
    tools.close()
    assert len(calls_of(location, "get_weather")) == 1


def test_the_file_reads_well(tmp_path):
    path = tmp_path / "run.json"
    with record_tools([get_weather], path) as tools:
        tools["get_weather"](city="Oslo")
    ((name, (call,)),) = json.loads(path.read_text())["_tools"].items()
    assert name == "get_weather"
    assert call.keys() <= {"arguments", "result", "latency_ms", "recorded_at"}
    assert call["arguments"] == {"city": "Oslo"}
    assert call["result"] == {"city": "Oslo", "day": None}


def test_what_cannot_be_written_is_reported_when_it_is_opened(tmp_path):
    with pytest.raises(InputError, match="name a file, not a folder"):
        record_tools([get_weather], tmp_path)
    with pytest.raises(InputError, match="is not a valid tool name"):
        record_tools({"a b": get_weather}, tmp_path / "run.json")
    assert list(tmp_path.iterdir()) == []


def record(location, *calls, record="append"):
    """What the calls, each a tool and a text, are answered with, and how many of them ran."""
    ran = []

    def echo(tool, text):
        ran.append(text)
        return f"{tool} {text} #{len(ran)}"

    tools = {"a": lambda text: echo("a", text), "b": lambda text: echo("b", text)}
    with record_tools(tools, location, record=record) as recorded:
        return [recorded[tool](text=text) for tool, text in calls], len(ran)


def contents(location):
    """The results that the recording holds of each tool."""
    tools = open_store(location).load().tools
    return {tool: [call.answer for call in calls] for tool, calls in tools.items()}


def test_append_runs_everything_and_adds_it_behind_what_is_there(location):
    record(location, ("a", "x"), ("b", "y"))
    assert record(location, ("a", "x")) == (["a x #1"], 1)
    assert contents(location) == {"a": ["a x #1", "a x #1"], "b": ["b y #2"]}


@pytest.mark.parametrize("mode", ["append", "once", "new", "all", "fresh"])
def test_every_mode_records_into_a_new_file_and_one_without_calls_of_tools(location, mode):
    async def record_model():
        async with RecordingProvider(Echo(), location) as provider:
            await provider.complete(user("Hi"), "m", step_id="greet")

    run(record_model())
    assert record(location, record=mode) == ([], 0)
    assert record(location, ("a", "x"), ("a", "x"), record=mode) == (["a x #1", "a x #2"], 2)
    assert contents(location) == {"a": ["a x #1", "a x #2"]}
    assert len(list(open_store(location).load())) == 1


def test_once_answers_from_what_is_there_and_leaves_it_as_it_is(location):
    record(location, ("a", "x"), ("a", "y"))
    before = contents(location)
    assert record(location, ("a", "y"), ("a", "x"), record="once") == (["a y #2", "a x #1"], 0)
    with pytest.raises(RecordingMismatchError) as caught:
        record(location, ("a", "z"), record="once")
    assert caught.value.kind == "drifted"
    assert caught.value.key == "a"
    assert contents(location) == before


def test_new_answers_what_is_there_and_adds_what_is_missing(location):
    record(location, ("a", "x"))
    said, ran = record(location, ("a", "x"), ("a", "x"), ("a", "y"), ("b", "z"), record="new")
    assert said == ["a x #1", "a x #1", "a y #2", "b z #3"]
    assert ran == 3
    assert contents(location) == {"a": ["a x #1", "a x #1", "a y #2"], "b": ["b z #3"]}


def test_all_runs_everything_and_replaces_the_tools_it_touches(location):
    record(location, ("a", "x"), ("a", "y"), ("b", "old"))
    document = open_store(location).load()
    document.add_tool("a", ToolExchange(result="by hand"))
    document.add_tool("a", ToolExchange(result="of the future", recorded_at="2999-01-01T00:00:00.000000+00:00"))
    open_store(location).save(document)
    said, ran = record(location, ("a", "x2"), ("a", "y2"), record="all")
    assert ran == 2
    assert contents(location) == {"a": said, "b": ["b old #3"]}


def test_all_leaves_the_calls_of_models_alone(location):
    async def record_model():
        async with RecordingProvider(Echo(), location) as provider:
            await provider.complete(user("Hi"), "m", step_id="a")

    run(record_model())
    record(location, ("a", "x"), record="all")
    record(location, ("a", "y"), record="all")
    document = open_store(location).load()
    assert document.entries["a"].content == "Hi #1"
    assert contents(location) == {"a": ["a y #1"]}


def test_tools_that_wait_are_answered_from_the_recording_too(location):
    async def fetch(url: str) -> str:
        ran.append(url)
        return url.upper()

    ran = []
    for timeout_s in (None, 5, None):
        with record_tools([tool_of(fetch, timeout_s=timeout_s)], location, record="once") as tools:
            assert run(tools["fetch"](url="x")) == "X"
    assert ran == ["x"]


def test_an_unknown_mode_is_refused_with_the_list(location):
    with pytest.raises(InputError, match="unknown mode 'none'") as caught:
        record(location, record="none")
    assert caught.value.hint == "one of: append, once, new, all, fresh"
    assert not open_store(location).exists()


@pytest.mark.parametrize("mode", ["once", "new"])
def test_what_cannot_be_replayed_strictly_cannot_answer_first(location, mode):
    open_store(location).save(Document(tools={"a": [ToolExchange(result="x")]}, version=1))
    with pytest.raises(RecordingFormatError, match="record it again"):
        record(location, ("a", "x"), record=mode)
    assert record(location, ("a", "x")) == (["a x #1"], 1)
    assert contents(location) == {"a": ["x", "a x #1"]}
