"""offbook exec: programs as they are, answered from a recording, recorded and broken."""

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import termios
from datetime import UTC, datetime
from pathlib import Path
from typing import get_args

import pytest

import offbook
from offbook import MockProvider, RecordingProvider
from offbook.cli import options
from offbook.recording.latency import LatencyModel
from offbook.recording.stores.locate import open_store
from offbook.session.recorder import RecordMode
from tests.cli import flows
from tests.cli.programs import ASK, PYTHON
from tests.works_with.model import serving_model

COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 30
TOUCH = [*PYTHON, "open('ran', 'w')"]

RELAY = """
import os, signal
numbers = [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM]
signal.alarm(20)
signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
for number in numbers:
    os.kill(os.getppid(), number)
    print(signal.Signals(signal.sigwait([number])).name, flush=True)
"""
"""Sends signals to whoever started it, and tells which come back."""

AT_TERMINAL = """
import fcntl, os, sys, termios
terminal = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a program whose terminal is the one that is named first."""

INTERRUPTED = """
import os, signal
signal.alarm(20)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
other = os.fork()
if not other:
    signal.alarm(20)
    signal.sigwait([signal.SIGINT])
    os._exit(0)
os.setpgid(0, 0)
print("ready", flush=True)
os.waitpid(other, 0)
os.kill(os.getppid(), signal.SIGTERM)
signal.sigwait([signal.SIGTERM])
print("passed on" if signal.SIGINT in signal.sigpending() else "left alone", flush=True)
"""
"""Tells whether a Ctrl-C is passed on to it, which it does not get from the terminal: a process that does waits for it.

What is passed on comes in order, so it would be there before the SIGTERM.
"""

SHELL = """
import os, signal, subprocess, sys

def state_of(pid):
    return subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout.strip()[0]

signal.alarm(20)
started = subprocess.Popen(sys.argv[1:], stdout=subprocess.PIPE, text=True, process_group=0)
child = int(started.stdout.readline())
os.kill(started.pid, signal.SIGTSTP)
_, status = os.waitpid(started.pid, os.WUNTRACED)
print(os.WIFSTOPPED(status), state_of(child), flush=True)
os.kill(started.pid, signal.SIGCONT)
print(started.stdout.readline().strip(), started.wait())
"""
"""Stops a program as a shell would, looks at the process whose number it prints, and lets it go on."""

STOPPED = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
print(os.getpid(), flush=True)
signal.sigwait([signal.SIGCONT])
print("went on", flush=True)
raise SystemExit(7)
"""

UNSTOPPABLE = """
import os, signal
signal.alarm(20)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTSTP])
os.kill(os.getppid(), signal.SIGTSTP)
signal.sigwait([signal.SIGTSTP])
"""
"""Is not stopped by the signal that does so, and goes on."""


@pytest.fixture
def execute(write, run_programs):
    """Run `offbook exec …` on `run.json`, which answers two calls: gives the code and both outputs."""
    write("run.json", flows.recording({"first": [{"content": "Hello!"}, {"content": "Bye!"}]}))
    return lambda *words: run_programs("exec", *words)


@pytest.fixture
def report(execute):
    """Run `offbook exec …` like `execute`: gives the code, what the program printed, and the report."""

    def report(*words):
        code, out, _ = execute("--report", "report.json", *words)
        return code, out, json.loads(Path("report.json").read_text())

    return report


@pytest.fixture
def weather(record):
    """`asked.json`, which answers `What is the weather?` and nothing else."""
    record("asked.json", question="What is the weather?", first="Sunny.")


def test_a_program_is_answered_from_the_recording(execute):
    code, out, err = execute("--replay", "run.json", "--", *ASK, "Hi", "See you")
    assert code == 0
    assert out == "Hello!\nBye!\n"
    assert err == "offbook: 2 calls, 2 served (run.json)\n"


@pytest.fixture
def of_january(execute, record):
    """`asked.json`, which was recorded on January 5th, 2026, and says so."""
    path = Path(record("asked.json", question="Today's date is 2026-01-05.", first="Fine."))
    path.write_text(re.sub(r'"recorded_at": "[^"]*"', '"recorded_at": "2026-01-05T12:00:00.000Z"', path.read_text()))
    return f"Today's date is {datetime.now(UTC):%Y-%m-%d}."


def test_what_differed_and_did_not_count_is_counted(execute, of_january):
    code, out, err = execute("--replay", "asked.json", "--report", "r.json", "--", *ASK, of_january)
    assert (code, out) == (0, "Fine.\n")
    assert "matched: 1 call but for a date or time\n" in err
    assert json.loads(Path("r.json").read_text())["but_for"] == {"a date or time": 1}


def test_to_record_again_is_not_proposed_where_a_date_differs(execute, record):
    record("asked.json", question="Book for 2026-12-24.", first="Fine.")
    code, _, err = execute("--replay", "asked.json", "--", *ASK, "Book for 2026-12-25.")
    assert code == 3
    assert "recording diff FIRST SECOND --propose --write" in err
    assert "record it again" not in err
    assert "record it again" in execute("--replay", "asked.json", "--", *ASK, "Book for two.")[2]


def test_an_exact_replay_answers_equal_requests_alone(execute, of_january):
    assert execute("--exact", "--replay", "asked.json", "--", *ASK, of_january)[:2] == (3, "status 422\n")
    assert execute("--exact", "--replay", "asked.json", "--", *ASK, "Today's date is 2026-01-05.")[0] == 0


def test_calls_are_events_and_metrics(execute):
    code, _, _ = execute("--replay", "run.json", "-o", "trace=t.jsonl", "-o", "metrics=m.prom", "--", *ASK, "Hi")
    assert code == 0
    assert [json.loads(line)["event"] for line in Path("t.jsonl").read_text().splitlines()] == ["ReplayServed"]
    assert 'offbook_mock_replays_total{matched_by="prompt_hash",workflow=""} 1.0' in Path("m.prom").read_text()


@pytest.mark.parametrize("captures", ["SPAN_ONLY", ""])
def test_spans_of_calls_have_their_messages_if_the_environment_asks_for_them(execute, monkeypatch, captures):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", captures)
    assert execute("--replay", "run.json", "-o", "spans=s.jsonl", "--", *ASK, "Hi")[0] == 0
    call, program = (json.loads(line) for line in Path("s.jsonl").read_text().splitlines())
    attributes = call["attributes"]
    assert call["parent_id"] == program["context"]["span_id"]
    said = [json.loads(attributes.get(f"gen_ai.{name}.messages", "null")) for name in ("input", "output")]
    parts = [each and each[0]["parts"] for each in said]
    assert parts == ([[{"type": "text", "content": text}] for text in ("Hi", "Hello!")] if captures else [None, None])


def test_a_collector_that_is_none_is_refused_before_the_program_runs(execute):
    code, out, err = execute("--replay", "run.json", "-o", "otel=localhost:4318", "--", *TOUCH)
    assert code == 2
    assert out == ""
    assert not Path("ran").exists()
    assert "use http://127.0.0.1:4318" in err


def test_the_dashes_may_be_left_out_and_further_options_are_those_of_the_program(execute):
    code, out, _ = execute("--replay", "run.json", *PYTHON, "import sys; print(sys.argv[1:])", "--quiet", "--", "-x")
    assert code == 3
    assert out == "['--quiet', '--', '-x']\n"


def test_quietly_nothing_is_printed_but_what_is_wrong(execute):
    assert execute("--replay", "run.json", "-q", "--", *ASK, "Hi") == (0, "Hello!\n", "")


def test_input_and_outputs_are_the_programs_own_byte_by_byte(execute):
    data = bytes(range(256)) * 1000
    copy = "import os, sys; data = sys.stdin.buffer.read(); os.write(2, data[:9]); sys.stdout.buffer.write(data)"
    command = [COMMAND, "exec", "--replay", "run.json", "-o", "allow_no_calls=true", "-q", "--", *PYTHON, copy]
    done = subprocess.run(command, input=data, capture_output=True, check=True, timeout=TIMEOUT_S)
    assert done.stdout == data
    assert done.stderr == data[:9]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(7)", 7),
        ("raise SystemExit(255)", 255),
        ("import os; os.kill(os.getpid(), 15)", 143),
        ("import os; os.kill(os.getpid(), 9)", 137),
    ],
)
def test_the_exit_code_is_the_programs_own(execute, program, code):
    assert execute("--replay", "run.json", "--quiet", "--", *PYTHON, program) == (code, "", "")


def test_a_miss_that_the_program_swallows_is_reported_with_what_differs_and_how_to_record_it_again(execute, weather):
    code, out, err = execute("--replay", "asked.json", "--quiet", "--", *ASK, "What is the whether?")
    assert code == 3
    assert out == "status 422\n"
    assert "offbook: call 1 has no answer: asked.json: " in err
    assert "-What is the weather?" in err
    assert "+What is the whether?" in err
    again = "record it again, or undo the change: offbook exec --record asked.json --record-mode fresh -- "
    assert f"hint: is asked.json the recording of this program? If it is, {again}" in err
    assert err.count("whether") == 2


def test_a_program_that_fails_by_a_miss_ends_with_3_too(execute, weather):
    program = ASK[-1] + "raise SystemExit(1)"
    assert execute("--replay", "asked.json", "--", *PYTHON, program, "Something else")[0] == 3


def test_a_miss_of_a_session_that_the_program_deletes_counts(report, weather):
    delete = """
