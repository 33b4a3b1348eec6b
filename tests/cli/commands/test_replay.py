"""offbook replay: strict, offline, the same every time."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli import flows
from tests.cli.programs import ASK
from tests.servers.loopback import LoopbackServer
from tests.servers.models import chat_answer

COMMAND = Path(sys.executable).parent / "offbook"


@pytest.fixture
def recorded(run, greet, monkeypatch):
    """The workflow, and `real.json`, recorded from a server that is gone."""
    with LoopbackServer(chat_answer("Hello!")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        assert run("run", greet, "--record", "real.json", "--no-checkpoint")[0] == 0
    return greet


def test_a_replay_needs_no_server_and_no_key(run, recorded):
    code, out, err = run("replay", recorded, "--recording", "real.json", "--strict-unused")
    assert code == 0
    assert err == ""
    assert "greet succeeded: 2 done, 10 tokens, 0.00 s" in out


@pytest.mark.parametrize("options", [[], ["--json", "--fault", "step=bye attempt=1: timeout 500"]])
def test_two_replays_print_the_same_bytes_in_any_process(run, recorded, options):
    arguments = ["replay", recorded, "--recording", "real.json", *options]
    elsewhere = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, check=True)
    assert run(*arguments) == (0, elsewhere.stdout, "")


def test_two_replays_leave_the_same_trace(run, recorded):
    for name in ("one.jsonl", "two.jsonl"):
        run("replay", recorded, "--recording", "real.json", "--trace", name)
    assert Path("one.jsonl").read_bytes() == Path("two.jsonl").read_bytes()


def test_an_edited_prompt_ends_the_replay_with_the_step_and_what_differs(run, recorded):
    recorded.write_text(recorded.read_text().replace("Say goodbye", "Bid farewell"))
    code, out, err = run("replay", recorded, "--recording", "real.json")
    assert code == 3
    assert out.startswith("done     hello")
    assert "step 'bye'" in err
    assert "-Say goodbye after Hello!" in err
    assert "+Bid farewell after Hello!" in err
    assert "Traceback" not in err


def test_an_edited_prompt_passes_with_a_warning_if_a_default_may_be_fallen_back_to(run, recorded, caplog):
    recorded.write_text(recorded.read_text().replace("Say goodbye", "Bid farewell"))
    code, out, _ = run("replay", recorded, "--recording", "real.json", "--allow-default-fallback")
    assert code == 0
    assert "bye: Hello!" in out
    assert [record.message.count("\n") for record in caplog.records] == [0]


def test_as_json_a_mismatch_is_a_document_too(run, recorded):
    code, out, err = run("replay", recorded, "--recording", "real.json", "--set", "name=Eve", "--json")
    document = json.loads(out)
    assert code == 3
    assert document["status"] == "error"
    error_fields = document["error"]
    assert error_fields["type"] == "RecordingMismatchError"
    assert error_fields["kind"] == "drifted"
    assert error_fields["key"] == "hello"
    assert error_fields["exit_code"] == 3
    assert "+Say hello to Eve" in error_fields["difference"]
    assert error_fields["message"] in err


def test_as_json_bad_input_is_a_document_too(run, greet):
    code, out, err = run("replay", greet, "--recording", "missing.json", "--json")
    error_fields = json.loads(out)["error"]
    assert code == 2
    assert error_fields["exit_code"] == 2
    assert error_fields["type"] == "InputError"
    assert error_fields["source"] == "missing.json"
    assert error_fields["message"] in err


def test_what_was_not_used_is_reported(run, greet, write):
    more = dict.fromkeys(("a", "b", "c", "d", "e", "f"), "x")
    write("more.json", flows.recording(flows.ANSWERS | more, _tools={"get": [{"result": 1}]}))
    code, out, _ = run("replay", greet, "--recording", "more.json")
    assert code == 0
    assert out.splitlines()[-1] == "7 exchanges of the recording were not used: a[0], b[0], c[0], d[0], e[0], …"


def test_what_was_not_used_is_a_mismatch_if_strict(run, greet, write):
    write("more.json", flows.recording(flows.ANSWERS | {"more": "x"}))
    code, _, err = run("replay", greet, "--recording", "more.json", "--strict-unused", "--quiet")
    assert code == 3
    assert err == "1 exchange of the recording was not used: more[0]\n"


def test_as_json_what_was_not_used_is_reported_beside_the_result(run, greet, write):
    write("more.json", flows.recording(flows.ANSWERS | {"more": "x"}))
    _, out, err = run("replay", greet, "--recording", "more.json", "--json")
    assert json.loads(out)["status"] == "succeeded"
    assert json.loads(out)["unused"] == [{"key": "more", "position": 0}]
    assert "more[0]" in err
    assert run("replay", greet, "--recording", "more.json", "--quiet") == (0, "", "")


def test_a_recorded_failure_fails_the_replay_in_no_time(run, greet, write):
    write("bad.json", flows.recording({"hello": {"fault": {"type": "timeout", "after_ms": 60_000}}}))
    code, out, _ = run("replay", greet, "--recording", "bad.json", "--json")
    assert code == 1
    assert json.loads(out)["latency_s"] >= 180


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"_version": 1, "hello": {"content": "x"}}', '{"hello": {"contents": "x"}}']
)
def test_what_is_no_recording_that_can_be_replayed_is_bad_input(run, greet, write, text):
    write("bad.json", text)
    code, out, err = run("replay", greet, "--recording", "bad.json")
    assert code == 2
    assert out == ""
    assert "bad.json" in err


def test_a_recording_must_be_named(run, greet):
    code, _, err = run("replay", greet)
    assert code == 2
    assert "--recording" in err


MAY_FAIL = """\
name: careless
config: {provider: openai, model: m}
state: {answer: "", sum: 0}
tools: {add: {function: "sums:add"}}
steps:
  - {id: ask, type: llm_call, prompt: "Hi", output: answer, on_failure: continue}
  - {id: add, type: tool, tool: add, args: {a: 1}, output: sum, on_failure: continue}
