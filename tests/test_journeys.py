"""Journeys through the source: which files run for one call, one test or one case, and that they stay few."""

import contextlib
import os
import re
import sys
import threading
from pathlib import Path

import httpx2
import pytest

import offbook
from offbook import MockProvider, scenario
from offbook.cli.main import main
from offbook.faults import FaultPlan, parse_fault
from offbook.scenarios import HandlerTarget, Participants, ScenarioRunner, Trajectory
from offbook.subjects.workflow import WorkflowSubject
from offbook.workflow.file.load import load_workflow
from tests.explore.runs import write_recording
from tests.mcp.wiring import call, post
from tests.pytest_plugin.conftest import loaded, project  # noqa: F401 - a fixture, and what it needs
from tests.subjects.projects import Project

ROOT = Path(__file__).parents[1]
SOURCE = str(ROOT / "src" / "offbook") + "/"
MAP = (ROOT / "docs" / "design.md").read_text()
QUESTION = [{"role": "user", "content": "Hi"}]
LIMITS = {
    "Replay a call": 9,
    "One HTTP request": 22,
    "Record one streamed call": 37,
    "One MCP tool call in replay": 23,
    "One pytest test that records": 42,
    "One explored case of a program": 108,
    "Explore one case": 65,
    "One scenario conversation": 17,
}
"""How many files a journey may pass: as many as it does, or one more."""
GOALS = {
    "Replay a call": 9,
    "One HTTP request": 12,
    "Record one streamed call": 22,
    "One MCP tool call in replay": 17,
    "One pytest test that records": 25,
    "One explored case of a program": 65,
}
"""How many files would do. Limits are lowered until they are here."""

GREETS = """
def test_greets(offbook):
    offbook.live(Echo)
    assert greet(offbook) == "Hello Ada"
"""
AGENT = """
import json, os, urllib.error, urllib.request

def ask(text):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    return urllib.request.urlopen(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body).read()

try:
    ask("Refund?")
except urllib.error.HTTPError:
    ask("Refund?")
ask("Tell them.")
"""


class Journey:
    """The files of the source whose functions run inside a `with` block, in order of first use.

    Those that run in other threads count, and in forked processes, which add to the same `log`.
    """

    def __init__(self, log):
        self._log, self._noted = log, set()
        self._file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._is_on = False

    @property
    def files(self):
        return dict.fromkeys(self._log.read_text().splitlines())

    @contextlib.contextmanager
    def watching(self):
        """Let threads that start inside be watched too; nothing is noted before `noting`."""
        sys.setprofile(self._profile)
        threading.setprofile(self._profile)
        try:
            yield self
        finally:
            sys.setprofile(None)
            threading.setprofile(None)

    @contextlib.contextmanager
    def noting(self):
        self._is_on = True
        try:
            yield
        finally:
            self._is_on = False

    def _profile(self, frame, event, _argument):
        code = frame.f_code
        if self._is_on and event == "call" and code.co_filename.startswith(SOURCE):
            self._note(code.co_filename.removeprefix(SOURCE), frame)

    def _note(self, file, frame):
        if file not in self._noted and not is_incidental(frame):
            self._noted.add(file)
            os.write(self._file, f"{file}\n".encode())


def is_incidental(frame):
    """Whether a call is no part of a journey.

    Modules are loaded once, and a fork closes the stores that other tests hold open.
    """
    while frame is not None:
        code = frame.f_code
        if code.co_name == "_close_before_fork" or (code.co_name == "<module>" and code.co_filename.startswith(SOURCE)):
            return True
        frame = frame.f_back
    return False


def replay_a_call(journey, folder, fixture):
    mock = MockProvider(responses={"greet": {"content": "Hello!"}}, strict=True)

    async def ask():
        with journey.watching(), journey.noting():
            return await mock.complete(QUESTION, model="any", step_id="greet")

    assert offbook.run(ask()).content == "Hello!"


def _chat(url, **fields):
    return httpx2.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": QUESTION} | fields)


def one_http_request(journey, folder, fixture):
    with journey.watching(), offbook.serving(responses={"any": {"content": "Hello!"}}) as server:
        _chat(server.url)  # the connection is made, and what is loaded once is loaded
        with journey.noting():
            assert _chat(server.url).json()["choices"][0]["message"]["content"] == "Hello!"


def record_one_streamed_call(journey, folder, fixture):
    with offbook.serving(responses={"any": {"content": "Hello there!"}}) as upstream, journey.watching():
        upstreams = {"openai": f"{upstream.url}/v1"}
        with offbook.serving(record=folder / "run.json", upstreams=upstreams) as server, journey.noting():
            assert "[DONE]" in _chat(server.url, stream=True).text