connection = http.client.HTTPConnection(url.netloc)
connection.request("DELETE", url.path + "/_offbook/sessions/one")
print(connection.getresponse().status)
"""
    code, out, reported = report("--replay", "asked.json", "--", *PYTHON, ASK[-1] + delete, "one/Something else")
    assert code == 3
    assert out == "status 422\n204\n"
    assert reported["counts"]["missed"] == 1


def test_of_many_misses_the_first_are_reported(execute, weather):
    code, _, err = execute("--replay", "asked.json", "--", *ASK, *"abcdefghijkl")
    assert code == 3
    assert "12 calls, 12 missed (asked.json)" in err
    assert err.count("has no answer") == 10
    assert "2 more calls have no answer" in err


def test_what_the_recording_lacks_is_answered_with_a_default_if_lenient(execute, weather):
    code, out, err = execute("--replay", "asked.json", "--lenient", "--", *ASK, "Something else")
    assert code == 0
    assert out == "Mock response\n"
    assert "1 call, 1 answered with the default" in err
    assert execute("--replay", "asked.json", "-o", "default_response=Well.", "--", *ASK, "Else")[:2] == (0, "Well.\n")


def test_what_was_not_used_is_reported_and_a_mismatch_if_strict(execute):
    message = "offbook: 1 exchange of run.json was not used:\n  first[1]  answers Bye!\n"
    code, _, err = execute("--replay", "run.json", "--", *ASK, "Hi")
    assert code == 0
    assert err.endswith(message)
    assert execute("--replay", "run.json", "--strict-unused", "-q", "--", *ASK, "Hi") == (3, "Hello!\n", message)
    assert execute("--replay", "run.json", "--strict-unused", "-q", "--", *ASK, "Hi", "Bye")[0] == 0


def test_a_replay_that_was_asked_nothing_is_a_mismatch_unless_that_is_allowed(execute):
    code, _, err = execute("--replay", "run.json", "--quiet", "--", *ASK)
    assert code == 3
    assert "made no call to the server" in err
    assert "OPENAI_BASE_URL" in err
    assert execute("--replay", "run.json", "--quiet", "-o", "allow_no_calls=true", "--", *ASK) == (0, "", "")


def test_faults_fire_and_are_reported(execute):
    faults = ["--fault", "call=1 attempt=1: http_error 500", "--fault", "call=2 attempt=1: connection_reset"]
    code, out, err = execute("--replay", "run.json", *faults, "--", *ASK, "Hi", "Hi", "Bye", "Bye")
    assert code == 0
    assert out == "status 500\nHello!\nno answer\nBye!\n"
    assert "2 calls in 4 attempts, 2 served, 2 with a fault" in err
    assert "2 faults fired: call=1 attempt=1: http_error 500, call=2 attempt=1: connection_reset" in err
    _, _, err = execute("--replay", "run.json", "--fault", "call=1: http_error 500", "--", *ASK, "Hi", "Hi", "Hi")
    assert "3 faults fired: call=1: http_error 500 (3 attempts)\n" in err


def test_a_fault_that_never_fired_is_reported_and_makes_the_code_1(execute, write):
    plan = {"faults": [{"at": {"call": 9}, "fault": {"type": "timeout"}}]}
    write("plan.json", json.dumps(plan))
    code, _, err = execute("--replay", "run.json", "--quiet", "--plan", "plan.json", "--", *ASK, "Hi")
    assert code == 1
    assert (
        err
        == "offbook: the fault 'call=9: timeout' never fired: the run made 1 model call; the last place is 'call=1'\n"
    )


def test_clients_are_told_how_soon_to_try_again(execute):
    program = ASK[-1].replace("read = json.load(answer)", "raise SystemExit(answer.headers['retry-after-ms'])")
    options = ["--fault", "call=1: http_error 429", "-o", "retry_after_ms=2"]
    _, _, err = execute("--replay", "run.json", *options, "--", *PYTHON, program, "Hi")
    assert err.startswith("2\n")


def test_answers_take_the_time_that_they_are_told_to(execute):
    timed = "import time; began = time.monotonic()" + ASK[-1] + "print(time.monotonic() - began >= 0.03)"
    options = ["-o", "latency_model=constant", "-o", "latency_ms=30"]
    assert execute("--replay", "run.json", *options, "--", *PYTHON, timed, "Hi")[1] == "Hello!\nTrue\n"


def test_sessions_share_a_recording_and_leave_what_none_of_them_has_used(report, write):
    write("three.json", flows.recording({"a": [{"content": "1"}, {"content": "2"}, {"content": "3"}]}))
    options = ["--fault", "call=2 attempt=1: http_error 500", "--fault", "call=3: timeout"]
    asked = ("one/Hi", "two/Hi", "two/Ho", "two/Ho")
    code, out, reported = report("--replay", "three.json", *options, "--", *ASK, *asked)
    assert code == 1
    assert out == "1\n1\nstatus 500\n2\n"
    assert [(each["key"], each["position"]) for each in reported["unused"]] == [("a", 2)]
    assert reported["faults"]["unfired"] == ["call=3: timeout"]


def test_in_a_folder_a_session_answers_from_the_recording_of_its_name(execute, write):
    write("runs/one.json", flows.recording({"a": [{"content": "Ay"}]}))
    write("runs/two.json", flows.recording({"b": [{"content": "Bee"}, {"content": "See"}]}))
    code, out, err = execute("--replay", "runs", "--strict-unused", "--", *ASK, "one/Hi", "two/Hi")
    assert code == 3
    assert out == "Ay\nBee\n"
    assert "1 exchange of runs was not used:\n  b[1]  answers See  (runs/two.json, session two)\n" in err
    _, _, err = execute("--replay", "runs", "--", *ASK, "one/Hi", "one/Hi")
    assert "call 2 of session 'one' has no answer" in err
    assert "offbook exec --record PATH" in err


def test_a_report_lists_every_call_and_why_the_code_is_what_it_is(execute, weather):
    code, _, _ = execute(
        "--replay", "asked.json", "--report", "out/report.json", "--", *ASK, "What is the weather?", "x"
    )
    report = json.loads(Path("out/report.json").read_text())
    assert code == 3
    assert report["exit_code"] == 3
    assert report["command_exit_code"] == 0
    assert report["mode"] == "replay"
    assert report["recording"] == "asked.json"
    assert report["command"][-1] == "x"
    assert report["counts"] == {"calls": 2, "tries": 2, "served": 1, "missed": 1}
    assert [(call["method"], call["outcome"], call["status"]) for call in report["calls"]] == [
        ("POST", "served", 200),
        ("POST", "missed", 422),
    ]
    assert "request" not in report["calls"][0]
    assert [(miss["call"], miss["kind"]) for miss in report["misses"]] == [(2, "missing")]
    assert report["unused"] == []
    assert report["faults"] == {"fired": [], "unfired": []}


def test_a_report_is_there_without_a_code_while_the_program_runs(execute):
    read = "print(open('report.json').read())"
    _, out, _ = execute("--replay", "run.json", "--report", "report.json", "--", *PYTHON, read)
    assert json.loads(out)["exit_code"] is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "add --replay PATH"),
        (["--replay", "run.json", "--record", "new.json"], "exclude each other"),
        (["--replay", "missing.json"], "missing.json"),
        (["--replay", "broken.json"], "broken.json"),
        (["--replay", "."], "."),
        (["--replay", "run.json", "--fault", "call=3: htp_error 500"], "http_error"),
        (["--replay", "run.json", "--plan", "missing.json"], "missing.json"),
        (["--replay", "run.json", "--record-mode", "all"], "--record-mode requires --record"),
        (["--replay", "run.json", "--record-mode", "append"], "--record-mode requires --record"),
        (["--replay", "run.json", "--replay", "other.json"], "--replay is given 2 times"),
        (["--record", "new.json", "--record", "other.json"], "--record is given 2 times"),
        (["--record", "new.txt"], "name it new.json, or sqlite:///path.db"),
        (["--record", "."], "name it run.json, or sqlite:///path.db"),
        (["--record", "/"], "name it /run.json, or sqlite:///path.db"),
        (["--record", "new"], "name it new.json"),
        (["--replay", "run.json", "-o", "time_limit=0"], "time_limit"),
        (["--replay", "run.json", "--upstream", "openai=http://x"], "--upstream requires --record"),
        (["--replay", "run.json", "--report", "-"], "stdout belongs to the command"),
        (["--replay", "run.json", "--report", "run.json/x"], "run.json/x"),
        (["--replay", "run.json", "-o", "latency_ms=-1"], "latency_ms=-1: expected a number of at least 0"),
        (["--replay", "run.json", "-o", "port=70000"], "65535"),
        (["--record", "new.json", "--lenient"], "--lenient requires --replay"),
        (["--record", "new.json", "-o", "default_response=x"], "default_response requires --replay"),
        (["--record", "new.json", "--upstream", "opnai=http://x"], "openai"),
        (["--record", "new.json", "--upstream", "openai"], "openai=http://"),
        (["--record", "redis://host/0"], "redis://host/0"),
    ],
)
def test_bad_input_is_refused_before_the_program_runs(execute, write, options, said):
    write("broken.json", "{")
    code, out, err = execute(*options, "--", *TOUCH)
    assert code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err
    assert not Path("ran").exists()
    assert not Path("new.json").exists()


def test_a_port_that_is_taken_is_bad_input(execute):
    with socket.create_server(("127.0.0.1", 0)) as busy_socket:
        port = busy_socket.getsockname()[1]
        code, _, err = execute("--replay", "run.json", "-o", f"port={port}", "--", *TOUCH)
    assert code == 2
    assert f"cannot listen at 127.0.0.1:{port}" in err


def test_without_a_command_there_is_nothing_to_run(execute):
    code, out, err = execute("--replay", "run.json", "--")
    assert code == 2
    assert out == ""
    assert "a command is missing" in err


def test_the_programs_own_json_option_is_not_ours(execute):
    assert execute("--replay", "missing.json", "--", "true", "--json")[:2] == (2, "")


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("run.json", "--", "python", "a.py"), "offbook exec --replay run.json -- python a.py"),
        (("--", "python", "a.py", "--replay", "run.json"), "offbook exec --replay run.json -- python a.py"),
        (("python", "a.py", "--record", "x.json", "-v"), "offbook exec --record x.json -- python a.py -v"),
    ],
)
def test_a_recording_in_the_wrong_place_is_bad_input_and_the_right_command_is_shown(execute, typed, meant):
    code, out, err = execute(*typed)
    assert code == 2
    assert out == ""
    assert "the recording comes before the command" in err
    assert f"hint: type: {meant}\n" in err


def test_a_command_that_is_not_there_ends_as_shells_end(execute, write):
    assert execute("--replay", "run.json", "--", "no-such-command") == (
        127,
        "",
        "error: no-such-command: command not found\n",
    )
    write("tools.json", flows.recording({"any": [ASKING]}))
    err = execute("--replay", "tools.json", "--fault", "call=3: htp_error 500", "--", "true")[2]
    assert err.startswith("error: 'call=3: htp_error 500'")
    assert execute("--replay", "run.json", "--", "./run.json") == (126, "", "error: ./run.json: Permission denied\n")


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("agent.py", "type: … -- python agent.py"),
        ("agents agent.py", "leave out the quotes around the command: … -- agents agent.py"),
        ("other.py", "type: … -- python other.py"),
        ("./agnet.py", "did you mean 'agent.py'?"),
        ("agentt", "did you mean 'agents'?"),
        ("gaents", "did you mean 'agents'?"),
    ],
)
def test_of_a_program_that_is_not_there_what_is_meant_is_shown(execute, write, monkeypatch, typed, hint):
    write("agent.py", "")
    (program := write("bin/agents", "")).chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    code, _, err = execute("--replay", "run.json", "--", typed)
    assert code == 127
    assert err == f"error: {typed}: command not found\n  hint: {hint}\n"


def test_a_script_typed_like_a_program_is_refused_before_anything_else_is_said(execute, write, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write("agent.py", "")
    write("run.json", json.dumps({"_version": 2, "_tools": {"refund": [{"arguments": {}, "result": 1}]}}))
    code, _, err = execute("--replay", "run.json", "--", "agent.py")
    assert (code, err) == (127, "error: agent.py: command not found\n  hint: type: … -- python agent.py\n")


def test_the_environment_leads_to_the_server_past_proxies_and_holds_no_real_key(execute, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.invalid:1")
    monkeypatch.setenv("NO_PROXY", "intranet")
    show = "import json, os; print(json.dumps(dict(os.environ)))"
    _, out, _ = execute("--replay", "run.json", "--", *PYTHON, show)
    report = json.loads(out)
    assert report["OPENAI_BASE_URL"] == report["OFFBOOK_URL"] + "/v1"
    assert report["ANTHROPIC_BASE_URL"] == report["OLLAMA_HOST"] == report["OFFBOOK_URL"]
    assert report["OFFBOOK_URL"].endswith(f"/t/{report['OPENAI_API_KEY']}")
    assert report["NO_PROXY"] == report["no_proxy"] == "intranet,127.0.0.1,localhost"
    assert "PYTHONUNBUFFERED" not in report or "PYTHONUNBUFFERED" in os.environ


@pytest.fixture
def upstream():
    """A stand-in for a real API, which takes one key only."""
    with offbook.serving(responses={"a": [{"content": "Hello!"}, {"content": "Bye!"}]}, api_key="sk-real") as server:
        yield server


def test_what_is_recorded_where_the_agent_would_have_asked_replays_when_that_is_gone(execute, upstream, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", f"{upstream.url}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    code, out, err = execute("--record", "new.json", "--", *ASK, "Hi", "See you")
    assert code == 0
    assert out == "Hello!\nBye!\n"
    assert err == "offbook: 2 calls, 2 recorded (new.json)\n"
    assert b"sk-real" not in Path("new.json").read_bytes()
    upstream.stop()
    assert execute("--replay", "new.json", "-q", "--strict-unused", "--", *ASK, "Hi", "See you") == (0, out, "")


def test_an_upstream_that_is_named_comes_before_that_of_the_environment(execute, upstream, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    options = ["--record", "new.json", "--upstream", f"openai={upstream.url}/v1"]
    assert execute(*options, "-q", "--", *ASK, "Hi") == (0, "Hello!\n", "")
    assert execute(*options, "-q", "--record-mode", "new", "--", *ASK, "Hi", "Ho") == (0, "Hello!\nBye!\n", "")
    assert open_store("new.json").load().size == 2
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    assert execute(*options, "-q", "--record-mode", "all", "--", *ASK, "Hi")[1] == "status 401\n"


@pytest.fixture
def recorded(execute, upstream, monkeypatch):
    """The recording `new.json` of one call, and the options to record there again."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    options = ["--record", "new.json", "--upstream", f"openai={upstream.url}/v1"]
    assert execute(*options, "-q", "--", *ASK, "Hi") == (0, "Hello!\n", "")
    return options


