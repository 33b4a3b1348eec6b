"""offbook merge, and --shard of explore and test: shards merge to the bytes that one run writes."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.commands.test_explore import ASKS_FOR_REFUND, PAYING
from tests.subjects.projects import CARELESS, DESK, SIM, Project, recorded

FLOW = ("explore", "flow.yaml", "--recording", "run.json", "--workers", "1")
KINDS = ("json", "html", "junit", "github")
SOME_FAULTS = ("--faults", "empty_response,tool_lost")


@pytest.fixture
def project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_STEP_SUMMARY", raising=False)
    return Project(tmp_path)


@pytest.fixture
def careless(project):
    """A workflow that refunds twice if the answer of the first refund is lost."""
    project.workflow(CARELESS)
    return project


@pytest.fixture
def shards(run):
    """Run a command in so many shards, and return the reports of them; what follows `--` comes last."""

    def shards(*command, count=4, program=()):
        parts = [f"part{number}.json" for number in range(1, count + 1)]
        for number, part in enumerate(parts, 1):
            code, _, err = run(*command, "--shard", f"{number}/{count}", "--reporter", f"json={part}", *program)
            assert code in (0, 1, 3), err
        return parts

    return shards


def written(run, *command, program=()):
    """What a command writes and prints, and its exit code, with a report of each kind."""
    for kind in KINDS:
        Path(f"whole.{kind}").unlink(missing_ok=True)
    reporters = [word for kind in KINDS for word in ("--reporter", f"{kind}=whole.{kind}")]
    code, out, _ = run(*command, *reporters, *program)
    files = {kind: Path(f"whole.{kind}").read_bytes() for kind in KINDS}
    return {"code": code, "out": out, **files}


def assert_merged(run, shards, *command, program=(), compare="", count=4):
    """Check that the shards of a command merge to what it writes without shards, and return that."""
    whole = written(run, *command, *(("-o", f"compare={compare}") if compare else ()), program=program)
    parts = shards(*command, program=program, count=count)
    merged = written(run, "merge", *parts, *(("--compare", compare) if compare else ()))
    assert merged == whole
    return whole


class TestExplorations:
    def test_shards_of_a_workflow_merge_to_the_bytes_of_one_run(self, run, careless, shards):
        whole = assert_merged(run, shards, *FLOW, *SOME_FAULTS)
        assert whole["code"] == 1
        assert b'"same_as":"' in whole["json"]
        parts = [json.loads(Path(f"part{number}.json").read_text())["explored"] for number in range(1, 5)]
        assert sum(map(bool, parts)) > 1

    def test_pairs_within_a_budget_merge_too(self, run, careless, shards):
        faults = (
            "--faults",
            "http_error 401,tool_lost,connection_reset",
            "-o",
            "pairs=true",
            "--budget",
            "12",
            "--fail-on",
            "hung",
        )
        whole = assert_merged(run, shards, *FLOW, *faults, count=2)
        assert whole["code"] == 4
        assert b"the budget left out" in whole["junit"]
        assert any(len(each["faults"]) == 2 for each in json.loads(whole["json"])["explored"])

    def test_orders_and_crashes_merge_too(self, run, careless, shards):
        faults = ("--faults", "tool_lost", "--crash", "-o", "orders=true", "--budget", "8")
        assert_merged(run, shards, *FLOW, *faults, count=2)

    def test_a_scenario_is_explored_in_shards(self, run, project, shards):
        project.scenario()
        assert_merged(run, shards, "explore", "sim_refunds.py", *SOME_FAULTS, count=2)

    def test_a_program_is_explored_in_shards(self, run, project, shards):
        project.write("agent.py", PAYING)
        answers = [{"content": "", "tool_calls": [ASKS_FOR_REFUND]}, {"content": "Done."}]
        project.write("run.json", json.dumps({"_version": 2, "any": answers}))
        program = ("--", sys.executable, "agent.py", "report")
        command = ("explore", "--replay", "run.json", "--run-tools", "--faults", "http_error 500,connection_reset")
        whole = assert_merged(run, shards, *command, program=program, count=2)
        assert json.loads(whole["json"])["findings"]

    def test_a_merged_exploration_is_compared_with_an_earlier_one(self, run, careless, shards):
        run(*FLOW, *SOME_FAULTS, "--reporter", "json=before.json")
        command = (*FLOW, *SOME_FAULTS, "--budget", "1")
        whole = assert_merged(run, shards, *command, compare="before.json", count=2)
        assert whole["code"] == 4
        assert "earlier finding" in whole["out"]

    def test_one_shard_has_everything_and_an_empty_one_is_fine(self, run, careless, shards):
        one = (*FLOW, "--faults", "tool_lost")
        assert_merged(run, shards, *one, count=1)
        parts = shards(*one, count=3)
        assert not json.loads(Path(parts[0]).read_text())["explored"]
        code, _, err = run(*one, "--shard", "1/3")
        assert code == 0
        assert "note: the shard 1/3 holds no case\n" in err
        assert run("merge", *parts, "--json")[:2] == run(*one, "--json")[:2]

    def test_the_cases_of_a_shard_are_listed(self, run, careless):
        listed = [run(*FLOW, *SOME_FAULTS, "--list", "--shard", f"{number}/3")[1].splitlines() for number in (1, 2, 3)]
        assert sorted(line for lines in listed for line in lines) == run(*FLOW, *SOME_FAULTS, "--list")[1].splitlines()

    def test_a_shard_whose_report_cannot_be_merged_says_so(self, run, careless):
        err = run(*FLOW, "--faults", "tool_lost", "--shard", "1/3")[2]
        assert "note: the report of this shard cannot be merged: --reporter json=part1.json writes" in err
        assert "note: " not in run(*FLOW, "--faults", "tool_lost", "--shard", "2/3", "--reporter", "json=part1.json")[2]

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            (("--budget", "5m"), "--budget: a budget of time cannot be split into shards"),
            (("-o", "compare=before.json"), "compare: it cannot be used with --shard"),
            (("-o", "regress=found"), "regress: it cannot be used with --shard"),
            (("--only", "0001"), "--only: it cannot be used with --shard"),
            (("--fault", "call=1: timeout"), "--fault: it cannot be used with --shard"),
            (("--shard", "5/4"), "there is no shard 5 of 4"),
            (("--shard", "a/b"), "expected NUMBER/COUNT, got 'a/b'"),
        ],
    )
    def test_what_a_shard_cannot_do_is_refused_before_anything_runs(self, run, careless, options, reason):
        code, out, err = run(*FLOW, "--shard", "1/4", *options)
        assert code == 2
        assert out == ""
        assert reason in err
        assert "hint: " in err


AGENTS = """\
[agents.quick]
handler = "desk:handle"

