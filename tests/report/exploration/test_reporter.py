"""Reporters of explorations by name, and what they are told."""

import json

import pytest
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.explorer import Exploration, Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.report.exploration import ExplorationReporters, exploration_reporter_of, report_exploration
from tests.report.exploration import explorations


class Listener:
    def __init__(self):
        self.calls = []

    def begin(self, exploration, cases):
        self.calls.append(("begin", exploration.subject, len(exploration.results), cases))

    def on_case(self, explored):
        self.calls.append(("add", explored.case.id))

    def finish(self, exploration, *, is_complete=True):
        self.calls.append(("finish", len(exploration.results), is_complete))


class Always:
    """A subject that never minds a fault."""

    name = "always"

    def run(self, plan):
        return explorations.CLEAN


def reporter_of(declared):
    return exploration_reporter_of(declared, reproduce=explorations.reproduce)


def test_several_reporters_hear_the_same():
    one, other = Listener(), Listener()
    report_exploration(explorations.naive(), ExplorationReporters(one, other))
    cases = [("add", f"{number:04}") for number in range(1, 7)]
    assert one.calls == other.calls == [("begin", "refund_agent", 0, 6), *cases, ("finish", 6, True)]


def test_a_reporter_can_be_driven_by_an_explorer_and_gets_what_was_cut_off():
    listener = Listener()
    reporters = ExplorationReporters(listener)
    variants = [replace(each, is_persistent=False) for each in select_variants("tool_error")]
    options = ExploreOptions(variants=variants)
    exploration = Explorer(Always(), options, on_begin=reporters.begin, on_case=reporters.on_case).explore()
    reporters.finish(exploration, is_complete=False)
    assert listener.calls == [("begin", "always", 0, 2), ("add", "0001"), ("add", "0002"), ("finish", 2, False)]


@pytest.mark.parametrize(
    ("declared", "begins"), [("json=e.json", b"{"), ("junit=e.xml", b"<?xml"), ("html=e.html", b"<!DOCTYPE html>")]
)
def test_a_reporter_with_a_path_writes_there(declared, begins, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    report_exploration(explorations.naive(), reporter_of(declared))
    assert (tmp_path / declared.partition("=")[2]).read_bytes().startswith(begins)


@pytest.mark.parametrize("declared", ["json=e", "junit=e", "html=e"])
def test_equal_explorations_are_the_same_bytes(declared, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written = set()
    for exploration in (explorations.with_pair(), explorations.with_pair()):
        report_exploration(exploration, reporter_of(declared))
        written.add((tmp_path / "e").read_bytes())
    assert len(written) == 1


def test_github_and_the_console_need_no_path(capsys):
    report_exploration(explorations.naive(), reporter_of("github"))
    assert capsys.readouterr().out.startswith("::error ")
    report_exploration(explorations.naive(), reporter_of("console"))
    assert "3 findings" in capsys.readouterr().out


def test_github_may_have_a_path(tmp_path):
    report_exploration(Exploration("x", explorations.CLEAN), reporter_of(f"github={tmp_path / 's.md'}"))
    assert (tmp_path / "s.md").read_text().startswith("\n## Exploration of x\n")


@pytest.mark.parametrize(
    ("declared", "reason", "hint"),
    [
        ("jsn=e", "there is no reporter 'jsn'", "did you mean 'json'?"),
        ("console=e", "the console takes no path", "console"),
        ("html", "a path is missing", "html=report.html"),
        ("json=", "a path is missing", "json=exploration.json"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_reported(declared, reason, hint):
    with pytest.raises(InputError) as caught:
        reporter_of(declared)
    assert caught.value.reason == reason
    assert caught.value.hint.startswith(hint)


def reporter_at(path):
    return exploration_reporter_of(f"json={path}", reproduce=explorations.reproduce)


def started_reporter(exploration):
    return replace(exploration, results=(), left_out=())


def report_in(path):
    report = json.loads(path.read_bytes())
    return len(report["explored"]), report["is_complete"]


def test_the_file_is_there_when_the_exploration_begins_and_nothing_of_an_earlier_one(tmp_path):
    path = tmp_path / "e.json"
    path.write_text("old")
    reporter_at(path).begin(started_reporter(explorations.naive()), 6)
    assert report_in(path) == (0, False)


def test_an_exploration_that_is_killed_leaves_at_least_half_of_what_had_ended(tmp_path):
    path = tmp_path / "e.json"
    exploration = explorations.large()
    reporter, text, written = reporter_at(path), b"", set()
    reporter.begin(started_reporter(exploration), 100)
    for ended, each in enumerate(exploration.results[:100], 1):
        reporter.on_case(each)
        if path.read_bytes() != text:
            text, (report, is_complete) = path.read_bytes(), report_in(path)
        written.add(report)
        assert report * 2 >= ended
        assert not is_complete
    assert len(written) < 10


def test_the_whole_is_what_stays(tmp_path):
    path = tmp_path / "e.json"
    reporter = reporter_at(path)
    reporter.begin(started_reporter(explorations.naive()), 6)
    reporter.finish(explorations.naive())
    assert report_in(path) == (6, True)


def test_what_was_cut_off_is_reported_as_such(tmp_path):
    path = tmp_path / "e.json"
    reporter_at(path).finish(explorations.naive(), is_complete=False)
    assert report_in(path) == (6, False)


def test_a_path_that_cannot_be_written_is_found_when_the_exploration_begins(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"Not a directory|File exists"):
        reporter_at(tmp_path / "file" / "e.json").begin(started_reporter(explorations.naive()), 6)
