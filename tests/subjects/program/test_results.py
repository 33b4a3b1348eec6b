"""What a program leaves behind: files that count as its result, and a check after each run."""

import os
import sys
from pathlib import Path

import pytest

from offbook.errors import InputError
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.settings import ExploreSettings
from offbook.settings import arguments_of
from offbook.subjects.executors import executor_of
from offbook.subjects.program.results import BACKUP_FOLDER
from offbook.subjects.regression import Regression, RegressionFolder, reproduce
from offbook.subjects.specs import ProgramSpec, WorkflowSpec, open_subject

AGENT = """\
import json, os, sys, urllib.request
from pathlib import Path

def ask(text):
    asked = {"model": "m", "messages": [{"role": "user", "content": text}]}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(asked).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]

folder = Path(os.environ["TMPDIR"] if "--tmp" in sys.argv else ".")
report = folder / "report.txt"
before = report.read_text() if report.exists() else ""
lines = [before, "first: " + ask("first")]
try:
    lines.append("second: " + ask("second"))
except OSError:
    (folder / "left-over.txt").write_text("a note of a run that failed")  # and says nothing of it
report.write_text("\\n".join(filter(None, lines)) + "\\n")
print("done")
"""

RECORDING = '{"_version": 2, "any": [{"content": "A"}, {"content": "B"}]}'
SECOND = "http_error 500"


@pytest.fixture
def agent(project, monkeypatch):
    monkeypatch.chdir(project.write("agent.py", AGENT).parent)
    project.write("run.json", RECORDING)
    return ProgramSpec(recording="run.json", command=(sys.executable, "agent.py"))


def explored(spec, *, workers=1, **settings):
    with open_subject(spec, ExploreSettings(**settings)) as subject:
        options = ExploreOptions(variants=select_variants(SECOND, subject.variants))
        return Explorer(subject, options, executor=executor_of(subject, workers)).explore()


def at(exploration, line):
    return next(each for each in exploration.results if str(each.case) == line)


LAST = "call=2 attempt=1: http_error 500"


def test_a_file_that_a_program_writes_is_part_of_its_result(agent):
    exploration = explored(agent, results=("report.txt",))
    assert at(explored(agent), LAST).title == "undetected (went on without)"
    assert exploration.clean.result["files"] == {"report.txt": "first: A\nsecond: B\n"}
    found = at(exploration, LAST)
    assert found.title == "undetected (broken data)"
    assert found.run.result["files"] == {"report.txt": "first: A\n"}


def test_every_run_finds_the_files_as_they_were_before_the_first_and_so_does_the_user(agent):
    Path("report.txt").write_text("mine\n")
    Path("report.txt").chmod(0o640)
    exploration = explored(agent, results=("*.txt",))
    assert exploration.clean.result["files"] == {"report.txt": "mine\n\nfirst: A\nsecond: B\n"}
    files = at(exploration, LAST).run.result["files"]
    assert files == {"report.txt": "mine\n\nfirst: A\n", "left-over.txt": "a note of a run that failed"}
    assert all("left-over.txt" not in (each.run.result or {"files": ()})["files"] for each in exploration.results[:1])
    assert Path("report.txt").read_text() == "mine\n"
    assert Path("report.txt").stat().st_mode & 0o777 == 0o640
    assert not Path("left-over.txt").exists()
    assert not Path(BACKUP_FOLDER).exists()


def test_files_in_the_folder_of_each_run_need_no_restoring(agent):
    spec = ProgramSpec(recording="run.json", command=(*agent.command, "--tmp"))
    alone, together = (explored(spec, workers=count, results=("$TMPDIR/*.txt",)) for count in (1, 2))
    assert alone == together
    assert alone.clean.result["files"] == {"$TMPDIR/report.txt": "first: A\nsecond: B\n"}
    assert not list(Path().glob("*.txt"))


def test_shared_files_give_the_same_results_at_any_number_of_workers(agent):
    alone, together = (explored(agent, workers=count, results=("*.txt",)) for count in (1, 2))
    assert alone == together


@pytest.mark.parametrize(
    ("results", "reason"),
    [
        ("", "this is not a file in the working directory"),
        ("/etc/passwd", "this is not a file in the working directory"),
        ("../out.txt", "this is not a file in the working directory"),
        ("$TMPDIR/../../x", "this is not a file in the working directory"),
        ("a**b/c", "Invalid pattern"),
    ],
)
def test_what_is_no_file_of_the_program_is_refused_before_it_runs(agent, results, reason):
    Path("agent.py").write_text("raise SystemExit('it ran')")
    if results == "a**b/c" and sys.version_info >= (3, 13):
        pytest.skip("a pattern like another there")
    with pytest.raises(InputError, match=reason) as refused:
        explored(agent, results=(results,))
    assert refused.value.source == f"results={results}"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_program_can_name_its_case_in_a_ledger_of_its_own(agent, project, fresh):
    project.write("agent.py", f"{AGENT}\nPath('case.txt').write_text(os.environ['OFFBOOK_CASE'])\n")
    exploration = explored(agent, results=("case.txt",), fresh=fresh)
    named = {str(each.case): each.run.result["files"].get("case.txt") for each in exploration.results}
    assert exploration.clean.result["files"]["case.txt"] == "clean"
    assert named[LAST] == LAST


