"""Executors of cases: forked processes for what runs in this program, threads for programs."""

import os
import sys
from threading import Barrier, Event

import pytest

from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.run import Run
from offbook.explore.schedule import BudgetDeadline
from offbook.explore.settings import ExploreSettings
from offbook.faults import FaultPlan, parse_fault
from offbook.subjects.executors import MANY_CASES, ForkExecutor, ThreadExecutor, executor_of
from offbook.subjects.function import FunctionSubject
from offbook.subjects.specs import ProgramSpec, ScenarioSpec, WorkflowSpec, open_subject
from tests.explore.runs import write_recording
from tests.fakes import user
from tests.subjects.projects import CARELESS, COUNT, COUNT_ANSWERS, DESK


def workflow_spec(files):
    flow, recording = files
    return WorkflowSpec(recording=str(recording), file=str(flow))


def explored(spec, workers, faults="all", *, settings=None, **options):
    """An exploration with so many workers."""
    with open_subject(spec, settings or ExploreSettings()) as subject:
        options = ExploreOptions(variants=select_variants(faults), **options)
        return Explorer(subject, options, executor=executor_of(subject, workers)).explore()


def test_several_workers_find_the_same_as_one_and_as_none_at_all(project):
    spec = workflow_spec(project.workflow(CARELESS))
    faults = "connection_reset,tool_lost,tool_error"
    alone, together, again = (explored(spec, workers, faults, pairs=True, budget=12) for workers in (1, 2, 3))
    with open_subject(spec, ExploreSettings()) as subject:
        options = ExploreOptions(variants=select_variants(faults), pairs=True, budget=12)
        assert Explorer(subject, options).explore() == alone
    assert alone == together == again
    assert together.findings


def test_what_the_agent_of_a_scenario_prints_is_discarded(project, capfd):
    sim, recording = project.scenario(desk=DESK)
    spec = ScenarioSpec(recording=str(recording), file=str(sim), scenario="refunds", agent="desk")
    assert explored(spec, 2, "connection_reset").results
    assert capfd.readouterr() == ("", "")


DYING = """\
import os

from offbook import tool

@tool(read_only=True)
def count(text: str) -> int:
    if not text:
        os.kill(os.getpid(), 9)
    return int(text)
"""


def test_a_case_whose_process_dies_leaves_the_others_as_they_are(project):
    spec = workflow_spec(project.workflow(COUNT, COUNT_ANSWERS))
    project.write("shop.py", DYING)
    exploration = explored(spec, 2, "empty_response,http_error 500")
    endings = {str(each.case).rpartition(": ")[2]: each.run.error for each in exploration.results}
    assert endings["empty_response"].message == "signal 9 ended the process"
    assert endings["http_error 500"].type == "AllProvidersFailedError"


async def hello(harness):
    return (await harness.provider.complete(user("Hi"), "m", step_id="s")).content


async def wait_for_the_others(harness):
    """Ends only when three of its kind run at once."""
    await hello(harness)
    folder = os.environ["MEETING"]
    open(f"{folder}/{os.getpid()}", "w").close()  # noqa: ASYNC230, PTH123
    while len(os.listdir(folder)) < 3:  # noqa: PTH208
        pass
    return "met"


def cases_of(count):
    line = parse_fault("step=s call=9: timeout")
    return [FaultCase(f"{number}", (line,), ()) for number in range(count)]


@pytest.fixture
def recording(tmp_path):
    return write_recording(tmp_path / "run.json", {"s": [{"content": "Hello"}]})


def test_as_many_cases_run_at_once_as_there_are_workers(recording, tmp_path, monkeypatch):
    monkeypatch.setenv("MEETING", str(tmp_path / "meeting"))
    (tmp_path / "meeting").mkdir()
    runs = list(ForkExecutor(FunctionSubject(wait_for_the_others, recording), 3).run(cases_of(3)))
    assert [run.result for each in runs for run in each.runs] == ["met"] * 3


def test_an_executor_that_is_left_ends_its_processes(recording):
    subject = FunctionSubject(hello, recording)
    subject.run(FaultPlan())
    runs = ForkExecutor(subject, 2).run(cases_of(50))
    assert [run.result for run in next(runs).runs] == ["Hello"]
    runs.close()
    assert list(runs) == []


