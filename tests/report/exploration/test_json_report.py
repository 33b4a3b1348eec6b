"""Explorations as JSON, and back."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from offbook.errors import InputError
from offbook.explore.cases import FaultCase, cases_of
from offbook.explore.explorer import Exploration
from offbook.explore.options import VARIANTS
from offbook.explore.run import Run, RunFailure, sites_of
from offbook.explore.schedule import LeftOutFault
from offbook.explore.verdict import VERDICTS, Assessment
from offbook.report.exploration import load_exploration
from offbook.report.exploration.json_report import exploration_json, load_reported
from offbook.report.exploration.report_input import ReportOptions, ReportOrigin
from tests.report.exploration import explorations


def written(exploration, before=None):
    return exploration_json(ReportOptions(explorations.reproduce, before).report_input(exploration))


def report_of(exploration, before=None):
    return json.loads(written(exploration, before))


def loaded(data, tmp_path):
    path = tmp_path / "e.json"
    path.write_bytes(data)
    return load_exploration(path)


def refusal(tmp_path, change):
    """What is said of a report that was changed."""
    report = report_of(explorations.naive())
    change(report)
    with pytest.raises(InputError) as caught:
        loaded(json.dumps(report).encode(), tmp_path)
    return caught.value


def test_everything_is_reported():
    report = report_of(explorations.naive(left=2), before=explorations.sound())
    assert report["version"] == 1
    assert report["subject"] == "refund_agent"
    assert report["is_complete"] is True
    assert report["findings"] == 3
    assert report["left"] == 2
    assert report["left_out"] == [{"family": "model", "fault": "timeout", "cases": 2, "tried": 0}]
    assert report["tally"]["crashed"] == 2
    assert report["rows"] == ["1 agent", "2 agent", "find_order 1", "refund 1"]
    assert report["columns"] == ["connection_reset", "connection_reset, always", "tool_lost"]
    assert report["coverage"]["never_ran"] == ["fallback", "breaker open"]
    assert report["comparison"]["same"] == 1
    assert report["comparison"]["changes"][1] == {
        "case": "step=agent call=1: connection_reset",
        "before": "recovered",
        "after": "crashed",
        "is_worse": True,
        "was_left_out": False,
        "is_left_out": False,
    }
    case = report["explored"][5]
    assert case["id"] == "0006"
    assert case["case"] == "tool=refund call=1: tool_lost"
    assert case["verdict"] == "repeated effect"
    assert case["reason"] == "certain"
    assert case["is_finding"] is True
    assert case["reproduce"] == "offbook explore refund.py --only 0006"
    assert case["faults"] == [
        {
            "at": {"tool": "refund", "call": 1},
            "fault": {"type": "tool_lost", "error": case["faults"][0]["fault"]["error"]},
        }
    ]
    assert case["cells"] == [{"row": "refund 1", "column": "tool_lost"}]
    assert case["run"]["tools"][2]["call"] == 2


def test_without_an_earlier_exploration_nothing_is_compared():
    assert report_of(explorations.naive())["comparison"] is None


def test_every_case_is_a_line():
    lines = written(explorations.naive()).decode().splitlines()
    assert [json.loads(line.rstrip(","))["id"] for line in lines[-8:-2]] == [f"{n:04}" for n in range(1, 7)]


@pytest.mark.parametrize("name", ["naive", "sound", "with_pair", "hostile", "large"])
def test_what_was_written_is_read_back(name, tmp_path):
    exploration = getattr(explorations, name)()
    assert loaded(written(exploration), tmp_path) == exploration


def test_an_exploration_of_nothing_is_read_back(tmp_path):
    empty = Exploration("nothing", Run(), left_out=(LeftOutFault("tool", "tool_lost", 7, 0),))
    assert loaded(written(empty), tmp_path) == empty


@given(
    verdict=st.sampled_from(VERDICTS),
    evidence=st.lists(st.text(), max_size=2),
    result=st.recursive(st.none() | st.booleans() | st.text() | st.integers(-(2**60), 2**60), st.lists),
    variant=st.sampled_from(VARIANTS),
)
def test_whatever_a_run_gave_is_read_back(verdict, evidence, result, variant, tmp_path_factory):
    made = cases_of(sites_of(explorations.CLEAN), [variant]) or [FaultCase("0001", (), ())]
    run = Run(result=result, error=RunFailure("declared", "E", "".join(evidence)), took_s=0.25, hung="x", diverged="y")
    explored = tuple(explorations.judged(case, run, verdict, *evidence) for case in made)
    exploration = Exploration("s", explorations.CLEAN, explored)
    assert loaded(written(exploration), tmp_path_factory.mktemp("e")) == exploration


def test_equal_explorations_are_the_same_bytes_whatever_the_order_of_their_keys():
    def given_by(order):
        run = replace(explorations.CLEAN, result=dict(order), paths=dict(order))
        return replace(explorations.naive(), clean=run)

    one, other = given_by([("a", 1), ("b", 2)]), given_by([("b", 2), ("a", 1)])
    assert one == other
    assert written(one) == written(other)


def test_half_characters_leave_the_faults_readable(tmp_path):
    exploration = explorations.naive()
    broken = replace(exploration.results[0], assessment=Assessment("undetected", ("half \ud800",), "failed check"))
    back = loaded(written(replace(exploration, results=(broken,))), tmp_path)
    assert back.results[0].case == broken.case
    assert back.results[0].assessment.evidence == ("half \\ud800",)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"no\.json: No such file"):
        load_exploration(tmp_path / "no.json")


@pytest.mark.parametrize(
    ("data", "reason", "place"),
    [
        (b"", "the file is empty", ""),
        (b'{"version": 1,', "the JSON ends in the middle", "line 1, column 15"),
        (b'{"version": 1, "subject": "\xff"}', "not UTF-8: invalid start byte", "line 1, column 28"),
        (b'{"version": 1, "clean": {"result": ' + b"[" * 100_000, "nested too deep", ""),
        (b"[]", "expected an object, got a list", ""),
        (b"{}", "the field version is missing", ""),
        (b'{"version": 2}', "a report of version 2", "version"),
    ],
)
def test_what_is_no_report_is_refused_with_its_place(data, reason, place, tmp_path):
    with pytest.raises(InputError) as caught:
        loaded(data, tmp_path)
    assert caught.value.reason == reason
    assert caught.value.place == place
    assert caught.value.source.endswith("e.json")
    assert caught.value.hint


def test_a_field_that_is_not_what_it_should_be_is_refused_with_its_place(tmp_path):
    error = refusal(tmp_path, lambda report: report["explored"][2].update(verdict="fine"))
    assert error.reason == "unknown value 'fine'"
    assert error.place == "explored[2].verdict"
    error = refusal(tmp_path, lambda report: report["explored"][1]["run"]["calls"][0].update(number="x"))
    assert error.place == "explored[1].run.calls[0].number"


def test_a_fault_that_cannot_fire_where_it_is_said_to_is_refused(tmp_path):
    error = refusal(tmp_path, lambda report: report["explored"][0]["faults"][0]["at"].update(chunk=3))
    assert error.reason == "connection_reset does not fire inside a stream"
    assert error.place == "explored[0].faults[0].at.chunk"


def test_a_report_names_what_it_came_from_and_is_the_input_of_further_reports(tmp_path):
    origin = ReportOrigin(version="1.0", command="offbook explore flow.yaml", recording="run.json", recorded_at="2026")
    path = tmp_path / "e.json"
    path.write_bytes(
        exploration_json(ReportOptions(explorations.reproduce, origin=origin).report_input(explorations.naive()))
    )
    assert json.loads(path.read_bytes())["origin"]["command"] == "offbook explore flow.yaml"
    again = load_reported(path)
    assert again.origin == origin
    assert again.is_complete
    assert exploration_json(again) == path.read_bytes()
