"""Findings that were kept, as items of pytest."""

import pytest

from offbook.explore.cases import FaultCase
from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions
from offbook.explore.settings import ExploreSettings
from offbook.faults import parse_fault
from offbook.subjects.regression import Regression, RegressionFolder
from offbook.subjects.specs import WorkflowSpec, open_subject
from tests.pytest_plugin.conftest import printed_output
from tests.subjects.projects import CARELESS, REFUND, Project


@pytest.fixture
def finding(project, monkeypatch):
    """A project with a finding that was kept in `regress`, and a JSON file that is none."""
    monkeypatch.chdir(project.folder)
    Project(project.folder).workflow(CARELESS)
    described = WorkflowSpec(recording="run.json", file="flow.yaml")
    kind = Regression(offbook="regression", verdict="crashed", faults=(), subject=described)
    with open_subject(described, ExploreSettings()) as subject:
        case = FaultCase("0007", (parse_fault("tool=refund call=1: tool_lost"),), ())
        exploration = Explorer(subject, ExploreOptions(variants=())).explore([case])
        RegressionFolder("regress", kind).keep(subject, exploration.clean, exploration.findings)
    project.write("regress/other.json", '{"offbook": 1}')
    return project


def test_a_finding_fails_while_it_is_there(finding):
    result = finding.run()
    result.assert_outcomes(failed=1)
    assert 'repeated effect: refund(order="42") ran 2 times instead of once' in printed_output(result)
    assert "again: offbook replay --plan" in printed_output(result)


def test_it_passes_when_it_is_mended(finding):
    Project(finding.folder).workflow(REFUND)
    finding.run().assert_outcomes(passed=1)


def test_what_it_needs_and_lacks_is_reported_without_a_traceback(finding):
    (finding.folder / "run.json").unlink()
    result = finding.run()
    result.assert_outcomes(failed=1)
    assert "run.json" in printed_output(result)
    assert "Traceback" not in printed_output(result)
