"""A kill at any moment loses at most the call in flight, and a full disk loses only what it had no room for."""

import asyncio
import os
import random
import select
import shutil
import signal
from pathlib import Path

import pytest

from offbook.clock import FIRST_PAUSE_S
from offbook.recording.format.document import Document
from offbook.recording.stores.locate import open_store
from offbook.recording.stores.redis.store import LEASE_S
from offbook.session.recording_provider import RecordingProvider
from offbook.session.recording_tools import record_tools
from tests.every_case import EVERY_CASE
from tests.servers import redis_server

from .programs import Echo, close_on_a_full_disk, echo_later, fill_the_disk, finish, make_call, nursery, start

KINDS = {"json": "{}/run.json", "sqlite": "sqlite:///{}/run.db"}


class Nursery:
    """Brings up children that record, and kills them. Its children tell of each call when it is done."""

    def __init__(self):
        self._process = start(nursery)
        self._told = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        finish(self._process)

    def kill_one(self, location, *, after_calls=None, after_us=None, in_call=None):
        """What a child had told of as done before it was killed: after that many calls, or microseconds; or while its
        call of that number was being made, which it tells of as asked."""
        self._process.stdin.write(f"{location}{'' if in_call is None else f' {in_call}'}\n".encode())
        self._process.stdin.flush()
        pid = int(self._line().removeprefix("born "))
        if in_call is not None:
            after_calls = in_call + 1
        if after_us is not None:
            select.select([], [], [], after_us / 1_000_000)
        done = [self._line() for _ in range(after_calls or 0)]
        os.kill(pid, signal.SIGKILL)
        while (line := self._line()) != "dead":
            done.append(line)
        return done

    def _line(self):
        while b"\n" not in self._told:
            output = os.read(self._process.stdout.fileno(), 65536)
            assert output, "the nursery ended"
            self._told += output
        line, _, self._told = self._told.partition(b"\n")
        return line.decode()


def names_in(folder, kind):
    """The calls in the recording as it would be read now, without touching it."""
    copy = Path(f"{folder}-copy")
    shutil.copytree(folder, copy)
    try:
        store = open_store(KINDS[kind].format(copy))
        document = store.load() if store.exists() else Document()
    finally:
        shutil.rmtree(copy)
    return names_of(document)


def names_of(document):
    tools = [f"tool {call.answer}" for call in document.tools.get("echo", [])]
    assert len(set(tools)) == len(tools)
    return {f"model {key}" for key in document.entries} | set(tools)


@pytest.mark.parametrize(("kind", "rounds"), [("json", 18), ("sqlite", 12)])
def test_a_kill_loses_at_most_the_call_in_flight(tmp_path, kind, rounds):
    """Six kills in a row hit each recording, so that each crash is followed by the next opener's."""
    random_ = random.Random(f"{kind} {rounds}")
    with Nursery() as nursery_:
        for round_ in range(rounds):
            folder = tmp_path / str(round_ // 6)
            if round_ % 6 == 0:
                folder.mkdir()
                reported, present = set(), set()
            moment = random_.choice([{"after_calls": random_.randrange(40)}, {"after_us": random_.randrange(20_000)}])
            done = set(nursery_.kill_one(KINDS[kind].format(folder), **moment))
            reported |= done
            before, present = present, names_in(folder, kind)
            assert present >= reported | before, moment
            assert len(present - before - done) <= 1, moment


def test_a_kill_loses_at_most_the_call_in_flight_in_redis_too_and_no_call_stays_locked():
    """Every other kill hits a process that holds the lease of a call which is being made: the next one makes it."""
    random_, reported, present = random.Random("redis"), set(), set()
    url = redis_server.shared().url()
    store = open_store(url)
    with Nursery() as nursery_:
        for round_ in range(30 if EVERY_CASE else 6):
            moment = random_.choice([{"after_calls": random_.randrange(40)}, {"after_us": random_.randrange(20_000)}])
            if round_ % 2:
                moment = {"in_call": random_.randrange(20)}
            done = set(nursery_.kill_one(url, **moment))
            asked = {line for line in done if line.startswith("asked ")}
            assert len(asked) == len(leases(url)) == round_ % 2, moment
            done -= asked
            reported |= done
            before, present = present, names_of(store.load() if store.exists() else Document())
            assert present >= reported | before, moment
            assert len(present - before - done) <= 1 - len(asked), moment
            for line in asked:
                made = asyncio.run(make_after_the_lease(url, moment["in_call"], line.removeprefix("asked ")))
                reported.add(made)
                present.add(made)


def leases(url):
    return [key for key in redis_server.shared().keys(url) if ":lease:" in key]


async def make_after_the_lease(url, number, name):
    """Make the call of a process that was killed: it waits until the lease of that has ended, and is made then."""
    (lease,) = leases(url)
    client = redis_server.shared().client
    async with RecordingProvider(Echo(), url, record="new") as model:
        with record_tools({"echo": echo_later}, url, record="new") as tools:
            asking = asyncio.ensure_future(make_call(number, name, model, tools))
            done, _ = await asyncio.wait([asking], timeout=FIRST_PAUSE_S)
            assert not done
            assert 0 < client.pttl(lease) <= LEASE_S * 1000
            client.pexpire(lease, 1)  # as time does
            made = await asking
    assert leases(url) == []
    return made


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_disk_has_no_room_for_is_an_error_and_changes_nothing(tmp_path, kind):
    location = KINDS[kind].format(tmp_path)
    printed, _ = finish(start(fill_the_disk, location, tmp_path))
    first, second, sizes_before, sizes_after = printed.splitlines()
    assert first in ("file too large", "disk I/O error", "database or disk is full")
    assert second == first
    if kind == "json":  # the journal is cut back to before the line that it had no room for
        assert "run.json.journal" in sizes_before
        assert sizes_after == sizes_before
    entries = open_store(location).load().entries
    assert {key: entry.content for key, entry in entries.items()} == {"before": "small", "after": "small"}


def test_a_journal_that_cannot_be_folded_for_want_of_room_is_kept(tmp_path):
    printed, complaints = finish(start(close_on_a_full_disk, tmp_path / "run.json", 500))
    assert printed.split() == ["run.json", "run.json.journal"]
    assert (
        complaints == f"{tmp_path}/run.json: [Errno 27] File too large; what was recorded stays in run.json.journal\n"
    )
    entries = open_store(tmp_path / "run.json").load().exchanges("kept")
    assert [exchange.content for exchange in entries] == [str(number) for number in range(50)]
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]
