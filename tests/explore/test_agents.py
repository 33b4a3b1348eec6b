"""The proof that explore finds defects: agents with one each, and sound twins of them that nothing is found in."""

from __future__ import annotations

from pathlib import Path

import pytest

from offbook.explore.explorer import Explorer
from offbook.explore.options import VARIANTS, ExploreOptions, select_variants
from offbook.report.exploration.json_report import exploration_json
from offbook.report.exploration.report_input import ReportInput
from offbook.subjects.executors import executor_of
from tests.explore.zoo import ledger
from tests.explore.zoo.animals import ANIMALS, twins_of
from tests.explore.zoo.census import explore
from tests.explore.zoo.programs import PlantedProgram

TWINS = twins_of(ANIMALS)


@pytest.fixture
def planted(request, tmp_path, monkeypatch):
    """A planted defect that can run here, with a ledger."""
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    if request.param.missing:
        pytest.skip(request.param.missing)
    if not any(Path(__file__).name in name for name in request.config.args):
        pytest.skip("it takes minutes: name this file, as `make zoo` does")
    return request.param


@pytest.mark.parametrize("planted", ANIMALS, ids=lambda each: f"{each.kind}: {each.name}", indirect=True)
def test_the_defect_of_an_agent_is_found(planted, tmp_path):
    census = explore(planted, "defect", tmp_path, is_quick=planted.is_slow)
    assert [each for each in census.findings if not planted.may_get(each.verdict)] == []
    assert census.expected is not None
    assert planted.is_found(census.expected.verdict)
    assert census.expected.is_finding
    assert planted.evidence in census.expected.evidence
    assert census.disagreements == []


@pytest.mark.parametrize(
    ("planted", "same"),
    [(group[0], group) for group in TWINS],
    ids=[f"{group[0].kind}: {', '.join(each.name for each in group)}" for group in TWINS],
    indirect=["planted"],
)
def test_nothing_is_found_in_its_sound_twin(planted, same, tmp_path):
    census = explore(planted, "sound", tmp_path)
    assert census.findings == []
    assert census.disagreements == []
    assert census.counts["recovered"] > 0
    assert census.counts["undecided"] <= planted.undecided * len(census.cases)
    assert [each for planted in same if planted.twin_is for each in census.at(planted) if is_else(planted, each)] == []


def is_else(planted, found):
    return found.verdict not in planted.twin_is


def test_the_zoo_is_as_large_as_it_is_said_to_be():
    programs = [group for group in TWINS if isinstance(group[0], PlantedProgram) and group[0].side_effects]
    assert len(ANIMALS) >= 80
    assert len(TWINS) >= 60
    assert len(programs) >= 15


SOME_FAULTS = "http_error 500,empty_response,invalid_tool_args,tool_lost,tool_garbled"


@pytest.mark.parametrize(
    ("name", "faults"),
    [
        ("function: refunds again when it is asked to", SOME_FAULTS),
        ("workflow: refunds when it is asked to", SOME_FAULTS),
        ("scenario: refunds until it hears of it", SOME_FAULTS),
        ("desk.py: starts over", "http_error 500,invalid_tool_args"),
        ("crash_desk.py: saves after", "crash"),
    ],
)
def test_the_same_exploration_has_the_same_bytes_with_any_number_of_workers(name, faults, tmp_path, monkeypatch):
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    planted = next(each for each in ANIMALS if f"{each.kind}: {each.name}" == name)
    reports = [report_of(planted, tmp_path, faults, workers=workers) for workers in (1, 1, 2)]
    assert reports[0] == reports[1] == reports[2]
    assert f'"{planted.verdict.partition(" (")[0]}"'.encode() in reports[0]


def report_of(planted, folder, faults, *, workers):
    """The JSON report of a planted defect."""
    with planted.open("defect", folder) as subject:
        options = ExploreOptions(variants=select_variants(faults, getattr(subject, "variants", VARIANTS)))
        exploration = Explorer(subject, options, executor=executor_of(subject, workers)).explore()
    return exploration_json(ReportInput(exploration=exploration, reproduce=str))
