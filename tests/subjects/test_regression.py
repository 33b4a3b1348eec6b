"""Findings that are kept: written once, minimised, and run again in their folder."""

import json
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from offbook.errors import InputError
from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.run import ModelCall, Run, RunFailure
from offbook.explore.settings import ExploreSettings
from offbook.faults import parse_fault
from offbook.subjects import is_regression
from offbook.subjects.function import FunctionSubject
from offbook.subjects.regression import Regression, RegressionFolder, load_regression, reproduce
from offbook.subjects.specs import ProgramSpec, WorkflowSpec, open_subject
from tests.explore.runs import write_recording
from tests.fakes import user
from tests.subjects.projects import CARELESS, REFUND

LOST = "tool=refund call=1: tool_lost"


@pytest.fixture
def careless(project):
    project.workflow(CARELESS)
    return WorkflowSpec(recording="run.json", file="flow.yaml")


def write_finding(spec, *lines, folder="regress", invariants=None):
    """The files of what was found with the faults of each of `lines`."""
    kind = Regression(
        offbook="regression",
        verdict="crashed",
        faults=(),
        subject=spec,
        invariants=invariants,
        settings=ExploreSettings(),
    )
    cases = [
        FaultCase(f"{number:04}", tuple(map(parse_fault, line.split("; "))), ()) for number, line in enumerate(lines, 7)
    ]
    with open_subject(spec, ExploreSettings()) as subject:
        exploration = Explorer(subject, ExploreOptions(variants=select_variants("all"))).explore(cases)
        return RegressionFolder(folder, kind).keep(subject, exploration.clean, exploration.findings)


def test_a_finding_is_kept_with_all_that_it_takes_to_run_it_again(careless):
    (file,) = write_finding(careless, LOST)
    assert str(file) == "regress/0007.json"
    assert is_regression(file)
    regression = load_regression(file)
    assert str(regression) == LOST
    assert regression.verdict == "repeated effect"
    assert regression.subject == careless
    assert regression.folder == ".."


def test_it_is_a_finding_until_it_is_mended(careless, project):
    (file,) = write_finding(careless, LOST)
    assert reproduce(file).verdict == "repeated effect"
    project.write("flow.yaml", REFUND)
    assert reproduce(file).verdict == "failed partway"


def test_it_is_run_in_the_folder_that_it_was_found_in(careless, monkeypatch):
    (file,) = write_finding(careless, LOST)
    there = file.resolve()
    monkeypatch.chdir("/")
    assert reproduce(there).is_finding
    assert Path.cwd() == Path("/")


def test_faults_that_it_does_not_need_are_left_out(careless):
    lines = f"step=plan attempt=1: http_error 500; {LOST}"
    (file,) = write_finding(careless, lines)
    assert str(load_regression(file)) == LOST


def test_two_that_come_down_to_the_same_are_kept_once(careless):
    assert len(write_finding(careless, LOST, f"step=plan attempt=1: http_error 500; {LOST}")) == 1


def test_what_is_there_already_stays_as_it_is(careless):
    first, again = write_finding(careless, LOST), write_finding(careless, "step=plan attempt=1: timeout", LOST)
    assert again == first
    assert [file.name for file in Path("regress").iterdir()] == ["0007.json"]


def test_another_finding_does_not_take_the_place_of_one_that_is_kept(careless, project):
    write_finding(careless, LOST)
    project.write("checks.py", "def invariant_tells(run):\n    assert run.error is None\n")
    kind = Regression(
        offbook="regression",
        verdict="crashed",
        faults=(),
        subject=careless,
        settings=ExploreSettings(),
        invariants="checks.py",
    )
    with open_subject(careless, ExploreSettings()) as subject:
        case = FaultCase("0007", (parse_fault("step=plan: http_error 500"),), ())
        options = ExploreOptions(variants=(), invariants=[lambda run: run.error is None])
        exploration = Explorer(subject, options).explore([case])
        (file,) = RegressionFolder("regress", kind).keep(subject, exploration.clean, exploration.findings)
    assert str(file) == "regress/0007-2.json"
    assert reproduce(file).assessment.evidence == ("invariant_tells",)


