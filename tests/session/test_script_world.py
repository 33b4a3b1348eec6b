"""After an effect whose answer was lost, the replayed world does not say that nothing has happened."""

import json
from contextlib import suppress

import pytest

from offbook import explore_function, tool
from offbook.errors import RecordingFormatError, ToolFaultError
from offbook.explore.observer import RunObserver
from offbook.faults import parse_fault
from offbook.faults.log import FaultLog
from offbook.recording.stores.locate import open_store
from offbook.session.script import ModelScript, Script, UnseenEffect, World
from offbook.tools.effects import ToolDeclaration
from offbook.wire.backend import WireBackend
from offbook.wire.options import ProgramToolOptions, WireOptions, parse_fault_plan
from offbook.wire.session import ExploredRun
from offbook.wire.tools import ProgramTools, SessionTools, ToolMessage
from tests.explore.runs import write_recording

ORDER = {"order": 42}
NONE, FOUND = {"arguments": ORDER, "result": "none"}, {"arguments": ORDER, "result": "invoice 7"}
CREATED = {"arguments": ORDER, "result": "invoice 7"}
WRITTEN = {"when": "after create_invoice", "arguments": ORDER, "result": "invoice 7"}
LOST = "tool=create_invoice call=1: tool_lost"
UNKNOWN = "the recording does not know what find_invoice says after create_invoice; add it to _tools: "


@tool(read_only=True)
def find_invoice(order: int) -> str:
    """Find the invoice of an order."""
    raise AssertionError


@tool(side_effect=True)
def create_invoice(order: int) -> str:
    """Create an invoice."""
    raise AssertionError


def reads_back(harness):
    tools = harness.tools(find_invoice, create_invoice)
    find, create = (tools[name].callable for name in ("find_invoice", "create_invoice"))
    for _ in range(3):
        if find(order=42) != "none":
            return "done"
        try:
            if create(order=42) == "invoice 7":
                break
        except ToolFaultError:
            pass
    return "done"


def looks_after_it(harness):
    tools = harness.tools(find_invoice, create_invoice)
    find, create = (tools[name].callable for name in ("find_invoice", "create_invoice"))
    while find(order=42) == "none":
        try:
            create(order=42)
        except ToolFaultError:
            continue
    return "done"


def explored(tmp_path, agent, **recorded):
    tools = {"find_invoice": [NONE], "create_invoice": [CREATED]} | recorded
    recording = write_recording(tmp_path / "run.json", {"_tools": tools})
    exploration = explore_function(agent, recording, faults="tool_lost,tool_garbled,tool_error", workers=1)
    return {str(each.case): each for each in exploration.results}


@pytest.mark.parametrize("fault", ["tool_lost", "tool_garbled"])
def test_a_read_that_is_known_only_from_before_the_effect_is_undecided(tmp_path, fault):
    result = explored(tmp_path, reads_back)[f"tool=create_invoice call=1: {fault}"]
    assert result.title == "undecided"
    entry = json.loads(result.evidence[0].removeprefix(UNKNOWN))
    assert entry == {"find_invoice": [{"when": "after create_invoice", "arguments": ORDER, "result": None}]}
    assert "with the answer from before it: create_invoice(order=42) ran 2 times instead of once" in result.evidence


def test_what_is_written_for_after_the_effect_answers(tmp_path):
    assert explored(tmp_path, reads_back, find_invoice=[NONE, WRITTEN])[LOST].title == "recovered"
    anything = {"when": "after create_invoice", "result": "invoice 7"}
    assert explored(tmp_path, reads_back, find_invoice=[NONE, anything])[LOST].title == "recovered"
    other = {"when": "after refund", "result": "invoice 7"}
    assert explored(tmp_path, reads_back, find_invoice=[NONE, other])[LOST].title == "undecided"


def test_a_later_recorded_answer_to_the_same_read_answers(tmp_path):
    assert explored(tmp_path, looks_after_it, find_invoice=[NONE, FOUND])[LOST].title == "recovered"


def test_a_tool_that_did_not_run_has_changed_nothing(tmp_path):
    assert explored(tmp_path, reads_back)["tool=create_invoice call=1: tool_error"].title == "recovered"


def looks_at_the_end(harness):
    tools = harness.tools(find_invoice, create_invoice)
    find, create = (tools[name].callable for name in ("find_invoice", "create_invoice"))
    find(order=42)
    for _ in range(2):
        try:
            create(order=42)
        except ToolFaultError:
            if find(order=42) == "none":
                continue
        break
    return "done" if find(order=42) != "none" else "there is none"