def contents(path):
    return [exchange.content for _, exchange in open_store(path).load()]


@pytest.mark.parametrize("mode", ["all", "fresh"])
def test_a_program_that_fails_leaves_the_recording_as_it_was(execute, recorded, mode, caplog):
    failing = [*ASK[:-1], ASK[-1] + "\nsys.exit(4)"]
    code, out, err = execute(*recorded, "--record-mode", mode, "--", *failing, "Hi")
    assert code == 4
    assert out == "Bye!\n"
    assert "offbook: 1 call, 1 recorded (new.json.failed)" in err
    assert contents("new.json") == ["Hello!"]
    assert contents("new.json.failed") == ["Bye!"]
    assert "new.json: the run failed, so it stays as it was; what was recorded is in new.json.failed" in caplog.text


@pytest.mark.parametrize(
    ("mode", "message"),
    [("all", "because the new calls failed"), ("fresh", "no call got an answer, so it stays as it was")],
)
def test_a_call_that_fails_costs_no_recorded_answer_even_if_the_program_swallows_it(
    execute, recorded, monkeypatch, caplog, mode, message
):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-other")
    code, out, _ = execute(*recorded, "--record-mode", mode, "--", *ASK, "Hi")
    assert code == 0
    assert out == "status 401\n"
    assert message in caplog.text
    assert contents("new.json") == ["Hello!"]


