"""offbook serve: a stand-in that stays up until it is told to end."""

import http.client
import io
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from contextlib import closing
from pathlib import Path
from queue import Queue
from urllib.parse import urlsplit

import pytest

import offbook
from offbook.cli.main import main
from offbook.cli.output.wire import MAX_ALIKE, MAX_WAITING, RATE_S, WireCallLog
from offbook.recording.stores.locate import open_store
from offbook.wire.session import WireCall
from tests.cli import flows
from tests.mcp.wiring import call, post

COMMAND = Path(sys.executable).parent / "offbook"
TIMEOUT_S = 30
URL = re.compile(r"http://[^/\s\"]+:\d+(/t/\w+)?")
TWO = {"a": [{"content": "Hello!"}, {"content": "Bye!"}]}


class Printed(io.StringIO):
    """Standard output, whose pieces can be waited for."""

    def __init__(self):
        super().__init__()
        self.pieces = Queue()

    def write(self, text):
        length = super().write(text)
        self.pieces.put(text)
        return length


def ask(url, text, *, path="/v1/chat/completions", key=""):
    """The status that a question gets, and the answer."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.netloc, timeout=TIMEOUT_S)
    body = {"model": "demo", "messages": [{"role": "user", "content": text}]}
    with closing(connection):
        connection.request(
            "POST", place.path + path, json.dumps(body), {"authorization": f"Bearer {key}"} if key else {}
        )
        answer = connection.getresponse()
        status, read = answer.status, answer.read()
    return status, json.loads(read)["choices"][0]["message"]["content"] if status == 200 else read.decode()


@pytest.fixture
def serve(write, capfd, monkeypatch):
    """Run `offbook serve …`, be its client once it is ready, and end it: gives the code and both outputs."""
    write("run.json", flows.recording(TWO))

    def serve(*words, client=lambda url: None, ending=signal.SIGTERM):
        printed = Printed()
        problems = []

        def work():
            pieces = iter(lambda: printed.pieces.get(timeout=TIMEOUT_S), None)
            ready = next(filter(None, map(URL.search, pieces)), None)
            if ready is None:
                return
            try:
                client(ready[0])
            except BaseException as error:
                problems.append(error)
            os.kill(os.getpid(), ending)

        with monkeypatch.context() as patched:
            patched.setattr(sys, "argv", ["offbook", "serve", *map(str, words)])
            patched.setattr(sys, "stdout", printed)
            thread = threading.Thread(target=work)
            thread.start()
            try:
                with pytest.raises(SystemExit) as ended:
                    main()
            finally:
                printed.pieces.put(None)
                thread.join()
        assert problems == []
        return ended.value.code or 0, printed.getvalue(), capfd.readouterr().err

    return serve


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_it_serves_until_it_is_told_to_end_and_reports_what_it_served(serve, ending):
    answers = []
    code, out, err = serve(
        "--replay", "run.json", "--json", client=lambda url: answers.append(ask(url, "Hi")), ending=ending
    )
    ready, ended = map(json.loads, out.splitlines())
    assert code == 0
    assert answers == [(200, "Hello!")]
    assert ready["env"]["OPENAI_BASE_URL"] == ready["url"] + "/v1"
    assert ready["env"]["OPENAI_API_KEY"] == "offbook"
    assert ended["counts"] == {"calls": 1, "tries": 1, "served": 1}
    assert ended["unused"] == [
        {"key": "a", "position": 1, "about": "answers Bye!", "recording": "run.json", "session": ""}
    ]
    assert "calls" not in ended
    assert err == "POST /v1/chat/completions  200  served  demo\n"


def test_it_says_how_to_be_used_and_what_is_left(serve):
    code, out, err = serve("--replay", "run.json", "--fault", "call=1: http_error 500", "--fault", "call=7: timeout")
    url = URL.search(out)[0]
    assert code == 0
    assert f"  export OPENAI_BASE_URL={url}/v1\n" in out
    assert f"  export OFFBOOK_URL={url}\n" in out
    assert f"{url}/s/NAME" in out
    assert "x-offbook-session: NAME" in out
    assert out.endswith(
        "offbook: 0 calls (run.json)\n"
        "offbook: 2 exchanges of run.json were not used:\n  a[0]  answers Hello!\n  a[1]  answers Bye!\n"
    )
    assert err.count("never fired") == 2


def test_mcp_servers_are_served_by_session_and_their_config_is_printed(serve, write):
    tools = {"notes.write": [{"arguments": {"text": "x"}, "result": "#1"}]}
    write("run.json", json.dumps({"_version": 2, "_tools": tools}))
    write(".mcp.json", json.dumps({"mcpServers": {"notes": {"command": "no-such-server"}}}))
    answers = []

    def client(url):
        message = post(call("write", {"text": "x"}, era="modern"))
        for prefix in ("", "/s/other", ""):
            request = urllib.request.Request(f"{url}{prefix}/mcp/notes", message.body, message.headers)
            with urllib.request.urlopen(request) as answered:
                answers.append("result" in json.load(answered))

    code, out, err = serve("--replay", "run.json", "--mcp", ".mcp.json", client=client)
    url = URL.search(out)[0]
    assert code == 0
    assert answers == [True, True, False]
    assert f"  {url}/mcp/notes: the MCP server notes\n" in out
    assert re.search(r"  export OFFBOOK_MCP_CONFIG=/\S+/mcp.json\n", out)
    assert "not used" not in out
    assert "tools/call notes.write" in err


def test_mcp_servers_are_not_recorded_behind_a_key(serve, write):
    write(".mcp.json", json.dumps({"mcpServers": {"notes": {"command": "no-such-server"}}}))
    code, _, err = serve("--record", "new.json", "--mcp", ".mcp.json", "--api-key", "k")
    assert code == 2
    assert "not recorded behind an API key" in err
    assert not Path("new.json").exists()


def test_a_miss_belongs_to_the_client_and_is_reported_when_it_happens(serve, write):
    write("other.json", flows.recording({"a": {"content": "x", "request_hash": "0" * 64}}))
    answers = []
    code, out, err = serve("--replay", "other.json", "--json", client=lambda url: answers.append(ask(url, "Hi")))
    assert code == 0
    assert answers[0][0] == 422
    assert [miss["call"] for miss in json.loads(out.splitlines()[1])["misses"]] == [1]
    assert "is not in the recording" in err
    assert "POST /v1/chat/completions  422  missed  demo\n" in err


def test_quietly_calls_are_not_reported_but_what_is_wrong_is(serve, write):
    write("other.json", flows.recording({"a": {"content": "x", "request_hash": "0" * 64}}))
    assert serve("--replay", "run.json", "--json", "-q", client=lambda url: ask(url, "Hi"))[2] == ""
    assert (
        "is not in the recording"
        in serve("--replay", "other.json", "--json", "-q", client=lambda url: ask(url, "Hi"))[2]
    )


def test_what_is_left_is_a_mismatch_if_strict(serve):
    options = ["--replay", "run.json", "--json", "--strict-unused"]
    assert serve(*options, client=lambda url: ask(url, "Hi"))[0] == 3
    assert serve(*options, client=lambda url: [ask(url, "Hi"), ask(url, "Hi")])[0] == 0


def test_lines_tell_of_sessions_tries_and_faults(serve):
    def client(url):
        for _ in range(2):
            ask(url, "Hi", path="/s/mine/v1/chat/completions")
        with pytest.raises(ConnectionError):
            ask(url, "Ho", path="/s/mine/v1/chat/completions")

    faults = ["--fault", "call=1 attempt=1: http_error 503", "--fault", "call=2: connection_reset"]
    _, out, err = serve("--replay", "run.json", *faults, client=client)
    assert err.splitlines() == [
        "POST /v1/chat/completions  503  fault  demo  fault http_error  session mine",
        "POST /v1/chat/completions  200  served  demo  attempt 2  session mine",
        "POST /v1/chat/completions  no answer  fault  demo  fault connection_reset  session mine",
    ]
    assert "offbook: 2 calls in 3 attempts, 1 served, 2 with a fault (run.json)\n" in out
    assert "  a[1]  answers Bye!  (session mine)\n  hint: a fault fired, which may be why\n" in out


def test_sessions_that_were_deleted_count_in_the_end(serve):
    def client(url):
        for _ in range(2):
            ask(url, "Hi", path="/s/mine/v1/chat/completions")
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=TIMEOUT_S)
        connection.request("DELETE", "/_offbook/sessions/mine")
        assert connection.getresponse().status == 204
        connection.close()

    _, out, err = serve("--replay", "run.json", "--fault", "call=1 attempt=1: http_error 500", client=client)
    assert "offbook: 1 call in 2 attempts, 1 served, 1 with a fault (run.json)\n" in out
    assert "offbook: 1 exchange of run.json was not used:\n  a[1]  answers Bye!  (session mine)\n" in out
    assert "never fired" not in err


def test_in_a_folder_what_is_left_names_its_file_and_session(serve, write):
    write("runs/one.json", flows.recording(TWO))
    write("runs/two.json", flows.recording({"b": {"content": "Bee"}}))

    def client(url):
        ask(url, "Hi", path="/s/one/v1/chat/completions")
        ask(url, "Ho")

    _, out, _ = serve("--replay", "runs", client=client)
    assert out.endswith(
        "offbook: 2 calls, 2 served (runs)\n"
        "offbook: 2 exchanges of runs were not used:\n"
        "  a[1]  answers Bye!  (runs/one.json, session one)\n"
        "  b[0]  answers Bee  (runs/two.json)\n"
    )


def test_it_ends_though_a_call_is_under_way(serve):
    def client(url):
        connection = http.client.HTTPConnection(url.removeprefix("http://"))
        connection.request("POST", "/v1/chat/completions", '{"model": "demo", "messages": []}')
        waiting.append(connection)

    waiting = []
    code, _, _ = serve("--replay", "run.json", "--fault", "call=1: timeout", client=client)
    assert code == 0
    waiting[0].close()


def test_it_records_what_the_real_api_says_with_the_keys_of_its_clients(serve):
    answers = []
    with offbook.serving(responses={"a": {"content": "Hello!"}}, api_key="sk-real") as real:
        options = ["--record", "new.json", "--upstream", f"openai={real.url}/v1", "--json"]
        code, out, err = serve(*options, client=lambda url: answers.append(ask(url, "Hi", key="sk-real")))
    assert code == 0
    assert answers == [(200, "Hello!")]
    assert "OPENAI_API_KEY" not in json.loads(out.splitlines()[0])["env"]
    assert err == "POST /v1/chat/completions  200  recorded  demo\n"
    assert open_store("new.json").load().size == 1


def test_a_real_api_that_fails_is_reported_as_such(serve):
    options = ["--record", "new.json", "--upstream", "openai=http://127.0.0.1:1/v1"]
    code, out, err = serve(*options, client=lambda url: ask(url, "Hi"))
    failure = "failed: no answer from http://127.0.0.1:1 (ConnectError: All connection attempts failed)"
    assert code == 0
    assert f"POST /v1/chat/completions  502  recorded  demo  {failure}\n" in err
    assert f"offbook: 1 call, 1 recorded, of which 1 {failure} (new.json)\n" in err
    assert "1 recorded" not in out


@pytest.mark.parametrize("more", [[], ["--json"], ["--quiet"]])
def test_calls_that_cannot_be_recorded_fail_the_command_and_are_counted(serve, more):
    def client(url):
        assert ask(url, "Hi") == (200, "Hello!")
        shutil.rmtree("runs")
        for text in ("Ho", "Ha"):
            with pytest.raises((http.client.HTTPException, ConnectionError)):
                ask(url, text)

    with offbook.serving(responses={"a": {"content": "Hello!"}}) as real:
        options = ["--record", "runs/new.json", "--upstream", f"openai={real.url}/v1", *more]
        code, out, err = serve(*options, client=client)
    assert code == 1
    assert err.endswith("offbook: 2 calls could not be recorded in runs/new.json: no such file or directory\n")
    assert "Traceback" not in err
    if "--json" in more:
        counts = {"calls": 3, "tries": 3, "recorded": 1, "refused": 2, "unrecorded": 2}
        assert json.loads(out.splitlines()[1])["counts"] == counts


def test_nothing_recorded_leaves_no_file(serve):
    assert serve("--record", "new.json")[0] == 0
    assert not Path("new.json").exists()


def test_a_server_with_a_key_of_its_own_records_with_those_of_the_environment(serve, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-real")
    monkeypatch.setenv("OFFBOOK_API_KEY", "ours")
    answers = []
    with offbook.serving(responses={"a": {"content": "Hello!"}}, api_key="sk-real") as real:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{real.url}/v1")
        client = lambda url: answers.extend([ask(url, "Hi", key="sk-real")[0], ask(url, "Hi", key="ours")])  # noqa: E731
        code, out, _ = serve("--record", "new.json", "--host", "0.0.0.0", client=client)
    assert code == 0
    assert answers == [401, (200, "Hello!")]
    assert '  export OPENAI_API_KEY="$OFFBOOK_API_KEY"\n' in out
    assert "ours" not in out
    assert "sk-real" not in out


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "listening at 0.0.0.0 requires an API key"),
        (["--host", "no such host", "--api-key", "k"], "cannot listen at"),
        (["--host", "nohost.invalid", "--api-key", "k"], "name an address of this machine"),
        (["--host", "192.0.2.1", "--api-key", "k"], "name an address of this machine"),
        (["--replay", "other.json"], "--replay is given 2 times"),
        (["--fault", "call=x: timeout"], "call=x: timeout"),
        (["--record", "new.json"], "exclude each other"),
        (["--port", "70000"], "65535"),
    ],
)
def test_bad_input_is_refused(run, write, options, said):
    write("run.json", flows.recording(TWO))
    code, out, err = run("serve", "--replay", "run.json", *options)
    assert code == 2
    assert out == ""
    assert said in err
    assert "Traceback" not in err


def test_as_json_bad_input_is_a_document(run):
    code, out, _ = run("serve", "--json")
    assert code == 2
    assert json.loads(out)["error"]["exit_code"] == 2


def test_help_has_examples(run):
    code, out, _ = run("serve", "--help")
    assert code == 0
    assert "offbook serve --replay" in out


def test_in_the_background_of_a_script_it_ends_by_sigterm(write):
    """Shells let what they start in the background ignore Ctrl-C."""
    write("run.json", flows.recording(TWO))
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"
    )
    command = [sys.executable, "-S", "-c", ignoring, COMMAND, "serve", "--replay", "run.json"]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    url = URL.search(started.stdout.readline())[0]
    started.send_signal(signal.SIGINT)
    assert ask(url, "Hi") == (200, "Hello!")
    started.terminate()
    out, err = started.communicate(timeout=TIMEOUT_S)
    assert started.returncode == 0
    assert "1 call, 1 served (run.json)" in out
    assert err == "POST /v1/chat/completions  200  served  demo\n"


def test_a_reader_who_reads_nothing_holds_up_nothing(monkeypatch):
    is_sending, free = threading.Event(), threading.Event()

    class Stuck(io.StringIO):
        def write(self, text):
            is_sending.set()
            free.wait(TIMEOUT_S)
            return super().write(text)

    stuck = Stuck()
    monkeypatch.setattr(sys, "stderr", stuck)
    with WireCallLog() as log:
        writer = next(thread for thread in threading.enumerate() if thread.name == "offbook-call-log")
        log.on_call(WireCall(0, "", "openai", "/first", "served"))
        assert is_sending.wait(TIMEOUT_S)
        for number in range(MAX_WAITING + 1):
            log.on_call(WireCall(number, "", "openai", "/more", "served"))
        free.set()
    writer.join(TIMEOUT_S)
    assert stuck.getvalue().count("POST /more") == MAX_WAITING


class SetClock:
    now_s = 0.0

    def monotonic_s(self):
        return self.now_s


def test_of_many_messages_of_one_kind_the_log_says_how_many_there_were(capsys):
    clock, logger = SetClock(), logging.getLogger("offbook.wire")
    with WireCallLog(clock=clock):
        for number in range(MAX_ALIKE + 1_234):
            logger.warning("refused %d", number)
        logger.warning("another kind")
        clock.now_s += RATE_S
        logger.warning("refused %d", -1)
    lines = capsys.readouterr().err.splitlines()
    dropped = [int(line.split()[2].replace(",", "")) for line in lines if line.startswith("… and")]
    assert [line for line in lines if not line.startswith("… and")] == [
        *(f"refused {number}" for number in range(MAX_ALIKE)),
        *("another kind", "refused -1"),
    ]
    assert sum(dropped) == 1_234


def test_a_message_cannot_forge_a_line_or_control_the_terminal(capsys):
    call = WireCall(1, "s\u202e", "openai", "/v1/x\nPOST /v1/y  200  served", "served", model="m\x1b[2J", status=200)
    with WireCallLog() as log:
        logging.getLogger("offbook.wire").warning("no answer to %s", "a\nPOST /v1/z  200  served\x1b[2J")
        log.on_call(call)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3
    assert [line.startswith("POST") for line in lines] == [False, False, True]
    assert "POST /v1/x POST /v1/y  200  served  200  served  m [2J  session s " in lines[2]


@pytest.mark.parametrize(
    ("option", "said"), [(["--lenient"], "Mock response"), (["-o", "default_response=Yes."], "Yes.")]
)
def test_it_serves_without_a_recording(serve, option, said):
    answers = []
    code, out, _ = serve(*option, client=lambda url: answers.append(ask(url, "Hi")))
    assert (code, answers) == (0, [(200, said)])
    assert "answering every call with a default" in out
    assert out.endswith("offbook: 1 call, 1 answered with the default\n")
