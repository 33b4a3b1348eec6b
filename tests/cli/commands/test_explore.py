"""offbook explore: what is explored, what is told, and how it ends."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from tests.explore.runs import write_recording
from tests.subjects.programs import ASKS, wait_until
from tests.subjects.projects import CARELESS, EAGER_DESK, REFUND, SIM, Project

COMMAND = Path(sys.executable).parent / "offbook"
FLOW = ("flow.yaml", "--recording", "run.json")


def notices(err):
    """What stderr has beside the progress of the cases."""
    return [line for line in err.splitlines() if not re.match(r"[\d,]+ (of [\d,]+ )?cases?:", line)]


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return Project(tmp_path)


@pytest.fixture
def careless(project):
    """A workflow that refunds twice if the answer of the first refund is lost."""
    project.workflow(CARELESS)
    return project


def test_a_workflow_with_a_defect_is_reported_with_the_command_that_shows_it_again(run, careless):
    code, out, err = run("explore", *FLOW, "--faults", "tool_lost")
    assert code == 1
    assert notices(err) == []
    assert "repeated effect" in out
    assert 'refund(order="42") ran 2 times instead of once' in out
    assert "offbook explore flow.yaml --recording run.json --fault 'tool=refund call=1: tool_lost'" in out


def test_the_files_of_reports_are_named_at_the_end(run, careless):
    err = run("explore", *FLOW, "--faults", "tool_lost", "--report", "page.html", "--reporter", "json=r.json")[2]
    assert err.endswith("report: page.html\nreport: r.json\n")


def test_a_file_that_is_named_as_if_it_were_a_program_is_recognised(run, careless):
    err = run("explore", "--replay", "run.json", "--run-tools", "--", "agent.py")[2]
    assert err.endswith("there is no such program\n  hint: type: … -- python agent.py\n")


def test_a_file_of_another_tool_is_called_by_its_name(run, careless):
    Path("aimock.json").write_text('{"fixtures": []}')
    assert "looks like fixtures of aimock" in run("explore", "aimock.json")[2]


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
    report = json.loads(run("explore", *FLOW, "--faults", "timeout", "-o", "pairs=true", "--budget", "5", "--json")[1])
    assert [case["id"] for case in report["explored"]] == ["0001", "0002", "0003", "0004", "0005"]
    assert len(report["explored"][4]["faults"]) == 2


def test_a_budget_runs_the_most_telling_case_of_each_fault_and_says_what_it_left_out(run, careless):
    options = ("explore", *FLOW, "--faults", "timeout,tool_lost,tool_error")
    code, out, _ = run(*options, "--budget", "3", "--workers", "1")
    assert code == 1
    assert "partial: 3 of 8 cases, 1 finding: 1 repeated effect, 2 recovered; the budget left out 5 cases\n" in out
    assert (
        "\nnot tried at all, because the budget is too small: timeout, always; tool_error, always; tool_lost, always"
        in out
    )
    report = json.loads(run(*options, "--budget", "3", "--json")[1])
    assert {case["cells"][0]["column"] for case in report["explored"]} == {"timeout", "tool_lost", "tool_error"}
    assert report["left"] == sum(each["cases"] for each in report["left_out"]) > 0


@pytest.mark.parametrize("budget", ["0", "soon", "5 minutes"])
def test_a_budget_that_is_neither_a_number_nor_a_time_is_refused_before_anything_runs(run, careless, budget):
    code, out, err = run("explore", *FLOW, "--budget", budget)
    assert code == 2
    assert out == ""
    assert "--budget: expected a number of cases or a time" in err
    assert "5m" in err


def test_a_time_that_is_over_before_the_first_case_is_no_success(run, careless):
    code, out, err = run("explore", *FLOW, "--faults", "timeout", "--budget", "0.000001s")
    assert code == 1
    assert ", 0 findings; the budget left out" in out
    assert "the budget was over before the first case" in err


def test_an_earlier_finding_that_the_budget_leaves_out_is_not_called_fixed(run, careless):
    options = ("explore", *FLOW, "--faults", "timeout,tool_lost")
    run(*options, "--reporter", "json=before.json")
    code, out, _ = run(*options, "-o", "compare=before.json", "--budget", "1", "--json")
    changes = json.loads(out)["comparison"]["changes"]
    lost = [change for change in changes if change["after"] is None]
    assert code == 4
    assert [(each["before"], each["is_left_out"]) for each in lost] == [("repeated effect", True)] * len(lost)
    assert lost
    _, out, _ = run(*options, "-o", "compare=before.json", "--budget", "1")
    assert f"; {len(lost)} earlier finding" in out
    assert "repeated effect → not tried" in out


def test_an_exploration_that_left_cases_out_is_partial(run, project):
    project.workflow(REFUND)
    partial = ("explore", *FLOW, "--faults", "connection_reset,tool_lost", "--budget", "2")
    code, out, err = run(*partial)
    assert code == 4
    assert re.search(r"^partial: 2 of \d cases, 0 findings", out, re.MULTILINE)
    assert err.endswith("a larger --budget runs them, -o allow_partial=true makes this a success\n")
    assert run(*partial, "-o", "allow_partial=true")[0] == 0


def test_an_exploration_that_became_quiet_is_whole(run, project):
    project.workflow(REFUND)
    code, out, _ = run("explore", *FLOW, "--faults", "connection_reset,tool_lost", "-o", "until_quiet=2")
    assert code == 0
    assert re.search(r"^2 of \d cases, 0 findings", out, re.MULTILINE)
    assert "stopped: 2 cases in a row found no new cause (until_quiet)" in out


def test_a_place_that_no_case_reaches_is_a_failure(run, project):
    project.workflow(REFUND)
    explore = ("explore", *FLOW, "--faults", "connection_reset", "-o")
    assert run(*explore, "must_reach=refund,retry")[0] == 0
    code, _, err = run(*explore, "must_reach=refnd")
    assert code == 1
    assert "must_reach: no case has reached 'refnd'; did you mean 'refund'?" in err


def test_a_quiet_comparison_says_what_is_worse(run, project):
    project.workflow(REFUND)
    compare = ("explore", *FLOW, "--faults", "tool_lost", "--fail-on", "hung", "--quiet")
    run(*compare, "--reporter", "json=old.json")
    project.workflow(CARELESS)
    code, out, _ = run(*compare, "-o", "compare=old.json")
    assert code == 1
    assert "worse than before: failed partway → repeated effect at tool=refund call=1: tool_lost\n" in out


def test_cases_are_listed_without_running_them(run, careless):
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost,timeout", "--list")
    assert code == 0
    assert out.splitlines()[0] == "0001  step=plan call=1 attempt=1: timeout 60000"
    assert "0005  tool=refund call=1: tool_lost" in out.splitlines()
    assert json.loads(run("explore", *FLOW, "--list", "--json", "--budget", "1")[1]) == [
        {"id": "0067", "case": "tool=refund call=1: tool_lost"}
    ]


@pytest.mark.parametrize("budget", [3, 12, 25])
def test_a_list_with_pairs_and_a_budget_has_the_single_faults_that_run(budget, run, careless):
    options = ("explore", *FLOW, "-o", "pairs=true", "--budget", str(budget), "--json")
    _, listed, err = run(*options, "--list")
    results = json.loads(run(*options)[1])["explored"]
    single = [each["id"] for each in results if len(each["faults"]) == 1]
    assert [each["id"] for each in json.loads(listed)] == single
    pairs = budget - len(single)
    assert (f"note: about {pairs} pair" in err) == bool(pairs)


def test_a_list_with_a_time_as_the_budget_has_all_cases_and_says_that_the_time_decides(run, careless):
    options = ("explore", *FLOW, "--faults", "tool_lost,timeout", "--list")
    _, out, err = run(*options, "--budget", "5m")
    assert out == run(*options)[1]
    assert err == "note: the time decides how many of these run, the most telling ones first\n"
    assert run(*options, "--budget", "5m", "--quiet")[2] == ""


def test_one_case_is_run_by_its_id(run, careless):
    options = ("explore", *FLOW, "--faults", "tool_lost,timeout")
    code, out, _ = run(*options, "--only", "0005", "--quiet")
    assert code == 1
    assert out.startswith('repeated effect: refund(order="42") ran 2 times')
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
    assert "repeated effect" in Path("summary.md").read_text()


def test_only_the_verdicts_that_are_named_fail_it(run, careless):
    assert run("explore", *FLOW, "--faults", "tool_lost", "--fail-on", "hung,failed-check")[0] == 0
    assert run("explore", *FLOW, "--faults", "tool_lost", "--fail-on", "repeated-effect")[0] == 1
    assert run("explore", *FLOW, "--faults", "timeout", "--fail-on", "recovered")[0] == 1
    code, _, err = run("explore", *FLOW, "--fail-on", "hug")
    assert code == 2
    assert "--fail-on: there is no verdict 'hug'" in err


def test_something_worse_than_before_exits_with_1(run, project):
    project.workflow(REFUND)
    assert run("explore", *FLOW, "--faults", "tool_lost", "--reporter", "json=old.json")[0] == 0
    compare = ("explore", *FLOW, "--faults", "tool_lost", "-o", "compare=old.json", "--fail-on", "hung")
    assert run(*compare)[0] == 0
    project.workflow(CARELESS)
    code, out, _ = run(*compare)
    assert code == 1
    assert "failed partway → repeated effect" in out


def test_findings_are_kept_and_replayed_until_they_are_mended(run, careless):
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost", "-o", "regress=regress")
    assert code == 1
    assert "0001.json" in [file.name for file in Path("regress").iterdir()]
    assert "kept: offbook replay --plan regress/0001.json" in out
    code, out, _ = run("replay", "--plan", "regress/0001.json")
    assert code == 1
    assert out.startswith("tool=refund call=1: tool_lost\nstill repeated effect: refund(")
    careless.workflow(REFUND)
    code, out, _ = run("replay", "--plan", "regress/0001.json")
    assert code == 0
    assert "fixed: failed partway (it was: repeated effect)" in out
    assert run("replay", "--plan", "regress/0001.json", "--quiet")[:2] == (0, "")
    report = json.loads(run("replay", "--plan", "regress/0001.json", "--json")[1])
    assert report["before"] == "repeated effect"
    assert report["verdict"] == "failed partway"
    assert report["is_finding"] is False


def test_the_plan_of_a_finding_takes_no_workflow_and_other_plans_need_one(run, careless):
    run("explore", *FLOW, "--faults", "tool_lost", "-o", "regress=regress")
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
    code, out, _ = run("explore", *FLOW, "--faults", "tool_lost", "-o", "invariants=checks.py")
    assert code == 1
    assert "invariant_never_fails: it failed" in out
    assert "-o invariants=checks.py --fault" in out


def test_terms_are_kept_and_repeated_in_the_command(run, careless):
    terms = ("-o", "declared=ValueError", "-o", "deadline=30", "-o", "side_effects=refund", "--run-tools")
    report = json.loads(run("explore", *FLOW, "--faults", "timeout", *terms, "-o", "default_response=Hm", "--json")[1])
    assert report["explored"][0]["verdict"] == "hung"
    more = "-o on_divergence=default -o default_response=Hm"
    rest = "-o declared=ValueError -o deadline=30 -o side_effects=refund --run-tools"
    assert f"{more} {rest} --fault" in report["explored"][0]["reproduce"]


def test_the_state_of_a_workflow_is_set(run, project):
    project.workflow(REFUND)
    code, _, err = run("explore", *FLOW, "--set", "order=43")
    assert code == 2
    assert "the run fails without any fault: run.json: tool 'refund' was not recorded with these arguments" in err


def test_a_scenario_is_explored_on_the_recording_beside_it(run, project):
    project.scenario(desk=EAGER_DESK)
    code, out, _ = run("explore", "sim_refunds.py", "--faults", "tool_lost")
    assert code == 1
    assert "repeated effect" in out
    again = "offbook explore sim_refunds.py -o scenario=refunds -o agent=desk --recording recordings/refunds.json"
    assert f"{again} --fault 'tool=refund call=1: tool_lost'" in out


def test_a_scenario_an_agent_and_a_config_are_chosen(run, project):
    project.scenario(sim=SIM + 'scenario("asks", turns=["Hi"])\n')
    code, _, err = run("explore", "sim_refunds.py")
    assert code == 2
    assert "it declares 2 scenarios" in err
    assert "'refunds', 'asks'" in err
    chosen = ("explore", "sim_refunds.py", "-o", "scenario=refunds", "--faults", "connection_reset")
    assert run(*chosen, "-o", "agent=desk", "-o", "config=offbook.toml", "--recording", "recordings")[0] == 0
    assert "there is no agent 'dsk'" in run(*chosen, "-o", "agent=dsk")[2]


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


PAYING = """\
import json, os, sys, urllib.request
import offbook

