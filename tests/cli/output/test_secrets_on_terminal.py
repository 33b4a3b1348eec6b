"""What a command prints has no secrets: messages, tables, JSON, the log, and what a program reported."""

import importlib
import json
import logging
import sys

import pytest

import offbook
from offbook.cli.output.console import echo, echo_json, print_message, print_table
from offbook.recording.redact.rules import mask_reported, mask_shown, note_credentials
from tests.cli.programs import PYTHON

SECRET = f"ghp_{'a1B2c3D4e5' * 4}"
OPAQUE = "opaque-key-of-the-call"
REPORTS = f"""
import http.client, json, os, urllib.request
body = {{"model": "m-{SECRET}", "messages": [{{"role": "user", "content": "Hi"}}]}}
url = os.environ["OFFBOOK_URL"]
headers = {{"authorization": "Bearer {OPAQUE}", "content-type": "application/json"}}
urllib.request.urlopen(urllib.request.Request(url + "/v1/chat/completions", json.dumps(body).encode(), headers)).read()
effect = {{"tool": "refund-{SECRET}", "arguments": {{"with": "{OPAQUE}"}}}}
urllib.request.urlopen(urllib.request.Request(url + "/_offbook/effects", json.dumps(effect).encode())).read()
"""


@pytest.mark.parametrize(
    "tell",
    [
        lambda text: print_message("note: ", text),
        lambda text: print_message("note: ", text, is_err=True),
        echo,
        lambda text: echo_json(json.dumps({"a": [text]})),
        lambda text: print_table(("name",), [(text,)]),
    ],
)
def test_nothing_that_is_printed_has_a_secret(tell, capsys):
    tell(f"it said {SECRET} and left")
    printed = "".join(capsys.readouterr())
    assert "it said <redacted:github-token:" in printed
    assert SECRET not in printed


def test_the_result_of_a_user_is_printed_as_it_is(capsys):
    echo_json(json.dumps({"a": SECRET}), is_own=True)
    assert SECRET in capsys.readouterr().out


def test_what_is_logged_and_nobody_takes_has_no_secret():
    assert importlib.import_module("offbook.cli.runners")
    record = logging.LogRecord("offbook", logging.WARNING, "", 0, "no price for %r", (f"m-{SECRET}",), None)
    assert logging.lastResort is not None
    assert SECRET not in logging.lastResort.format(record)


def test_the_credentials_of_calls_are_neither_printed_nor_reported():
    assert OPAQUE + "-2" in mask_shown(f"with {OPAQUE}-2")
    note_credentials([f"{OPAQUE}-2"])
    assert mask_shown(f"with {OPAQUE}-2") == "with <redacted>"
    assert json.loads(mask_reported(json.dumps({"with": f"{OPAQUE}-2"}).encode())) == {"with": "<redacted>"}


def test_what_a_program_calls_and_reports_is_printed_and_written_without_secrets(run_programs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with offbook.serving(default_response="Hi") as real:
        code, out, err = run_programs(
            *("exec", "--record", "run.json", "--upstream", f"openai={real.url}/v1", "--report", "report.json"),
            *("--", *PYTHON, REPORTS),
        )
    assert code == 0, err
    assert "1 effect reported: refund-<redacted:github-token:" in err
    for text in (out, err, (tmp_path / "report.json").read_text(), (tmp_path / "run.json").read_text()):
        assert SECRET not in text
        assert OPAQUE not in text


@pytest.mark.parametrize(
    "command",
    [
        ("exec", "--replay", "run.json", "--report", "report.json"),
        ("explore", "--replay", "run.json", "--faults", "timeout,http_error", "--report", "json=report.json"),
        ("explore", "--replay", "run.json", "--faults", "timeout,http_error", "--report", "report.html"),
    ],
)
def test_the_key_of_a_replayed_call_is_neither_printed_nor_reported(run_programs, tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    opaque = f"{OPAQUE}-{command[0]}-{command[-1]}".replace("=", "-")  # another than those of tests before
    (tmp_path / "run.json").write_text(json.dumps({"_version": 2, "any": {"content": "Hi"}}))
    (tmp_path / "agent.py").write_text(REPORTS.replace(OPAQUE, opaque))
    code, out, err = run_programs(*command, "--", sys.executable, "agent.py")
    assert code < 2, err
    report = (tmp_path / command[-1].removeprefix("json=")).read_text()
    assert "redacted:github-token:" in report
    assert opaque not in out + err + report