def test_what_was_served_more_often_than_recorded_is_reported_and_a_mismatch_if_strict(execute, recorded):
    code, _, err = execute("--replay", "new.json", "--", *ASK, "Hi", "Hi")
    assert code == 0
    assert "1 exchange of new.json was served more often than recorded:\n" in err
    assert "demo: Hi  2 times instead of once" in err
    options = ("--replay", "new.json", "-q", "--strict-unused", "--report", "report.json")
    assert execute(*options, "--", *ASK, "Hi", "Hi")[0] == 3
    assert json.loads(Path("report.json").read_text())["overused"][0]["served"] == 2
    assert execute(*options, "--", *ASK, "Hi") == (0, "Hello!\n", "")
    assert execute(*options, "--", *ASK, "one/Hi", "two/Hi")[0] == 0
    assert execute(*options, "--fault", "call=1: slow 1", "--", *ASK, "Hi", "Hi")[0] == 0


@pytest.mark.parametrize("mode", ["append", "all", "fresh"])
def test_a_run_whose_calls_got_no_answer_adds_nothing_to_a_recording(execute, recorded, mode):
    before = Path("new.json").read_bytes()
    options = ("--record", "new.json", "--record-mode", mode, "--upstream", "openai=http://127.0.0.1:1/v1")
    code, out, err = execute(*options, "--", *ASK, "Hi", "Ho")
    assert code == 1
    assert out == "status 502\nstatus 502\n"
    assert "no call got an answer" in err
    assert Path("new.json").read_bytes() == before


