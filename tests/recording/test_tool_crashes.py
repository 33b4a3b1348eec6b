"""A kill at any moment loses at most the call of a tool in flight, and any number of processes may record tools."""

import random
import shutil
from pathlib import Path

import pytest

from offbook.recording.stores.locate import open_store
from tests.recording.programs import finish, record_tool_calls, start, tool_nursery
from tests.recording.test_crashes import KINDS, Nursery

PROCESSES, CALLS = 3, 100


def texts_in(folder, kind):
    """The results of the recording as it would be read now, without touching it."""
    copy = Path(f"{folder}-copy")
    shutil.copytree(folder, copy)
    try:
        store = open_store(KINDS[kind].format(copy))
        return [call.answer for call in store.load().tools.get("echo", [])] if store.exists() else []
    finally:
        shutil.rmtree(copy)


@pytest.mark.parametrize(("kind", "rounds"), [("json", 30), ("sqlite", 15)])
def test_a_kill_loses_at_most_the_call_in_flight(tmp_path, kind, rounds):
    """Five kills in a row hit each recording, so that each crash is followed by the next opener's."""
    random_ = random.Random(f"tools {kind} {rounds}")
    with Nursery(tool_nursery) as nursery:
        for round_ in range(rounds):
            folder = tmp_path / str(round_ // 5)
            if round_ % 5 == 0:
                folder.mkdir()
                reported, present = [], []
            moment = random_.choice([{"after_calls": random_.randrange(60)}, {"after_us": random_.randrange(20_000)}])
            done = nursery.kill_one(KINDS[kind].format(folder), **moment)
            reported += done
            before, present = present, texts_in(folder, kind)
            assert len(set(present)) == len(present), moment
            assert set(present) >= set(reported) | set(before), moment
            assert len(set(present) - set(before) - set(done)) <= 1, moment


@pytest.mark.parametrize("kind", KINDS)
def test_every_call_of_several_processes_survives(tmp_path, kind):
    location = KINDS[kind].format(tmp_path)
    processes = [start(record_tool_calls, location, name, CALLS) for name in range(PROCESSES)]
    for process in processes:
        assert process.stdout.readline() == b"ready\n"
    for process in processes:
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        finish(process)
    document = open_store(location).load()
    for answers in (
        [call.answer for call in document.tools["echo"]],
        [exchange.content for exchange in document.exchanges("loop")],
    ):
        assert len(answers) == PROCESSES * CALLS
        for name in range(PROCESSES):
            own = [answer for answer in answers if answer.startswith(f"{name}-")]
            assert own == [f"{name}-{number}" for number in range(CALLS)]
    assert len(list(tmp_path.iterdir())) == 1
