"""Reports in files, from the first moment of a run to its end."""

import json
import os

import pytest

from offbook.errors import InputError
from offbook.report import report, reporter_of
from tests.report import runs


def names_in(path):
    return [scenario["name"] for scenario in json.loads(path.read_bytes())["scenarios"]]


def test_a_run_that_is_killed_leaves_a_report_of_what_had_ended(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    reporter.begin(3)
    reporter.told(runs.scenario("one"))
    reporter.told(runs.scenario("two"))
    assert names_in(path) == ["one", "two"]
    assert json.loads(path.read_bytes())["is_complete"] is False


def test_the_report_of_an_earlier_run_is_gone_when_a_run_begins(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    report(runs.two_agents(), reporter)
    reporter.begin(1)
    assert names_in(path) == []


def test_the_whole_result_is_what_stays_in_its_order(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    one, two = runs.scenario("one"), runs.scenario("two")
    reporter.begin(2)
    reporter.told(two)
    reporter.told(one)
    reporter.finish(runs.suite(one, two))
    assert names_in(path) == ["one", "two"]
    assert json.loads(path.read_bytes())["is_complete"] is True


def test_a_long_run_is_written_now_and_then_and_never_lags_by_more_than_a_twentieth(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    reporter.begin(500)
    written = [0]
    for ended in range(1, 501):
        reporter.told(runs.scenario(str(ended), conversations=()))
        written.append(len(names_in(path)))
        assert ended - written[-1] <= max(0, ended - 100) / 20
    assert len(set(written)) < 180


def test_no_half_written_file_is_ever_in_its_place(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    reporter.begin(1)
    with path.open("rb") as reader:
        reporter.finish(runs.two_agents())
        assert json.loads(reader.read())["is_complete"] is False
    assert [each.name for each in tmp_path.iterdir()] == ["r.json"]


def test_a_link_stays_and_what_it_leads_to_is_replaced(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    report(runs.two_agents(), reporter_of(f"json={tmp_path / 'link.json'}"))
    assert (tmp_path / "link.json").is_symlink()
    assert names_in(tmp_path / "real.json")


@pytest.mark.parametrize("name", ["folder", "pipe"])
def test_what_is_no_file_is_not_replaced(name, tmp_path):
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="not a file"):
        reporter_of(f"json={tmp_path / name}").begin(1)


def test_a_path_that_cannot_be_written_is_found_when_the_run_begins(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Not a directory|File exists"):
        reporter_of(f"html={tmp_path / 'file' / 'r.html'}").begin(1)
