"""offbook runs and offbook resume: a run that was cut off goes on without paying or acting twice."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from offbook.messages import ToolCall
from offbook.workflow.runs.store import RunStore
from tests.servers.models import ChatModel, said

COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 60

CHAIN = """\
name: chain
config: {provider: openai, model: m}
state: {topic: cats}
steps:
  - {id: one, type: llm_call, prompt: "one {state.topic}", output: first}
  - {id: two, type: llm_call, depends_on: [one], prompt: "two {state.first}", output: second}
  - {id: three, type: llm_call, depends_on: [two], prompt: "three {state.second}", output: third}
"""
FAN_OUT = """\
name: fan_out
config: {provider: openai, model: m}
steps:
  - {id: a, type: llm_call, prompt: "a", output: a}
  - {id: b, type: llm_call, prompt: "b", output: b}
  - {id: c, type: llm_call, prompt: "c", output: c}
  - {id: after_a, type: llm_call, depends_on: [a], prompt: "after {state.a}", output: after_a}
  - {id: after_c, type: llm_call, depends_on: [c], prompt: "after {state.c}", output: after_c}
  - {id: all, type: llm_call, depends_on: [after_a, b, after_c], prompt: "{state.after_a} {state.b} {state.after_c}"}
"""
LOOPS = """\
name: loops
config: {provider: openai, model: m}
state: {items: [x, y, z], tries: ""}
steps:
  - id: each
    type: loop
    over: state.items
    collect: short
    output: shorts
    steps:
      - {id: same, type: llm_call, prompt: "the same for all", output: same}
      - {id: shorten, type: llm_call, depends_on: [same], prompt: "shorten {item}", output: short}
  - id: again
    type: loop
    depends_on: [each]
    until: index == 1
    max_iterations: 3
    steps:
      - {id: try, type: llm_call, prompt: "try {index} {state.shorts}", output: tries}
  - {id: end, type: llm_call, depends_on: [again], prompt: "end {state.tries}", output: end}
"""
AGENT = """\
name: agent
config: {provider: openai, model: m}
tools: {charge: "shop:charge", done: "shop:done"}
steps:
  - {id: before, type: tool, tool: charge, args: {amount: 7}, output: before}
  - id: sell
    type: agent
    depends_on: [before]
    tools: [charge]
    terminal_tool: done
    prompt: "sell"
    output: sold
"""
SHOP = """\
def _note(line):
    with open("effects.txt", "a") as file:
        file.write(line + "\\n")


def charge(amount: int) -> str:
    '''Take money.'''
    _note(f"charge {amount}")
    return f"charged {amount}"


def done(text: str) -> str:
    '''Be done.'''
    _note(f"done {text}")
    return text
