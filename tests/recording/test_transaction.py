"""Recording afresh: what a run records takes the place of what was there, when the run has ended and not before."""

import asyncio
import gc
import stat
from pathlib import Path

import pytest

from offbook import MockProvider, NormaliseRules, RecordingProvider, record_tools, run
from offbook.errors import InputError, ProviderConnectionError, RecordingWriteError
from offbook.providers.provider import Provider
from offbook.recording.format.document import FORMAT_VERSION, Document
from offbook.recording.format.exchange import Exchange, ToolExchange
from offbook.recording.stores.locate import open_store
from offbook.recording.transaction import keep_recording
from tests.fakes import Echo, user

from .programs import end_unclosed_afresh, finish, fork_afresh, killed_afresh, record_afresh_together, start


@pytest.fixture(params=["run.json", "sqlite:///run.db"])
def location(request, tmp_path, monkeypatch):
    """A place for a recording, of each kind."""
    monkeypatch.chdir(tmp_path)
    return request.param


@pytest.fixture
def old(location):
    """The like, with a recording that was made in part by hand, and in the future."""
    document = Document(meta={"note": "mine"}, rest={"_more": 1})
    document.add("a", Exchange(content="old"))
    document.add("f" * 64, Exchange(content="stale", request_hash="f" * 64, recorded_at="2999-01-01T00:00:00+00:00"))
    document.add_tool("get", ToolExchange(result="old"))
    open_store(location).save(document)
    return location


def fresh(location, **options):
    return RecordingProvider(Echo(), location, record="fresh", **options)


async def ask(recorder, *texts, step_id=None):
    for text in texts:
        await recorder.complete(user(text), "m", step_id=step_id)


def contents(location):
    """What was said, in the recording's order."""
    return [exchange.content for _, exchange in open_store(location).load()]


def results(location):
    """What tools gave."""
    return {tool: [call.answer for call in calls] for tool, calls in open_store(location).load().tools.items()}


def files():
    return sorted(path.name for path in Path().iterdir() if not path.name.endswith(("-wal", "-shm")))


async def test_entries_without_a_step_that_are_no_longer_asked_go(location):
    async with RecordingProvider(Echo(), location) as recorder:
        await ask(recorder, "old prompt", "same")
    async with fresh(location) as recorder:
        await ask(recorder, "new prompt", "same")
    mock = MockProvider(location, strict=True)
    await ask(mock, "new prompt", "same")
    assert mock.unused() == []


async def test_the_recording_stays_as_it_is_until_the_run_ends(old):
    before = open_store(old).load()
    async with fresh(old) as recorder:
        await ask(recorder, "x")
        assert open_store(old).load() == before
    assert contents(old) == ["x #1"]
    assert len(files()) == 1


async def test_a_run_that_records_nothing_leaves_the_recording_as_it_is(old):
    before = open_store(old).load()
    async with fresh(old, normalise=NormaliseRules(whitespace=True)):
        pass
    assert open_store(old).load() == before
    assert len(files()) == 1


async def test_what_is_no_exchange_stays(old):
    async with fresh(old) as recorder:
        await ask(recorder, "x")
    document = open_store(old).load()
    assert document.meta["note"] == "mine"
    assert document.rest == {"_more": 1}
    assert document.meta["created_by"].startswith("offbook ")


async def test_rules_may_change_with_the_recording_and_stay_if_none_are_given(location):
    rules, others = NormaliseRules(whitespace=True), NormaliseRules(mask=(r"\d+",))
    for each in (rules, others):
        async with fresh(location, normalise=each) as recorder:
            await ask(recorder, "x")
    async with fresh(location) as recorder:
        await ask(recorder, "It is 9")
    async with MockProvider(location, strict=True) as mock:
        await ask(mock, "It is 17")


async def test_a_recording_of_version_1_becomes_one_that_replays_strictly(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"a": {"content": "old"}}')
    async with fresh(path) as recorder:
        await ask(recorder, "x")
    assert open_store(path).load().version == FORMAT_VERSION


async def test_each_recorder_replaces_its_own(old):
    with record_tools({"get": lambda: "new"}, old, record="fresh") as tools:
        tools["get"]()
    assert contents(old) == ["old", "stale"]
    assert results(old) == {"get": ["new"]}
    async with fresh(old) as recorder:
        await ask(recorder, "x")
    assert contents(old) == ["x #1"]
    assert results(old) == {"get": ["new"]}


def test_all_who_record_to_one_place_at_the_same_time_are_one_run(old):
    by_another_name = Path(old).absolute() if old.endswith(".json") else old

    async def work():
        first, second = fresh(old), fresh(by_another_name)
        await ask(first, "x")
        with record_tools({"get": lambda: "new", "put": lambda: "put"}, old, record="fresh") as tools:
            tools["put"]()
            await ask(second, "y")
            await first.close()
            await first.close()
        await second.close()

    for _ in range(2):
        run(work(), virtual_time=True)
        assert sorted(contents(old)) == ["x #1", "y #1"]
        assert results(old) == {"put": ["put"]}


