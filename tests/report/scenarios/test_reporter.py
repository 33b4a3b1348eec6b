"""Reporters by name, and what they are told."""

import io
import json
import os

import pytest
from rich.console import Console

from offbook.errors import InputError
from offbook.report import Reporters, report, reporter_of
from tests.report import runs


class Listener:
    def __init__(self):
        self.calls = []

    def begin(self, scenarios):
        self.calls.append(("begin", scenarios))

    def on_scenario(self, scenario):
        self.calls.append(("add", scenario.agent))

    def finish(self, result):
        self.calls.append(("finish", result.passed))


def test_several_reporters_hear_the_same():
    one, other = Listener(), Listener()
    report(runs.suite(runs.scenario(), runs.scenario(agent="large")), Reporters(one, other))
    assert one.calls == other.calls == [("begin", 2), ("add", "small"), ("add", "large"), ("finish", True)]


@pytest.mark.parametrize(
    ("declared", "begins"), [("json=r.json", b"{"), ("junit=r.xml", b"<?xml"), ("html=r.html", b"<!DOCTYPE html>")]
)
def test_a_reporter_with_a_path_writes_there(declared, begins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report(runs.two_agents(), reporter_of(declared))
    assert (tmp_path / declared.partition("=")[2]).read_bytes().startswith(begins)


def test_a_path_may_hold_an_equals_sign_and_folders_that_are_not_there(tmp_path):
    path = tmp_path / "a=b" / "deep" / "r.json"
    report(runs.two_agents(), reporter_of(f"json={path}"))
    assert json.loads(path.read_bytes())["version"] == 1


def test_the_console_reporter_prints_to_the_console_given():
    out = io.StringIO()
    report(runs.two_agents(), reporter_of("console", console=Console(file=out, width=100)))
    assert "refunds an order" in out.getvalue()


def test_github_needs_no_path(capsys):
    report(runs.two_agents(), reporter_of("github"))
    assert capsys.readouterr().out.startswith("::error ")


def test_an_unknown_reporter_is_refused_with_a_suggestion():
    with pytest.raises(InputError, match="there is no reporter 'junti'") as caught:
        reporter_of("junti=out.xml")
    assert caught.value.hint == "did you mean 'junit'? reporters: console, github, html, json, junit"


@pytest.mark.parametrize("name", ["json", "junit=", "html"])
def test_a_reporter_that_needs_a_path_says_so(name):
    with pytest.raises(InputError, match=r"a path is missing\n  hint: .+=.+"):
        reporter_of(name)


def test_the_console_takes_no_path():
    with pytest.raises(InputError, match="takes no path"):
        reporter_of("console=out.txt")


def names_in(path):
    return [scenario["name"] for scenario in json.loads(path.read_bytes())["scenarios"]]


def test_a_run_that_is_killed_leaves_a_report_of_what_had_ended(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    reporter.begin(3)
    reporter.on_scenario(runs.scenario("one"))
    reporter.on_scenario(runs.scenario("two"))
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
    reporter.on_scenario(two)
    reporter.on_scenario(one)
    reporter.finish(runs.suite(one, two))
    assert names_in(path) == ["one", "two"]
    assert json.loads(path.read_bytes())["is_complete"] is True


def test_a_long_run_is_written_now_and_then_and_never_lags_by_more_than_a_twentieth(tmp_path):
    path = tmp_path / "r.json"
    reporter = reporter_of(f"json={path}")
    reporter.begin(500)
    text, written = b"", [0]
    for ended in range(1, 501):
        reporter.on_scenario(runs.scenario(str(ended), conversations=()))
        is_new, text = path.read_bytes() != text, path.read_bytes()
        written.append(len(names_in(path)) if is_new else written[-1])
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