ASKING = {"content": "", "tool_calls": [{"name": name, "arguments": {}} for name in ("find_order", "refund")]}


def test_a_replay_says_which_tools_the_program_runs_for_real(execute, write):
    write("tools.json", flows.recording({"any": [ASKING]}))
    _, _, err = execute("--replay", "tools.json", "--", *ASK, "Hi")
    assert (
        "no result of find_order, refund is recorded: a tool is refused if it can be taken over, and else runs" in err
    )
    assert "for real" not in execute("--replay", "tools.json", "--quiet", "--", *ASK, "Hi")[2]
    assert "for real" not in execute("--replay", "run.json", "--", *ASK, "Hi", "Ho")[2]


def test_an_edit_that_has_no_effect_is_warned_of(execute, recorded):
    Path("new.json").write_text(Path("new.json").read_text().replace('"content": "Hello!"', '"content": "Hullo!"', 1))
    _, out, err = execute("--replay", "new.json", "--", *ASK, "Hi")
    assert out == "Hello!\n"
    assert 'the bytes differ from the fields: content; remove "wire" from the entry to serve the fields' in err


REPORTS = [
    *PYTHON,
    """
import json, os, urllib.request
with open(os.environ["OFFBOOK_EFFECTS"], "a") as file:
    print(json.dumps({"tool": "refund", "arguments": {"order": 42}}), file=file)
body = json.dumps({"tool": "mail", "outcome": "failed"}).encode()
urllib.request.urlopen(urllib.request.Request(os.environ["OFFBOOK_URL"] + "/_offbook/effects", body))
""",
]


def test_effects_that_a_program_reports_are_shown(execute):
    options = ["--replay", "run.json", "-o", "allow_no_calls=true", "--report", "report.json"]
    code, _, err = execute(*options, "--", *REPORTS)
    assert code == 0
    assert "2 effects reported: refund(order=42), mail() failed" in err
    effects = json.loads(Path("report.json").read_text())["effects"]
    assert [(effect["tool"], effect["outcome"]) for effect in effects] == [("refund", "done"), ("mail", "failed")]


def test_effects_belong_to_the_outermost_run(execute, monkeypatch, tmp_path):
    monkeypatch.setenv("OFFBOOK_EFFECTS", str(tmp_path / "outer.jsonl"))
    _, _, err = execute("--replay", "run.json", "-o", "allow_no_calls=true", "--", *REPORTS)
    assert "refund" in Path("outer.jsonl").read_text()
    assert "refund" not in err


def test_a_report_that_is_not_an_effect_is_bad_input(execute):
    writes = "import os; open(os.environ['OFFBOOK_EFFECTS'], 'w').write('paid 42')"
    code, _, err = execute("--replay", "run.json", "-o", "allow_no_calls=true", "--", *PYTHON, writes)
    assert code == 2
    assert "OFFBOOK_EFFECTS: line 1: it is not JSON" in err


def test_a_recording_that_is_kept_to_is_a_replay(execute, weather):
    code, _, err = execute("--record", "asked.json", "--record-mode", "once", "--quiet", "--", *ASK, "Else")
    assert code == 3
    assert "call 1 has no answer" in err


def test_nothing_asked_while_recording_is_a_mismatch_unless_that_is_allowed_and_leaves_no_file(execute):
    code, _, err = execute("--record", "new.json", "--quiet", "--", *ASK)
    assert code == 3
    assert "made no call to the server" in err
    assert "OPENAI_BASE_URL" in err
    assert execute("--record", "new.json", "--quiet", "-o", "allow_no_calls=true", "--", *ASK) == (0, "", "")
    assert not Path("new.json").exists()


def test_a_recording_that_was_there_stays_though_it_is_empty(execute, write):
    write("new.json", '{"_version": 2}')
    assert execute("--record", "new.json", "--", *ASK)[0] == 3
    assert Path("new.json").exists()


def test_a_database_is_made_though_nothing_is_recorded(execute):
    assert execute("--record", "sqlite:///new.db", "--", *ASK)[0] == 3
    assert Path("new.db").exists()


def test_what_failed_while_recording_is_reported_even_quietly_and_in_the_report(execute, monkeypatch):
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")
    code, out, err = execute("--record", "new.json", "-q", "--report", "report.json", "--", *ASK, "Hi", "Ho")
    failure = "no answer from http://127.0.0.1:1 (ConnectError: All connection attempts failed)"
    assert code == 1
    assert out == "status 502\nstatus 502\n"
    assert err.startswith(f"offbook: 2 calls, 2 recorded, of which 2 failed: {failure} (new.json)\n")
    assert "no call got an answer, so there is nothing to replay\n  hint: recording calls the real APIs: check" in err
    report = json.loads(Path("report.json").read_text())
    assert report["counts"] == {"calls": 2, "tries": 2, "recorded": 2, "failed": 2}
    assert [call["failure"] for call in report["calls"]] == [failure] * 2


