"""Recordings of scenarios."""

import pytest

from offbook.config.recordings import recorder_at, replay_at, slug
from offbook.config.roles import RoleProvider, StepNames
from offbook.errors import NoProviderError, RecordingMismatchError
from tests.fakes import Echo, user

NAMES = StepNames([("Books a room!", "a"), ("books a room", "a")])


@pytest.mark.parametrize(
    ("name", "file"),
    [("Books a room!", "books-a-room"), ("../../etc/passwd", "etc-passwd"), ("Größe 3", "größe-3"), ("!?", "scenario")],
)
def test_a_name_makes_a_file_name(name, file):
    assert slug(name) == file


def test_a_long_name_is_cut():
    assert slug("x" * 500) == "x" * 80


async def test_scenarios_with_names_alike_share_a_recording_and_are_not_mixed_up(tmp_path):
    steps = ("Books a room!/a/1/agent", "books a room/a/1/agent")
    async with recorder_at(f"{tmp_path}/", Echo(), NAMES, mode="all") as recorder:
        said = [(await recorder.complete(user("hi"), "m", step_id=step)).content for step in steps]
    assert [file.name for file in tmp_path.iterdir()] == ["books-a-room.json"]
    async with replay_at(str(tmp_path), NAMES) as replay:
        assert [(await replay.complete(user("hi"), "m", step_id=step)).content for step in reversed(steps)] == said[
            ::-1
        ]
        assert replay.unused() == []


async def test_what_is_asked_about_the_run_has_a_recording_of_its_own(tmp_path):
    names = StepNames([("!_run", "a")])
    steps = ("!_run/a/1/agent", "judge.error_groups")
    async with recorder_at(f"{tmp_path}/", Echo(), names, mode="all") as recorder:
        said = [(await recorder.complete(user("hi"), "m", step_id=step)).content for step in steps]
    assert {file.name for file in tmp_path.iterdir()} == {"run.json", "_run.json"}
    async with replay_at(str(tmp_path), names) as replay:
        assert [(await replay.complete(user("hi"), "m", step_id=step)).content for step in steps] == said


async def test_what_is_of_no_scenario_has_no_recording(tmp_path):
    async with replay_at(str(tmp_path), NAMES) as replay:
        with pytest.raises(RecordingMismatchError, match="no such recording"):
            await replay.complete(user("hi"), "m")


async def test_what_is_of_no_conversation_is_asked_of_nobody():
    with pytest.raises(NoProviderError, match="to no conversation"):
        await RoleProvider(NAMES, {}).complete(user("hi"), "m", step_id="x")


async def test_a_run_that_fails_leaves_the_recordings_of_a_folder_as_they_were(tmp_path):
    async def record(text, *, error=None):
        async with recorder_at(f"{tmp_path}/", Echo(), NAMES, mode="all") as recorder:
            await recorder.complete(user(text), "m", step_id="books a room/a/1/agent")
            if error is not None:
                raise error

    await record("old")
    before = (tmp_path / "books-a-room.json").read_bytes()
    with pytest.raises(KeyError):
        await record("new", error=KeyError("no"))
    assert (tmp_path / "books-a-room.json").read_bytes() == before
