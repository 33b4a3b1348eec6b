"""The proof that explore finds defects: agents with one each, and sound twins of them that nothing is found in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.explore.zoo import ledger
from tests.explore.zoo.animals import ANIMALS
from tests.explore.zoo.census import explore


@pytest.fixture(params=ANIMALS, ids=lambda planted: f"{planted.kind}: {planted.name}")
def planted(request, tmp_path, monkeypatch):
    """A planted defect that can run here, with a ledger."""
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    if request.param.missing:
        pytest.skip(request.param.missing)
    if not any(Path(__file__).name in name for name in request.config.args):
        pytest.skip("it takes minutes: name this file, as `make conformance` does")
    return request.param


def test_the_defect_of_an_agent_is_found(planted, tmp_path):
    census = explore(planted, "defect", tmp_path)
    assert {each.verdict for each in census.findings} <= {planted.verdict, *planted.also}
    assert census.expected is not None
    assert (census.expected.verdict, census.expected.is_finding) == (planted.verdict, True)
    assert planted.evidence in census.expected.evidence
    assert census.disagreements == []


def test_nothing_is_found_in_its_sound_twin(planted, tmp_path):
    census = explore(planted, "sound", tmp_path)
    assert census.findings == []
    assert census.disagreements == []
    assert census.counts["recovered"] > 0
    assert census.counts["undecided"] <= 0.05 * len(census.cases)