async def test_what_others_record_meanwhile_stays(old):
    open_store(old).update(lambda document: document.entries.pop("f" * 64))
    async with fresh(old) as recorder:
        await ask(recorder, "x")
        async with RecordingProvider(Echo(), old) as other:
            await ask(other, "of another", step_id="b")
    assert sorted(contents(old)) == ["of another #1", "x #1"]


async def test_a_recorder_that_is_used_after_its_end_adds_to_what_it_has_made(old):
    recorder = fresh(old)
    await recorder.close()
    await ask(recorder, "x")
    assert contents(old) == ["old", "stale"]
    await recorder.close()
    assert contents(old) == ["x #1"]
    for text in ("y", "z"):
        await ask(recorder, text)
        await recorder.close()
    assert sorted(contents(old)) == ["x #1", "y #2", "z #3"]


async def test_a_recorder_that_nobody_closed_does_not_hold_up_the_next(old):
    recorder = fresh(old)
    await ask(recorder, "lost sight of")
    del recorder
    gc.collect()
    async with fresh(old) as recorder:
        await ask(recorder, "x")
    assert contents(old) == ["x #1"]
    assert len(files()) == 1


async def test_what_cannot_take_its_place_is_kept_beside_it_and_reported(tmp_path):
    path = tmp_path / "run.json"
    path.write_text('{"_version": 2, "a": {"content": "old"}}')
    recorder = fresh(path)
    await ask(recorder, "x")
    path.write_text("something else")
    with pytest.raises(InputError) as caught:
        await recorder.close()
    assert caught.value.hint == f"what was recorded is in {path}.fresh-1"
    assert contents(f"{path}.fresh-1") == ["x #1"]
    assert path.read_text() == "something else"


def test_what_a_run_that_was_cut_off_has_left_stays(old):
    left = Path("run.json.fresh-1" if old.endswith(".json") else "run.db.fresh-1")
    left.write_text("left")
    with fresh(old) as recorder:
        recorder.complete_sync(user("x"), "m")
    assert contents(old) == ["x #1"]
    assert left.read_text() == "left"