[agents.slow]
handler = "desk:wait"
"""
DESKS = (
    DESK.replace('print("hello")', "pass")
    + """

async def wait(messages, ctx):
    import asyncio

    await asyncio.sleep(0.1 * len(messages[-1]["content"]))
    return await handle(messages, ctx)
"""
)
SIMS = """\
from offbook import scenario
from offbook.scenarios import Trajectory

for name, tools in {"refunds": ["refund"], "fails": ["pay"], "asks at length": ["refund"], "pays": ["refund"]}.items():
    turns = ["Where is it?"] * len(name)
    scenario(
        name, turns=turns[:3], mocks={"refund": {"paid": 42}}, assertions=Trajectory("contains", tools)
    )
"""
NAMES = ("refunds", "fails", "asks at length", "pays")
TEST = ("test", "--agent", "quick", "--agent", "slow", "--repeat", "2", "--concurrency", "3")


@pytest.fixture
def suite(project):
    """Four scenarios with two agents, some of which fail, and a recording of more than they use."""
    project.write("offbook.toml", AGENTS)
    project.write("desk.py", DESKS)
    project.write("sim_refunds.py", SIMS)
    steps = [
        f"{name}/{agent}/{index}/agent.{step}"
        for name in NAMES
        for agent in ("quick", "slow")
        for index in (1, 2)
        for step in ("plan", "say")
    ]
    answers = {step: {"content": "yes"} for step in steps}
    project.write(
        "run.json", recorded(answers | {"nobody/asks": {"content": "no"}, "refunds/never": {"content": "no"}})
    )
    for name in NAMES:
        own = {step: answer for step, answer in answers.items() if step.startswith(f"{name}/")}
        stale = {f"{name}/quick/1/user": {"content": "no"}}
        project.write(f"recordings/{name.replace(' ', '-')}.json", recorded(own | stale))
    return project


class TestScenarios:
    def test_shards_of_scenarios_merge_to_the_bytes_of_one_run(self, run, suite, shards):
        whole = assert_merged(run, shards, *TEST, "--replay", "run.json")
        assert whole["code"] == 1
        assert json.loads(whole["json"])["latency_s"] > 0
        assert json.loads(whole["json"])["groups"]

    def test_what_no_shard_has_used_is_reported(self, run, suite, shards):
        suite.write("offbook.toml", AGENTS.replace("[agents.slow]", "[agents.other]"))
        for recording, unused in (("run.json", "26 exchanges"), ("recordings/", "28 exchanges")):
            whole = assert_merged(run, shards, "test", "--replay", recording, count=3)
            assert f"{unused} of the recording were not used" in whole["out"]

    def test_a_replay_without_an_answer_ends_as_the_whole_run_does(self, run, suite, shards):
        document = json.loads(Path("run.json").read_text())
        del document["pays/slow/2/agent.say"]
        Path("run.json").write_text(json.dumps(document))
        whole = assert_merged(run, shards, *TEST, "--replay", "run.json", count=2)
        assert whole["code"] == 3
        assert "hint: record it again, or undo the change: offbook test --agent quick" in whole["out"]

    def test_an_empty_shard_is_fine(self, run, suite, shards):
        one = ("test", "--replay", "run.json", "--scenario", "refunds")
        parts = shards(*one, count=8)
        empty = [not json.loads(Path(part).read_text())["scenarios"] for part in parts]
        assert sum(empty) == 7
        code, _, err = run(*one, "--shard", f"{empty.index(True) + 1}/8")
        assert code == 0
        assert f"note: the shard {empty.index(True) + 1}/8 holds no scenario\n" in err
        assert run("merge", *parts, "--json")[:2] == run(*one, "--json")[:2]

    def test_a_file_that_cannot_be_read_any_more_is_named(self, run, suite):
        suite.write(
            "sim_more.py",
            'import os\nfrom offbook import scenario\nscenario("more", turns=["Hi"])\nos.unlink(__file__)\n',
        )
        code, out, err = run("test", "--replay", "run.json", "--shard", "1/2")
        assert code == 2
        assert out == ""
        assert "sim_more.py: it declares a scenario and cannot be read: No such file" in " ".join(err.split())

    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            ("\n[run]\nbudget_usd = 1.0\n", "run.budget_usd: shards cannot share a budget of money"),
            (
                '\n[judge]\nprovider = "openai"\nmodel = "m"\nmetrics = []\ngroup_errors = "model"\n',
                "judge.group_errors: a model groups the errors of the whole run",
            ),
        ],
    )
    def test_a_run_that_cannot_be_split_is_refused(self, run, suite, config, reason):
        suite.write("offbook.toml", AGENTS + config)
        code, out, err = run("test", "--replay", "run.json", "--shard", "1/2")
        assert code == 2
        assert out == ""
        assert reason in err


class TestForeignParts:
    @pytest.fixture
    def parts(self, careless, shards):
        return shards(*FLOW, "--faults", "tool_lost", count=2)

    def refusal(self, run, *arguments):
        code, out, err = run("merge", *arguments)
        assert code == 2
        assert out == ""
        return err

    def test_a_missing_or_doubled_shard_is_named(self, run, parts):
        assert "1 shard missing: 2/2" in self.refusal(run, "part1.json")
        assert "part1.json: shard 1/2 appears twice" in self.refusal(run, "part1.json", *parts)

    def test_a_shard_of_another_run_is_named(self, run, careless, parts):
        def refused(*options):
            run(*FLOW, "--faults", "tool_lost", *options, "--shard", "2/2", "--reporter", "json=other.json")
            return self.refusal(run, "part1.json", "other.json")

        foreign = "other.json: it is a shard of another run: its"
        assert f"{foreign} command is 'offbook explore flow.yaml" in refused("-o", "optional=tell")
        chosen = "--faults tool_lost fail on bad retry (lost messages) undetected (failed check)"
        assert f"{foreign} options is '{chosen}', and" in refused("--fail-on", "failed-check,lost-messages")
        Path("run.json").write_text(Path("run.json").read_text().replace('"yes"', '"no"'))
        assert f"{foreign} recording is '" in refused()

    def test_a_whole_report_another_file_and_another_kind_are_named(self, run, careless, parts, project):
        run(*FLOW, "--faults", "tool_lost", "--reporter", "json=whole.json")
        assert "whole.json: it is the report of a whole exploration" in self.refusal(run, "whole.json")
        assert "run.json: it is not a report of an exploration or of scenarios" in self.refusal(run, "run.json")
        assert "flow.yaml: it is not a JSON report" in self.refusal(run, "flow.yaml")
        assert "gone.json: No such file" in self.refusal(run, "gone.json")
        project.scenario(sim=SIM)
        run("test", "--replay", "recordings/", "--shard", "1/1", "--reporter", "json=sim.json")
        assert "sim.json: it is a report of scenarios, and part1.json is one of an exploration" in self.refusal(
            run, "part1.json", "sim.json"
        )
        assert "--compare: it is for explorations" in self.refusal(run, "sim.json", "--compare", "whole.json")

    def test_a_page_that_is_none_is_refused(self, run, parts):
        assert "the report is an HTML page" in self.refusal(run, *parts, "--report", "report.xml")

    def test_a_shard_that_ended_early_is_named(self, run, parts):
        report = json.loads(Path("part2.json").read_text())
        Path("part2.json").write_text(json.dumps(report | {"is_complete": False}))
        assert "part2.json: the shard 2/2 ended early" in self.refusal(run, *parts)

    def test_a_report_that_was_changed_by_hand_is_refused(self, run, parts):
        report = json.loads(Path("part1.json").read_text())
        Path("part1.json").write_text(json.dumps(report | {"explored": []}))
        assert "the reports were changed: run the shards again" in self.refusal(run, *parts)
        Path("part1.json").write_text(json.dumps(report | {"shard": "1/2"}))
        assert "part1.json: shard: expected" in self.refusal(run, *parts)