def one_mcp_tool_call(journey, folder, fixture):
    recorded = {"_version": 2, "_tools": {"notes.write": [{"arguments": {"text": "x"}, "result": {"id": 1}}] * 2}}
    mcp = {"notes": {"url": "http://127.0.0.1:1/mcp"}}
    sent = post(call("write", {"text": "x"}, era="modern"))
    with journey.watching(), offbook.serving(responses=recorded, mcp=mcp) as server:
        url = server.mcp["notes"].url
        httpx2.post(url, content=sent.body, headers=sent.headers)
        with journey.noting():
            answer = httpx2.post(url, content=sent.body, headers=sent.headers)
    assert answer.json()["result"]["structuredContent"] == {"id": 1}


def one_pytest_test(journey, folder, fixture):
    inner = fixture("project")
    inner.test(GREETS, path=f"test_{folder.name}.py")
    with journey.watching(), journey.noting():
        result = inner.record(f"test_{folder.name}.py")
    result.assert_outcomes(passed=1)
    assert f"test_{folder.name}/test_greets.json" in inner.recordings()


def one_case_of_a_program(journey, folder, fixture):
    (folder / "agent.py").write_text(AGENT)
    write_recording(folder / "run.json", {"any": [{"content": "yes"}, {"content": "It is paid."}]})
    command = ["offbook", "explore", "--replay", "run.json", "--fault", "call=1 attempt=1: http_error 500"]
    environment = fixture("monkeypatch")
    environment.chdir(folder)
    environment.setattr(sys, "argv", [*command, "--", sys.executable, "agent.py"])
    with pytest.raises(SystemExit) as ended, journey.watching(), journey.noting():
        main()
    assert not ended.value.code


def explore_one_case(journey, folder, fixture):
    flow, recording = Project(folder).workflow()
    subject = WorkflowSubject(load_workflow(flow), recording, folder=folder)
    subject.run(FaultPlan())
    plan = FaultPlan([parse_fault("call=2 attempt=1: http_error 500")])
    with journey.watching(), journey.noting():
        run = subject.run(plan)
    assert run.error is None


def one_scenario_conversation(journey, folder, fixture):
    async def agent(messages, ctx):
        return f"Booked: {await ctx.resolve_tool('book', {'at': messages[-1]['content']})}"

    booking = scenario("books", turns=["9"], mocks={"book": {"id": 7}}, assertions=Trajectory("strict", ["book"]))
    runner = ScenarioRunner(Participants({"booking": HandlerTarget("booking", agent)}))

    async def converse():
        with journey.watching(), journey.noting():
            return await runner.run([booking])

    assert offbook.run(converse()).passed


JOURNEYS = dict(
    zip(
        LIMITS,
        [
            replay_a_call,
            one_http_request,
            record_one_streamed_call,
            one_mcp_tool_call,
            one_pytest_test,
            one_case_of_a_program,
            explore_one_case,
            one_scenario_conversation,
        ],
        strict=True,
    )
)


def files_of(title, tmp_path, fixture):
    """The files of a journey that was made before, so that whatever is kept for the next time is kept."""
    for name in ("first", "second"):
        folder = tmp_path / name
        folder.mkdir()
        journey = Journey(tmp_path / f"{name}.log")
        JOURNEYS[title](journey, folder, fixture)
    return journey.files


def drawn_files():
    """The files that the map names for each journey that it has, in order."""
    (chapter,) = re.findall(r"^## \w+ journeys\n(.*?)(?=^## )", MAP, re.MULTILINE | re.DOTALL)
    sections = re.split(r"^### (.*)\n", chapter, flags=re.MULTILINE)[1:]
    texts = zip(sections[::2], sections[1::2], strict=True)
    return {title: re.findall(r"^\d+\. `([\w/.]+)`", text, re.MULTILINE) for title, text in texts}


@pytest.mark.parametrize("title", LIMITS)
def test_a_journey_passes_few_files_and_those_that_the_map_names(title, tmp_path, request):
    files = files_of(title, tmp_path, request.getfixturevalue)
    assert len(files) <= LIMITS[title], "\n".join(files)
    assert len(files) >= LIMITS[title] - 1, f"lower its limit to {len(files)}, so that the gain is kept"
    assert set(drawn_files().get(title, ())) <= files.keys()


def test_the_map_draws_each_journey_that_has_a_goal():
    drawn = drawn_files()
    assert GOALS.keys() <= drawn.keys()
    assert all(drawn.values())
    assert [file for files in drawn.values() for file in files if not Path(SOURCE, file).is_file()] == []


def test_the_map_names_every_package_and_module():
    (table,) = re.findall(r"^\| folder or file .*\n((?:\|.*\n)+)", MAP, re.MULTILINE)
    named = re.findall(r"`([\w.]+)/?`", "".join(row.split("|")[1] for row in table.splitlines()))
    entries = {entry.name for entry in Path(SOURCE).iterdir() if entry.is_dir() or entry.suffix == ".py"}
    assert sorted(named) == sorted(entries - {"__init__.py", "__main__.py", "__pycache__"})


def test_no_limit_is_below_its_goal():
    assert [title for title, goal in GOALS.items() if LIMITS[title] < goal] == []