@pytest.mark.parametrize("command", [False, True])
def test_the_state_that_a_program_leaves_is_compared(agent, command):
    print_it = f"{sys.executable} -c 'print(open(\"report.txt\").read())'"
    state_of, results = (print_it, ("report.txt",)) if command else ("report.txt", ())
    exploration = explored(agent, state_of=state_of, results=results)
    found = at(exploration, LAST)
    assert "second: B" in exploration.clean.state
    assert "second: B" not in found.run.state
    assert found.verdict == ("undetected" if command else "wrong effect")  # the file is a part of the result
    assert not Path("report.txt").exists()


def test_a_folder_and_a_database_can_be_the_state(agent, project):
    writes = (
        "import sqlite3; base = sqlite3.connect('box/paid.db'); base.execute('CREATE TABLE paid (id)'); base.commit()"
    )
    project.write("agent.py", f"import os; os.makedirs('box', exist_ok=True); {writes}\n{AGENT}")
    state = explored(agent, state_of="box").clean.state
    assert list(state) == ["paid.db"]
    assert "CREATE TABLE paid (id)" in state["paid.db"]


def test_a_state_that_is_not_there_and_a_command_that_fails_are_errors(agent):
    with pytest.raises(InputError, match="the run without a fault has left no such file"):
        explored(agent, state_of="none.db")
    with pytest.raises(InputError, match="the command of state_of failed"):
        explored(agent, state_of=f"{sys.executable} -c 'raise SystemExit(3)'")


def test_a_link_is_refused_because_what_is_behind_it_could_be_lost(agent, tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    Path("report.txt").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="is a link"):
        explored(agent, results=("report.txt",))
    assert (tmp_path / "elsewhere").read_text() == "precious"


def test_a_file_that_the_clean_run_does_not_write_is_an_error(agent):
    with pytest.raises(InputError, match="has written no such file") as refused:
        explored(agent, results=("reprot.txt",))
    assert refused.value.source == "results=reprot.txt"
    assert not Path(BACKUP_FOLDER).exists()


def test_files_of_an_exploration_that_was_killed_are_not_written_over(agent):
    Path(BACKUP_FOLDER).mkdir()
    Path(BACKUP_FOLDER, "report.txt").write_text("mine")
    with pytest.raises(InputError, match="an exploration was cut off here") as refused:
        explored(agent, results=("report.txt",))
    assert "move them back" in refused.value.hint
    assert Path(BACKUP_FOLDER, "report.txt").read_text() == "mine"


def test_two_explorations_do_not_share_their_files(agent):
    with open_subject(agent, ExploreSettings(results=("report.txt",))) as subject:
        options = ExploreOptions(variants=())
        assert Explorer(subject, options).clean
        with pytest.raises(InputError, match="another exploration uses these files"):
            explored(agent, results=("report.txt",))
    assert explored(agent, results=("report.txt",)).results


CHECK = """\
import os
from pathlib import Path
text = Path("report.txt").read_text()
print("in", os.environ["TMPDIR"], "after", os.environ["OFFBOOK_EXIT_CODE"])
assert "second" in text, "the second answer is missing"
"""


def test_a_check_that_fails_is_a_broken_assertion_with_its_output(agent, project):
    project.write("check.py", CHECK)
    check = f"{sys.executable} check.py"
    exploration = explored(agent, results=("report.txt",), check=check)
    assert exploration.clean.broken == ()
    found = at(exploration, LAST)
    assert found.title == "undetected (failed check)"
    assert found.evidence[0].startswith(f"the check failed (exit code 1): {check}\nin $TMPDIR after 0\n")
    assert "AssertionError: the second answer is missing" in found.evidence[0]


def test_a_check_that_fails_without_a_fault_is_an_error(agent):
    with pytest.raises(InputError, match=r"fails without any fault: the check failed \(exit code 1\): false"):
        explored(agent, check="false")


@pytest.mark.parametrize(("check", "reason"), [("", "empty"), ("'", "cannot be split"), ("no-such-check", "no such")])
def test_what_is_no_command_is_refused_before_anything_runs(agent, check, reason):
    Path("agent.py").write_text("raise SystemExit('it ran')")
    with pytest.raises(InputError, match=reason):
        explored(agent, check=check)


@pytest.mark.parametrize("settings", [{"results": ("out.txt",)}, {"check": "true"}, {"state_of": "a.db"}])
def test_only_programs_have_result_files_and_checks(settings):
    spec = WorkflowSpec(recording="run.json", file="flow.yaml")
    with pytest.raises(InputError, match="there is no program"), open_subject(spec, ExploreSettings(**settings)):
        pass


def test_a_regression_checks_again_what_it_was_found_by(agent, project):
    project.write("check.py", CHECK)
    settings = ExploreSettings(results=("report.txt",), check=f"{sys.executable} check.py")
    assert arguments_of(settings) == ["-o", "results=report.txt", "-o", f"check={sys.executable} check.py"]
    kind = Regression(offbook="regression", verdict="crashed", faults=(), subject=agent, settings=settings)
    with open_subject(agent, settings) as subject:
        exploration = Explorer(subject, ExploreOptions(variants=select_variants(SECOND, subject.variants))).explore()
        file, *_ = RegressionFolder("regress", kind).keep(subject, exploration.clean, [at(exploration, LAST)])
    assert reproduce(file).title == "undetected (failed check)"
    project.write("check.py", CHECK.replace('"second"', '"first"'))
    assert not os.path.exists("report.txt")  # noqa: PTH110
    assert reproduce(file).title == "undetected (broken data)"