def test_what_is_recorded_is_as_private_as_the_recording(old):
    path = Path(old.removeprefix("sqlite:///"))
    path.chmod(0o600)
    with fresh(old) as recorder:
        recorder.complete_sync(user("x"), "m")
        (beside,) = Path().glob("*.fresh-1")
        assert stat.S_IMODE(beside.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_kill_in_the_middle_loses_neither_the_old_nor_the_new(old, tmp_path):
    process = start(killed_afresh, _absolute(old, tmp_path))
    printed, _ = process.communicate(timeout=60)
    assert printed == b"recorded\n"
    assert contents(old) == ["old", "stale"]
    assert contents(f"{old}.fresh-1") == ["new"]


def test_a_program_that_ends_without_closing_has_ended_its_run(old, tmp_path):
    finish(start(end_unclosed_afresh, _absolute(old, tmp_path)))
    assert contents(old) == ["new"]
    assert len(files()) == 1


def test_a_child_leaves_the_end_to_its_parent(old, tmp_path):
    finish(start(fork_afresh, _absolute(old, tmp_path)))
    assert sorted(contents(old)) == ["of the child", "of the parent", "of the parent again"]
    assert len(files()) == 1


def test_processes_that_record_at_the_same_time_keep_what_the_others_recorded(location, tmp_path):
    asyncio.run(_recorded(location))
    finish(start(record_afresh_together, _absolute(location, tmp_path), 3))
    assert sorted(contents(location)) == ["p0", "p1", "p2"]


async def _recorded(location):
    async with RecordingProvider(Echo(), location) as recorder:
        await ask(recorder, "old")


def _absolute(location, folder):
    return location.replace("run.", f"{folder}/run.")


def replacing(location):
    return RecordingProvider(Echo(), location, record="all")


class Down(Provider):
    """An API that is down."""

    name = "down"

    async def send(self, request):
        raise ProviderConnectionError("connection refused", provider="down")


def test_only_what_is_recorded_again_is_replaced_when_the_run_has_ended(old):
    async def work():
        async with replacing(old) as recorder:
            await ask(recorder, "new", "newer", step_id="a")
            assert contents(old) == ["old", "stale"]

    run(work())
    assert sorted(contents(old)) == ["new #1", "newer #2", "stale"]
    assert results(old) == {"get": ["old"]}


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_run_that_fails_leaves_the_recording_as_it_was_and_what_it_recorded_beside_it(old, mode, caplog):
    async def work():
        async with RecordingProvider(Echo(), old, record=mode) as recorder:
            await ask(recorder, "new", step_id="a")
            raise KeyError("the agent has a bug")

    with pytest.raises(KeyError):
        run(work())
    assert contents(old) == ["old", "stale"]
    assert contents(f"{old}.failed") == ["new #1"]
    assert f"{old}: the run failed, so it stays as it was; what was recorded is in {old}.failed" in caplog.text


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_run_that_could_not_record_a_call_leaves_the_recording_as_it_was(tmp_path, mode):
    path = tmp_path / "run.json"
    path.write_text('{"_version": 2, "a": {"content": "old"}}')
    recorder = RecordingProvider(Echo(), path, record=mode)
    recorder.complete_sync(user("x"), "m", step_id="a")
    (tmp_path / "run.json.fresh-1.journal").unlink()
    (tmp_path / "run.json.fresh-1.journal").mkdir()
    with pytest.raises(RecordingWriteError, match="directory"):
        recorder.complete_sync(user("y"), "m", step_id="a")
    (tmp_path / "run.json.fresh-1.journal").rmdir()
    recorder.complete_sync(user("z"), "m", step_id="a")
    run(recorder.close())
    assert contents(path) == ["old"]
    assert contents(f"{path}.failed") == ["z #3"]


def test_a_command_can_say_that_its_run_has_failed(old):
    recorder = replacing(old)
    run(ask(recorder, "new", step_id="a"))
    keep_recording(open_store(old))
    run(recorder.close())
    assert contents(old) == ["old", "stale"]


def test_a_run_that_fails_keeps_a_recording_that_was_not_there_before(location):
    async def work():
        async with fresh(location) as recorder:
            await ask(recorder, "new")
            raise KeyError("no")

    with pytest.raises(KeyError):
        run(work())
    assert contents(location) == ["new #1"]


def test_a_call_that_fails_does_not_replace_a_recorded_answer(old, caplog):
    async def work():
        async with RecordingProvider(Down(), old, record="all") as recorder:
            for step_id in ("a", "b"):
                with pytest.raises(ProviderConnectionError):
                    await ask(recorder, "new", step_id=step_id)

    run(work())
    document = open_store(old).load()
    assert [exchange.content for exchange in document.exchanges("a")] == ["old"]
    assert [exchange.fault.type for exchange in document.exchanges("b")] == ["connection_reset"]
    assert f"{old}: the entries of a stay as they were, because the new calls failed" in caplog.text


def test_a_fresh_run_in_which_every_call_failed_costs_no_answer_of_another_request(old, caplog):
    async def work():
        async with RecordingProvider(Down(), old, record="fresh") as recorder:
            with pytest.raises(ProviderConnectionError):
                await ask(recorder, "new", step_id="c")

    run(work())
    assert contents(old) == ["old", "stale"]
    assert open_store(f"{old}.failed").load().exchanges("c")[0].fault.type == "connection_reset"
    assert f"{old}: no call got an answer, so it stays as it was; what was recorded is in {old}.failed" in caplog.text


def test_tools_of_a_run_that_fails_leave_the_recording_as_it_was(old):
    async def work():
        async with record_tools([get], old, record="all") as tools:
            tools["get"](what="new")
            raise KeyError("no")

    def get(what: str) -> str:
        return what

    def work_without_waiting():
        with record_tools([get], old, record="all") as tools:
            tools["get"](what="new")
            raise KeyError("no")

    with pytest.raises(KeyError):
        work_without_waiting()
    with pytest.raises(KeyError):
        run(work())
    assert [call.result for call in open_store(old).load().tools["get"]] == ["old"]


def test_a_run_that_fails_in_another_folder_leaves_the_recording_as_it_was(old, tmp_path, monkeypatch):
    async def work():
        async with fresh(old) as recorder:
            await ask(recorder, "new")
            (tmp_path / "elsewhere").mkdir()
            monkeypatch.chdir(tmp_path / "elsewhere")
            raise KeyError("no")

    with pytest.raises(KeyError):
        run(work())
    monkeypatch.chdir(tmp_path)
    assert contents(old) == ["old", "stale"]


def test_recorders_of_two_modes_cannot_replace_one_recording_together(old):
    recorder = fresh(old)
    with pytest.raises(InputError, match="mode 'fresh', and cannot be in mode 'all'") as caught:
        replacing(old)
    assert caught.value.source == old
    assert "the same mode" in caught.value.hint
    run(recorder.close())
    run(replacing(old).close())


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_answers_written_by_hand_stay(location, mode):
    by_hand = Exchange(when="tool_error", content="by hand")
    open_store(location).save(Document(entries={"a": [Exchange(content="old"), by_hand]}))
    recorder = RecordingProvider(Echo(), location, record=mode)
    run(ask(recorder, "new", step_id="a"))
    run(recorder.close())
    assert sorted(exchange.content for exchange in open_store(location).load().exchanges("a")) == ["by hand", "new #1"]
