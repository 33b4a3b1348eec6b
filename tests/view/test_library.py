"""Which runs are found below a folder, and what is said of them."""

import os

import pytest

from offbook.errors import InputError
from offbook.recording.stores.json_file import JsonFileStore
from offbook.recording.stores.sqlite import SqliteStore
from offbook.view import library as library_module
from offbook.view.library import RunLibrary
from tests.view import sample


class TickingClock:
    """A clock on which reading two files takes longer than the first look may, and not as long as later ones."""

    now_s = 0.0

    def monotonic_s(self):
        self.now_s += 0.6 * library_module.FIRST_S
        return self.now_s


def listed(folder):
    library = RunLibrary([folder])
    return {run.id: run for run in library.listed(library.find())}


def test_every_kind_of_run_is_listed_with_its_verdict_and_figures(tmp_path):
    found = listed(sample.write_runs(tmp_path))
    assert list(found) == [
        "nightly/tuesday.json",
        "nightly/monday.json",
        "explored/v3.json",
        "explored/v2.json",
        "explored/v1.json",
        "settings.json",
        "cut-off.json",
        "refund-tuesday.json",
        "refund-monday.json",
    ]
    monday = found["refund-monday.json"]
    assert monday.kind == "recording"
    assert monday.verdict == "recorded"
    assert monday.origin == "gpt-4o-mini"
    assert monday.count == 5
    assert monday.tokens == 420
    assert round(monday.cost_usd, 6) == 0.0006
    assert round(monday.took_s, 3) == 4.2
    assert found["refund-tuesday.json"].verdict == "1 failed"
    naive, sound = found["explored/v1.json"], found["explored/v3.json"]
    assert naive.verdict == "3 findings, worst: repeated effect"
    assert naive.tone == "bad"
    assert sound.verdict == "0 findings"
    assert sound.tone == "good"
    assert sound.origin == "refund_agent"
    suite = found["nightly/monday.json"]
    assert suite.kind == "scenarios"
    assert suite.verdict == "3 of 4 scenarios passed"
    assert suite.tokens == 800


def test_what_cannot_be_read_is_listed_with_its_reason(tmp_path):
    found = listed(sample.write_runs(tmp_path))
    assert "the JSON ends in the middle" in found["cut-off.json"].problem
    assert found["settings.json"].kind == "unreadable"
    assert found["settings.json"].problem.startswith("key 'name'")


def test_a_recording_that_is_being_written_is_read_and_left_as_it_is(tmp_path):
    path = tmp_path / "live.json"
    writer = JsonFileStore(path).write()
    for key, exchange in sample.refund_recording():
        writer.append(key, exchange)
    before = {each.name: each.read_bytes() for each in tmp_path.iterdir()}
    assert "live.json.journal" in before
    assert listed(tmp_path)["live.json"].count == 3
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == before
    writer.close()
    assert listed(tmp_path)["live.json"].count == 3


def test_a_database_is_a_recording_too(tmp_path):
    SqliteStore(tmp_path / "run.db").save(sample.refund_recording())
    assert listed(tmp_path)["run.db"].count == 5


def test_a_summary_is_made_again_when_the_file_changes(tmp_path):
    path = sample.write(tmp_path / "run.json", b"{}", hours=1)
    library = RunLibrary([tmp_path])
    (before,) = library.listed(library.find())
    sample.write(path, b'{"_version": 2, "greet": {"content": "Hello."}}', hours=2)
    (after,) = library.listed(library.find())
    assert before.count == 0
    assert after.count == 1


def test_the_first_look_is_short_and_what_it_leaves_is_pending_until_the_next_one(tmp_path):
    for number in range(4):
        sample.write(tmp_path / f"{number}.json", b'{"_version": 2}')
    library = RunLibrary([tmp_path], clock=TickingClock())
    kinds = [run.kind for run in library.listed(library.find())]
    assert kinds == ["recording", "pending", "pending", "pending"]
    assert [run.kind for run in library.listed(library.find())] == ["recording"] * 4


def test_links_that_lead_out_hidden_folders_and_side_files_are_left_out(tmp_path):
    folder = tmp_path / "runs"
    secret = sample.write(tmp_path / "secret.json", b'{"_version": 2}')
    sample.write(folder / "run.json", b'{"_version": 2}')
    for name in (".git/x.json", "node_modules/x/package.json", ".venv/y.json", "package.json", "package-lock.json"):
        sample.write(folder / name, b"{}")
    sample.write(folder / "run.json.fresh-1", b"{}")
    (folder / "link.json").symlink_to(secret)
    (folder / "inside.json").symlink_to(folder / "run.json")
    (folder / "gone.json").symlink_to(folder / "nowhere.json")
    os.mkfifo(folder / "pipe.json")
    found = listed(folder)
    assert set(found) == {"run.json", "inside.json", "pipe.json"}
    assert "pipe" in found["pipe.json"].problem


def test_several_places_keep_their_runs_apart(tmp_path):
    for name in ("one", "two"):
        sample.write(tmp_path / name / "run.json", b'{"_version": 2}')
    library = RunLibrary([tmp_path / "one", tmp_path / "two/run.json"])
    assert sorted(run.id for run in library.find()) == ["0/run.json", "1/run.json"]


@pytest.mark.parametrize(
    ("place", "reason"), [("nowhere", "there is no such file"), ("redis://host/0", "only files"), ("a\0b", "no such")]
)
def test_a_place_that_cannot_be_viewed_is_refused(place, reason):
    with pytest.raises(InputError, match=reason):
        RunLibrary([place])


def test_a_run_that_is_gone_is_an_error_of_the_user(tmp_path):
    with pytest.raises(InputError, match=r"there is no run '\.\./x\.json'"):
        RunLibrary([tmp_path]).run("../x.json")
