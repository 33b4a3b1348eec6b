"""Record modes: what is asked live, what is kept, and what becomes of what is there."""

import asyncio
from datetime import timedelta
from pathlib import Path

import pytest

from offbook import MockProvider, RecordingProvider, record_tools, run
from offbook.clock import SystemClock
from offbook.errors import InputError, RecordingFormatError, RecordingMismatchError
from offbook.recording.format.document import Document
from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store
from tests.fakes import Echo, events_of, user


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch):
    """A place for a recording, of each kind."""
    monkeypatch.chdir(tmp_path)
    return request.param


async def record(location, *calls, record="append", **options):
    """What the calls, each a step and a text, are answered with, and how many of them were asked live."""
    live = Echo()
    async with RecordingProvider(live, location, record=record, **options) as recorder:
        said = [(await recorder.complete(user(text), "m", step_id=step)).content for step, text in calls]
    return said, len(live.requests)


def contents(location):
    """What the recording holds of each step."""
    document = open_store(location).load()
    return {key: [exchange.content for exchange in document.exchanges(key)] for key in document.entries}


async def test_append_asks_everything_live_and_adds_it_behind_what_is_there(location):
    await record(location, ("a", "x"), ("b", "y"))
    said, live = await record(location, ("a", "x"), ("c", "z"))
    assert said == ["x #1", "z #2"]
    assert live == 2
    assert contents(location) == {"a": ["x #1", "x #1"], "b": ["y #2"], "c": ["z #2"]}


async def test_append_is_the_default(location):
    async with RecordingProvider(Echo(), location) as recorder:
        await recorder.complete(user("x"), "m", step_id="a")
    async with RecordingProvider(Echo(), location) as recorder:
        await recorder.complete(user("y"), "m", step_id="a")
    assert contents(location) == {"a": ["x #1", "y #1"]}


@pytest.mark.parametrize("mode", ["append", "once", "new", "all", "fresh"])
async def test_every_mode_records_into_a_new_file_and_one_without_exchanges(location, mode):
    assert await record(location, record=mode) == ([], 0)
    assert await record(location, ("a", "x"), ("a", "x"), record=mode) == (["x #1", "x #2"], 2)
    assert contents(location) == {"a": ["x #1", "x #2"]}


async def test_once_answers_from_what_is_there_and_leaves_it_as_it_is(location):
    await record(location, ("a", "x"), ("a", "y"))
    before = contents(location)
    assert await record(location, ("a", "y"), ("a", "x"), record="once") == (["y #2", "x #1"], 0)
    assert contents(location) == before


async def test_once_refuses_what_is_not_there_and_asks_nothing_live(location):
    await record(location, ("a", "x"))
    live = Echo()
    async with RecordingProvider(live, location, record="once") as recorder:
        for step, text, kind in (("b", "new", "missing"), ("a", "new", "drifted")):
            with pytest.raises(RecordingMismatchError) as caught:
                await recorder.complete(user(text), "m", step_id=step)
            assert caught.value.kind == kind
            assert str(caught.value).startswith(location)
    assert live.requests == []
    assert contents(location) == {"a": ["x #1"]}


async def test_once_that_records_answers_each_call_live_even_if_it_is_repeated(location):
    assert await record(location, ("a", "x"), ("a", "x"), record="once") == (["x #1", "x #2"], 2)


async def test_new_answers_what_is_there_and_adds_what_is_missing(location):
    await record(location, ("a", "x"), ("b", "y"))
    said, live = await record(location, ("a", "x"), ("c", "z"), ("b", "changed"), record="new")
    assert said == ["x #1", "z #1", "changed #2"]
    assert live == 2
    assert contents(location) == {"a": ["x #1"], "b": ["y #2", "changed #2"], "c": ["z #1"]}
    assert await record(location, ("b", "changed"), ("b", "y"), ("c", "z"), record="new") == (
        ["changed #2", "y #2", "z #1"],
        0,
    )


async def test_new_adds_a_call_when_a_list_is_used_up(location):
    await record(location, ("a", "x"), ("a", "x"))
    said, live = await record(location, *[("a", "x")] * 3, record="new")
    assert said == ["x #1", "x #2", "x #1"]
    assert live == 1
    assert contents(location) == {"a": ["x #1", "x #2", "x #1"]}


async def test_new_keeps_every_call_that_was_missing_and_does_not_answer_from_this_run(location):
    await record(location, ("a", "x"))
    said, live = await record(location, ("b", "y"), ("b", "y"), (None, "z"), (None, "z"), record="new")
    assert said == ["y #1", "y #2", "z #3", "z #4"]
    assert live == 4
    assert contents(location)["b"] == ["y #1", "y #2"]


