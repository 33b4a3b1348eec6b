"""Any number of processes and threads may record to one recording: nothing is lost."""

import asyncio
import threading

import pytest

from offbook.recording.format.exchange import Exchange
from offbook.recording.stores.locate import open_store
from tests.every_case import EVERY_CASE
from tests.servers import redis_server

from .programs import (
    Echo,
    RecordingProvider,
    collect_under_the_lock,
    finish,
    fork_after_opening,
    fork_beside_a_thread,
    leave_unclosed,
    open_at_once,
    record_together,
    start,
)

PROCESSES, CALLS = (8, 500) if EVERY_CASE else (4, 50)


@pytest.fixture(params=["{}/run.json", "sqlite:///{}/run.db", "redis"], ids=["json", "sqlite", "redis"])
def location(request, tmp_path):
    if request.param == "redis":
        return redis_server.shared().url(f"{tmp_path}/run.redis")
    return request.param.format(tmp_path)


def contents(location, key):
    return [exchange.content for exchange in open_store(location).load().exchanges(key)]


def test_every_call_of_several_processes_survives_in_order_and_nothing_is_left_beside(location, tmp_path):
    finish(start(record_together, location, PROCESSES, CALLS))
    names = [[f"{child}-{number}" for number in range(CALLS)] for child in range(PROCESSES)]
    document = open_store(location).load()
    assert {key: entry.content for key, entry in document.entries.items() if key != "loop"} == {
        name: name for own in names for name in own
    }
    shared = [exchange.content for exchange in document.exchanges("loop")]
    called = [call.answer for call in document.tools["echo"]]
    for recorded in (shared, called):
        assert len(recorded) == PROCESSES * CALLS
        for child, own in enumerate(names):
            assert [name for name in recorded if name.startswith(f"{child}-")] == own
    assert [path.name for path in tmp_path.iterdir()] in (["run.json"], ["run.db"], [])


def test_several_may_make_a_recording_at_the_same_moment(location):
    recordings = 8 if EVERY_CASE else 4
    finish(start(open_at_once, location, 5, recordings))
    for number in range(recordings):
        entries = open_store(location.replace("/run.", f"/run{number}.")).load().entries
        assert sorted(entries) == [f"child {child}" for child in range(5)]


def test_children_record_on_through_what_their_parent_opened(location):
    finish(start(fork_after_opening, location, 3, 30))
    for child in range(3):
        assert contents(location, f"child {child}") == [str(number) for number in range(30)]
    assert contents(location, "parent") == ["before", "after"]


def test_a_fork_waits_for_the_thread_that_is_recording(location):
    printed, _ = finish(start(fork_beside_a_thread, location, 8, 5))
    document = open_store(location).load()
    for child in range(8):
        assert [each.content for each in document.exchanges(f"child {child}")] == [str(number) for number in range(5)]
    assert [each.content for each in document.exchanges("thread")] == [str(number) for number in range(int(printed))]


def run_threads(works):
    """Run each work in a thread of its own, all at once; raise what one of them raised."""
    gate, errors = threading.Barrier(len(works)), []

    def run(work):
        gate.wait()
        try:
            work()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=[work]) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


def test_threads_may_share_a_writer(location):
    writer = open_store(location).write()

    def append(name):
        for number in range(20):
            writer.append(f"thread {name}", Exchange(content=str(number)))

    run_threads([lambda name=name: append(name) for name in range(8)])
    writer.close()
    for name in range(8):
        assert contents(location, f"thread {name}") == [str(number) for number in range(20)]


def test_threads_may_record_each_with_a_recorder_of_its_own(location):
    async def record(name):
        async with RecordingProvider(Echo(), location) as recorder:
            for number in range(20):
                await recorder.complete([{"role": "user", "content": f"{name}-{number}"}], "m", step_id="loop")

    run_threads([lambda name=name: asyncio.run(record(name)) for name in range(6)])
    assert sorted(contents(location, "loop")) == sorted(f"{name}-{number}" for name in range(6) for number in range(20))


def test_tasks_of_one_loop_may_share_a_recorder(location):
    async def record():
        async with RecordingProvider(Echo(), location) as recorder:
            calls = [
                recorder.complete([{"role": "user", "content": str(number)}], "m", step_id="loop")
                for number in range(50)
            ]
            await asyncio.gather(*calls)

    asyncio.run(record())
    assert sorted(contents(location, "loop"), key=int) == [str(number) for number in range(50)]


def test_a_recorder_left_unclosed_folds_when_the_program_ends(tmp_path):
    printed, complaints = finish(start(leave_unclosed, tmp_path / "run.json", tmp_path))
    assert printed.split() == ["run.json", "run.json.journal"]
    assert complaints == ""
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
    assert contents(tmp_path / "run.json", "greet") == ["Hi"]


def test_a_database_left_unclosed_is_closed_when_the_program_ends(tmp_path):
    _, complaints = finish(start(leave_unclosed, f"sqlite:///{tmp_path}/run.db", tmp_path))
    assert complaints == ""
    assert [path.name for path in tmp_path.iterdir()] == ["run.db"]
    assert contents(f"sqlite:///{tmp_path}/run.db", "greet") == ["Hi"]


def test_collecting_an_unclosed_writer_never_waits_for_a_lock_of_its_own_thread(tmp_path):
    printed, complaints = finish(start(collect_under_the_lock, tmp_path / "run.json"))
    assert printed == "True\n"
    assert complaints == ""
    assert contents(tmp_path / "run.json", "kept") == ["kept"]