class Endless:
    """A program that runs until it is stopped."""

    name = "endless"

    def __init__(self):
        self._stopped = Event()

    def run(self, plan, continuation="stubborn"):
        assert self._stopped.wait(60)
        return Run(hung="it was stopped")

    def stop(self):
        self._stopped.set()


async def endless(harness):
    await hello(harness)
    while True:
        pass


class Instant(Endless):
    def run(self, plan, continuation="stubborn"):
        return Run(result="done")


def test_no_case_is_lost_however_soon_it_ends():
    assert [each.case.id for each in ThreadExecutor(Instant(), 3).run(cases_of(500))] == [f"{n}" for n in range(500)]


class Meeting(Instant):
    """Runs one after the other meet at each of these barriers, which has to be full before the next run ends."""

    def __init__(self, barriers):
        super().__init__()
        self._barriers = iter(barriers)

    def run(self, plan, continuation="stubborn"):
        next(self._barriers).wait(timeout=60)
        return super().run(plan, continuation)


def test_after_many_cases_one_more_runs_at_once():
    pair, three = Barrier(2), Barrier(3)
    subject = Meeting([pair] * MANY_CASES + [three] * 30)
    executed = list(ThreadExecutor(subject, 2, spare=1).run(cases_of(MANY_CASES + 30)))
    assert len(executed) == MANY_CASES + 30


def test_cases_that_run_at_the_deadline_are_ended_and_not_reported(recording):
    late = BudgetDeadline(0.0)
    assert list(executor_of(Endless(), 2).run(cases_of(3), late)) == []
    assert list(ForkExecutor(FunctionSubject(endless, recording), 2).run(cases_of(3), late)) == []


def test_no_case_is_no_run(recording):
    assert list(ForkExecutor(FunctionSubject(hello, recording), 2).run([])) == []


PROGRAM = """\
import json, os, urllib.request
asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(asked).encode(), {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


def test_programs_run_in_threads_with_the_same_results_however_many(project):
    project.write("agent.py", PROGRAM)
    recording = project.write("run.json", '{"_version": 2, "any": [{"content": "Hello!"}]}')
    spec = ProgramSpec(recording=str(recording), command=(sys.executable, "agent.py"))
    settings = ExploreSettings(declared=("4",), deadline_s=20.0)
    alone, together = (explored(spec, count, "http_error 500,http_error 401", settings=settings) for count in (1, 2))
    assert together == alone
    assert {each.verdict for each in together.results} == {"crashed"}


class Counted(Instant):
    """Counts the runs that have begun."""

    begun = 0

    def run(self, plan, continuation="stubborn"):
        self.begun += 1
        return super().run(plan, continuation)


class CountedFunction(FunctionSubject):
    """Counts the runs that have begun."""

    begun = 0

    def start(self, plan, continuation="stubborn"):
        self.begun += 1
        return super().start(plan, continuation)


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_cases_are_taken_than_can_start(recording, workers):
    for subject in (Counted(), CountedFunction(hello, recording)):
        taken = []

        def noted(cases, subject=subject, taken=taken):
            for case in cases:
                taken.append(case)
                assert len(taken) - subject.begun <= workers
                yield case

        runs = executor_of(subject, workers).run(noted(cases_of(20)))
        first = next(runs)
        assert first.case.id == "0"
        assert first.real_s > 0
        runs.close()


def test_each_kind_of_subject_has_its_executor(project, recording, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert isinstance(executor_of(FunctionSubject(hello, recording), "auto"), ForkExecutor)
    spec = ProgramSpec(recording=str(recording), command=("true",))
    with open_subject(spec, ExploreSettings()) as program:
        assert isinstance(executor_of(program, "auto"), ThreadExecutor)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [(ExploreSettings(on_divergence="live"), "cannot be answered live")],
)
def test_settings_that_do_not_fit_a_program_are_refused(settings, reason):
    spec = ProgramSpec(recording="run.json", command=("true",))
    with pytest.raises(InputError, match=reason), open_subject(spec, settings):
        pass
