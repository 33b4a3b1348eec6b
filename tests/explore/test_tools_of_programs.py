"""The takeover of programs' tools is safe and true: a ledger outside of the programs has every real run of a tool."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from collections import Counter
from pathlib import Path
from threading import Lock

import pytest

import offbook
from offbook.cli.main import main
from offbook.subjects.program.program import ProgramSubject
from offbook.vendors import base_url_variables
from tests.every_case import EVERY_CASE
from tests.explore.programs_with_tools.expected import EXPECTED
from tests.explore.zoo import ledger
from tests.explore.zoo.ledger import Ledger

PROGRAMS = Path(__file__).parent / "programs_with_tools"
BUDGET = [] if EVERY_CASE else ["--budget", "12"]
FAULTS = "http_error 500,empty_response,unknown_tool,tool_error,tool_lost,tool_timeout,tool_garbled,tool_empty"
"""Those that agents with frameworks are explored with, which take long to start."""
SOME = EXPECTED if EVERY_CASE else [each for each in EXPECTED if each.name in ("openai_sync", "openai_async")]
KEYS = dict.fromkeys(("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"), "sk-test")


def toml_of(tables):
    lines = []
    for name, table in tables.items():
        lines += [f"[tools.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


class Recorded:
    """A program in a folder of its own, recorded in `run.json`."""

    def __init__(self, program, path, run_command):
        self.program, self.ledger, self._run = program, Ledger(path), run_command

    def explore(self, *words):
        """Explore it, and return the report."""
        faults = "all" if len(self.program.command) == 1 else FAULTS
        words = ["explore", "--replay", "run.json", "-o", "declared=3", "--json", "--faults", faults, *BUDGET, *words]
        code, out, err = self._run(*words, "--", sys.executable, *self.program.command)
        assert code in (0, 1, 4), err
        return json.loads(out)


@pytest.fixture(params=SOME, ids=lambda each: each.name)
def recorded(request, tmp_path, monkeypatch, capfd):
    """A program that was recorded, whose tools keep a ledger outside of its folder."""
    program = request.param
    if importlib.util.find_spec(program.package.partition(".")[0]) is None:
        pytest.skip(f"{program.package} is not installed")

    def run_command(*words):
        monkeypatch.setattr(sys, "argv", ["offbook", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code or 0, *capfd.readouterr()

    folder = tmp_path / "program"
    shutil.copytree(PROGRAMS, folder, ignore=shutil.ignore_patterns("expected.py", "__pycache__"))
    (folder / "offbook.toml").write_text(toml_of(program.tools))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OFFBOOK_RUNS_DIR", str(tmp_path / "runs"))
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    made = Recorded(program, tmp_path / "ledger", run_command)
    with offbook.serving(responses={"any": list(program.answers)}) as upstream, monkeypatch.context() as patched:
        for name, value in (base_url_variables(upstream.url) | KEYS).items():
            patched.setenv(name, value)
        code, _, err = run_command("exec", "--record", "run.json", "--", sys.executable, *program.command)
    assert code == 0, err
    made.ran = Counter(made.ledger.take())
    return made


def check_verdicts(program, report):
    """Compare the verdicts with what is expected of a program."""
    cases = report["explored"]
    found = {title_of(case) for case in cases if case["is_finding"]}
    told = [(case["case"], title_of(case), case["evidence"]) for case in cases if case["is_finding"]]
    allowed = {program.verdict, *program.also, "left behind"} - {""}  # they let errors of tools and models escape
    assert found <= allowed, [each for each in told if each[1] not in allowed]
    if program.verdict and EVERY_CASE:
        case = next(case for case in cases if case["case"] == program.at)
        assert (title_of(case), case["is_finding"]) == (program.verdict, True), case["evidence"]
        assert program.evidence in "; ".join(case["evidence"])


def title_of(case):
    reasons = {"certain": "repeated effect", "possible": "possible repeated effect", "": case["verdict"]}
    return reasons.get(case["reason"], f"{case['verdict']} ({case['reason']})")


def observed(run):
    """Return the effects of a run that were seen: a tool that the program does not have is inferred to have run."""
    return [each for each in run.effects if each.source != "inferred" or each.tool != "no_such_tool"]


def test_an_exploration_in_replay_runs_no_tool(recorded):
    report = recorded.explore()
    assert recorded.ran.total() > 0
    assert recorded.ledger.take() == []
    assert {each["tool"] for each in report["clean"]["tools"]} == {tool for tool, _ in recorded.ran}
    check_verdicts(recorded.program, report)


def test_the_effects_of_every_run_are_those_that_the_ledger_has(recorded, monkeypatch):
    declared = recorded.program.tools
    contradictions, runs, lock = [], [], Lock()

    def witnessed(run):
        def run_alone(self, plan, continuation="stubborn"):
            with lock:  # some cases are also started anew, at the same time
                recorded.ledger.take()
                made = run(self, plan, continuation)
                done = Counter(each for each in recorded.ledger.take() if declared[each[0]].get("effect"))
            seen = Counter((each.tool, json.dumps(each.arguments, sort_keys=True)) for each in observed(made))
            for key in [key for key in seen if declared[key[0]].get("idempotent")]:
                seen[key] = 1  # the tool itself sees to it
            runs.append(made)
            if done != seen:
                contradictions.append((str(plan), continuation, dict(done), dict(seen)))
            return made

        return run_alone

    for name in ("run", "run_fresh"):
        monkeypatch.setattr(ProgramSubject, name, witnessed(getattr(ProgramSubject, name)))
    report = recorded.explore("--run-tools", "--workers", "1")
    assert contradictions == []
    assert len(runs) > len({case["same_as"] or case["id"] for case in report["explored"]})
    check_verdicts(recorded.program, report)
