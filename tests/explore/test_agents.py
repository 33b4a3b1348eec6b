"""The proof that explore finds defects: agents with one each, and sound twins of them that nothing is found in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.explore.zoo import ledger
from tests.explore.zoo.animals import ANIMALS, twins_of
from tests.explore.zoo.census import bare_findings, explore
from tests.explore.zoo.programs import PlantedProgram
from tests.explore.zoo.report import animal, report_of

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
    assert census.expected.is_finding or planted.verdict == "undecided"
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
    assert len(ANIMALS) >= 185
    assert len(TWINS) >= 155
    assert len(programs) >= 15


SHARES = 12


@pytest.fixture
def shares(request, tmp_path, monkeypatch):
    """A part of the pairs that can be told apart with nothing declared, mixed from all kinds of agents."""
    monkeypatch.setenv(ledger.VARIABLE, str(tmp_path / "ledger"))
    if not any(Path(__file__).name in name for name in request.config.args):
        pytest.skip("it takes minutes: name this file, as `make zoo` does")
    return [each for each in ANIMALS[request.param :: SHARES] if not (each.missing or each.needs_declarations)]


@pytest.mark.parametrize("shares", range(SHARES), indirect=True)
def test_with_nothing_declared_twins_look_better_than_defects_and_four_of_five_have_no_finding(shares, tmp_path):
    counts, accused = {}, {}
    for planted in shares:
        name = f"{planted.kind}: {planted.name}"
        defect, accused[name] = (bare_findings(planted, twin, tmp_path) for twin in ("defect", "sound"))
        counts[name] = (len(accused[name]), len(defect))
    assert {name: each for name, each in counts.items() if each[0] >= each[1]} == {}
    free = [name for name, found in accused.items() if not found]
    assert len(free) >= 0.8 * len(accused), [found for found in accused.values() if found]


SOME_FAULTS = "http_error 500,empty_response,invalid_tool_args,tool_lost,tool_garbled"
SAMPLE = {
    "function: refunds again when it is asked to": SOME_FAULTS,
    "workflow: refunds when it is asked to": SOME_FAULTS,
    "scenario: refunds until it hears of it": SOME_FAULTS,
    "desk.py: starts over": "http_error 500,invalid_tool_args",
    "bureau.py: runs a tool again, with noise": "http_error 500",
    "mcp_desk.py: claims a refund and a mail in a Japanese dict": "tool_error",
    "crash_desk.py: saves after": "crash",
}


@pytest.fixture(scope="module")
def tomorrow(tmp_path_factory):
    """The environment in which a process, and what it starts, sees the date of tomorrow."""
    compiler = shutil.which("cc")
    if compiler is None or not sys.platform.startswith("linux"):
        pytest.skip("it needs a C compiler and Linux")
    library = tmp_path_factory.mktemp("tomorrow") / "tomorrow.so"
    source = Path(__file__).parent / "zoo" / "tomorrow.c"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return {"LD_PRELOAD": str(library)}


@pytest.fixture
def busy():
    """A process beside ours that works all the time."""
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as load:
        yield
        load.kill()


@pytest.mark.parametrize("planted", [animal(name) for name in SAMPLE], ids=list(SAMPLE), indirect=True)
def test_the_same_exploration_has_the_same_bytes_tomorrow_beside_a_load_and_with_more_workers(
    planted, tmp_path, tomorrow, busy
):
    name = f"{planted.kind}: {planted.name}"
    today = report_of(planted, tmp_path, SAMPLE[name], workers=1)
    command = [sys.executable, "-m", "tests.explore.zoo.report", name, SAMPLE[name], "3", str(tmp_path)]
    repeated = subprocess.run(command, env=os.environ | tomorrow, check=True, capture_output=True).stdout
    assert verdicts_of(today) == verdicts_of(repeated)
    assert today == repeated or "noise" in name  # its results, which are in the report, are others in every run
    assert {planted.verdict.removeprefix("possible ")} <= {verdict for _, verdict, _ in verdicts_of(today)}


def verdicts_of(report):
    return [(case["case"], case["verdict"], case["reason"]) for case in json.loads(report)["explored"]]