"""


def echo(prompt):
    return said(f"<{prompt}>")


def salesman(prompt):
    """Charges 7, then 8, then is done."""
    call = {
        "sell": ToolCall("charge", {"amount": 7}, "1"),
        "charged 7": ToolCall("charge", {"amount": 8}, "2"),
        "charged 8": ToolCall("done", {"text": "sold"}, "3"),
    }[prompt]
    return said(tool_calls=(call,), finish_reason="tool_calls")


class Shop:
    """A folder with a workflow in it, and a model that its runs ask. `enter` makes it the one of this process."""

    def __init__(self, folder, model, *, run, monkeypatch):
        self.folder, self.model, self._run, self._monkeypatch = folder, model, run, monkeypatch
        own = {"OPENAI_BASE_URL": model.url, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
        self.environment = {name: value for name, value in os.environ.items() if name != "OFFBOOK_RUNS_DIR"} | own
        (folder / "shop.py").write_text(SHOP)

    def start(self, *arguments):
        return subprocess.Popen(
            [COMMAND, *map(str, arguments)],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def enter(self):
        self._monkeypatch.chdir(self.folder)
        self._monkeypatch.delenv("OFFBOOK_RUNS_DIR", raising=False)
        for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "NO_PROXY"):
            self._monkeypatch.setenv(name, self.environment[name])

    def result(self, *arguments):
        """What a command that succeeds tells of its run, in this process."""
        self.enter()
        code, out, err = self._run(*arguments, "--json")
        assert code == 0, err
        return without_times(orjson.loads(out))

    def kill_at(self, *prompts, command=("run", "flow.yaml")):
        """Run the workflow until all of these are asked, and kill it there."""
        self.model.hold(*prompts)
        process = self.start(*command)
        try:
            self.model.wait_until_holding(*prompts)
        finally:
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=TIMEOUT_S)
        self.model.hold()

    @property
    def effects(self):
        file = self.folder / "effects.txt"
        return file.read_text().split("\n")[:-1] if file.exists() else []


def without_times(result):
    """What of a result does not depend on time."""
    steps = {
        place: {name: value for name, value in step.items() if name != "latency_s"}
        for place, step in result["steps"].items()
    }
    return {"status": result["status"], "state": result["state"], "steps": steps}


@pytest.fixture
def shop(tmp_path, run, monkeypatch):
    """Opens shops, each with a model of its own."""
    models = []

    def shop(name, flow, answer=echo):
        model = ChatModel(answer)
        models.append(model.__enter__())
        folder = tmp_path / name
        folder.mkdir()
        (folder / "flow.yaml").write_text(flow)
        return Shop(folder, model, run=run, monkeypatch=monkeypatch)

    yield shop
    for model in models:
        model.__exit__()


KILLS = {
    "fan-out": (FAN_OUT, echo, [["b", "after <a>", "after <c>"]]),
    "loops": (LOOPS, echo, [["shorten y"], ['try 1 ["<shorten x>","<shorten y>","<shorten z>"]']]),
    "agent": (AGENT, salesman, [["charged 7"], ["charged 7"], ["charged 8"]]),
}


@pytest.mark.parametrize(("flow", "answer", "kills"), KILLS.values(), ids=KILLS.keys())
def test_a_run_that_was_killed_any_number_of_times_is_resumed_as_if_it_had_never_been(shop, flow, answer, kills):
    whole, broken = shop("whole", flow, answer), shop("broken", flow, answer)
    expected = whole.result("run", "flow.yaml")
    command = ("run", "flow.yaml")
    for prompt in kills:
        broken.kill_at(*prompt, command=command)
        command = ("resume", "last")
    assert broken.result(*command) == expected
    assert broken.model.answered == whole.model.answered
    assert broken.effects == whole.effects


def test_a_torn_last_line_costs_nothing(shop):
    broken = shop("broken", CHAIN)
    broken.kill_at("three <two <one cats>>")
    (log,) = broken.folder.glob(".offbook/runs/*/steps.jsonl")
    log.write_bytes(log.read_bytes()[:-20])
    assert broken.result("resume", "last")["state"]["third"] == "<three <two <one cats>>>"
    assert set(broken.model.answered.values()) == {1}
    (run,) = RunStore(broken.folder / ".offbook/runs").summaries()
    assert run.status == "succeeded"
    assert run.settled_steps == 3


def test_a_run_is_in_the_hands_of_one_process(shop, run):
    broken = shop("broken", CHAIN)
    broken.kill_at("two <one cats>")
    broken.model.hold("three <two <one cats>>")
    first = broken.start("resume", "last")
    try:
        broken.model.wait_until_holding("three <two <one cats>>")
        broken.enter()
        code, _, err = run("resume", "last")
        assert code == 2
        assert "another process is running this run" in err
        code, out, _ = run("runs", "--keep", "0", "--json")
        (listed,) = orjson.loads(out)["runs"]
        assert listed["status"] == "running"
        assert listed["settled_steps"] == 2
        assert listed["steps"] == 3
    finally:
        first.kill()
        first.communicate(timeout=TIMEOUT_S)
    broken.model.hold()
    assert broken.result("resume", "last")["status"] == "succeeded"


def test_an_interrupted_run_says_how_to_go_on(shop):
    broken = shop("broken", CHAIN)
    broken.model.hold("two <one cats>")
    process = broken.start("run", "flow.yaml", "--runs-dir", "kept")
    broken.model.wait_until_holding("two <one cats>")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    (run,) = RunStore(broken.folder / "kept").summaries()
    assert err.decode().endswith(f"resume it with: offbook resume {run.id} --runs-dir kept\n")
    assert run.status == "interrupted"
    assert run.settled_steps == 1


def test_a_terminated_run_says_how_to_go_on(shop):
    broken = shop("broken", CHAIN)
    broken.model.hold("two <one cats>")
    process = broken.start("run", "flow.yaml", "--json")
    broken.model.wait_until_holding("two <one cats>")
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 143
    error_fields = orjson.loads(out)["error"]
    assert error_fields["exit_code"] == 143
    assert error_fields["message"] == "terminated: 1 done, 10 tokens"
    (run,) = RunStore(broken.folder / ".offbook/runs").summaries()
    assert err.decode().endswith(f"{error_fields['message']}\nresume it with: offbook resume {run.id}\n")
    assert run.status == "interrupted"
    assert run.settled_steps == 1


@pytest.fixture
def here(shop):
    """Opens a shop and goes there."""

    def here(flow, answer=echo):
        opened = shop("here", flow, answer)
        opened.enter()
        return opened

    return here


def failing_at(prompt, answer=echo):
    """The answers, of which one is refused until it is repaired."""
    broken = {prompt}
    return broken, lambda each: said(finish_reason="refused") if each in broken else answer(each)


def test_a_step_that_failed_is_tried_again_and_finished_ones_are_not(here, run):
    broken, answer = failing_at("two <one cats>")
    shop = here(CHAIN, answer)
    code, _, err = run("run", "flow.yaml")
    assert code == 1
    (summary,) = RunStore(".offbook/runs").summaries()
    assert f"resume it with: offbook resume {summary.id}\n" in err
    assert summary.status == "failed"
    assert summary.settled_steps == 1
    broken.clear()
    code, out, _ = run("resume", "last")
    assert code == 0
    assert "third: <three <two <one cats>>>" in out
    assert shop.model.answered == {"one cats": 1, "two <one cats>": 2, "three <two <one cats>>": 1}


def test_steps_that_were_done_before_are_shown_as_kept(here, run):
    broken, answer = failing_at("three <two <one cats>>")
    here(CHAIN, answer)
    run("run", "flow.yaml")
    broken.clear()
    _, out, _ = run("resume", "last")
    assert [line.split()[0] for line in out.splitlines()[:3]] == ["kept", "kept", "done"]
    assert "chain succeeded: 2 kept, 1 done" in out


def test_a_fault_that_may_have_fired_in_a_kept_step_is_not_missed(here, run):
    broken, answer = failing_at("three <two <one cats>>")
    here(CHAIN.replace("model: m", "model: m, retry: {backoff_s: 0}"), answer)
    faults = ["step=two attempt=1: timeout", "call=1 attempt=1: timeout", "step=three call=9: timeout"]
    options = [option for fault in faults for option in ("--fault", fault)]
    assert run("run", "flow.yaml", *options)[0] == 1
    broken.clear()
    code, _, err = run("resume", "last")
    reason = "step 'three' made 1 model call; the last place is 'step=three call=1'"
    assert code == 1
    assert err == f"fault 'step=three call=9: timeout' never fired: {reason}\n"


def test_a_run_whose_fault_never_fired_has_succeeded_all_the_same(here, run):
    here(CHAIN)
    code, _, err = run("run", "flow.yaml", "--fault", "call=9: timeout")
    assert code == 1
    assert "resume it with" not in err
    assert RunStore(".offbook/runs").summaries()[0].status == "succeeded"


def test_a_failed_run_that_fails_again_can_be_resumed_again(here, run):
    broken, answer = failing_at("three <two <one cats>>")
    shop = here(CHAIN, answer)
    assert [run("run", "flow.yaml")[0], run("resume", "last")[0]] == [1, 1]
    broken.clear()
    assert run("resume", "last")[0] == 0
    assert shop.model.answered == {"one cats": 1, "two <one cats>": 1, "three <two <one cats>>": 3}


def test_an_answer_that_a_step_cannot_use_is_asked_for_again(here, run):
    answers = iter(["no JSON", "true"])
    shop = here(
        CHAIN.replace("id: two,", "id: two, json: true,"),
        lambda prompt: said(next(answers, "later")) if "two" in prompt else echo(prompt),
    )
    assert run("run", "flow.yaml")[0] == 1
    assert run("resume", "last")[0] == 0
    assert shop.model.answered == {"one cats": 1, "two <one cats>": 2, "three true": 1}


def test_a_tool_that_failed_is_called_again_and_those_before_it_are_not(here, run):
    shop = here(AGENT, salesman)
    (shop.folder / "shop.py").write_text(
        SHOP.replace('    _note(f"done', "    open('stock.txt').close()\n    _note(f\"done")
    )
    (shop.folder / "flow.yaml").write_text(AGENT + "    max_tool_errors: 0\n")
    code, _, err = run("run", "flow.yaml")
    assert code == 1
    assert "FileNotFoundError" in err
    (shop.folder / "stock.txt").touch()
    assert shop.result("resume", "last")["state"]["sold"] == "sold"
    assert shop.effects == ["charge 7", "charge 7", "charge 8", "done sold"]
    assert shop.model.answered == {"sell": 1, "charged 7": 1, "charged 8": 1}


def test_a_changed_workflow_is_refused_by_name_unless_forced(here, run):
    _, answer = failing_at("two <one cats>")
    shop = here(CHAIN, answer)
    run("run", "flow.yaml")
    (shop.folder / "flow.yaml").write_text(CHAIN.replace('"two {', '"2 {').replace('"one {', '"1 {'))
    code, _, err = run("resume", "last")
    assert code == 2
    assert f"changed since the run was started: {shop.folder.resolve()}/flow.yaml" in err
    assert "--force" in err
    assert RunStore(".offbook/runs").summaries()[0].status == "failed"
    code, out, _ = run("resume", "last", "--force")
    assert code == 0
    assert "third: <three <2 <one cats>>>" in out


def test_a_changed_included_file_is_refused_too(here, run):
    _, answer = failing_at("inner")
    shop = here("name: outer\nsteps: [{id: sub, type: subworkflow, path: inner.yaml}]\n", answer)
    inner = shop.folder / "inner.yaml"
    inner.write_text(
        "name: inner\nconfig: {provider: openai, model: m}\nsteps: [{id: ask, type: llm_call, prompt: inner}]\n"
    )
    assert run("run", "flow.yaml")[0] == 1
    inner.write_text(inner.read_text() + "# changed\n")
    code, _, err = run("resume", "last")
    assert code == 2
    assert f"{inner.resolve()}" in err
    assert "flow.yaml" not in err


def test_a_run_that_has_succeeded_is_not_resumed(here, run):
    here(CHAIN)
    run("run", "flow.yaml")
    code, _, err = run("resume", "last")
    assert code == 2
    assert "the run has succeeded" in err


def test_an_unknown_run_is_reported_with_what_there_is(here, run):
    here(CHAIN)
    assert run("resume", "last")[0] == 2
    run("run", "flow.yaml")
    (run_id,) = RunStore(".offbook/runs").ids()
    code, _, err = run("resume", run_id[:-1] + "9")
    assert code == 2
    assert f"did you mean '{run_id}'?" in err


def test_without_a_run_the_latest_is_proposed(run):
    code, _, err = run("resume")
    assert code == 2
    assert "offbook resume last" in err


def test_a_run_goes_on_in_the_folder_where_it_was_started_and_with_its_options(here, run, tmp_path, monkeypatch):
    broken, answer = failing_at("two <one dogs>")
    shop = here(CHAIN, answer)
    arguments = (
        "--set",
        "topic=dogs",
        "--record",
        "all.json",
        "--model",
        "other",
        "--fault",
        "step=three: http_error 500",
    )
    assert run("run", "flow.yaml", *arguments)[0] == 1
    broken.clear()
    monkeypatch.chdir(tmp_path)
    code, _, err = run("resume", "last", "--runs-dir", shop.folder / ".offbook/runs")
    assert code == 1
    assert "three failed" in err
    assert Path.cwd() == tmp_path
    recorded = orjson.loads((shop.folder / "all.json").read_bytes())
    assert recorded["one"]["request"]["model"] == "other"
    assert [entry.get("content") for entry in recorded["two"]] == [None, "<two <one dogs>>"]


@pytest.mark.parametrize(("mode", "further"), [("once", "append"), ("all", "append"), ("new", "new")])
def test_a_resumed_run_adds_to_what_it_has_recorded(here, run, mode, further):
    broken, answer = failing_at("two <one cats>")
    here(CHAIN, answer)
    assert run("run", "flow.yaml", "--record", "all.json", "--record-mode", mode)[0] == 1
    (manifest,) = Path(".offbook/runs").glob("*/run.json")
    assert orjson.loads(manifest.read_bytes())["options"].get("record_mode", "append") == further
    broken.clear()
    run("recording", "prune", "all.json", "--faults")
    assert run("resume", "last")[0] == 0
    recorded = orjson.loads(Path("all.json").read_bytes())
    assert [recorded[step]["content"] for step in ("one", "two", "three")] == [
        "<one cats>",
        "<two <one cats>>",
        "<three <two <one cats>>>",
    ]


def test_a_run_in_a_folder_that_is_gone_cannot_be_resumed(here, run, tmp_path, monkeypatch):
    _, answer = failing_at("two <one cats>")
    shop = here(CHAIN, answer)
    run("run", "flow.yaml", "--runs-dir", tmp_path / "kept")
    monkeypatch.chdir(tmp_path)
    shop.folder.rename(tmp_path / "moved")
    code, _, err = run("resume", "last", "--runs-dir", tmp_path / "kept", "--force")
    assert code == 2
    assert "the folder where it was started is gone" in err


def test_only_live_runs_are_kept_and_only_if_wanted(here, run, monkeypatch):
    here(CHAIN)
    assert run("run", "flow.yaml", "--no-checkpoint")[0] == 0
    assert run("run", "flow.yaml", "--mock-responses", "nothing.json")[0] == 2
    assert run("run", "flow.yaml", "--provider", "mock")[0] == 0
    monkeypatch.delenv("OPENAI_BASE_URL")
    monkeypatch.delenv("OPENAI_API_KEY")
    code, _, err = run("run", "flow.yaml")
    assert code == 2
    assert "OPENAI_API_KEY" in err
    assert "resume it" not in err
    assert run("runs") == (0, "no runs in .offbook/runs\n", "")


def test_runs_are_listed_with_how_to_go_on(here, run):
    broken, answer = failing_at("two <one cats>")
    here(CHAIN, answer)
    run("run", "flow.yaml")
    broken.clear()
    run("run", "flow.yaml")
    code, out, _ = run("runs")
    first, second = RunStore(".offbook/runs").ids()
    header, *rows = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert header == "run workflow status steps cost $ started (UTC) resume with"
    assert rows[0].startswith(f"{first} chain failed 1/3 20")
    assert rows[0].endswith(f"offbook resume {first}")
    assert rows[1].startswith(f"{second} chain succeeded 3/3 20")
    assert "resume" not in rows[1]


def test_old_runs_are_removed_when_asked_for(here, run, monkeypatch):
    shop = here(CHAIN)
    monkeypatch.setenv("OFFBOOK_RUNS_DIR", str(shop.folder / "kept"))
    for _ in range(3):
        run("run", "flow.yaml")
    ids = RunStore("kept").ids()
    assert run("runs", "--prune", "1d")[1].count("succeeded") == 3
    code, out, _ = run("runs", "--keep", "1", "--json")
    listed = orjson.loads(out)
    assert code == 0
    assert listed["removed"] == ids[:2]
    assert [each["id"] for each in listed["runs"]] == ids[2:]
    assert run("runs", "--keep", "0")[1] == f"removed 1 run\nno runs in {shop.folder}/kept\n"
    code, _, err = run("runs", "--prune", "soon")
    assert code == 2
    assert "--prune" in err


def test_a_run_that_cannot_be_read_is_listed_as_such(here, run):
    _, answer = failing_at("two <one cats>")
    here(CHAIN, answer)
    run("run", "flow.yaml")
    (manifest,) = Path(".offbook/runs").glob("*/run.json")
    manifest.write_text("{}")
    code, out, _ = run("runs")
    assert code == 0
    assert "unreadable" in out
    code, _, err = run("resume", "last")
    assert code == 2
    assert "run.json: not the manifest of a run" in err


def test_a_run_whose_progress_cannot_be_kept_ends_and_says_how_to_go_on(here, run):
    shop = here("name: spoilt\ntools: {spoil: 'spoil:spoil'}\nsteps: [{id: spoil, type: tool, tool: spoil}]\n")
    (shop.folder / "spoil.py").write_text(
        "from pathlib import Path\n\n\n"
        "def spoil() -> None:\n"
        "    '''Put a folder in the place of the log.'''\n"
        "    (log,) = Path('.offbook/runs').glob('*/steps.jsonl')\n"
        "    log.unlink()\n"
        "    log.mkdir()\n"
    )
    code, _, err = run("run", "flow.yaml", "--provider", "openai")
    (run_id,) = RunStore(".offbook/runs").ids()
    assert code == 2
    assert err.startswith(f"resume it with: offbook resume {run_id}\n")
    assert "steps.jsonl: Is a directory" in err


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_resumed_run_replaces_a_recording_with_what_it_recorded_before_and_after_the_failure(here, run, mode):
    broken, renewed = set(), []

    def answer(prompt):
        if prompt in broken:
            return said(finish_reason="refused")
        return said(f"new <{prompt}>" if renewed else f"<{prompt}>")

    here(CHAIN, answer)
    record = ("run", "flow.yaml", "--record", "all.json", "--record-mode", mode)
    assert run(*record)[0] == 0
    before = Path("all.json").read_bytes()
    renewed.append(True)
    broken.add("two new <one cats>")
    assert run(*record)[0] == 1
    assert run("resume", "last")[0] == 1
    assert Path("all.json").read_bytes() == before
    broken.clear()
    assert run("resume", "last")[0] == 0
    assert not Path("all.json.failed").exists()
    assert run("replay", "flow.yaml", "--recording", "all.json", "--strict-unused")[0] == 0
    recorded = orjson.loads(Path("all.json").read_bytes())
    assert recorded["one"]["content"] == "new <one cats>"
    assert recorded["three"]["content"] == "new <three new <two new <one cats>>>"


def test_what_another_run_left_beside_a_recording_is_no_part_of_a_resumed_run(here, run):
    broken, answer = failing_at("two <one cats>")
    here(CHAIN, answer)
    Path("all.json").write_text('{"_version": 2, "one": {"content": "old"}}')
    foreign = '{"_version": 2, "other": {"content": "foreign", "recorded_at": "2000-01-01T00:00:00+00:00"}}'
    assert run("run", "flow.yaml", "--record", "all.json", "--record-mode", "fresh")[0] == 1
    Path("all.json.failed").write_text(foreign)
    broken.clear()
    assert run("resume", "last")[0] == 0
    recorded = orjson.loads(Path("all.json").read_bytes())
    assert recorded["one"]["content"] == "old"
    assert "other" not in recorded
