"""Record modes of tools: what runs, what is kept, and what becomes of what is there."""

import pytest

from offbook import RecordingProvider, run
from offbook.errors import InputError, RecordingFormatError, RecordingMismatchError
from offbook.recording.document import Document
from offbook.recording.stores.locate import open_store
from offbook.recording.tool_exchange import ToolExchange
from offbook.recording.tool_recorder import record_tools
from offbook.tools.function_tool import tool_of
from tests.fakes import Echo, user


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch):
    """A place for a recording, of each kind."""
    monkeypatch.chdir(tmp_path)
    return request.param


def record(location, *calls, record="append"):
    """What the calls, each a tool and a text, are answered with, and how many of them ran."""
    ran = []

    def echo(tool, text):
        ran.append(text)
        return f"{tool} {text} #{len(ran)}"

    tools = {"a": lambda text: echo("a", text), "b": lambda text: echo("b", text)}
    with record_tools(tools, location, record=record) as recorded:
        return [recorded[tool](text=text) for tool, text in calls], len(ran)


def kept(location):
    """The results that the recording holds of each tool."""
    tools = open_store(location).load().tools
    return {tool: [call.answer for call in calls] for tool, calls in tools.items()}


def test_append_runs_everything_and_adds_it_behind_what_is_there(location):
    record(location, ("a", "x"), ("b", "y"))
    assert record(location, ("a", "x")) == (["a x #1"], 1)
    assert kept(location) == {"a": ["a x #1", "a x #1"], "b": ["b y #2"]}


@pytest.mark.parametrize("mode", ["append", "once", "new", "all", "fresh"])
def test_every_mode_records_into_a_new_file_and_one_without_calls_of_tools(location, mode):
    async def record_model():
        async with RecordingProvider(Echo(), location) as provider:
            await provider.complete(user("Hi"), "m", step_id="greet")

    run(record_model())
    assert record(location, record=mode) == ([], 0)
    assert record(location, ("a", "x"), ("a", "x"), record=mode) == (["a x #1", "a x #2"], 2)
    assert kept(location) == {"a": ["a x #1", "a x #2"]}
    assert len(list(open_store(location).load())) == 1


def test_once_answers_from_what_is_there_and_leaves_it_as_it_is(location):
    record(location, ("a", "x"), ("a", "y"))
    before = kept(location)
    assert record(location, ("a", "y"), ("a", "x"), record="once") == (["a y #2", "a x #1"], 0)
    with pytest.raises(RecordingMismatchError) as caught:
        record(location, ("a", "z"), record="once")
    assert (caught.value.kind, caught.value.key) == ("drifted", "a")
    assert kept(location) == before


def test_new_answers_what_is_there_and_adds_what_is_missing(location):
    record(location, ("a", "x"))
    said, ran = record(location, ("a", "x"), ("a", "x"), ("a", "y"), ("b", "z"), record="new")
    assert (said, ran) == (["a x #1", "a x #1", "a y #2", "b z #3"], 3)
    assert kept(location) == {"a": ["a x #1", "a x #1", "a y #2"], "b": ["b z #3"]}


def test_all_runs_everything_and_replaces_the_tools_it_touches(location):
    record(location, ("a", "x"), ("a", "y"), ("b", "old"))
    document = open_store(location).load()
    document.add_tool("a", ToolExchange(result="by hand"))
    document.add_tool("a", ToolExchange(result="of the future", recorded_at="2999-01-01T00:00:00.000000+00:00"))
    open_store(location).save(document)
    said, ran = record(location, ("a", "x2"), ("a", "y2"), record="all")
    assert ran == 2
    assert kept(location) == {"a": said, "b": ["b old #3"]}


def test_all_leaves_the_calls_of_models_alone(location):
    async def record_model():
        async with RecordingProvider(Echo(), location) as provider:
            await provider.complete(user("Hi"), "m", step_id="a")

    run(record_model())
    record(location, ("a", "x"), record="all")
    record(location, ("a", "y"), record="all")
    document = open_store(location).load()
    assert document.entries["a"].content == "Hi #1"
    assert kept(location) == {"a": ["a y #1"]}


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
    assert kept(location) == {"a": ["x", "a x #1"]}
