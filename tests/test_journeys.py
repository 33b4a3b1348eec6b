"""The five journeys of docs/design.md: which files of the source run for one call, and that they stay few."""

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
from offbook.faults import FaultPlan, parse_fault
from offbook.scenarios import HandlerTarget, Participants, ScenarioRunner, Trajectory
from offbook.subjects.workflow import WorkflowSubject
from offbook.workflow.file.load import load_workflow
from tests.subjects.projects import Project

ROOT = Path(__file__).parents[1]
SOURCE = str(ROOT / "src" / "offbook") + "/"
MAP = (ROOT / "docs" / "design.md").read_text()
QUESTION = [{"role": "user", "content": "Hi"}]
LIMITS = {
    "Replay a call": 9,
    "One HTTP request": 21,
    "Record one streamed call": 38,
    "Explore one case": 62,
    "One scenario conversation": 20,
}


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
        if self._is_on and event == "call" and code.co_filename.startswith(SOURCE) and code.co_name != "<module>":
            self._note(code.co_filename.removeprefix(SOURCE), frame)

    def _note(self, file, frame):
        if file not in self._noted and not closes_before_fork(frame):
            self._noted.add(file)
            os.write(self._file, f"{file}\n".encode())


def closes_before_fork(frame):
    """Whether a fork has called: it closes the stores that other tests hold open, which are no part of a journey."""
    while frame is not None and frame.f_code.co_name != "_close_before_fork":
        frame = frame.f_back
    return frame is not None


def replay_a_call(journey, tmp_path):
    mock = MockProvider(responses={"greet": {"content": "Hello!"}}, strict=True)

    async def ask():
        with journey.watching(), journey.noting():
            return await mock.complete(QUESTION, model="any", step_id="greet")

    assert offbook.run(ask()).content == "Hello!"


def _chat(url, **fields):
    return httpx2.post(f"{url}/v1/chat/completions", json={"model": "m", "messages": QUESTION} | fields)


def one_http_request(journey, tmp_path):
    with journey.watching(), offbook.serving(responses={"any": {"content": "Hello!"}}) as server:
        _chat(server.url)  # the connection is made, and what is loaded once is loaded
        with journey.noting():
            assert _chat(server.url).json()["choices"][0]["message"]["content"] == "Hello!"


def record_one_streamed_call(journey, tmp_path):
    with offbook.serving(responses={"any": {"content": "Hello there!"}}) as upstream, journey.watching():
        upstreams = {"openai": f"{upstream.url}/v1"}
        with offbook.serving(record=tmp_path / "run.json", upstreams=upstreams) as server, journey.noting():
            assert "[DONE]" in _chat(server.url, stream=True).text


def explore_one_case(journey, tmp_path):
    flow, recording = Project(tmp_path).workflow()
    subject = WorkflowSubject(load_workflow(flow), recording, folder=tmp_path)
    subject.run(FaultPlan())
    plan = FaultPlan([parse_fault("call=2 attempt=1: http_error 500")])
    with journey.watching(), journey.noting():
        run = subject.run(plan)
    assert run.error is None


def one_scenario_conversation(journey, tmp_path):
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
        [replay_a_call, one_http_request, record_one_streamed_call, explore_one_case, one_scenario_conversation],
        strict=True,
    )
)


def drawn_files(title):
    """The files that the map names for a journey, in order."""
    section = re.search(rf"^### {title}\n(.*?)(?=^##)", MAP, re.MULTILINE | re.DOTALL)
    return re.findall(r"^\d+\. `([\w/.]+)`", section[1], re.MULTILINE)


@pytest.mark.parametrize("title", LIMITS)
def test_a_journey_passes_few_files_and_those_that_the_map_names(title, tmp_path):
    journey = Journey(tmp_path / "journey.log")
    JOURNEYS[title](journey, tmp_path)
    assert len(journey.files) <= LIMITS[title], "\n".join(journey.files)
    assert set(drawn_files(title)) <= journey.files.keys()
