"""Executors of cases: in this process, in worker processes, in threads for programs."""

import sys
from contextlib import ExitStack

import pytest

from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.run import Run, RunFailure
from offbook.explore.runner import Explorer, SerialExecutor
from offbook.faults import parse_fault
from offbook.subjects.executors import AutoExecutor, ProcessExecutor, WorkerProcess
from offbook.subjects.open import open_subject
from offbook.subjects.specs import ExploreSettings, ProgramSpec, ScenarioSpec, WorkerSpec, WorkflowSpec
from tests.subjects.projects import CARELESS, COUNT, COUNT_ANSWERS, DESK


def spec_of(given, **settings):
    flow, recording = given
    return WorkerSpec(WorkflowSpec(recording=str(recording), file=str(flow)), ExploreSettings(**settings))


def explored(spec, workers, faults="all", **options):
    """An exploration with so many workers."""
    with open_subject(spec.subject, spec.settings) as subject, AutoExecutor(subject, spec, workers) as executor:
        return Explorer(
            executor.subject, ExploreOptions(variants=select_variants(faults), **options), executor=executor
        ).explore()


def test_two_workers_find_the_same_as_one(project):
    spec = spec_of(project.workflow(CARELESS))
    faults = "connection_reset,tool_lost"
    alone, together = (explored(spec, workers, faults, pairs=True, budget=10) for workers in (1, 2))
    assert together == alone
    assert together.findings


def test_scenarios_run_in_workers_and_what_agents_print_is_discarded(project, capsys):
    sim, recording = project.scenario(desk=DESK)
    subject = ScenarioSpec(recording=str(recording), file=str(sim), scenario="refunds", agent="desk")
    spec = WorkerSpec(subject, ExploreSettings())
    exploration = explored(spec, 1, "connection_reset,tool_lost")
    with ProcessExecutor(spec, 1) as executor:
        runs = list(executor.run([each.case for each in exploration.results]))
    assert runs == [each.run for each in exploration.results]
    assert capsys.readouterr().out == ""


DYING = """\
import os

def count(text: str) -> int:
    if not text:
        os._exit(3)
    return int(text)
"""
EMPTY = (parse_fault("step=ask call=1 attempt=1: empty_response"),)


@pytest.fixture
def worker(project):
    """Starts the worker of a workflow whose tool may be written anew for each process."""
    with ExitStack() as stack:

        def start(answers=COUNT_ANSWERS, *, limit_s=30.0, shop=DYING):
            spec = spec_of(project.workflow(COUNT, answers))
            project.write("shop.py", shop)
            started = WorkerProcess(spec, limit_s=limit_s)
            stack.callback(started.end)
            return started

        yield start


def test_a_worker_that_ends_is_a_crash_of_its_case_and_is_replaced(project, worker):
    dying = worker()
    assert dying.run(EMPTY).error.message == "the process ended with exit status 3"
    project.write("shop.py", DYING.replace("os._exit(3)", "os.kill(os.getpid(), 9)"))
    assert dying.run(EMPTY).error == RunFailure("undeclared", "ProcessEnded", "signal 9 ended the process")
    assert dying.run(()).error is None


def test_a_worker_that_does_not_answer_is_ended_and_its_case_has_hung(worker):
    stopped = worker(limit_s=0.2, shop=DYING.replace("os._exit(3)", "os.kill(os.getpid(), 19)"))
    assert stopped.run(EMPTY) == Run(
        hung="its process had to be ended after 0.2 s", fired=("step=ask call=1 attempt=1: empty_response",)
    )


def test_a_worker_that_cannot_run_its_subject_says_why(project, worker):
    started = worker()
    (project.folder / "run.json").unlink()
    with pytest.raises(InputError, match=r"run\.json"):
        started.run(())


def test_a_worker_that_ends_before_its_first_case_is_bad_input(worker):
    with pytest.raises(InputError, match="--workers 1"):
        worker({"ask": {"content": ""}}).run(())


def test_an_executor_that_is_left_ends_its_workers(project):
    cases = [FaultCase(f"{number}", (), ()) for number in range(50)]
    with ProcessExecutor(spec_of(project.workflow()), 1) as executor:
        runs = executor.run(cases)
        assert next(runs).result is not None
        runs.close()


@pytest.mark.parametrize(("took_s", "executor_type"), [(0.001, SerialExecutor), (10.0, ProcessExecutor)])
def test_by_itself_it_runs_cases_here_where_all_take_little_time(project, monkeypatch, took_s, executor_type):
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    spec = spec_of(project.workflow())
    with open_subject(spec.subject, spec.settings) as subject, AutoExecutor(subject, spec, "auto") as executor:
        cases = Explorer(executor.subject, ExploreOptions(variants=select_variants("connection_reset"))).cases
        assert executor.subject.took_s > 0
        executor.subject.took_s = took_s
        executor.run(cases)
        assert isinstance(executor.executor, executor_type)


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
    spec = WorkerSpec(spec, ExploreSettings(declared=("4",), deadline_s=20.0))
    alone, together = (explored(spec, workers, "http_error 500,http_error 401") for workers in (1, 2))
    assert together == alone
    assert {each.verdict for each in together.results} == {"crashed"}


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (ExploreSettings(on_divergence="live"), "cannot be answered live"),
        (ExploreSettings(declared=("ValueError",)), "a program ends with an exit code, not with 'ValueError'"),
    ],
)
def test_settings_that_do_not_fit_a_program_are_refused(settings, reason):
    spec = ProgramSpec(recording="run.json", command=("true",))
    with pytest.raises(InputError, match=reason), open_subject(spec, settings):
        pass
