"""Folders of a run: a replay writes in those of today, and with --workdir in a copy of its own."""

import json
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from offbook.presets.preset import built_in_presets
from tests.cli.programs import PYTHON

WRITER = [
    *PYTHON,
    """
import http.client, json, os, pathlib, sys
from urllib.parse import urlsplit

url = urlsplit(os.environ["OFFBOOK_URL"])
said = next(word for word in sys.argv if "write in" in word)
said = said.format(home=os.environ["HOME"], here=os.getcwd(), files=sorted(os.listdir()))
body = {"model": "demo", "stream": True, "messages": [{"role": "user", "content": said}]}
connection = http.client.HTTPConnection(url.netloc)
connection.request("POST", url.path + "/v1/chat/completions", json.dumps(body), {"authorization": "Bearer key"})
answer = connection.getresponse()
if answer.status != 200:
    sys.exit(f"status {answer.status}: {answer.read().decode()}")
events = [json.loads(line[6:]) for line in answer.read().decode().splitlines() if line.startswith("data: {")]
calls = [call for each in events for call in each["choices"][0]["delta"].get("tool_calls", [])]
path = pathlib.Path(json.loads("".join(call["function"]["arguments"] for call in calls))["path"])
path.parent.mkdir(parents=True, exist_ok=True)
path.write_text("Hello!")
print(path)
""",
]
"""Says what its argument has, and writes the file that its model wants it to."""


class Model(BaseHTTPRequestHandler):
    """Wants `hello.txt` written in the folder after `write in `, in pieces of `size` characters."""

    size = 3

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        folder = asked["messages"][0]["content"].partition("write in ")[2].partition(";")[0]
        arguments = json.dumps({"path": f"{folder}/hello.txt"})
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        first = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write", "arguments": ""}}
        self.say({"tool_calls": [first]})
        for place in range(0, len(arguments), self.size):
            piece = {"arguments": arguments[place : place + self.size]}
            self.say({"tool_calls": [{"index": 0, "function": piece}]})
        self.say({}, "tool_calls")
        self.wfile.write(b"data: [DONE]\n\n")

    def say(self, delta, ending=None):
        choice = {"index": 0, "delta": delta, "finish_reason": ending}
        event = {"id": "a", "object": "chat.completion.chunk", "created": 1, "model": "demo", "choices": [choice]}
        self.wfile.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    def log_message(self, *_):
        pass


@pytest.fixture
def model():
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Model", (Model,), {}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def execute(model, run_programs, tmp_path, monkeypatch):
    """Run `offbook exec …` with the program in a home and a folder that are there."""

    def execute(*words, says, home="home", folder=".", program=WRITER):
        for each in (home, folder):
            (tmp_path / each).mkdir(exist_ok=True, parents=True)
        monkeypatch.chdir(tmp_path / folder)
        monkeypatch.setenv("HOME", str(tmp_path / home))
        upstream = ["--upstream", f"openai=http://127.0.0.1:{model.server_port}/v1"] if "--record" in words else []
        return run_programs("exec", *words, *upstream, "--", *program, says)

    return execute


def files_in(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    ("says", "file"), [("write in {home};", "bob/hello.txt"), ("write in {here};", "there/hello.txt")]
)
def test_a_replay_writes_in_the_folders_of_today(execute, tmp_path, says, file):
    run = tmp_path / "run.json"
    assert execute("--record", run, says=says, home="ann", folder="here")[0] == 0
    for each in ("ann", "here"):
        shutil.rmtree(tmp_path / each)
    code, out, err = execute("--replay", run, "--strict-unused", says=says, home="bob", folder="there")
    assert (code, out) == (0, f"{tmp_path / file}\n"), err
    assert files_in(tmp_path) == sorted([file, "run.json"])


@pytest.mark.parametrize("size", [1, 2, 5, 1000])
def test_wherever_the_stream_was_cut(execute, model, tmp_path, size):
    model.RequestHandlerClass.size = size
    run = tmp_path / "run.json"
    execute("--record", run, says="write in {home};", home="ann")
    shutil.rmtree(tmp_path / "ann")
    assert execute("--replay", run, says="write in {home};", home="bob")[0] == 0
    assert files_in(tmp_path) == ["bob/hello.txt", "run.json"]


@pytest.mark.parametrize("preset", [name for name, each in built_in_presets().items() if each.commands])
def test_a_known_program_writes_nothing_in_the_folders_of_another_user(execute, model, tmp_path, preset):
    model.RequestHandlerClass.size = 1
    run, says = tmp_path / "run.json", "write in {home}/.notes; the folder is {here}"
    options = ["-o", f"preset={preset}"]
    assert execute(*options, "--record", run, says=says, home="ann", folder="here")[0] == 0
    for each in ("ann", "here"):
        shutil.rmtree(tmp_path / each)
    assert execute(*options, "--replay", run, "--strict-unused", says=says, home="bob", folder="there")[0] == 0
    assert files_in(tmp_path) == ["bob/.notes/hello.txt", "run.json"]