def test_a_program_is_run_again_in_its_folder(project):
    project.write("agent.py", "import os, urllib.request\nurllib.request.urlopen(os.environ['OPENAI_BASE_URL'])\n")
    project.write("run.json", '{"_version": 2, "any": [{"content": "Hello!"}]}')
    spec = ProgramSpec(recording="run.json", command=(sys.executable, "agent.py"))
    regression = Regression(
        offbook="regression", verdict="crashed", faults=(parse_fault("call=1: http_error 500"),), subject=spec
    )
    with pytest.raises(InputError, match="the run fails without any fault: run"):
        regression.reproduce()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"verdict": "bad"}, "value 'bad'"),
        ({"folder": "../nowhere"}, "there is no folder"),
        ({"subject": {"type": "book"}}, "'book'"),
        ({"more": 1}, "unknown field"),
    ],
)
def test_a_file_that_is_wrong_is_reported_with_its_place(careless, change, reason):
    (file,) = write_finding(careless, LOST)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError) as caught:
        reproduce(file)
    assert reason.lower() in str(caught.value).lower()
    assert caught.value.source == str(file)
    assert caught.value.place == next(iter(change)) or caught.value.place in ("subject.type", "")


def test_a_file_that_is_no_json_or_not_there_is_bad_input(project):
    file = project.write("0001.json", "{")
    with pytest.raises(InputError, match=r"0001\.json"):
        load_regression(file)
    with pytest.raises(InputError, match="No such file"):
        load_regression("nowhere.json")
    assert not is_regression("nowhere.json")
    assert not is_regression(file)


def test_a_folder_that_cannot_be_written_is_bad_input(careless, project):
    project.write("taken", "")
    with pytest.raises(InputError, match="taken"):
        write_finding(careless, LOST, folder="taken/regress")


NEWS, WEATHER = "tool=news call=1: tool_error", "tool=weather call=1: tool_error"


def keep(subject, lines, **settings):
    """The lines that are kept of a finding with these faults."""
    case = FaultCase("0007", tuple(map(parse_fault, lines)), ())
    optional = frozenset(settings.get("optional", ()))
    exploration = Explorer(subject, ExploreOptions(variants=(), optional=optional)).explore([case])
    kind = Regression(
        offbook="regression",
        verdict="crashed",
        faults=(),
        subject=WorkflowSpec(recording="run.json", file="flow.yaml"),
        settings=ExploreSettings(**settings),
    )
    (file,) = RegressionFolder("regress", kind).keep(subject, exploration.clean, exploration.findings)
    return str(load_regression(file))


def test_a_fault_of_an_optional_tool_is_left_out_of_what_is_kept(project):
    def news():
        return "none"

    def weather():
        return "sun"

    async def agent(harness):
        for given in harness.tools(news, weather).values():
            with suppress(Exception):
                given.callable()
        return (await harness.provider.complete(user("Hi"), "m", step_id="s")).content

    calls = {"news": [{"arguments": {}, "result": "none"}], "weather": [{"arguments": {}, "result": "sun"}]}
    recording = write_recording(Path("hello.json"), {"s": [{"content": "Hello"}], "_tools": calls})
    subject = FunctionSubject(agent, recording)
    assert keep(subject, [NEWS, WEATHER], optional=("weather",)) == NEWS


class SubjectOfTwoMinds:
    """It crashes by the fault of `news`, but only if its model gives up on that."""

    name = "agent"

    def run(self, plan, continuation="stubborn"):
        fired = tuple(str(line) for line in plan)
        has_crashed = NEWS in fired and continuation == "resigned"
        return Run(
            result=None if has_crashed else "Hello",
            error=RunFailure("undeclared", "KeyError", "'news'") if has_crashed else None,
            calls=(ModelCall(number=1, step_call=1),),
            fired=fired,
            continuation=continuation if NEWS in fired else "",
        )


def test_a_finding_of_any_continuation_is_kept_with_what_it_needs(project):
    assert keep(SubjectOfTwoMinds(), ["call=1 attempt=1: http_error 500", NEWS]) == NEWS
