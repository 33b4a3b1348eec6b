"""What becomes of the recorded tool calls of programs: in each record mode, in each store, and what is said of them."""

import json
from pathlib import Path

import pytest

from tests.cli.commands.test_function_tools import PROGRAM, project

__all__ = ["project"]

RUN = ("exec", "--replay", "run.json")


def edit(change):
    """Change the recorded tool calls, by tool."""
    document = json.loads(Path("run.json").read_text())
    change(document["_tools"])
    Path("run.json").write_text(json.dumps(document))


def recorded():
    """How many calls of each tool are recorded."""
    return {tool: len(calls) for tool, calls in json.loads(Path("run.json").read_text())["_tools"].items()}


@pytest.mark.parametrize("mode", ["new", "once"])
def test_a_run_that_is_recorded_already_runs_nothing(mode, project):
    code, out, _ = project("exec", "--record", "run.json", "--record-mode", mode, *PROGRAM)
    assert (code, out) == (0, "Done.\n")
    assert not Path("ledger").exists()


def test_new_runs_and_adds_what_is_not_recorded(project):
    edit(lambda tools: tools.pop("refund"))
    assert project("exec", "--record", "run.json", "--record-mode", "new", *PROGRAM)[0] == 0
    assert Path("ledger").read_text() == "refund 7\n"
    assert recorded() == {"look": 1, "send_mail": 1, "refund": 1}


def test_once_refuses_what_is_not_recorded(project):
    edit(lambda tools: tools.pop("refund"))
    assert project("exec", "--record", "run.json", "--record-mode", "once", *PROGRAM)[0] == 3
    assert not Path("ledger").exists()


def test_a_database_holds_the_tools_of_programs(project):
    assert project("recording", "copy", "run.json", "sqlite:///run.db")[0] == 0
    code, out, _ = project("exec", "--replay", "sqlite:///run.db", "--strict-unused", *PROGRAM)
    assert (code, out) == (0, "Done.\n")
    assert not Path("ledger").exists()


def test_calls_that_were_not_made_are_listed_and_fail_a_strict_run(project):
    edit(lambda tools: tools["look"].append(tools["look"][0] | {"arguments": {"order": 8}}))
    code, _, err = project(*RUN, *PROGRAM)
    assert code == 0
    assert '_tools.look[1]  {"order":8}' in err
    assert project(*RUN, "--strict-unused", *PROGRAM)[0] == 3


def test_a_call_with_other_arguments_shows_the_nearest_one(project):
    edit(lambda tools: tools["refund"][0].update(arguments={"order": 8}))
    code, _, err = project(*RUN, *PROGRAM)
    assert code == 3
    assert "tool 'refund' was not recorded with these arguments. The nearest call differs" in err
    assert [line.strip() for line in err.splitlines() if '"order": ' in line][:2] == ['-  "order": 8', '+  "order": 7']


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("tool=refnd call=1: tool_lost", "refnd was never called; did you mean 'refund'?"),
        ("tool=refund call=2: tool_lost", "refund was called once; the last place is 'tool=refund call=1'"),
        ("tool=refund call=1: delivered_twice", "only an MCP server can deliver an answer twice"),
    ],
)
def test_a_fault_that_never_fired_fails_the_run_and_says_why(line, reason, project):
    code, _, err = project(*RUN, "--fault", line, *PROGRAM)
    assert code == 1
    assert reason in err


def test_a_case_of_an_exploration_is_repeated_by_its_line(project):
    code, out, _ = project(
        "explore", "--replay", "run.json", "--fault", "tool=refund call=1: tool_lost", "--json", *PROGRAM
    )
    assert code != 2
    assert [case["case"] for case in json.loads(out)["explored"]] == ["tool=refund call=1: tool_lost"]