def test_a_call_that_cannot_be_recorded_fails_the_command_though_the_program_goes_on(execute, upstream):
    options = ["--record", "runs/new.json", "--upstream", f"openai={upstream.url}/v1"]
    program = """
import contextlib, os, shutil, urllib.request
shutil.rmtree("runs")
with contextlib.suppress(Exception):
    urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/models").read()
"""
    code, out, err = execute(*options, "--report", "report.json", "--", sys.executable, "-c", program)
    assert code == 1
    assert out == ""
    assert err.endswith("offbook: 1 call could not be recorded in runs/new.json: no such file or directory\n")
    assert "Traceback" not in err
    report = json.loads(Path("report.json").read_text())
    assert report["exit_code"] == 1
    assert report["counts"]["unrecorded"] == 1
    assert report["calls"][0]["failure"] == "not recorded: no such file or directory"


@pytest.mark.parametrize("key", ["", "sk-wrong"])
def test_a_real_api_that_refuses_is_reported_by_its_status_and_by_the_key_that_is_not_set(
    execute, upstream, key, monkeypatch
):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    options = ["--record", "new.json", "--upstream", f"openai={upstream.url}/v1"]
    _, _, err = execute(*options, "--", *ASK, "Hi")
    failed = f"offbook: 1 call, 1 recorded, of which 1 failed: status 401 from {upstream.url} (new.json)\n"
    hint = "  hint: recording makes live calls, and no key is set: export OPENAI_API_KEY=…\n"
    assert err == failed + ("" if key else hint)


@pytest.mark.parametrize(("key", "code"), [("", 1), ("k", 1), ("", 0)])
def test_a_program_that_fails_before_its_first_call_may_lack_a_key(execute, monkeypatch, key, code):
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    _, _, err = execute("--record", "new.json", "--", sys.executable, "-c", f"raise SystemExit({code})")
    hint = "it failed before its first call; SDKs want a key, and none is set: OPENAI_API_KEY, ANTHROPIC_API_KEY, "
    assert (hint in err) == (code == 1 and not key)


def test_misses_behind_a_fault_are_not_a_reason_to_record_again(execute, weather):
    options = ["--replay", "asked.json", "--fault", "call=1: unknown_tool"]
    code, _, err = execute(*options, "--", *ASK, "What is the weather?", "What?")
    assert code == 3
    assert "call 2 has no answer: asked.json: " in err
    assert "a fault fired before this" in err
    assert "record it again" not in err
    assert "the recording does not match the calls" not in err


def test_an_option_behind_the_command_is_no_reason_to_record_again(execute, weather):
    code, _, err = execute("--replay", "asked.json", "--", *ASK, "--fault", "call=1: timeout")
    assert code == 3
    assert "hint: --fault went to the program: put options of offbook before the command" in err
    assert "record it again" not in err


def test_misses_are_numbered_as_faults_are(report, weather):
    options = ["--replay", "asked.json", "--fault", "call=1: http_error 500"]
    code, _, reported = report(*options, "--", *ASK, "Hi", "Hi", "x/Hi", "Ho")
    assert code == 3
    assert reported["counts"] == {"calls": 3, "tries": 4, "fault": 3, "missed": 1}
    assert [each["call"] for each in reported["misses"]] == [2]


def test_a_miss_of_what_is_no_call_of_a_model_is_named_by_its_place(execute, weather):
    program = ASK[-1].replace("/v1/chat/completions", "/v1/files")
    _, _, err = execute("--replay", "asked.json", "--", *PYTHON, program, "Hi", "x/Hi")
    assert "offbook: POST /v1/files has no answer: " in err
    assert "offbook: POST /v1/files of session 'x' has no answer: " in err


def test_what_is_left_is_reported_in_ten_lines_with_short_keys(execute):
    async def work():
        async with RecordingProvider(MockProvider(default_response="x"), "many.json") as recorder:
            for number in range(12):
                await recorder.complete([{"role": "user", "content": f"Question {number}"}], model="demo")

    offbook.run(work())
    _, _, err = execute("--replay", "many.json", "--", *ASK, "Question 0")
    lines = err.splitlines()
    assert lines[1] == "offbook: 11 exchanges of many.json were not used:"
    assert re.fullmatch(r"  [0-9a-f]{12}…\[0\]  demo: Question \d+", lines[2])
    assert len(lines) == 13
    assert lines[-1] == "  and 1 more"


def test_a_step_that_never_came_is_reported_with_how_steps_are_named(execute):
    code, _, err = execute("--replay", "run.json", "--fault", "step=foo: timeout", "--", *ASK, "Hi")
    assert code == 1
    assert (
        "the fault 'step=foo: timeout' never fired: step 'foo' made no model call\n"
        "  hint: over the wire, a call names its step in x-offbook-step" in err
    )
    assert "x-offbook-step" in err


def test_a_program_that_does_not_end_in_time_is_ended(execute):
    program = "import signal; signal.alarm(20); signal.pause()"
    options = ["--replay", "run.json", "-q", "-o", "time_limit=0.5", "--report", "report.json"]
    code, _, err = execute(*options, "--", *PYTHON, program)
    assert code == 124
    assert "the command reached its time limit and was stopped" in err
    assert json.loads(Path("report.json").read_text())["exit_code"] == 124


LEAVES_ONE = """
import os, signal
signal.signal(signal.SIGALRM, lambda *_: print("still there", flush=True))
signal.alarm(20)
os.fork()
signal.pause()
"""


def test_without_a_terminal_what_the_program_has_started_is_ended_too(execute):
    command = [COMMAND, "exec", "--replay", "run.json", "-q", "-o", "time_limit=1", "--", *PYTHON, LEAVES_ONE]
    done = subprocess.run(
        command, stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S, start_new_session=True, check=False
    )
    assert done.returncode == 124
    assert done.stdout == ""


def test_a_program_that_ends_in_time_ends_as_it_does(execute):
    assert execute("--replay", "run.json", "-q", "-o", "time_limit=30", "--", *PYTHON, "raise SystemExit(7)") == (
        7,
        "",
        "",
    )