"""
ADDED = {"arguments": {"a": 1}, "result": 2}


@pytest.fixture
def careless(write):
    """A workflow whose steps may fail."""
    write("sums.py", 'def add(a: int) -> int:\n    """Add one."""\n    return a + 1\n')
    return write("careless.yaml", MAY_FAIL)


def test_the_recording_of_another_workflow_is_not_to_be_replaced_unasked(run, careless, write):
    write("run.json", json.dumps({"_version": 2, "other": {"content": "Hello!"}}))
    code, _, err = run("replay", careless, "--recording", "run.json")
    assert code == 3
    assert "hint: is run.json the recording of this workflow? If it is, record it again, or undo" in err


@pytest.mark.parametrize(
    "recording",
    [
        {"ask": {"content": "Hello!"}, "_tools": {"add": [{**ADDED, "arguments": {"a": 2}}]}},
        {"ask": {"content": "Hello!"}, "_tools": {"multiply": [ADDED]}},
    ],
)
def test_a_call_without_an_answer_ends_the_replay_even_if_its_step_may_fail(run, careless, write, recording):
    write("run.json", json.dumps({"_version": 2} | recording))
    code, _, err = run("replay", careless, "--recording", "run.json")
    assert code == 3
    again = f"offbook run {careless} --record run.json --record-mode all"
    assert f"hint: record it again, or undo the change: {again}" in err


def test_what_follows_a_fault_is_not_to_be_recorded_again(run, careless, write):
    write("run.json", json.dumps({"_version": 2, "ask": {"content": "Hi"}, "_tools": {"add": [ADDED]}}))
    flow = MAY_FAIL + "  - {id: again, type: tool, tool: add, args: {a: 2}, depends_on: [add]}\n"
    write("careless.yaml", flow)
    code, _, err = run("replay", careless, "--recording", "run.json", "--fault", "tool=add call=1: tool_lost")
    assert code == 3
    assert "hint: a fault fired before this (tool=add call=1: tool_lost)" in err
    assert "record it again" not in err


def test_a_plan_that_is_missing_is_named(run):
    code, _, err = run("replay", "--plan", "regress/0007.json")
    assert code == 2
    assert err == "error: regress/0007.json: there is no such file\n  hint: there is no folder 'regress'\n"


def test_the_command_that_records_again_can_be_pasted(run, careless, write):
    write("my run.json", json.dumps({"_version": 2, "other": {"content": "Hello!"}}))
    code, _, err = run("replay", careless, "--recording", "my run.json")
    assert code == 3
    assert "--record 'my run.json' --record-mode all" in err
    write("state.json", '{"sum": 1}')
    given = ["--set", "answer=hi there", "--state", "state.json"]
    code, _, err = run("replay", careless, "--recording", "my run.json", *given)
    assert code == 3
    assert f"offbook run {careless} --set 'answer=hi there' --state state.json --record" in err


def test_a_plan_without_a_workflow_is_reported_with_what_to_type(run, write):
    write("plan.json", '{"faults": []}')
    code, _, err = run("replay", "--plan", "plan.json")
    assert code == 2
    assert "hint: offbook replay FLOW --recording PATH --plan plan.json" in err
    code, _, err = run("replay", "run.json")
    assert code == 2
    assert "run.json is not a workflow; to replay a program: offbook replay run.json -- COMMAND" in err


def test_tools_that_run_for_real_are_named_unless_quiet(run, write):
    write("my_tools.py", "def stamp() -> str:\n    return 'now'\n")
    step = "{id: at, type: tool, tool: stamp, output: at}"
    flow = write(
        "stamp.yaml",
        f"name: stamp\nconfig: {{provider: openai, model: m}}\ntools: {{stamp: 'my_tools:stamp'}}\nsteps: [{step}]\n",
    )
    recording, recorded = (write(name, flows.recording({}, **more)) for name, more in RECORDINGS_OF_TOOLS.items())
    note = "note: the recording has no tool calls, so tools run for real: stamp\n"
    for replay in (["replay", flow, "--recording"], ["run", flow, "--mock-responses"]):
        assert run(*replay, recording)[::2] == (0, note)
        assert run(*replay, recording, "--quiet")[::2] == (0, "")
        assert run(*replay, recorded)[::2] == (0, "")


RECORDINGS_OF_TOOLS = {"none.json": {}, "tools.json": {"_tools": {"stamp": [{"arguments": {}, "result": "then"}]}}}


@pytest.mark.parametrize(
    ("typed", "same"),
    [
        (["any.json"], ["--replay", "any.json"]),
        (["--recording", "any.json"], ["--replay", "any.json"]),
        (["-o", "time_limit=20", "any.json", "--quiet"], ["--replay", "any.json", "--quiet"]),
        (
            ["any.json", "--fault", "call=1: http_error 500"],
            ["--replay", "any.json", "--fault", "call=1: http_error 500"],
        ),
    ],
)
def test_a_program_is_replayed_as_by_exec(run_programs, write, typed, same):
    write("any.json", json.dumps({"_version": 2, "any": [{"content": "Hello!"}]}))
    code, out, err = run_programs("replay", *typed, "--", *ASK, "Hi")
    assert code == 0
    assert out == ("status 500\n" if "--fault" in typed else "Hello!\n")
    assert run_programs("exec", *same, "--", *ASK, "Hi") == (code, out, err)


@pytest.mark.parametrize(
    ("typed", "reason", "hint"),
    [
        (["flow.yaml", "--", "true"], "flow.yaml: there are both a workflow and a program", "replay RECORDING -- COMM"),
        (["a.json", "b.json", "--", "true"], "b.json: there are two recordings", "offbook replay a.json -- COMMAND"),
        (["--record", "a.json", "--", "true"], "replay: there is no recording to replay", "offbook exec --record PATH"),
        (["a.json", "true", "x"], "true: a program comes after --", "type: offbook replay a.json -- true x"),
        (
            ["a.json", "bot.py", "x"],
            "bot.py: a program comes after --",
            "type: offbook replay a.json -- python bot.py x",
        ),
        (["a.json", "f.yaml", "-q"], "the workflow comes first", "type: offbook replay f.yaml -q --recording a.json"),
        (["a.json", "--quiet", "--", "no-such-program"], "no-such-program: command not found", ""),
        (["--real-time", "a.json", "--", "true"], "--real-time is for a workflow", "-o latency_model=replay"),
        (["a.json", "--set", "x=1", "--", "true"], "--set is for a workflow", "offbook replay FLOW --recording PATH"),
        (["a.json", "--trace", "t.jsonl", "--", "true"], "there is no flag --trace", "-o exec.trace=t.jsonl"),
        (["flow.yaml", "--lenient"], "--lenient is for a program", "--allow-default-fallback"),
    ],
)
def test_a_mistaken_mix_of_a_workflow_a_recording_and_a_program_says_what_to_type(run, write, typed, reason, hint):
    write("a.json", flows.recording(flows.ANSWERS))
    code, _, err = run("replay", *typed)
    assert code == (127 if "not found" in reason else 2), err
    assert reason in err
    assert hint in err
