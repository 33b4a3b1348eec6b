"""offbook run: live, recorded and mocked."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from offbook.cli import options
from offbook.events import FaultFired, StepEnded
from offbook.observe.json_lines import read_events
from offbook.recording.stores.locate import open_store
from offbook.session.recorder import RecordMode
from tests.cli import flows
from tests.servers.loopback import LoopbackServer, SilentServer
from tests.servers.models import chat_answer

COUNTING = """\
from pathlib import Path


def count() -> int:
    with Path("ran").open("a") as ran:
        ran.write("x")
    return 7
"""
STOPPING = """\
import asyncio
import signal


async def stop() -> None:
    signal.raise_signal(signal.SIGINT)
    await asyncio.Event().wait()
"""
COMMAND = Path(sys.executable).parent / "offbook"


@pytest.fixture
def server(monkeypatch):
    with LoopbackServer(chat_answer("Hello!")) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        yield server


def test_a_run_reports_each_step_what_was_written_and_the_totals(run, greet, server):
    code, out, err = run("run", greet)
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 0
    assert lines[0].startswith("done hello llm_call 5 tokens")
    assert lines[1].startswith("done bye llm_call 5 tokens")
    assert lines[2:4] == ["hello: Hello!", "bye: Hello!"]
    assert lines[4].startswith("greet succeeded: 2 done, 10 tokens")
    assert err == ""
    assert len(server.calls) == 2


def test_a_recorded_run_replays_when_the_server_is_gone(run, greet, server):
    assert run("run", greet, "--record", "new.json")[0] == 0
    server.answer = b"gone"
    code, out, _ = run("replay", greet, "--recording", "new.json")
    assert code == 0
    assert "bye: Hello!" in out
    assert len(server.calls) == 2


def test_what_is_there_decides_what_a_record_mode_asks(run, greet, server):
    for _ in range(2):
        assert run("run", greet, "--record", "new.json", "--record-mode", "new")[0] == 0
    assert len(server.calls) == 2
    assert run("run", greet, "--record", "new.json", "--record-mode", "all")[0] == 0
    assert len(server.calls) == 4
    assert open_store("new.json").load().size == 2


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_run_that_fails_leaves_the_recording_as_it_was(run, greet, server, mode, caplog):
    assert run("run", greet, "--record", "new.json")[0] == 0
    before = [exchange.content for _, exchange in open_store("new.json").load()]
    server.answer = lambda call: call.whole(b"{}", status=400)
    code, _, _ = run("run", greet, "--record", "new.json", "--record-mode", mode, "--no-checkpoint")
    assert code == 1
    assert "new.json: the run failed, so it stays as it was; what was recorded is in new.json.failed" in caplog.text
    assert [exchange.content for _, exchange in open_store("new.json").load()] == before


SWALLOWING = """\
name: swallow
config: {provider: openai, model: demo, retry: {max_retries: 0}}
steps:
  - {id: hello, type: llm_call, prompt: Hi, output: hello, on_failure: continue}