def ask(messages):
    schema = {"type": "object", "properties": {"order": {}}}
    tools = [{"type": "function", "function": {"name": "refund", "parameters": schema}}]
    asked = {"model": "m", "messages": messages, "tools": tools}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    request = urllib.request.Request(url, json.dumps(asked).encode(), {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]

def pay(order):
    with open(os.environ.get("LEDGER", os.devnull), "a") as ledger:
        print(json.dumps({"tool": "refund", "arguments": {"order": order}}), file=ledger)
    if "report" in sys.argv:
        offbook.effect("refund", order=order)
    return "paid"

def work():
    messages = [{"role": "user", "content": "Refund order 42"}]
    while (answer := ask(messages)).get("tool_calls"):
        messages.append(answer)
        for call in answer["tool_calls"]:
            result = pay(json.loads(call["function"]["arguments"])["order"])
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    print(answer["content"])

for _ in range(2):
    try:
        work()
        break
    except OSError:
        continue
else:
    sys.exit(3)
"""
"""A program that starts over when a call fails, and so refunds twice if its second call fails."""

ASKS_FOR_REFUND = {"id": "a", "name": "refund", "arguments": {"order": 42}}
SECOND_CALL = ("--fault", "call=2 attempt=1: connection_reset")


@pytest.fixture
def paying(run, project):
    """Explores that program."""
    project.write("agent.py", PAYING)
    answers = [{"content": "", "tool_calls": [ASKS_FOR_REFUND]}, {"content": "Done."}]
    project.write("run.json", json.dumps({"_version": 2, "any": answers}))

    def explore(*options, program=()):
        return run("explore", "--replay", "run.json", *options, "--", sys.executable, "agent.py", *program)

    return explore


def test_a_program_does_not_run_its_tools_for_real_unasked(paying, monkeypatch):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    code, out, err = paying()
    assert code == 2
    assert out == ""
    assert "no result of refund can be replayed: the program would run its tools for real in every case" in err
    assert "--run-tools" in err
    assert "-o read_only=refund" in err
    assert not Path("ledger.jsonl").exists()


def test_a_program_says_which_tools_it_runs_for_real_and_how_often(paying, monkeypatch):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    _, _, err = paying("--run-tools", "--faults", "http_error 500", "--budget", "3")
    assert "the program runs its tools for real in the run without a fault, and in every case: refund" in err
    assert "it runs about 3 further times: a case that leaves the recording runs up to three times" in err
    assert len(Path("ledger.jsonl").read_text().splitlines()) >= 4


def test_tools_that_only_read_need_no_permission(paying):
    code, _, err = paying("-o", "read_only=refund", *SECOND_CALL)
    assert code == 0
    assert notices(err) == []


def test_what_the_config_says_holds_and_the_command_has_the_rest(paying, project):
    project.write("offbook.toml", "[tools.refund]\nread_only = true\n[tools.other]\neffect = true\noptional = true\n")
    code, out, err = paying(*SECOND_CALL, "--json")
    assert code == 0
    assert notices(err) == []
    assert " -o " not in json.loads(out)["explored"][0]["reproduce"]
    project.write("offbook.toml", "[explore]\nrun_tools = true\ndeadline = 5\n")
    changed = ("-o", "run_tools=false", "-o", "deadline=9", "-o", "tools.refund.read_only=true")
    again = json.loads(paying(*SECOND_CALL, *changed, "--json")[1])["explored"][0]["reproduce"]
    assert "-o deadline=9 -o run_tools=false -o tools.refund.read_only=true --fault" in again


UNFIT = """
[explore]
mcp = ".mcp.json"
results = ["report.txt"]
check = "false"
keep = ["state"]
block_network = true
compare = "before.json"
regress = "found"
budget = "5m"
"""


def test_options_of_the_config_that_do_not_fit_a_run_have_no_effect(run, careless, project):
    project.write("offbook.toml", UNFIT)
    code, _, err = run("explore", *FLOW, "--faults", "timeout", "--shard", "1/1", "--json")
    assert code == 0
    assert err == ""
    assert run("explore", *FLOW, "-o", "check=false")[0] == 2


def test_a_refund_that_the_conversation_shows_twice_may_be_one_too_many(paying):
    code, out, _ = paying("--run-tools", *SECOND_CALL, "-o", "declared=3")
    assert code == 1
    assert "possible repeated effect" in out
    assert "refund(order=42) ran 2 times" in out


def test_a_refund_that_the_program_reports_twice_is_one_too_many(paying):
    code, out, _ = paying("--run-tools", *SECOND_CALL, program=["report"])
    assert code == 1
    assert "repeated effect" in out


@pytest.mark.parametrize("path", ["ledger.jsonl", "$TMPDIR/ledger.jsonl"])
def test_a_ledger_that_the_program_keeps_shows_what_it_did(paying, monkeypatch, path):
    Path("ledger.jsonl").write_text('{"tool": "refund", "arguments": {"order": 1}}\n')
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    if path.startswith("$"):
        Path("agent.py").write_text(f"import os\nos.environ['LEDGER'] = os.path.expandvars('{path}')\n" + PAYING)
    code, out, _ = paying("--run-tools", "-o", f"effects={path}", *SECOND_CALL)
    assert code == 1
    assert "repeated effect" in out
    assert "refund(order=42) ran 2 times instead of once" in out


def test_a_ledger_without_a_line_is_probably_another_file(paying):
    code, _, err = paying("--run-tools", "-o", "effects=other.jsonl")
    assert code == 2
    assert "effects=other.jsonl: the run without a fault reported no effect there" in err


def test_a_ledger_with_a_line_that_is_not_an_effect_is_refused(paying, monkeypatch):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    Path("agent.py").write_text(PAYING.replace('"arguments": {"order": order}', '"args": {"order": order}'))
    code, _, err = paying("--run-tools", "-o", "effects=ledger.jsonl")
    assert code == 2
    assert "ledger.jsonl: line 1: unknown field 'args'" in err


def test_a_tool_that_is_idempotent_may_run_twice(paying):
    assert paying("--run-tools", "-o", "idempotent=refund", *SECOND_CALL)[0] == 0
    assert paying("--run-tools", "-o", "idempotent=refund:order", *SECOND_CALL, program=["report"])[0] == 0


NO_REFND = "there is no tool 'refnd'\n  hint: did you mean 'refund'?"


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("-o", "side_effects=refnd", NO_REFND),
        ("-o", "read_only=refnd", NO_REFND),
        ("-o", "read_only=look", "there is no tool 'look'\n  hint: tools: refund"),
        ("-o", "idempotent=refnd:order", NO_REFND),
        ("-o", "idempotent=refund:ordr", "refund has no argument 'ordr'\n  hint: did you mean 'order'?"),
        ("-o", "undoes=refund=refnd", NO_REFND),
        ("--only", "999", "there is no case '999'\n  hint: an id is like 0007; --list shows them"),
        ("--report", "x.pdf", "--report x.pdf: the report is an HTML page"),
    ],
)
def test_what_is_not_there_is_refused_before_a_program_runs_its_tools(paying, monkeypatch, option, value, reason):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    code, _, err = paying("--run-tools", option, value)
    assert code == 2
    assert reason in err
    assert not Path("ledger.jsonl").exists()


def test_a_program_that_is_not_there_is_all_that_is_reported(run, paying):
    _, _, err = run("explore", "--replay", "run.json", "--run-tools", "--", "pyhton", "agent.py")
    assert err.startswith("error: pyhton: it cannot be started: there is no such program\n  hint: did you mean 'python")
    assert len(err.splitlines()) == 2


def test_an_effect_that_only_the_program_knows_may_be_declared(paying, monkeypatch):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    Path("agent.py").write_text(PAYING.replace('offbook.effect("refund"', 'offbook.effect("money"'))
    assert paying("--run-tools", "-o", "side_effects=money", "--only", "0001", program=["report"])[0] in (0, 1)
    code, _, err = paying("--run-tools", "-o", "side_effects=money")
    assert code == 2
    assert "there is no tool 'money'" in err


def test_a_list_of_cases_says_that_the_run_without_a_fault_is_made(paying):
    code, _, err = paying("--run-tools", "--list")
    assert code == 0
    assert "note: the program runs its tools for real in the run without a fault: refund\n" in err


def test_a_note_says_why_cases_do_not_begin_at_the_first_call(paying):
    Path("agent.py").write_text("held = open(__file__)\n" + PAYING)
    options = ("--run-tools", "--faults", "http_error 500")
    note = "note: every case runs the program from its start, and not from its first call: it has opened a file"
    assert note in paying(*options)[2]
    assert note not in paying(*options, "--quiet")[2]


def test_a_misspelt_optional_tool_is_refused(paying):
    code, _, err = paying("--run-tools", "-o", "optional=refnd")
    assert code == 2
    assert "there is no step or tool 'refnd'\n  hint: did you mean 'refund'?" in err


def test_declarations_that_contradict_each_other_are_refused(paying):
    code, _, err = paying("--run-tools", "-o", "side_effects=refund", "-o", "read_only=refund")
    assert code == 2
    assert "read_only contradicts side_effect" in err


def test_a_misspelt_tool_of_a_workflow_or_a_scenario_is_refused(run, careless):
    code, _, err = run("explore", *FLOW, "-o", "side_effects=refnd")
    assert code == 2
    assert "did you mean 'refund'?" in err
    careless.scenario(desk=EAGER_DESK)
    code, _, err = run("explore", "sim_refunds.py", "-o", "read_only=refnd")
    assert code == 2
    assert "did you mean 'refund'?" in err


def test_the_command_that_shows_a_case_again_repeats_the_declarations(paying):
    declared = ("-o", "idempotent=refund:order", "-o", "effects=$TMPDIR/x", "-o", "optional=refund")
    report = json.loads(paying("--run-tools", *declared[:2], *declared[4:], *SECOND_CALL, "--json")[1])
    again = report["explored"][0]["reproduce"]
    assert "-o idempotent=refund:order -o optional=refund --run-tools --fault" in again


def test_a_kept_finding_of_a_program_is_replayed_as_it_was_explored(run, paying):
    Path("agent.py").write_text(PAYING.replace("except OSError", "except ZeroDivisionError"))
    code, _, _ = paying("--run-tools", "--fault", "call=1: malformed_response", "-o", "regress=kept")
    assert code == 1
    (file,) = Path("kept").iterdir()
    assert run("replay", "--plan", file)[0] == 1
    code, out, _ = run("replay", "--plan", file, "--declared", "JSONDecodeError")
    assert code == 0
    assert "fixed: failed cleanly" in out


def test_an_error_class_may_be_declared_for_a_program(paying):
    options = ("--run-tools", "--fault", "call=1: malformed_response")
    Path("agent.py").write_text(PAYING.replace("except OSError", "except ZeroDivisionError"))
    assert paying(*options)[0] == 1
    code, out, _ = paying(*options, "-o", "declared=JSONDecodeError")
    assert code == 0
    assert "failed cleanly" in out


def test_an_error_to_declare_is_named_and_one_that_no_run_has_ended_with_may_be_misspelt(paying):
    Path("agent.py").write_text(PAYING.replace("except OSError", "except ZeroDivisionError"))
    options = ("--run-tools", "--faults", "malformed_response")
    _, out, err = paying(*options, "-o", "declared=JSONDecodError,3")
    assert "declare it: -o declared=JSONDecodeError" in " ".join(out.split())
    assert "note: declared=JSONDecodError: no run has ended with it; did you mean 'JSONDecodeError'?\n" in err
    assert "note: declared=3: no run has ended with it" in err
    _, out, err = paying(*options, "-o", "declared=JSONDecodeError")
    assert "declare it" not in out
    assert "no run has ended" not in err


def test_a_fault_that_is_never_reached_is_no_success(paying):
    code, _, err = paying("--run-tools", "--fault", "call=9: connection_reset")
    assert code == 1
    assert "the run never reached call=9: connection_reset" in err


@pytest.mark.parametrize(
    ("before", "program"),
    [
        (("--replay", "run.json"), ("python3", "agent.py")),
        (("--replay=run.json", "--run-tools", "--budget", "3"), ("bash", "-c", "agent --verbose")),
        ((), ("/bin/sh",)),
    ],
)
def test_a_program_that_does_not_come_after_dashes_is_told_what_to_type(run, before, program):
    code, _, err = run("explore", *before, *program)
    assert code == 2
    assert f"{program[0]}: a program comes after --" in err
    assert f"type: offbook explore {shlex.join([*before, '--', *program])}" in err


def test_a_program_without_dashes_is_told_how_to_explore_it(run, paying, monkeypatch):
    monkeypatch.setenv("LEDGER", "ledger.jsonl")
    code, _, err = run("explore", "agent.py", "--replay", "run.json")
    assert code == 2
    assert "agent.py: it declares no scenarios" in err
    assert "offbook explore --replay PATH -- python agent.py" in err
    assert not Path("ledger.jsonl").exists()


def test_part_of_the_name_of_a_scenario_is_enough(run, project):
    project.scenario(sim=SIM + 'scenario("asks", turns=["Hi"])\n')
    chosen = ("explore", "sim_refunds.py", "--faults", "connection_reset", "-o")
    assert run(*chosen, "scenario=Fund")[0] == 0
    assert "2 scenarios have 's' in their names" in run(*chosen, "scenario=s")[2]
    assert "there is no scenario 'none'" in run(*chosen, "scenario=none")[2]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "a file or a program is missing"),
        (("flow.yaml", "--", "true"), "there are both a file and a program"),
        (("flow.yaml",), "a recording is missing"),
        (("flow.txt",), "this is not a workflow or a file of scenarios"),
        (("sim_none.py",), "there is no such file"),
        ((*FLOW, "--faults", "timeot"), "there is no fault 'timeot' to try"),
        ((*FLOW, "--workers", "many"), "expected a number, auto, ray or ray://HOST:PORT, got 'many'"),
        ((*FLOW, "--workers", "rya"), "hint: did you mean 'ray'?"),
        ((*FLOW, "--workers", "ray://127.0.0.1:1"), "ray://127.0.0.1:1: cannot reach the cluster: Connection refused"),
        ((*FLOW, "--workers", "ray://head"), "hint: --workers ray://head:10001"),
        ((*FLOW, "--workers", "ray", "-o", "on_divergence=live"), "the keys of live models stay on this machine"),
        (
            ("--replay", "run.json", "--workers", "ray", "--run-tools", "--", "true"),
            "a cluster has neither the interpreter",
        ),
        ((*FLOW, "--reporter", "xml=x"), "there is no reporter 'xml'"),
        ((*FLOW, "-o", "compare=none.json"), "none.json"),
    ],
)
def test_bad_input_exits_with_2(run, careless, arguments, reason):
    code, out, err = run("explore", *arguments)
    assert code == 2
    assert out == ""
    assert reason in err


SLOW = """\
import threading

from offbook import tool

@tool(read_only=True)
def count(text: str) -> int:
    if not text:
        open("waiting", "w").close()
        threading.Event().wait(60)
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


def opened_within(timeout_s, fifo):
    """Whether somebody opens the other end in that time."""
    opened = threading.Event()

    def wait():
        Path(fifo).read_bytes()
        opened.set()

    threading.Thread(target=wait, daemon=True).start()
    return opened.wait(timeout_s)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_interrupted_exploration_reports_what_has_ended(project, workers):
    project.workflow(COUNTING, {"ask": {"content": "7"}})
    project.write("shop.py", SLOW)
    options = ["--faults", "connection_reset,empty_response", "--workers", workers, "--reporter", "json=so_far.json"]
    command = [COMMAND, "explore", *FLOW, *options]
    os.mkfifo("waiting")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert opened_within(30.0, "waiting")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "ended early: this report is partial" in out
    report = json.loads(Path("so_far.json").read_text())
    assert not report["is_complete"]
    ended = [case["verdict"] for case in report["explored"]]
    assert ended[:1] == ["recovered"] or (workers == "2" and not ended)  # the slow case may be the first to come


STUCK = (
    ASKS
    + """
import signal, subprocess
try:
    print(ask(said("Hi"))["content"])
except OSError:
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    open("waiting", "w").close()
    signal.pause()
"""
)


def processes_with(mark):
    """The processes in whose environment this is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended, or is another user's
            found += [folder.name] if mark.encode() in (folder / "environ").read_bytes() else []
    return found


@pytest.mark.parametrize("start", [[], ["-o", "fresh=true"]], ids=["forked", "fresh"])
def test_an_interrupted_exploration_of_a_program_leaves_no_process_behind(project, start):
    project.write("agent.py", STUCK)
    write_recording(Path("run.json"), {"any": [{"content": "Hello"}]})
    os.mkfifo("waiting")
    mark = f"{project.folder}-{'-'.join(start)}"
    command = [COMMAND, "explore", "--replay", "run.json", "--faults", "connection_reset", "--workers", "2", *start]
    process = subprocess.Popen(
        [*command, "--", sys.executable, "agent.py"],
        env={**os.environ, "MARK": mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    assert opened_within(60.0, "waiting")
    assert len(processes_with(mark)) > 1
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    wait_until(lambda: not processes_with(mark))


MCP_AGENT = """
import json, sys, urllib.request
url = json.load(open(sys.argv[1]))["mcpServers"]["desk"]["url"]
meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
call = {"name": "refund", "arguments": {"order": 42}, "_meta": meta}
body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode()
headers = {"content-type": "application/json", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
urllib.request.urlopen(urllib.request.Request(url, body, headers | {"mcp-name": "refund"})).read()
print("paid")
"""


@pytest.fixture
def paying_by_mcp(run, project):
    """Explores a program whose only tool is that of an MCP server."""
    project.write("agent.py", MCP_AGENT)
    answers = [{"content": "", "tool_calls": [ASKS_FOR_REFUND]}]
    tools = {"desk.refund": [{"arguments": {"order": 42}, "result": "paid"}]}
    project.write("run.json", json.dumps({"_version": 2, "any": answers, "_tools": tools}))
    project.write("mcp.json", json.dumps({"mcpServers": {"desk": {"type": "http", "url": "http://127.0.0.1:9/mcp"}}}))

    def explore(*options):
        program = ["--", sys.executable, "agent.py", "{mcp}"]
        return run("explore", "--replay", "run.json", "--mcp", "mcp.json", *options, *program)

    return explore


def test_tools_of_mcp_servers_can_fail_and_need_no_permission_to_run(paying_by_mcp, run):
    code, out, err = paying_by_mcp("--faults", "tool_error", "-o", "regress=regress")
    assert code == 1
    assert notices(err) == []
    assert "\ndesk.refund(42) " in out
    assert "missing effect: desk.refund(order=42) did not run, and the result is the same" in out
    assert "offbook explore --replay run.json --mcp mcp.json --fault 'tool=desk.refund call=1: tool_error'" in out
    (kept, *_) = sorted(Path("regress").glob("*.json"))
    assert run("replay", "--plan", str(kept))[0] == 1
    assert paying_by_mcp("--fault", "tool=desk.refund call=1: stdout_noise")[0] == 0


def test_mcp_servers_are_those_of_a_program(run, project):
    project.write("flow.yaml", "name: flow\nsteps: []\n")
    code, _, err = run("explore", "flow.yaml", "--recording", "run.json", "--mcp", "mcp.json")
    assert code == 2
    assert "--mcp: there is no program" in err


CRASH = ("--crash", "--faults", "tool_lost")


def test_with_crash_a_workflow_is_also_killed_and_resumed_and_a_finding_is_kept_like_others(run, project):
    project.workflow(REFUND)
    code, out, err = run("explore", *FLOW, *CRASH, "-o", "regress=regress")
    assert code == 1
    assert notices(err) == []
    line = "tool=refund call=1: crash after"
    assert f"offbook explore flow.yaml --recording run.json --crash --fault '{line}'" in out
    assert 'it was killed after refund 1 had run, and started again; before that, refund(order="42") ran' in out
    (kept,) = Path("regress").iterdir()
    code, out, _ = run("replay", "--plan", str(kept))
    assert code == 1
    assert out.splitlines()[:1] == [line]
    assert run("explore", *FLOW, *CRASH, "-o", "idempotent=refund")[0] == 0


def test_explorations_with_crashes_are_the_same_bytes_at_any_number_of_workers(run, project):
    project.workflow(REFUND)
    reports = [run("explore", *FLOW, *CRASH, "--workers", workers, "--json")[1] for workers in ("1", "2")]
    assert reports[0] == reports[1]
    assert "crash before" in reports[0]


def test_a_scenario_cannot_be_killed_and_started_again(run, project):
    project.scenario()
    code, _, err = run("explore", "sim_refunds.py", "--crash")
    assert code == 2
    assert "a scenario cannot be killed and started again" in err


def test_a_program_that_saves_nothing_refunds_again_after_a_crash_and_what_it_keeps_is_restored(paying, monkeypatch):
    Path("state").mkdir()
    monkeypatch.setenv("LEDGER", "state/ledger.jsonl")
    options = ("--run-tools", "--crash", "--keep", "state", "--faults", "crash")
    code, out, err = paying(*options, program=["report"])
    assert code == 1
    assert "3 cases, 2 findings: 2 repeated effects, 1 recovered" in out
    assert "note: runs share state, one at a time: it is restored before each, and at the end" in err
    assert list(Path("state").iterdir()) == []
    assert paying(*options[:-3], "nowhere", program=["report"])[0] == 2


ASKS_AGAIN = """
import json, os, sys, urllib.request
BEGIN
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
with urllib.request.urlopen(urllib.request.Request(url, body)) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"], flush=True)
END
"""


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("os.closerange(3, 65536)", ""),
        ("", "if len(sys.argv) == 1: os.execv(sys.executable, [sys.executable, *sys.argv, 'again'])"),
    ],
    ids=["closes all descriptors", "executes itself"],
)
def test_a_program_that_can_only_be_started_anew_is_explored_so(write, run_programs, begin, end):
    write("run.json", '{"_version": 2, "any": {"content": "Hi"}}')
    write("agent.py", ASKS_AGAIN.replace("BEGIN", begin).replace("END", end))
    code, out, err = run_programs(
        *("explore", "--replay", "run.json", "--faults", "http_error 500", "--json", "--", sys.executable, "agent.py")
    )
    assert code == 1, err
    assert set(json.loads(out)["tally"]) == {"crashed"}
    # only a wait needs what the first one has closed, and its answer may be there before it waits
    assert begin or "every case starts the program anew" not in err
