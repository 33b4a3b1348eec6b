"""offbook serve -o processes=N: several processes answer on one port, and end as one."""

import json
import os
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from offbook.recording.format.file import document_from_dict
from offbook.recording.stores.locate import open_store
from tests.cli import flows
from tests.cli.commands.test_serve import TIMEOUT_S, ask
from tests.servers import redis_server
from tests.servers.models import ChatModel, said

COMMAND = Path(sys.executable).parent / "offbook"


class Served:
    """A server in processes of its own, by its URL; `end` gives its exit code, its last output and its complaints."""

    def __init__(self, process):
        self._process = process
        self.url = json.loads(process.stdout.readline())["url"]

    @property
    def children(self):
        listed = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return [int(pid) for pid in listed.split()]

    def end(self, number=signal.SIGTERM):
        if number:
            self._process.send_signal(number)
        out, err = self._process.communicate(timeout=TIMEOUT_S)
        return self._process.returncode, json.loads(out), err


@pytest.fixture
def serve(write):
    @contextmanager
    def serve(*options):
        command = [COMMAND, "serve", *options, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            try:
                yield Served(process)
            finally:
                process.kill()

    write("run.json", flows.recording({"a": "Hello!"}))
    return serve


def ask_often(url, count=60):
    """The answers to so many questions, each on a connection of its own, a few at a time."""
    with ThreadPoolExecutor(4) as clients:
        return list(clients.map(lambda number: ask(url, f"question {number}"), range(count)))


def test_processes_share_a_port_and_report_as_one(serve):
    with serve("--replay", "run.json", "-o", "processes=2") as served:
        answers = ask_often(served.url)
        children = served.children
        code, report, err = served.end()
    assert set(answers) == {(200, "Hello!")}
    assert len(children) == 2
    assert code == 0
    assert report["counts"] == {"calls": 60, "tries": 60, "served": 60}
    assert report["unused"] == []
    assert err.count("POST /v1/chat/completions  200  served") == 60


def test_a_port_in_use_is_refused_and_a_named_one_is_shared(run, serve):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = ("--replay", "run.json", "-o", "processes=2", "--port", port)
        code, _, err = run("serve", *options)
        assert code == 2
        assert "cannot listen at 127.0.0.1" in err
    with serve(*options) as served:
        assert served.url.endswith(f":{port}")
        assert ask(served.url, "Hi") == (200, "Hello!")
        assert run("serve", *options)[0] == 2
        assert served.end(signal.SIGINT)[0] == 0


def test_several_processes_record_into_one_file(serve):
    with ChatModel(lambda prompt: said(f"{prompt}!")) as model:
        options = ("--record", "new.json", "--upstream", f"openai={model.url}/v1", "-o", "processes=2")
        with serve(*options) as served:
            answers = ask_often(served.url, 40)
            code, report, _ = served.end()
    assert code == 0
    assert report["counts"]["recorded"] == 40
    assert {text for _, text in answers} == {f"question {number}!" for number in range(40)}
    assert open_store("new.json").load().size == 40


def test_a_process_that_dies_is_reported_and_ends_the_server(serve):
    with serve("--replay", "run.json", "-o", "processes=2") as served:
        ask_often(served.url, 10)
        dead, other = served.children
        os.kill(dead, signal.SIGKILL)
        code, _, err = served.end(None)
    assert code == 1
    assert f"process 1 of 2 (pid {dead}) was ended by SIGKILL; its calls are not counted" in err
    assert not Path(f"/proc/{other}").exists()


def test_sessions_cannot_be_asked_for_and_health_can(serve):
    with serve("--replay", "run.json", "-o", "processes=2", "--fault", "everywhere: http_error 429") as served:
        assert ask(served.url, "Hi")[0] == 429
        status, text = ask(served.url, "", path="/_offbook/sessions/mine")
        assert status == 409
        assert "each knows its own calls alone" in text
        assert ask(served.url, "", path="/_offbook/health")[0] == 405
        code, report, _ = served.end()
    assert code == 0
    assert report["faults"] == {"fired": ["call=1 attempt=1: http_error 429"], "unfired": []}


LIST = {"a": [{"content": "Hello!"}, {"content": "Bye!"}]}


@pytest.mark.parametrize(
    ("answers", "options", "reason"),
    [
        (LIST, (), "run.json: a: entries that answer any request are served in their order"),
        ({"a": "Hello!", "b": "Bye!"}, (), "run.json: b: entries that answer any request are served in their order"),
        ({}, ("--fault", "call=2: timeout"), "call=2: timeout: it fires at a certain call"),
        ({}, ("--mcp", "mcp.json"), "--mcp: sessions of MCP clients live in one process"),
        ({}, ("--strict-unused",), "--strict-unused: each process counts what it has served"),
        ({}, ("-o", "processes=0"), "processes=0: expected an integer of at least 1"),
    ],
)
def test_what_depends_on_the_calls_before_is_refused(run, write, answers, options, reason):
    write("run.json", flows.recording(answers))
    code, out, err = run("serve", "--replay", "run.json", "-o", "processes=2", *options)
    assert code == 2
    assert out == ""
    assert reason in err


@pytest.mark.parametrize("mode", ["new", "all", "fresh", "once"])
def test_several_processes_only_add_to_a_recording(run, write, mode):
    write("run.json", flows.recording({}))
    code, _, err = run("serve", "--record", "run.json", "--record-mode", mode, "-o", "processes=2")
    assert code == 2
    assert f"--record-mode {mode}: several processes can only add to a recording" in err


COUNT = 30


@pytest.fixture
def ordered():
    """The URL of a recording in Redis with so many answers in order, and for each session from the beginning."""
    url = redis_server.shared().url()
    answers = [{"content": f"answer {number}"} for number in range(COUNT)]
    open_store(url).save(document_from_dict({"_version": 2, "a": answers}, source=url))
    return url


def in_order(count=COUNT):
    return [(200, f"answer {number}") for number in range(count)]


def test_processes_share_how_far_a_session_is_in_a_recording_in_redis(serve, ordered):
    with serve("--replay", ordered, "-o", "processes=2") as served:
        one_by_one = [ask(served.url, "next", path="/s/slow/v1/chat/completions") for _ in range(COUNT)]
        with ThreadPoolExecutor(8) as clients:
            at_once = list(clients.map(lambda _: ask(served.url, "next"), range(COUNT)))
        status, text = ask(served.url, "next")
        code, report, _ = served.end()
    assert one_by_one == in_order()
    assert sorted(at_once) == sorted(in_order())
    assert status == 422
    assert "a new session starts from the beginning" in text
    assert code == 0
    assert report["counts"]["served"] == 2 * COUNT
    assert report["unused"] == []


def test_servers_of_a_group_answer_as_one_and_others_for_themselves(serve, ordered):
    group = ("--replay", ordered, "-o", "session_group=load")
    with serve(*group) as one, serve(*group) as other, serve("--replay", ordered) as alone:
        answers = [ask(server.url, "next") for _ in range(COUNT // 2) for server in (one, other)]
        assert ask(one.url, "next")[0] == ask(other.url, "next")[0] == 422
        assert ask(alone.url, "next") == (200, "answer 0")
        assert ask(one.url, "", path="/_offbook/sessions/default")[0] == 409
    assert answers == in_order()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            ("--replay", "run.json", "-o", "session_group=load"),
            "session_group: servers share sessions through a recor",
        ),
        (("--replay", "redis://h", "-o", "session_group=a", "--strict-unused"), "--strict-unused: each process counts"),
        (
            ("--replay", "redis://h", "-o", "session_group=a", "--fault", "call=2: timeout"),
            "it fires at a certain call",
        ),
    ],
)
def test_what_a_group_cannot_share_is_refused(run, write, options, reason):
    write("run.json", flows.recording({}))
    code, _, err = run("serve", *options)
    assert code == 2
    assert reason in " ".join(err.split())