"""


def test_a_recording_run_in_which_every_call_failed_is_a_failure_though_the_workflow_succeeded(run, write, server):
    write("swallow.yaml", SWALLOWING)
    server.answer = b"gone"
    code, out, err = run("run", "swallow.yaml", "--record", "new.json")
    assert code == 1
    assert "swallow succeeded" in out
    assert "no recorded call got an answer (malformed" in err
    server.answer = chat_answer("Hello!")
    assert run("run", "swallow.yaml", "--record", "other.json")[0] == 0


def test_a_missing_key_is_bad_input_that_says_how_to_do_without(run, greet):
    code, out, err = run("run", greet)
    assert code == 2
    assert out == ""
    assert "OPENAI_API_KEY" in err
    assert "offbook replay" in err


def test_mocked_answers_warn_in_one_line_of_what_they_lack(run, greet, write):
    write("part.json", flows.recording({"hello": "Hi."}))
    code, out, _ = run("run", greet, "--mock-responses", "part.json")
    assert code == 0
    assert "bye: Mock response" in out


@pytest.mark.parametrize("option", ["--replay", "--recording"])
def test_a_run_from_a_recording_alone_is_as_strict_as_a_replay(run, greet, write, option):
    write("part.json", flows.recording({"hello": "Hi."}))
    code, _, err = run("run", greet, option, "part.json")
    assert code == 3
    assert err == run("replay", greet, "--recording", "part.json")[2]
    write("whole.json", flows.recording({"hello": "Hi.", "bye": "Bye."}))
    code, out, _ = run("run", greet, option, "whole.json")
    assert code == 0
    assert "bye: Bye." in out
    assert not Path(".offbook").exists()


def test_a_warning_of_a_miss_is_one_line_on_the_error_output(greet, write):
    write("part.json", flows.recording({"hello": "Hi."}))
    done = subprocess.run(
        [COMMAND, "run", greet, "--mock-responses", "part.json"], capture_output=True, text=True, check=True
    )
    assert done.stderr.count("\n") == 1
    assert "'bye' is not in the recording" in done.stderr


def test_a_workflow_that_names_the_mock_needs_no_option(run, write):
    head = "config: {provider: mock, model: demo, responses_file: answers.json, strict: true}"
    flow = write("flows/flow.yaml", flows.GREET.replace("config: {provider: openai, model: demo}", head))
    write("flows/answers.json", flows.recording(flows.ANSWERS))
    code, out, _ = run("run", flow)
    assert code == 0
    assert "bye: Bye!" in out
    assert not Path(".offbook").exists()


def test_a_step_may_have_a_provider_of_its_own(run, write, server):
    text = flows.GREET.replace("{provider: openai, model: demo}", "{provider: mock, model: canned}")
    flow = write("flow.yaml", text.replace("{id: bye,", "{id: bye, provider: openai, model: demo,"))
    code, out, _ = run("run", flow)
    assert code == 0
    assert "hello: Mock response\nbye: Hello!" in out


def test_provider_and_model_may_be_given_on_the_command_line(run, greet):
    code, out, _ = run("run", greet, "--provider", "mock", "--model", "other", "--trace", "events.jsonl")
    assert code == 0
    assert "bye: Mock response" in out
    assert {event.model for event in read_events("events.jsonl") if hasattr(event, "model")} == {"other"}


@pytest.mark.parametrize("command", [["run", "--mock-responses"], ["replay", "--recording"]], ids=["run", "replay"])
def test_a_missing_model_is_reported_with_the_file_and_the_step(run, greet, command):
    greet.write_text(greet.read_text().replace("config: {provider: openai, model: demo}\n", ""))
    name, option = command
    code, out, err = run(name, greet, option, "run.json")
    assert code == 2
    assert out == ""
    assert f"{greet}: steps.hello: the step has no model" in err
    assert run("run", greet, "--mock-responses", "run.json", "--model", "demo")[0] == 0


def test_a_replay_needs_no_provider(run, greet):
    greet.write_text(greet.read_text().replace("provider: openai, ", ""))
    assert run("replay", greet, "--recording", "run.json", "--quiet") == (0, "", "")


def test_an_empty_model_is_bad_input(run, greet):
    assert run("run", greet, "--model", "")[0] == 2


def test_the_record_modes_of_the_command_are_those_of_the_library():
    assert get_args(options.RecordMode) == get_args(RecordMode)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--record", "a.json", "--mock-responses", "run.json"], "exclude each other"),
        (["--record-mode", "new"], "--record PATH"),
        (["--record-mode", "sometimes", "--record", "a.json"], "sometimes"),
        (["--provider", "acme"], "acme"),
        (["--mock-responses", "missing.json"], "missing.json"),
        (["--mock-responses", "run.json", "--fault", "call=two: timeout"], "call=two: timeout"),
        (["--mock-responses", "run.json", "--plan", "missing.json"], "missing.json"),
        (["--mock-responses", "run.json", "--trace", "run.json/events.jsonl"], "run.json/events.jsonl"),
        (["--mock-responses", "run.json", "--metrics", "run.json/run.prom"], "run.json/run.prom"),
        (["--mock-responses", "run.json", "--spans", "run.json/spans.jsonl"], "run.json/spans.jsonl"),
        (["--replay", "run.json", "--mock-responses", "run.json"], "--mock-responses and --replay exclude each other"),
        (["--record", "redis://host/0"], "redis://host/0"),
    ],
)
def test_options_that_make_no_sense_are_bad_input(run, greet, monkeypatch, options, said):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key")
    code, out, err = run("run", greet, *options)
    assert code == 2
    assert said in out + err
    assert "Traceback" not in err


@pytest.mark.parametrize("name", ["missing.yaml", ".", "run.json"])
def test_what_is_no_workflow_is_bad_input(run, greet, name):
    code, out, err = run("run", name, "--provider", "mock")
    assert code == 2
    assert out == ""
    assert "Traceback" not in err


def test_a_tool_that_cannot_be_loaded_is_bad_input(run, write):
    steps = "steps: [{id: a, type: tool, tool: t}]\n"
    flow = write("flow.yaml", 'name: f\ntools: {t: "nowhere_to_be_found:t"}\n' + steps)
    code, _, err = run("run", flow, "--no-checkpoint")
    assert code == 2
    assert "nowhere_to_be_found" in err


def test_a_failed_step_is_reported_with_what_was_tried(run, greet):
    code, out, err = run("run", greet, "--mock-responses", "run.json", "--fault", "step=hello: http_error 503")
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert code == 1
    assert lines[0].startswith("failed hello llm_call AllProvidersFailedError 3 attempts")
    assert lines[1] == "skipped bye llm_call"
    assert lines[2].startswith("greet failed: 1 failed, 1 skipped, 3 faults fired")
    assert err.startswith("hello failed: AllProvidersFailedError: no provider answered, in 3 attempts:")
    assert err.count("attempt ") == 3


def test_faults_come_from_lines_and_from_a_file(run, greet, write):
    fault = {"at": {"step_id": "bye", "attempt": 1}, "fault": {"type": "timeout"}}
    write("plan.json", json.dumps({"faults": [fault]}))
    options = ["--fault", "step=hello attempt=1: http_error 500", "--plan", "plan.json", "--trace", "events.jsonl"]
    code, _, _ = run("run", greet, "--mock-responses", "run.json", *options)
    fired = [event.step_id for event in read_events("events.jsonl") if isinstance(event, FaultFired)]
    assert code == 0
    assert fired == ["hello", "bye"]


def test_a_trace_holds_every_event(run, greet):
    run("run", greet, "--mock-responses", "run.json", "--trace", "events.jsonl")
    events = list(read_events("events.jsonl"))
    assert [event.step for event in events if isinstance(event, StepEnded)] == ["hello", "bye"]
    assert len(events) > 6


def test_the_folder_of_a_trace_is_made(run, greet):
    code, _, _ = run("run", greet, "--mock-responses", "run.json", "--trace", "some/folder/events.jsonl")
    assert code == 0
    assert Path("some/folder/events.jsonl").exists()


@pytest.mark.parametrize("command", [["run", "--mock-responses"], ["replay", "--recording"]])
def test_metrics_and_spans_of_a_run_are_written_to_files(run, greet, command):
    name, answers = command
    code, _, err = run(name, greet, answers, "run.json", "--metrics", "out/run.prom", "--spans", "out/spans.jsonl")
    assert code == 0
    assert err == ""
    assert 'offbook_workflow_runs_total{status="succeeded",workflow="greet"} 1.0' in Path("out/run.prom").read_text()
    spans = [json.loads(line) for line in Path("out/spans.jsonl").read_text().splitlines()]
    called = [span["attributes"]["offbook.step_id"] for span in spans if span["name"].startswith("chat")]
    assert called == ["hello", "bye"]


def test_recording_again_as_a_mismatch_says_mends_it(run, greet, server):
    run("run", greet, "--record", "new.json")
    greet.write_text(greet.read_text().replace("Say goodbye", "Bid farewell"))
    code, _, err = run("replay", greet, "--recording", "new.json")
    assert code == 3
    command = err.strip().rpartition("offbook ")[2].split()
    assert run(*command)[0] == 0
    assert run("replay", greet, "--recording", "new.json")[0] == 0


def test_a_small_cost_is_reported_and_none_is_not(run, greet, write):
    answers = {"hello": {"content": "Hi", "cost_usd": 0.00001}, "bye": {"content": "Bye", "cost_usd": 0.0}}
    write("run.json", flows.recording(answers))
    _, out, _ = run("run", greet, "--mock-responses", "run.json")
    hello, bye, *_, total = out.splitlines()
    assert "0.00001 $" in hello
    assert "$" not in bye
    assert "0.00001 $" in total


def test_as_json_the_whole_result_is_all_that_is_printed(run, greet):
    code, out, err = run("run", greet, "--mock-responses", "run.json", "--json")
    result = json.loads(out)
    assert code == 0
    assert err == ""
    assert result["status"] == "succeeded"
    assert result["state"]["bye"] == "Bye!"
    assert result["steps"]["hello"]["prompt_tokens"] == 3


def test_as_json_a_failed_run_is_a_result_too(run, greet):
    code, out, _ = run("run", greet, "--mock-responses", "run.json", "--fault", "everywhere: http_error 400", "--json")
    assert code == 1
    assert json.loads(out)["steps"]["bye"]["status"] == "skipped"


def test_quietly_nothing_is_printed_but_what_failed(run, greet):
    assert run("run", greet, "--mock-responses", "run.json", "--quiet") == (0, "", "")
    code, out, err = run("run", greet, "--mock-responses", "run.json", "-q", "--fault", "step=bye: http_error 400")
    assert code == 1
    assert out == ""
    assert err.startswith("bye failed: ")


def test_of_nested_steps_the_innermost_failure_is_reported(run, write):
    flow = write(
        "flow.yaml",
        "name: f\nconfig: {provider: mock, model: m}\nstate: {items: [1, 2]}\nsteps:\n"
        "  - {id: each, type: loop, over: state.items, collect: out, output: outs,\n"
        "     steps: [{id: ask, type: llm_call, prompt: 'about {item}', output: out}]}\n",
    )
    code, out, err = run("run", flow, "--fault", "step=ask call=2: http_error 400")
    assert code == 1
    assert err.startswith("each[1].ask failed: ")
    assert "each failed" not in err
    assert out.splitlines()[0].split()[:2] == ["done", "each[0].ask"]


def test_what_steps_wrote_is_shown_however_deep_and_whatever_it_is(run, write):
    flow = write(
        "flow.yaml",
        "name: f\nconfig: {provider: mock, model: m, responses_file: a.json}\nsteps:\n"
        "  - {id: data, type: llm_call, prompt: x, json: true, output: some.data}\n"
        "  - {id: poem, type: llm_call, prompt: x, output: poem}\n"
        "  - {id: lost, type: llm_call, prompt: x, json: true, output: lost, on_failure: continue}\n"
        "  - {id: bad, type: llm_call, prompt: x, json: true, output: bad.value}\n",
    )
    write("a.json", flows.recording({"data": '{"a": [1]}', "poem": "red\nblue\u001b[2J", "lost": "?", "bad": "?"}))
    code, out, err = run("run", flow)
    assert code == 1
    assert 'some.data: {"a":[1]}\npoem: red\n  blue [2J\nlost: null\n' in out
    assert "bad.value" not in out
    assert "bad failed: StepError: the answer is not JSON" in err


def test_a_run_that_takes_longer_than_it_may_fails(run, greet):
    text = greet.read_text().replace("model: demo}", "model: demo, timeout_s: 5, latency_ms: 4000}")
    greet.write_text(text)
    code, _, err = run("run", greet, "--mock-responses", "run.json")
    assert code == 1
    assert "greet took longer than 5 s" in err


def test_recorded_waits_take_no_time_unless_asked_for(run, greet):
    greet.write_text(greet.read_text().replace("model: demo}", "model: demo, latency_ms: 50}"))
    code, out, _ = run("run", greet, "--mock-responses", "run.json", "--real-time", "--json")
    assert code == 0
    assert json.loads(out)["latency_s"] >= 0.1
    assert json.loads(run("run", greet, "--mock-responses", "run.json", "--json")[1])["latency_s"] == 0.1


def test_tools_are_recorded_and_then_not_run_again(run, write):
    write("counting.py", COUNTING)
    flow = write(
        "flow.yaml",
        'name: f\ntools: {count: "counting:count"}\nsteps: [{id: a, type: tool, tool: count, output: n}]\n',
    )
    assert run("run", flow, "--record", "new.json", "--no-checkpoint")[0] == 0
    code, out, _ = run("replay", flow, "--recording", "new.json", "--strict-unused")
    assert code == 0
    assert "n: 7" in out
    assert Path("ran").read_text() == "x"


def test_an_interrupted_run_reports_what_is_done(greet, write):
    text = flows.GREET.replace(
        "{provider: openai, model: demo}", "{provider: mock, model: m, responses_file: run.json}"
    )
    flow = write("flow.yaml", text.replace("{id: bye,", "{id: bye, provider: openai, model: demo,"))
    with SilentServer(None) as server:
        started = subprocess.Popen(
            [COMMAND, "run", flow, "--no-checkpoint"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=os.environ | {"OPENAI_BASE_URL": server.url},
        )
        assert server.requested.acquire(timeout=30)
        started.send_signal(signal.SIGINT)
        out, err = started.communicate(timeout=30)
    assert started.returncode == 130
    assert out.startswith("done     hello")
    assert err == "interrupted: 1 done, 5 tokens\n"


WORKING = """\
import signal


