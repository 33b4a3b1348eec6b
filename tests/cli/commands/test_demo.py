"""offbook demo."""

import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

from offbook.cli.runners.demo import RefundExploration, write_demo_report
from offbook.faults import parse_fault

COMMAND = Path(sys.executable).with_name("offbook")
RECOVERIES = """\
  --fault 'step=classify attempt=1: http_error 429 headers.Retry-After=30'
    succeeded: 4 attempts instead of 3, waited 30.0 s, the same result
  --fault 'step=answer call=2 attempt=1: timeout 5000'
    succeeded: 4 attempts instead of 3, waited 5.5 s, the same result
  --fault 'step=answer call=1 attempt=1: connection_reset'
    succeeded: 4 attempts instead of 3, waited 0.5 s, the same result
"""


FINDING = """\
2× repeated effect: refund(order_id=42) ran 2 times instead of once
  │ 10 cases, the first: step=agent call=3 attempt=1: connection_reset
  │ offbook demo --fault 'step=agent call=3 attempt=1: connection_reset'
"""
THEIRS = "<title>Exploration</title> of something else"


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    """What the installed command prints, and the folder where it ran."""
    folder = tmp_path_factory.mktemp("demo")
    done = subprocess.run([COMMAND, "demo"], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout, folder


@pytest.fixture(scope="module")
def explored():
    """The exploration of one case."""
    recording = resources.files("offbook.cli") / "demo" / "recordings" / "refund.json"
    return RefundExploration(Path(str(recording)), [parse_fault("step=agent call=1: timeout")]).show()


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_workflow_is_replayed_with_its_progress_in_plain_text(shown):
    out, _ = shown
    assert "answer            agent" in out
    assert "support succeeded: 3 done, 1 skipped" in out
    assert "\x1b" not in out


def test_each_of_three_faults_is_recovered_from_in_one_line(shown):
    assert RECOVERIES in shown[0]


def test_a_changed_prompt_is_refused_with_the_difference(shown):
    out, _ = shown
    assert "step 'classify' was recorded with another request" in out
    assert "    -Classify the message as question, complaint or request." in out
    assert "    +Is the message a question or a complaint?" in out


def test_a_naive_agent_is_explored_with_the_refund_that_it_repeats_first(shown):
    explored = shown[0].partition("4  Explore")[2]
    assert "\n3 → answer         2× 2× 2× 2× 2× 2×  =  =  =  =  " in explored
    totals, _, findings = explored.partition("42 cases, 22 findings: ")[2].partition("\n\n")
    kinds = ("10 repeated effects", "8 undetected", "4 bad retries")
    assert totals.splitlines() == [
        f"{', '.join(kinds)}, 10 failed cleanly, 10 recovered",
        "8 cases share 4 runs: a lasting fault that was met only once",
    ]
    assert findings.startswith(FINDING)


def test_the_fixed_agent_has_no_finding_whatever_the_fault(shown):
    assert "The same agent, fixed: 0 findings in 42 cases: " in shown[0]


def test_all_of_it_is_on_two_screens(shown):
    assert len(shown[0].splitlines()) <= 80


def test_the_agents_are_where_it_says_and_have_room_on_a_screen(shown):
    named = Path(shown[0].partition("short enough to read: ")[2].partition(" and ")[0])
    for agent in (named, named.with_name("refund_fixed.py")):
        assert 0 < len(agent.read_text().splitlines()) <= 60


def test_a_report_is_left_in_the_working_directory(shown):
    out, folder = shown
    assert "\nreport.html shows the naive agent run by run. Open it: xdg-open report.html, or on macOS: open " in out
    assert [file.name for file in folder.iterdir()] == ["report.html"]
    assert b"refund(order_id=42) ran 2 times" in (folder / "report.html").read_bytes()


def test_the_next_demo_replaces_its_report_and_prints_the_same_bytes(run, folder, shown):
    out, earlier = shown
    page = (earlier / "report.html").read_bytes()
    (folder / "report.html").write_bytes(page.replace(b" ran 2 times", b" ran in an older version"))
    assert run("demo") == (0, out, "")
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == {"report.html": page}


def test_what_is_no_report_of_the_demo_stays_as_it_is(explored, folder, capsys):
    (folder / "report.html").write_text(THEIRS)
    (folder / "report-2.html").mkdir()
    (folder / "report-3.html").symlink_to("nowhere.html")
    for _ in range(2):  # the second one replaces the first
        write_demo_report(explored)
        assert capsys.readouterr().out.startswith("report-4.html shows the naive agent")
    assert {file.name for file in folder.iterdir()} == {f"report{end}.html" for end in ("", "-2", "-3", "-4")}
    assert (folder / "report.html").read_text() == THEIRS


def test_where_no_report_can_be_written_the_demo_says_so_and_goes_on(explored, folder, capsys):
    (folder / "report.html.next").mkdir()
    write_demo_report(explored)
    assert capsys.readouterr().out == "No report was written here: report.html: Is a directory\n"
    assert not (folder / "report.html").exists()


def test_a_case_is_run_again_by_the_command_that_its_finding_reports(run, folder):
    code, out, _ = run("demo", "--fault", "step=agent call=3 attempt=1: connection_reset")
    assert code == 1
    assert "1 case, 1 finding: 1 repeated effect\n" in out
    assert "The same agent, fixed: 0 findings in 1 case: 1 recovered\n" in out
    assert not list(folder.iterdir())


def test_a_case_that_was_not_in_the_picture_is_run_too(run):
    faults = ("step=agent call=1 attempt=1: timeout", "step=agent call=2 attempt=1: timeout")
    code, out, _ = run("demo", "--fault", faults[0], "--fault", faults[1])
    assert code == 0
    assert "1 case, 0 findings: 1 recovered\n" in out


def test_a_fault_that_there_is_not_is_bad_input(run):
    code, _, err = run("demo", "--fault", "call=3: conection_reset")
    assert code == 2
    assert "connection_reset" in err


def test_what_to_try_next_works(run, shown):
    commands = [line for line in shown[0].partition("What to try next")[2].splitlines() if line]
    assert len(commands) == 4
    for line in commands:
        arguments = line.partition("   a ")[0].split("--fault")[0].split()[1:]
        fault = [part for text in line.split("'")[1::2] for part in ("--fault", text)]
        fewer = ["--faults", "empty_response"] if "explore" in line else []
        assert run(*arguments, *fault, *fewer)[0] == (1 if fewer else 0)  # the flow goes on without an answer
