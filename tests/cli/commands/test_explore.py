"""offbook explore: what is explored, what is told, and how it ends."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.subjects.projects import CARELESS, EAGER_DESK, REFUND, SIM, Project

COMMAND = Path(sys.executable).parent / "offbook"
FLOW = ("flow.yaml", "--recording", "run.json")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def careless(project):
    """A workflow that refunds twice if the answer of the first refund is lost."""
    project.workflow(CARELESS)
    return project


def test_a_workflow_with_a_defect_is_told_with_the_command_that_shows_it_again(run, careless):
    code, out, err = run("explore", *FLOW, "--faults", "tool_lost")
    assert (code, err) == (1, "")
    assert "repeated side effect  tool=refund call=1: tool_lost" in out
    assert "refund ran 2 times, without the fault 1 time" in out
    assert "offbook explore flow.yaml --recording run.json --fault 'tool=refund call=1: tool_lost'" in out


def test_that_command_runs_that_case_alone(run, careless):
    code, out, _ = run("explore", *FLOW, "--fault", "tool=refund call=1: tool_lost")
    assert code == 1
    assert "1 case, 1 finding" in out


def test_a_workflow_without_a_defect_exits_with_0(run, project):
    project.workflow(REFUND)
    code, out, _ = run("explore", *FLOW, "--faults", "connection_reset,tool_lost")
    assert code == 0
    assert "0 findings" in out


def test_faults_pairs_and_a_budget_choose_the_cases(run, careless):
    told = json.loads(run("explore", *FLOW, "--faults", "timeout", "--pairs", "--budget", "5", "--json")[1])
    assert [case["id"] for case in told["explored"]] == ["0001", "0002", "0003", "0004", "0005"]
    assert len(told["explored"][4]["faults"]) == 2


def test_cases_are_listed_without_running_them(run, careless):
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost,timeout", "--list")
    assert code == 0
    assert out.splitlines()[0] == "0001  step=plan call=1 attempt=1: timeout 60000"
    assert out.splitlines()[-1] == "0005  tool=refund call=1: tool_lost"
    assert json.loads(run("explore", *FLOW, "--list", "--json", "--budget", "1")[1])[0]["id"] == "0001"


def test_one_case_is_run_by_its_id(run, careless):
    options = ("explore", *FLOW, "--faults", "tool_lost,timeout")
    code, out, _ = run(*options, "--only", "0005", "--quiet")
    assert code == 1
    assert out.startswith("repeated side effect: tool=refund call=1: tool_lost: refund ran")
    code, _, err = run(*options, "--only", "0099")
    assert code == 2
    assert "there is no case '0099'" in err
    assert "--list" in err


def test_reports_are_the_same_bytes_every_time_and_at_any_number_of_workers(run, careless):
    for name, workers in (("one", 1), ("two", 2)):
        reports = ("--report", f"{name}.html", "--reporter", f"json={name}.json", "--reporter", f"junit={name}.xml")
        run("explore", *FLOW, "--budget", "12", "--workers", workers, *reports)
    for kind in ("html", "json", "xml"):
        assert Path(f"one.{kind}").read_bytes() == Path(f"two.{kind}").read_bytes() != b""


def test_a_step_summary_is_added_to_where_github_says(run, careless, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", "summary.md")
    _, out, _ = run("explore", *FLOW, "--faults", "tool_lost", "--reporter", "github")
    assert "::error" in out
    assert "repeated side effect" in Path("summary.md").read_text()


def test_only_the_verdicts_that_are_named_fail_it(run, careless):
    assert run("explore", *FLOW, "--faults", "tool_lost", "--fail-on", "hung,wrong")[0] == 0
    assert run("explore", *FLOW, "--faults", "tool_lost", "--fail-on", "repeated-side-effect")[0] == 1
    assert run("explore", *FLOW, "--faults", "timeout", "--fail-on", "recovered")[0] == 1
    code, _, err = run("explore", *FLOW, "--fail-on", "hug")
    assert code == 2
    assert "--fail-on: there is no verdict 'hug'" in err


def test_something_worse_than_before_exits_with_1(run, project):
    project.workflow(REFUND)
    assert run("explore", *FLOW, "--faults", "tool_lost", "--reporter", "json=old.json")[0] == 0
    compare = ("explore", *FLOW, "--faults", "tool_lost", "--compare", "old.json", "--fail-on", "hung")
    assert run(*compare)[0] == 0
    project.workflow(CARELESS)
    code, out, _ = run(*compare)
    assert code == 1
    assert "failed cleanly → repeated side effect" in out


def test_findings_are_kept_and_replayed_until_they_are_mended(run, careless):
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost", "--regress", "regress")
    assert (code, [file.name for file in Path("regress").iterdir()]) == (1, ["0001.json"])
    assert "kept: offbook replay --plan regress/0001.json" in out
    code, out, _ = run("replay", "--plan", "regress/0001.json")
    assert code == 1
    assert out.startswith("tool=refund call=1: tool_lost\nstill repeated side effect: refund ran")
    careless.workflow(REFUND)
    code, out, _ = run("replay", "--plan", "regress/0001.json")
    assert code == 0
    assert "fixed: failed cleanly (it was: repeated side effect)" in out
    assert run("replay", "--plan", "regress/0001.json", "--quiet")[:2] == (0, "")
    told = json.loads(run("replay", "--plan", "regress/0001.json", "--json")[1])
    assert (told["before"], told["verdict"], told["is_finding"]) == ("repeated side effect", "failed cleanly", False)


def test_the_plan_of_a_finding_takes_no_workflow_and_other_plans_need_one(run, careless):
    run("explore", *FLOW, "--faults", "tool_lost", "--regress", "regress")
    code, _, err = run("replay", "flow.yaml", "--plan", "regress/0001.json")
    assert code == 2
    assert "this plan names its own workflow" in err
    careless.write("plan.json", '{"faults": []}')
    code, _, err = run("replay", "--plan", "plan.json")
    assert code == 2
    assert "a workflow is missing" in err
    assert "a recording is missing" in run("replay", "flow.yaml")[2]


def test_invariants_of_a_file_must_hold_for_every_run(run, project):
    project.workflow(REFUND)
    project.write("checks.py", "def invariant_never_fails(run):\n    assert run.error is None, 'it failed'\n")
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost", "--invariants", "checks.py")
    assert code == 1
    assert "invariant_never_fails: it failed" in out
    assert "--invariants checks.py --fault" in out


def test_terms_are_kept_and_repeated_in_the_command(run, careless):
    terms = ("--declared", "ValueError", "--deadline", "30", "--side-effects", "refund", "--run-tools")
    told = json.loads(run("explore", *FLOW, "--faults", "timeout", *terms, "--default-response", "Hm", "--json")[1])
    assert told["explored"][0]["verdict"] == "hung"
    more = "--on-divergence default --default-response Hm"
    rest = "--declared ValueError --deadline 30 --side-effects refund --run-tools"
    assert f"{more} {rest} --fault" in told["explored"][0]["reproduce"]


def test_the_state_of_a_workflow_is_set(run, project):
    project.workflow(REFUND)
    code, _, err = run("explore", *FLOW, "--set", "order=43")
    assert code == 2
    assert "the run fails without any fault: RecordingMismatchError" in err


def test_a_scenario_is_explored_on_the_recording_beside_it(run, project):
    project.scenario(desk=EAGER_DESK)
    code, out, _ = run("explore", "sim_refunds.py", "--faults", "tool_lost")
    assert code == 1
    assert "repeated side effect" in out
    again = "offbook explore sim_refunds.py --scenario refunds --agent desk --recording recordings/refunds.json"
    assert f"{again} --fault 'tool=refund call=1: tool_lost'" in out


def test_a_scenario_an_agent_and_a_config_are_chosen(run, project):
    project.scenario(sim=SIM + 'scenario("asks", turns=["Hi"])\n')
    code, _, err = run("explore", "sim_refunds.py")
    assert code == 2
    assert "it declares 2 scenarios" in err
    assert "'refunds', 'asks'" in err
    chosen = ("explore", "sim_refunds.py", "--scenario", "refunds", "--faults", "connection_reset")
    assert run(*chosen, "--agent", "desk", "--config", "offbook.toml", "--recording", "recordings")[0] == 0
    assert "there is no agent 'dsk'" in run(*chosen, "--agent", "dsk")[2]


PROGRAM = """\
import json, os, sys, urllib.request
asked = {"model": "m", "messages": [{"role": "user", "content": sys.argv[1]}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(asked).encode(), {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


def test_a_program_is_explored_with_arguments_of_its_own(run, project):
    project.write("agent.py", PROGRAM)
    project.write("run.json", '{"_version": 2, "any": [{"content": "Hello!"}]}')
    options = ("--replay", "run.json", "--faults", "http_error 500", "--budget", "1")
    code, out, _ = run("explore", *options, "--", sys.executable, "agent.py", "--json")
    assert code == 1
    assert "crashed" in out
    assert "--replay run.json --fault 'call=1 attempt=1: http_error 500' --" in out
    assert "agent.py --json" in out


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "a file or a program is missing"),
        (("flow.yaml", "--", "true"), "there are both a file and a program"),
        (("flow.yaml",), "a recording is missing"),
        (("flow.txt",), "this is not a workflow or a file of scenarios"),
        (("sim_none.py",), "there is no such file"),
        ((*FLOW, "--faults", "timeot"), "there is no fault 'timeot' to try"),
        ((*FLOW, "--workers", "many"), "expected a number or auto, got 'many'"),
        ((*FLOW, "--reporter", "xml=x"), "there is no reporter 'xml'"),
        ((*FLOW, "--compare", "none.json"), "none.json"),
    ],
)
def test_bad_input_exits_with_2(run, careless, arguments, reason):
    code, out, err = run("explore", *arguments)
    assert (code, out) == (2, "")
    assert reason in err


SLOW = """\
import time

def count(text: str) -> int:
    if not text:
        print("waiting", file=__import__("sys").stderr, flush=True)
        time.sleep(60)
    return int(text)
"""
COUNTING = """\
name: count
config: {provider: openai, model: m}
state: {}
tools: {count: "shop:count"}
steps:
  - {id: ask, type: llm_call, prompt: "How many?", output: number}
  - {id: read, type: tool, depends_on: [ask], tool: count, args: {text: "{state.number}"}, output: counted}
"""


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_exploration_reports_what_has_ended(project, workers):
    project.workflow(COUNTING, {"ask": {"content": "7"}})
    project.write("shop.py", SLOW)
    options = ["--faults", "connection_reset,empty_response", "--workers", workers, "--reporter", "json=so_far.json"]
    command = [COMMAND, "explore", *FLOW, *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr.readline() == "waiting\n"
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "interrupted: this report is partial" in out
    told = json.loads(Path("so_far.json").read_text())
    assert not told["is_complete"]
    ended = [case["verdict"] for case in told["explored"]]
    assert ended[:1] == ["recovered"] or (workers == "2" and not ended)  # the slow case may be the first to come
