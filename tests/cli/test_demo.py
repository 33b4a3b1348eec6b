"""understudy demo."""

import subprocess
import sys
from pathlib import Path

COMMAND = Path(sys.executable).with_name("understudy")
RECOVERIES = """\
  --fault 'step=classify attempt=1: http_error 429 headers.Retry-After=30'
    succeeded: 4 attempts instead of 3, waited 30.0 s, the same result
  --fault 'step=answer call=2 attempt=1: timeout 5000'
    succeeded: 4 attempts instead of 3, waited 5.5 s, the same result
  --fault 'step=answer call=1 attempt=1: connection_reset'
    succeeded: 4 attempts instead of 3, waited 0.5 s, the same result
"""


def test_a_workflow_is_replayed_with_its_progress(run):
    code, out, err = run("demo")
    assert (code, err) == (0, "")
    assert "answer            agent" in out
    assert "support succeeded: 3 done, 1 skipped" in out


def test_each_of_three_faults_is_recovered_from_in_one_line(run):
    _, out, _ = run("demo")
    assert RECOVERIES in out


def test_a_changed_prompt_is_refused_with_the_difference(run):
    _, out, _ = run("demo")
    assert "step 'classify' was recorded with another request" in out
    assert "    -Classify the message as question, complaint or request." in out
    assert "    +Is the message a question or a complaint?" in out


def test_what_to_try_next_works(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, out, _ = run("demo")
    commands = [line for line in out.partition("What to try next")[2].splitlines() if line]
    assert len(commands) == 3
    for line in commands:
        arguments = line.partition("   a ")[0].split("--fault")[0].split()[1:]
        fault = [part for text in line.split("'")[1::2] for part in ("--fault", text)]
        assert run(*arguments, *fault)[0] == 0


def test_the_installed_command_prints_plain_text_and_the_same_bytes_every_time(tmp_path):
    first, second = (subprocess.run([COMMAND, "demo"], cwd=tmp_path, capture_output=True, check=True) for _ in range(2))
    assert first.stdout == second.stdout
    assert b"\x1b" not in first.stdout
    assert not list(tmp_path.iterdir())