def work(times: int) -> str:
    for _ in range(times):
        signal.raise_signal(signal.SIGINT)
    return "worked"
"""


@pytest.mark.parametrize(("times", "ended"), [(1, "1 done"), (2, "no step ended")])
def test_an_interrupted_run_says_that_it_waits_for_a_synchronous_tool_unless_it_is_interrupted_again(
    run, write, times, ended
):
    write("working.py", WORKING)
    steps = f"steps: [{{id: a, type: tool, tool: work, args: {{times: {times}}}}}]\n"
    flow = write("flow.yaml", 'name: f\ntools: {work: "working:work"}\n' + steps)
    code, _, err = run("run", flow, "--no-checkpoint")
    waits = "waiting for work to end; press Ctrl-C again to stop now\n"
    assert code == 130
    assert err == f"{waits}interrupted: {ended}\n"


def test_a_run_that_is_interrupted_in_its_first_step_has_nothing_to_tell(run, write):
    write("stopping.py", STOPPING)
    flow = write("flow.yaml", 'name: f\ntools: {stop: "stopping:stop"}\nsteps: [{id: a, type: tool, tool: stop}]\n')
    assert run("run", flow, "--no-checkpoint") == (130, "", "interrupted: no step ended\n")


def test_a_reader_that_goes_away_ends_the_command_without_a_traceback(greet):
    started = subprocess.Popen(
        [COMMAND, "run", greet, "--mock-responses", "run.json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    started.stdout.close()
    err = started.stderr.read()
    started.stderr.close()
    assert started.wait(timeout=30) == 1
    assert "Traceback" not in err


@pytest.mark.parametrize(("declared", "calls"), [("", 1), ("[tools.find]\nread_only = true\n", 3)])
def test_what_the_config_says_of_a_tool_holds_for_the_tools_of_a_workflow(run, write, declared, calls):
    write("offbook.toml", declared)
    write("desk.py", "def find(order: int) -> str:\n    print('asked')\n    raise OSError('down')\n")
    flow = """name: desk
config: {provider: openai, model: demo, retry: {max_retries: 2, backoff_s: 0, jitter: 0}}
tools: {find: "desk:find"}
state: {}
steps: [{id: find, type: tool, tool: find, args: {order: 42}}]
"""
    write("flow.yaml", flow)
    code, out, _ = run("run", "flow.yaml", "--no-checkpoint", "--quiet")
    assert code == 1
    assert out.count("asked") == calls
