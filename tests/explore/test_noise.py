"""What differs between two runs without a fault is not compared."""

import asyncio
import os
import time
from datetime import UTC, datetime

import pytest

from offbook import explore_function
from offbook.explore.explorer import with_noise
from offbook.explore.judge import assess
from offbook.explore.noise import noise_between
from tests.explore.runs import DECLARED, clean_run, fired_run, write_recording

HI = [{"role": "user", "content": "Hi"}]
NOW = datetime(2026, 11, 18, 12, 3, 4, tzinfo=UTC)


def noise_of(first, second):
    return noise_between(first, second, now=NOW)


@pytest.mark.parametrize(
    ("first", "second", "third", "masked"),
    [
        ("took 1234 ns", "took 99 ns", "took 7 ns", "took … ns"),
        ("pid 17: booked", "pid 18: booked", "pid 4711: booked", "pid …: booked"),
        ("id=0f8fad5b-d9cb", "id=7c9e6679-7425", "id=1b4e28ba-2fa1", "id=…"),
        ("at 12:03:04: ok", "at 12:03:04: ok", "at 12:03:09: ok", "at …: ok"),
        ("2026-11-18T12:03:04.5Z ok", "2026-11-18T12:03:04.5Z ok", "2026-11-18T12:03:09.1Z ok", "… ok"),
        ({"ns": 5, "ok": True}, {"ns": 6, "ok": True}, {"ns": 7, "ok": True}, {"ns": "…", "ok": True}),
        ({"stdout": "a 1\nb"}, {"stdout": "a 2\nb"}, {"stdout": "a 3\nb"}, {"stdout": "a …\nb"}),
        (["a 1"], ["a 2"], ["a 3"], ["a …"]),
        ("17\n3", "18\n3", "19\n3", "…\n3"),
    ],
)
def test_numbers_times_and_ids_that_differ_are_masked(first, second, third, masked):
    assert noise_of(first, second).masked(third) == masked


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ("pid 17: booked", "pid 18: booked", "pid 19: failed"),
        ("17\n3", "18\n3", "19\n4"),
        ({"ns": 5, "ok": True}, {"ns": 6, "ok": True}, {"ns": 7, "ok": False}),
        ({"ns": 5}, {"ns": 6}, {"ns": None}),
        ({"id": "a1", "note": "b2"}, {"id": "a2", "note": "b2"}, {"id": "a3", "note": "b3"}),
        ("meet at 10:00:00", "meet at 10:00:00", "meet at 11:00:00"),
    ],
)
def test_all_else_is_compared(first, second, other):
    noise = noise_of(first, second)
    assert noise.masked(other) != noise.masked(first)
    assert noise.masked(second) == noise.masked(first)


def test_what_cannot_be_masked_is_said():
    (text,) = noise_of("amber", "violet").describe()
    assert text.startswith("the results of two runs without a fault differ")
    assert not noise_of("amber", "amber")


def test_a_second_clean_run_that_fails_is_said():
    noisy = with_noise(clean_run(), clean_run(error=DECLARED))
    (text,) = noisy.noise.describe()
    assert text == "made again without a fault, the run failed, and verdicts may differ: GaveUp: no more"


def test_a_run_that_differs_in_noise_alone_has_recovered_and_invariants_see_the_whole_result():
    seen = []
    clean = with_noise(clean_run(result="took 5 ms"), clean_run(result="took 6 ms"))
    run = fired_run(result="took 70 ms")
    assert assess(run, clean, invariants=[lambda each: seen.append(each.result)]).title == "recovered"
    assert seen == ["took 70 ms"]
    assert assess(run, clean_run(result="took 5 ms")).title == "different result"


async def books(harness):
    await harness.gateway.complete([{"role": "user", "content": "Book"}], "m", step_id="book")
    return f"booked by {os.getpid()}"


def test_an_exploration_says_once_what_it_does_not_compare(tmp_path):
    recording = write_recording(tmp_path / "run.json", {"book": [{"content": "Done."}]})
    exploration = explore_function(books, recording, faults="http_error 500", workers=1)
    assert {each.title for each in exploration.results} <= {"recovered", "failed cleanly"}
    assert list(exploration.clean.noise.describe()) == [
        "1 place of the result differs from run to run and is not compared: booked by …"
    ]


async def tells_the_time(harness):
    begun_s = time.monotonic()
    await harness.gateway.complete([{"role": "user", "content": "Book"}], "m", step_id="book")
    return {"said": f"booked in {time.monotonic() - begun_s:.1f} s", "finished": time.time_ns()}


async def is_impatient(harness):
    try:
        async with asyncio.timeout(0.5):
            return int((await harness.provider.complete(HI, "m", step_id="book")).content)
    except TimeoutError:
        return 40


def explored(agent, tmp_path, content, faults):
    recording = write_recording(tmp_path / "run.json", {"book": [{"content": content}]})
    return explore_function(agent, recording, faults=faults, workers=1)


def test_durations_and_times_of_a_virtual_clock_are_not_compared(tmp_path):
    exploration = explored(tells_the_time, tmp_path, "Done.", "slow,http_error 500")
    assert {each.title for each in exploration.results} <= {"recovered", "failed cleanly"}
    assert exploration.counts["recovered"] > 1


def test_what_an_impatient_run_says_instead_is_compared(tmp_path):
    exploration = explored(is_impatient, tmp_path, "30", "slow")
    assert not exploration.clean.noise
    assert {each.title for each in exploration.results} == {"different result"}
