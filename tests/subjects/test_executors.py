"""Who runs cases: in this process, in worker processes, in threads for programs."""

import sys
from contextlib import closing

import pytest

from offbook.errors import InputError
from offbook.explore.options import ExploreOptions
from offbook.explore.run import Run
from offbook.explore.runner import Explorer, SerialExecutor
from offbook.explore.variants import select_variants
from offbook.subjects.executors import AutoExecutor, ProcessExecutor, WorkerProcess
from offbook.subjects.open import open_subject
from offbook.subjects.specs import ExploreSettings, ProgramSpec, ScenarioSpec, WorkerSpec, WorkflowSpec
from tests.subjects.projects import CARELESS, COUNT, COUNT_ANSWERS, DESK


def spec_of(given, **settings):
    flow, recording = given
    return WorkerSpec(WorkflowSpec(recording=str(recording), file=str(flow)), ExploreSettings(**settings))


def explored(spec, workers, faults="all", **options):
    """What an exploration with so many workers comes to."""
    with open_subject(spec.subject, spec.settings) as subject, AutoExecutor(subject, spec, workers) as executor:
        return Explorer(
            executor.subject, ExploreOptions(variants=select_variants(faults), **options), executor=executor
        ).explore()


def test_two_workers_tell_the_same_as_one(project):
    spec = spec_of(project.workflow(CARELESS))
    alone, together = (explored(spec, workers, pairs=True, budget=80) for workers in (1, 2))
    assert together == alone
    assert together.findings


def test_scenarios_run_in_workers_whatever_their_agents_print(project):
    sim, recording = project.scenario(desk=DESK)
    subject = ScenarioSpec(recording=str(recording), file=str(sim), scenario="refunds", agent="desk")
    spec = WorkerSpec(subject, ExploreSettings())
    alone, together = (explored(spec, workers, "connection_reset,tool_lost") for workers in (1, 2))
    assert together == alone


def test_what_runs_print_is_not_heard(project, capsys):
    sim, recording = project.scenario(desk=DESK)
    subject = ScenarioSpec(recording=str(recording), file=str(sim), scenario="refunds", agent="desk")
    explored(WorkerSpec(subject, ExploreSettings()), 1, "connection_reset")
    assert capsys.readouterr().out == ""


DYING = """\
import os

def count(text: str) -> int:
    if not text:
        os._exit(3)
    return int(text)
"""


def test_a_worker_that_ends_is_a_crash_of_its_case_and_is_replaced(project):
    given = project.workflow(COUNT, COUNT_ANSWERS)
    project.write("shop.py", DYING)
    exploration = explored(spec_of(given), 2, "empty_response,connection_reset")
    told = {str(each.case): (each.verdict, each.assessment.evidence) for each in exploration.results}
    died = ("ProcessEnded: the process ended with exit status 3",)
    assert told["step=ask call=1 attempt=1: empty_response"] == ("crashed", died)
    assert told["step=ask call=1 attempt=1: connection_reset"][0] == "recovered"


def test_a_worker_that_is_killed_is_told_by_its_signal(project):
    given = project.workflow(COUNT, COUNT_ANSWERS)
    project.write("shop.py", DYING.replace("os._exit(3)", "os.kill(os.getpid(), 9)"))
    with ProcessExecutor(spec_of(given), 1) as executor:
        with open_subject(spec_of(given).subject, ExploreSettings()) as subject:
            cases = Explorer(subject, ExploreOptions(variants=select_variants("empty_response"))).cases
        runs = list(executor.run(cases))
    assert [run.error.message for run in runs] == ["signal 9 ended the process"]


def test_a_worker_that_does_not_answer_is_ended_and_its_case_has_hung(project):
    given = project.workflow(COUNT, COUNT_ANSWERS)
    project.write("shop.py", DYING.replace("os._exit(3)", "os.kill(os.getpid(), 19)"))
    with open_subject(spec_of(given).subject, ExploreSettings()) as subject:
        case = Explorer(subject, ExploreOptions(variants=select_variants("empty_response"))).cases[0]
    with closing(_Ended(spec_of(given), limit_s=1.0)) as worker:
        assert worker.run(case.lines) == Run(
            hung="its process had to be ended after 1 s", fired=("step=ask call=1 attempt=1: empty_response",)
        )


class _Ended(WorkerProcess):
    close = WorkerProcess.end


def test_a_worker_that_cannot_run_its_subject_says_why(project):
    flow, recording = project.workflow()
    spec = spec_of((flow, recording))
    recording.unlink()
    with closing(_Ended(spec, limit_s=30.0)) as worker, pytest.raises(InputError, match=r"run\.json"):
        worker.run(())


def test_a_worker_that_ends_before_its_first_case_is_bad_input(project):
    given = project.workflow(COUNT, {"ask": {"content": ""}})
    project.write("shop.py", DYING)
    with closing(_Ended(spec_of(given), limit_s=30.0)) as worker, pytest.raises(InputError, match="--workers 1"):
        worker.run(())


def test_a_crew_that_is_left_ends_its_workers(project):
    spec = spec_of(project.workflow())
    with open_subject(spec.subject, spec.settings) as subject:
        cases = Explorer(subject, ExploreOptions(variants=select_variants("all"))).cases
    with ProcessExecutor(spec, 2) as executor:
        runs = executor.run(cases)
        assert next(runs).result is not None
        runs.close()


@pytest.mark.parametrize(("took_s", "is_alone"), [(0.001, True), (10.0, False)])
def test_by_itself_a_crew_works_alone_where_all_takes_little_time(project, took_s, is_alone):
    spec = spec_of(project.workflow())
    with open_subject(spec.subject, spec.settings) as subject, AutoExecutor(subject, spec, "auto") as executor:
        cases = Explorer(executor.subject, ExploreOptions(variants=select_variants("connection_reset"))).cases
        assert executor.subject.took_s > 0
        executor.subject.took_s = took_s
        assert len(list(executor.run(cases))) == len(cases)
        assert isinstance(executor.executor, SerialExecutor) == is_alone


PROGRAM = """\
import json, os, urllib.request
asked = {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}
url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
request = urllib.request.Request(url, json.dumps(asked).encode(), {"content-type": "application/json"})
print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
"""


def test_programs_run_in_threads_and_tell_the_same_however_many(project):
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
def test_terms_that_do_not_fit_a_program_are_refused(settings, reason):
    spec = ProgramSpec(recording="run.json", command=("true",))
    with pytest.raises(InputError, match=reason), open_subject(spec, settings):
        pass
