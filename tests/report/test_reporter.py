"""Reporters by name, and what they are told."""

import io
import json

import pytest
from rich.console import Console

from offbook.errors import InputError
from offbook.report import Reporters, report, reporter_of
from tests.report import runs


class Listener:
    def __init__(self):
        self.heard = []

    def begin(self, scenarios):
        self.heard.append(("begin", scenarios))

    def told(self, scenario):
        self.heard.append(("told", scenario.agent))

    def finish(self, result):
        self.heard.append(("finish", result.passed))


def test_several_reporters_hear_the_same():
    one, other = Listener(), Listener()
    report(runs.suite(runs.scenario(), runs.scenario(agent="large")), Reporters(one, other))
    assert one.heard == other.heard == [("begin", 2), ("told", "small"), ("told", "large"), ("finish", True)]


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
    with pytest.raises(InputError, match="no reporter is called 'junti'") as caught:
        reporter_of("junti=out.xml")
    assert caught.value.hint == "did you mean 'junit'? reporters: console, github, html, json, junit"


@pytest.mark.parametrize("name", ["json", "junit=", "html"])
def test_a_reporter_that_needs_a_path_says_so(name):
    with pytest.raises(InputError, match=r"a path is missing\n  hint: .+=.+"):
        reporter_of(name)


def test_the_console_takes_no_path():
    with pytest.raises(InputError, match="takes no path"):
        reporter_of("console=out.txt")