PREVENTED = "tool=create_invoice call=1: tool_error"


def test_a_read_after_a_prevented_effect_says_what_it_said_before_it(tmp_path):
    assert explored(tmp_path, looks_at_the_end, find_invoice=[NONE, FOUND])[PREVENTED].title == "recovered"


def looks_only_at_the_end(harness):
    tools = harness.tools(find_invoice, create_invoice)
    with suppress(ToolFaultError):
        tools["create_invoice"].callable(order=42)
    return tools["find_invoice"].callable(order=42)


def test_a_read_does_not_know_what_it_says_without_an_effect_that_it_was_recorded_after(tmp_path):
    result = explored(tmp_path, looks_only_at_the_end, find_invoice=[FOUND])[PREVENTED]
    assert result.title == "undecided"
    assert result.evidence[0].startswith(
        "the recording does not know what find_invoice says without create_invoice, which did not run"
    )


LOG = FaultLog()
LOG.fired += [
    parse_fault("tool=billing.create call=2: tool_lost"),
    parse_fault("tool=billing.search call=1: tool_lost"),
]
ACTS, READS = ToolDeclaration(side_effect=True), ToolDeclaration(read_only=True)


@pytest.mark.parametrize(
    ("tool_name", "declared", "unseen"),
    [
        ("billing.find", {"billing.create": ACTS, "billing.find": READS}, UnseenEffect("billing.create", 2)),
        ("billing.find", {"create": ACTS, "find": READS}, UnseenEffect("billing.create", 2)),
        ("billing.list_all", {"billing.create": ACTS}, UnseenEffect("billing.create", 2)),
        ("billing.listen", {"billing.create": ACTS}, None),
        ("billing.notify", {"billing.create": ACTS}, None),
        ("billing.find", {"billing.create": ACTS, "billing.find": ACTS}, None),
        ("billing.find", {"billing.find": READS}, None),
    ],
)
def test_a_read_shows_the_last_effect_that_nobody_has_seen(tool_name, declared, unseen):
    assert World(LOG, declared).unseen_before(tool_name) == unseen


def blind(harness):
    create = harness.tools(find_invoice, create_invoice)["create_invoice"].callable
    for _ in range(2):
        try:
            create(order=42)
            break
        except ToolFaultError:
            continue
    return "done"


def test_who_repeats_an_effect_without_a_look_is_found(tmp_path):
    assert explored(tmp_path, blind)[LOST].title == "repeated effect"


def test_what_is_written_for_after_an_effect_answers_nothing_else(tmp_path):
    recording = write_recording(tmp_path / "run.json", {"_tools": {"find_invoice": [NONE, WRITTEN]}})
    document = open_store(recording).load()
    assert [each.when for each in document.tools["find_invoice"]] == [None, "after create_invoice"]
    bad = write_recording(tmp_path / "bad.json", {"_tools": {"find_invoice": [{"when": "later", "result": 1}]}})
    with pytest.raises(RecordingFormatError, match="when"):
        open_store(bad).load()


@pytest.mark.parametrize(("found", "says", "unknown"), [([NONE], "none", 1), ([NONE, WRITTEN], "invoice 7", 0)])
def test_the_tools_of_a_program_remember_it_too(found, says, unknown):
    recording = {"_version": 2, "_tools": {"find_invoice": found, "create_invoice": [CREATED]}}
    backend = WireBackend(WireOptions(responses=recording, strict=True, has_tools=True))
    script, tool_script = ModelScript(), Script()
    declared = {"create_invoice": ACTS, "find_invoice": READS}

    def called(*names, faults=()):
        explored = ExploredRun(script, RunObserver(script), tool_script=tool_script, declarations=declared)
        session = backend.start("run", parse_fault_plan(faults, has_tools=True), explored)
        tools = ProgramTools(session, SessionTools(session, tool_script), options=ProgramToolOptions())
        return [tools.answer(ToolMessage(tool=name, arguments=ORDER)).result for name in names], tools.unknown

    assert called("find_invoice", "create_invoice") == (["none", "invoice 7"], [])
    answers, told = called("find_invoice", "create_invoice", "find_invoice", faults=[LOST])
    assert answers[2] == says
    assert len(told) == unknown