async def test_new_streams_what_is_there(location):
    await record(location, ("a", "x"))
    async with RecordingProvider(Echo(), location, record="new") as recorder:
        events = await events_of(await recorder.stream(user("x"), "m", step_id="a"))
    assert events[-1].response.content == "x #1"
    assert contents(location) == {"a": ["x #1"]}


async def test_all_asks_everything_live_and_replaces_the_keys_it_touches(location):
    await record(location, ("a", "x"), ("a", "y"), ("b", "old"))
    said, live = await record(location, ("a", "x2"), ("a", "y2"), ("a", "z2"), ("c", "new"), record="all")
    assert live == 4
    assert contents(location) == {"a": said[:3], "b": ["old #3"], "c": ["new #4"]}


async def test_all_replaces_what_was_written_by_hand(location):
    document = Document()
    document.add("a", Exchange(content="by hand"))
    document.add("b", Exchange(content="by hand"))
    open_store(location).save(document)
    await record(location, ("a", "x"), record="all")
    assert contents(location) == {"a": ["x #1"], "b": ["by hand"]}


async def test_all_replaces_what_a_clock_ahead_of_ours_has_recorded(location):
    document = Document()
    document.add("a", Exchange(content="of the future", recorded_at="2999-01-01T00:00:00.000000+00:00"))
    open_store(location).save(document)
    await record(location, ("a", "x"), ("a", "y"), record="all")
    assert contents(location) == {"a": ["x #1", "y #2"]}


def test_all_replaces_what_was_recorded_in_virtual_time(location):
    async def work():
        await asyncio.sleep(1)
        await record(location, ("a", "x"), ("a", "y"), record="all")

    for _ in range(3):
        run(work(), virtual_time=True)
    assert contents(location) == {"a": ["x #1", "y #2"]}


class ClockBehind(SystemClock):
    """The clock of a machine that is six minutes behind."""

    def utc_now(self):
        return super().utc_now() - timedelta(minutes=6)


@pytest.mark.parametrize("clock", [SystemClock(), ClockBehind()])
@pytest.mark.parametrize("mode", ["all", "fresh"])
async def test_what_others_record_meanwhile_stays_even_if_their_clock_is_behind(location, mode, clock):
    await record(location, ("a", "old"))
    recorder = RecordingProvider(Echo(), location, record=mode)
    tools = record_tools({"get": lambda: "mine"}, location, record=mode)
    await record(location, ("a", "of another"), ("b", "of another"), clock=clock)
    with record_tools({"get": lambda: "of another"}, location, clock=clock) as others:
        others["get"]()
    await recorder.complete(user("mine"), "m", step_id="a")
    tools["get"]()
    tools.close()
    await recorder.close()
    assert contents(location) == {"a": ["of another #1", "mine #1"], "b": ["of another #2"]}
    assert [call.answer for call in open_store(location).load().tools["get"]] == ["of another", "mine"]


async def test_all_of_the_same_run_replays_strictly(location):
    await record(location, ("a", "x"), ("a", "y"))
    await record(location, ("a", "y"), ("a", "x"), record="all")
    async with MockProvider(location, strict=True) as mock:
        assert (await mock.complete(user("x"), "m", step_id="a")).content == "x #2"
        assert (await mock.complete(user("y"), "m", step_id="a")).content == "y #1"
        assert mock.unused() == []


async def test_an_unknown_mode_is_refused_with_the_list(location):
    with pytest.raises(InputError, match="unknown mode 'none'") as caught:
        RecordingProvider(Echo(), location, record="none")
    assert caught.value.source == "record"
    assert caught.value.hint == "one of: append, once, new, all, fresh"
    assert not open_store(location).exists()


@pytest.mark.parametrize("mode", ["once", "new"])
def test_what_cannot_be_replayed_strictly_cannot_answer_first(tmp_path, mode):
    path = tmp_path / "old.json"
    path.write_text('{"a": {"content": "x"}}')
    with pytest.raises(RecordingFormatError, match="record it again"):
        RecordingProvider(Echo(), path, record=mode)
    assert path.read_text() == '{"a": {"content": "x"}}'


@pytest.mark.parametrize("mode", ["append", "once", "new", "all", "fresh"])
def test_what_is_no_recording_is_refused_and_left_alone(location, mode):
    path = Path(location.removeprefix("sqlite:///"))
    path.write_text("not a recording")
    with pytest.raises(RecordingFormatError):
        RecordingProvider(Echo(), location, record=mode)
    assert path.read_text() == "not a recording"