def test_an_ollama_host_may_be_without_a_scheme(execute, monkeypatch):
    program = ASK[-1].replace("/v1/chat/completions", "/api/chat").replace('"messages"', '"stream": False, "messages"')
    program = program.replace('read["choices"][0]["message"]', 'read["message"]')
    with offbook.serving(responses={"a": {"content": "Hello!"}}) as ollama:
        monkeypatch.setenv("OLLAMA_HOST", ollama.url.removeprefix("http://"))
        assert execute("--record", "new.json", "-q", "--", *PYTHON, program, "Hi") == (0, "Hello!\n", "")


def test_a_signal_that_ends_the_program_is_its_end(execute):
    """The program asks for it, waits, and does not handle it."""
    program = "import os, signal; signal.alarm(20); os.kill(os.getppid(), signal.SIGTERM); signal.pause()"
    assert execute("--replay", "run.json", "-q", "--", *PYTHON, program) == (143, "", "")


def test_signals_are_passed_on_to_the_program(execute):
    command = [COMMAND, "exec", "--replay", "run.json", "-o", "allow_no_calls=true", "-q", "--", *PYTHON, RELAY]
    done = subprocess.run(
        command, capture_output=True, text=True, check=True, timeout=TIMEOUT_S, start_new_session=True
    )
    assert done.stdout.split() == ["SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM"]


def test_a_signal_that_is_ignored_is_ignored_by_the_program(execute):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        code = "import signal; print(signal.getsignal(signal.SIGHUP) is signal.SIG_IGN)"
        assert execute("--replay", "run.json", "--", *PYTHON, code)[1] == "True\n"
    finally:
        signal.signal(signal.SIGHUP, before)


