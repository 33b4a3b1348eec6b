"""Reporters of explorations by name, and what they are told."""

import pytest

from offbook.errors import InputError
from offbook.explore.exploration import Exploration, Explorer, Wish
from offbook.explore.menu import chosen
from offbook.report.exploration import ExplorationReporters, exploration_reporter_of, report_exploration
from tests.report.exploration import explorations


class Listener:
    def __init__(self):
        self.heard = []

    def begin(self, exploration, cases):
        self.heard.append(("begin", exploration.subject, len(exploration.explored), cases))

    def told(self, explored):
        self.heard.append(("told", explored.case.id))

    def finish(self, exploration, *, is_complete=True):
        self.heard.append(("finish", len(exploration.explored), is_complete))


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
    told = [("told", f"{number:04}") for number in range(1, 7)]
    assert one.heard == other.heard == [("begin", "refund_agent", 0, 6), *told, ("finish", 6, True)]


def test_a_reporter_can_be_told_by_an_explorer_and_of_what_was_cut_off():
    listener = Listener()
    reporters = ExplorationReporters(listener)
    wish = Wish(dishes=chosen("tool_error"))
    exploration = Explorer(Always(), wish, on_begin=reporters.begin, on_case=reporters.told).explore()
    reporters.finish(exploration, is_complete=False)
    assert listener.heard == [("begin", "always", 0, 2), ("told", "0001"), ("told", "0002"), ("finish", 2, False)]


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
        ("jsn=e", "no reporter is called 'jsn'", "did you mean 'json'?"),
        ("console=e", "the console takes no path", "console"),
        ("html", "a path is missing", "html=report.html"),
        ("json=", "a path is missing", "json=exploration.json"),
    ],
)
def test_what_is_wrong_with_a_declaration_is_told(declared, reason, hint):
    with pytest.raises(InputError) as caught:
        reporter_of(declared)
    assert caught.value.reason == reason
    assert caught.value.hint.startswith(hint)