def test_a_recording_names_the_folders_of_its_run_that_it_has(execute, tmp_path):
    execute("--record", tmp_path / "run.json", says="write in {home};", home="ann", folder="here")
    folders = json.loads((tmp_path / "run.json").read_text())["_meta"]["folders"]
    assert folders.pop("home") == [str(tmp_path / "ann")]
    assert "work" not in folders


def test_a_folder_that_is_several_of_today_is_refused_and_nothing_is_written(execute, tmp_path):
    run = tmp_path / "run.json"
    says = "write in {home}; the folder is {here}"
    assert execute("--record", run, says=says, home="ann", folder="ann")[0] == 0
    shutil.rmtree(tmp_path / "ann")
    code, _, err = execute("--replay", run, says=says, home="bob", folder="there")
    assert code == 3
    assert f"names the folder {tmp_path}/ann, and this run has several folders in its place" in err
    assert "record it again here" in err
    assert files_in(tmp_path) == ["run.json"]


@pytest.fixture
def template(tmp_path):
    folder = tmp_path / "template"
    folder.mkdir()
    (folder / "README.md").write_text("Read me.")
    return folder


def test_a_run_works_in_a_copy_and_says_what_it_has_changed(execute, tmp_path, template):
    run, report = tmp_path / "run.json", tmp_path / "report.json"
    says = "write in {here}; there are {files}"
    code, out, err = execute("--record", run, "--workdir", template, says=says)
    assert (code, err.splitlines()[-1]) == (0, "offbook: 1 file: created hello.txt")
    assert not Path(out.strip()).exists()
    assert json.loads(run.read_text())["_meta"]["folders"]["work"] == [str(template)]
    assert str(Path(out.strip()).parent) not in run.read_text()
    code, again, err = execute("--replay", run, "--workdir", template, "--report", report, says=says)
    assert (code, again == out) == (0, False), err
    assert json.loads(report.read_text())["files"] == {"hello.txt": "created"}
    assert files_in(template) == ["README.md"]


def test_the_template_may_be_elsewhere_when_it_is_replayed(execute, tmp_path, template):
    run, says = tmp_path / "run.json", "write in {here}; there are {files}"
    execute("--record", run, "--workdir", template, says=says)
    template.rename(tmp_path / "moved")
    assert execute("--replay", run, "--workdir", tmp_path / "moved", says=says)[0] == 0
    assert execute("--replay", run, "--workdir", tmp_path / "gone", says=says)[0] == 2


def test_a_recording_made_in_the_folder_itself_replays_in_a_copy(execute, tmp_path, template):
    run, says = tmp_path / "run.json", "write in {here}; there are {files}"
    execute("--record", run, says=says, folder="template")
    (template / "hello.txt").unlink()
    assert execute("--replay", run, "--workdir", template, says=says)[0] == 0
    assert files_in(template) == ["README.md"]


def test_every_case_of_an_exploration_works_in_a_copy_at_once_and_its_files_are_the_result(
    execute, run_programs, tmp_path, template
):
    run, says = tmp_path / "run.json", "write in {here}; there are {files}"
    assert execute("--record", run, "--workdir", template, says=says)[0] == 0
    options = ["--workdir", template, "--run-tools", "--faults", "http_error,slow,refusal", "--workers", "2"]
    reports = [tmp_path / f"{name}.json" for name in ("one", "two")]
    for report in reports:
        code, _, err = run_programs(
            "explore", "--replay", run, *options, "--report", f"json={report}", "--", *WRITER, says
        )
        assert code in (0, 1), err
        assert "the result is what a run changes in its folder; what it prints is not compared" in err
    document = json.loads(reports[0].read_text())
    assert reports[0].read_bytes() == reports[1].read_bytes()
    assert document["clean"]["result"]["files"] == {"hello.txt": "Hello!"}
    assert "/offbook-" not in reports[0].read_text()
    assert files_in(template) == ["README.md"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "one.json", "run.json", "template", "two.json"]


def test_a_folder_in_which_the_program_stands_cannot_be_kept(run_programs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.json").write_text('{"_version": 2, "any": {"content": "Hello!"}}')
    code, _, err = run_programs("explore", "--replay", "run.json", "--keep", ".", "--", *WRITER, "x")
    assert code == 2
    assert "a folder in which the program stands cannot be replaced" in err
    assert "--workdir ." in err
    assert files_in(tmp_path) == ["run.json"]