def test_ctrl_c_at_a_terminal_ends_us_not_before_the_program_and_is_not_sent_to_it_twice(execute):
    ours, theirs = pty.openpty()
    command = [str(COMMAND), "exec", "--replay", "run.json", "-o", "allow_no_calls=true", "--", *PYTHON, INTERRUPTED]
    started = subprocess.Popen(
        [*PYTHON, AT_TERMINAL, os.ttyname(theirs), *command],
        stdin=theirs,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert started.stdout.readline() == "ready\n"
    os.write(ours, termios.tcgetattr(theirs)[6][termios.VINTR])
    out, err = started.communicate(timeout=TIMEOUT_S)
    os.close(ours)
    os.close(theirs)
    assert started.returncode == 0
    assert out == "left alone\n"
    assert err.startswith("offbook: 0 calls")


INTERRUPTED_ONCE = """
import os, signal
signal.alarm(20)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
print("ready", flush=True)
signal.sigwait([signal.SIGINT])
os.kill(os.getppid(), signal.SIGTERM)
signal.sigwait([signal.SIGTERM])
print("twice" if signal.SIGINT in signal.sigpending() else "once", flush=True)
"""
"""Tells how often it is interrupted. What is passed on comes in order, so it would be there before the SIGTERM."""


def test_a_signal_to_our_process_group_reaches_the_program_once(execute):
    command = [
        COMMAND,
        "exec",
        "--replay",
        "run.json",
        "-o",
        "allow_no_calls=true",
        "-q",
        "--",
        *PYTHON,
        INTERRUPTED_ONCE,
    ]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert started.stdout.readline() == "ready\n"
    os.killpg(started.pid, signal.SIGINT)
    out, _ = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode == 0
    assert out == "once\n"


def test_it_stops_with_the_program_and_goes_on_with_it(execute):
    command = [COMMAND, "exec", "--replay", "run.json", "-q", "--", *PYTHON, STOPPED]
    done = subprocess.run(
        [*PYTHON, SHELL, *command],
        capture_output=True,
        text=True,
        check=True,
        timeout=TIMEOUT_S,
        start_new_session=True,
    )
    assert done.stdout.splitlines() == ["True T", "went on 7"]


def test_it_goes_on_beside_a_program_that_does_not_let_itself_be_stopped(execute):
    command = [COMMAND, "exec", "--replay", "run.json", "-q", "--", *PYTHON, UNSTOPPABLE + ASK[-1], "Hi"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S, process_group=0)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Hello!\n", done.stderr


def test_the_choices_of_the_commands_are_those_of_the_library():
    assert get_args(options.RecordMode) == get_args(RecordMode)
    assert get_args(options.LatencyModel) == get_args(LatencyModel)


def test_help_has_examples(execute):
    code, out, _ = execute("--help")
    assert code == 0
    assert "offbook exec --replay" in out


@pytest.mark.parametrize("command", ["exec", "explore"])
@pytest.mark.parametrize("word", ["{mcp}", "--mcp-config={mcp}"])
def test_a_config_in_the_command_requires_the_option_that_names_it(run, write, command, word):
    write("run.json", HELLO)
    code, _, complaint = run(command, "--replay", "run.json", "--", *TOUCH, word)
    assert code == 2
    assert not Path("ran").exists()
    assert f"{word}: {{mcp}} requires --mcp" in complaint
    assert "--mcp .mcp.json" in complaint


READS_ANOTHER = """
import json, os, urllib.request
body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "Hi"}]}).encode()
assert os.environ["OPENAI_HOST"] + "/v1" == os.environ["MY_LLM_URL"]
request = urllib.request.Request(os.environ["MY_LLM_URL"] + "/chat/completions", body)
with urllib.request.urlopen(request) as answer:
    print(json.load(answer)["choices"][0]["message"]["content"])
"""


HELLO = '{"_version": 2, "any": {"content": "Hello"}}'


@pytest.mark.parametrize("command", ["exec", "explore"])
def test_a_program_that_reads_another_variable_is_pointed_at_the_server_as_is_a_known_agent(run, write, command):
    write("run.json", HELLO)
    write("goose", f"#!{sys.executable}\n{READS_ANOTHER}").chmod(0o755)
    listed = ["--list", "--quiet"] if command == "explore" else []
    options = ["--replay", "run.json", *listed, "-o", "base_url_vars=MY_LLM_URL=/v1"]
    code, _, complaint = run(command, *options, "--", "./goose")
    assert code == 0, complaint


@pytest.mark.parametrize("command", ["exec", "explore"])
@pytest.mark.parametrize("name", ["MY LLM", "1URL", "URL=v1", "URL=/v1?x"])
def test_what_is_no_variable_is_refused_before_the_program_runs(run, write, command, name):
    write("run.json", HELLO)
    code, _, complaint = run(command, "--replay", "run.json", "-o", f"base_url_vars={name}", "--", *TOUCH)
    assert code == 2
    assert "MY_LLM_URL=/v1" in complaint
    assert not Path("ran").exists()


SENDS_A_DANGLING_CALL = """
import json, os, urllib.error, urllib.request
call = {"id": "c1", "type": "function", "function": {"name": "pay", "arguments": "{}"}}
messages = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
body = json.dumps({"model": "gpt-4o", "messages": [*messages, {"role": "user", "content": "Go on"}]}).encode()
try:
    print(urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body).status)
except urllib.error.HTTPError as error:
    print(error.code, json.load(error)["error"]["type"])
"""


def test_a_request_that_the_api_would_refuse_is_refused_and_fails_the_run(execute, write):
    write("run.json", json.dumps({"_version": 2, "any": {"content": "x"}}))
    code, out, err = execute("--replay", "run.json", "--", sys.executable, "-c", SENDS_A_DANGLING_CALL)
    assert code == 3
    assert out == "400 invalid_request_error\n"
    assert "the API would refuse this request (400): messages.1: tool call 'c1' has no result" in err
    assert "the real API would refuse requests of the command" in err


def test_lenient_requests_are_answered(execute, write):
    write("run.json", json.dumps({"_version": 2, "any": {"content": "x"}}))
    options = ["--replay", "run.json", "-o", "lenient_requests=true"]
    code, out, _ = execute(*options, "--", sys.executable, "-c", SENDS_A_DANGLING_CALL)
    assert code == 0
    assert out == "200\n"


@pytest.mark.parametrize(
    ("program", "code", "how"),
    [
        ("raise SystemExit(7)", 7, "failed"),
        ("import os; os.kill(os.getpid(), 9)", 137, "was ended by signal 9"),
        ("import os; os.kill(os.getpid(), 15)", 143, "was ended by signal 15"),
    ],
)
def test_a_program_that_fails_without_a_call_is_told_how_to_reach_the_server(execute, program, code, how):
    ended, _, err = execute("--replay", "run.json", "--", *PYTHON, program)
    assert ended == code
    assert f"the command {how}, and made no call to the server\n  hint: if it got that far, let its clients" in err


def test_an_option_behind_the_command_is_noted(execute, weather):
    err = execute("--replay", "asked.json", "--", *ASK, "What is the weather?", "--run-tools")[2]
    assert "note: the program gets --run-tools; options of offbook exec come before the command\n" in err


def test_a_config_beside_the_script_that_is_not_read_is_noted(execute, tmp_path):
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/offbook.toml").write_text("[tools.refund]\neffect = true\n")
    (tmp_path / "shop/agent.py").write_text("")
    err = execute("--replay", "run.json", "--", sys.executable, "shop/agent.py")[2]
    assert "note: shop/offbook.toml is not read: a config is looked for in the working folder, and above it\n" in err


LOOKS_ELSEWHERE = """
import socket, sys
sys.audit("socket.getaddrinfo", "traces.example.org", 443, 0, 0, 0)
sys.audit("socket.getaddrinfo", "localhost", 443, 0, 0, 0)
sys.audit("socket.connect", socket.socket(), ("127.0.0.1", 1))
"""


def test_the_other_hosts_that_a_replayed_program_reaches_are_listed(execute):
    err = execute("--replay", "run.json", "-o", "allow_no_calls=true", "--", sys.executable, "-c", LOOKS_ELSEWHERE)[2]
    assert "the program also connects to traces.example.org, which is not replayed" in err
    assert "localhost" not in err


def test_a_known_program_is_announced_and_gets_the_environment_of_its_preset(execute, tmp_path):
    script = tmp_path / "claude"
    script.write_text(f"#!{sys.executable}\nimport os; print(os.environ.get('DISABLE_AUTOUPDATER'))\n")
    script.chmod(0o755)
    options = ["--replay", "run.json", "-o", "allow_no_calls=true"]
    _, out, err = execute(*options, "--", "./claude")
    assert (out, "offbook: recognised: claude-code; its own tools run for real\n" in err) == ("1\n", True)
    _, out, err = execute(*options, "-o", "preset=none", "--", "./claude")
    assert (out, "recognised" in err) == ("None\n", False)


OWN_PRESET = """
[presets.mine]
title = "My agent"
commands = ["my-agent"]
arguments = ["--at", "{url}"]
normalise = {mask = ['run \\d+']}
"""


def test_a_recording_of_a_known_program_ignores_what_differs_in_each_of_its_runs(execute, tmp_path):
    (tmp_path / "offbook.toml").write_text(OWN_PRESET)
    script = tmp_path / "my-agent"
    own = "import sys; at, given, *sys.argv[1:] = sys.argv[1:]; assert at == '--at' and given.startswith('http:')"
    script.write_text(f"#!{sys.executable}\n{own}\n{ASK[-1]}")
    script.chmod(0o755)
    with serving_model({}, "Hello!") as url:
        options = ["--record", "mine.json", "--upstream", f"openai={url}/v1"]
        code, out, err = execute(*options, "--", "./my-agent", "run 1")
    assert (code, out) == (0, "Hello!\n"), err
    for asked, expected in (("run 2", 0), ("run away", 3)):
        assert execute("--replay", "mine.json", "--", "./my-agent", asked)[0] == expected


DETACHES = """
import subprocess, sys
stays = [sys.executable, "-c", "import sys; sys.stdin.read()"]
null = subprocess.DEVNULL
subprocess.Popen(stays, start_new_session=True, stdin=int(sys.argv[1]), stdout=null, stderr=null)
"""


@pytest.mark.skipif(not Path("/proc").exists(), reason="needs /proc")
@pytest.mark.parametrize("detached", [True, False])
def test_a_process_that_the_program_leaves_running_is_named(write, run_programs, detached):
    write("run.json", '{"_version": 2, "any": {"content": "Hi"}}')
    write("detaches.py", DETACHES if detached else "")
    reader, writer = os.pipe()
    os.set_inheritable(reader, True)
    try:
        _, _, err = run_programs("exec", "--replay", "run.json", "--", sys.executable, "detaches.py", str(reader))
    finally:
        os.close(writer)  # it ends
        os.close(reader)
    assert ("still running after the program has ended:" in err) is detached
