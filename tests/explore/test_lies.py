"""Agents that believe what a tool says, and their sound twins: one is accused for each lie, and no twin."""

import pytest

from offbook import explore_function, tool
from tests.explore.runs import write_recording

A, B = {"order": "A-17"}, {"order": "B-23"}
OPEN_A = {"order": "A-17", "total": 42.5, "status": "open"}
OPEN_B = {"order": "B-23", "total": 7.25, "status": "open"}
PAID_A = OPEN_A | {"status": "refunded"}
PAGE = {"count": 3, "items": [{"order": "A-17"}, {"order": "B-23"}, {"order": "C-31"}]}


@tool(read_only=True)
def get_order(order: str) -> dict:
    """Get an order."""
    raise AssertionError


@tool(read_only=True)
def get_invoice(order: str) -> dict:
    """Get the invoice of an order."""
    raise AssertionError


@tool(read_only=True)
def list_orders() -> dict:
    """List orders."""
    raise AssertionError


@tool(side_effect=True)
def refund(order: str, amount: float) -> str:
    """Pay an order back."""
    raise AssertionError


@tool(side_effect=True)
def remind(order: str) -> str:
    """Send a reminder."""
    raise AssertionError


TOOLS = (get_order, get_invoice, list_orders, refund, remind)
RECORDED = {
    "get_order": [
        {"arguments": A, "result": OPEN_A},
        {"arguments": B, "result": OPEN_B},
        {"arguments": A, "result": PAID_A},
    ],
    "get_invoice": [{"arguments": A, "result": {"total": 42.5}}],
    "list_orders": [{"arguments": {}, "result": PAGE}],
    "refund": [
        {"arguments": A | {"amount": 42.5}, "result": "ok"},
        {"arguments": B | {"amount": 7.25}, "result": "ok"},
    ],
    "remind": [{"arguments": {"order": each["order"]}, "result": "sent"} for each in PAGE["items"]],
}


def refunding(*, compares=False, checks=False, reads_back=None, count=1):
    """An agent that refunds orders: `compares` with the invoice, `checks` what it got, and then asks
    again, and `reads_back` the end."""

    def agent(offbook):
        tools = {name: each.callable for name, each in offbook.tools(*TOOLS).items()}
        for order in ("A-17", "B-23")[:count]:
            found = tools["get_order"](order=order)
            if checks and (found.get("order") != order or not isinstance(found.get("total"), float)):
                found = tools["get_order"](order=order)
            if compares is not None and tools["get_invoice"](order=order)["total"] != found["total"] and compares:
                return {"ok": False, "why": "the invoice has another total"}
            tools["refund"](order=order, amount=found.get("total", 0.0))
        if reads_back is not None:
            status = tools["get_order"](order="A-17")["status"]
            if reads_back and status != "refunded":
                return {"ok": False, "why": "it is not refunded"}
        return "refunded"

    return agent


def reminding(*, checks):
    def agent(offbook):
        tools = {name: each.callable for name, each in offbook.tools(*TOOLS).items()}
        page = tools["list_orders"]()
        orders = [each["order"] for each in page["items"]]
        if checks and len(set(orders)) != page["count"]:
            return {"ok": False, "why": "the list is not whole"}
        for order in dict.fromkeys(orders) if checks else orders:
            tools["remind"](order=order)
        return "reminded"

    return agent


def title(tmp_path, agent, line):
    recording = write_recording(tmp_path / "run.json", {"_tools": RECORDED})
    (result,) = explore_function(agent, recording, cases=[line], workers=1).results
    return result


PAIRS = [
    (
        "tool=get_order call=1: value_changed total",
        refunding(),
        refunding(compares=True),
        "get_invoice says total=42.5",
    ),
    (
        "tool=get_order call=1: field_missing total",
        refunding(compares=None),
        refunding(compares=None, checks=True),
        "the result of get_order lacks 'total'",
    ),
    (
        "tool=get_order call=1: tool_other",
        refunding(compares=None),
        refunding(compares=None, checks=True),
        "get_order was called with order=A-17, and its result is not about that",
    ),
    (
        "tool=get_order call=2: tool_stale",
        refunding(compares=None, count=2),
        refunding(compares=None, checks=True, count=2),
        "get_order was called with order=B-23, and its result is not about that",
    ),
    (
        "tool=refund call=1: tool_noop",
        refunding(compares=None, reads_back=False),
        refunding(compares=None, reads_back=True),
        'get_order, called after refund, says {"order":"A-17","total":42.5,"status":"open"}',
    ),
    (
        "tool=list_orders call=1: truncated_list",
        reminding(checks=False),
        reminding(checks=True),
        "the result of list_orders says count=3, and has 1",
    ),
]


@pytest.mark.parametrize(("line", "defect", "twin", "why"), PAIRS, ids=[line.split()[-1] for line, *_ in PAIRS])
def test_who_believes_a_lie_against_the_evidence_is_found_and_the_sound_twin_is_not(tmp_path, line, defect, twin, why):
    believed = title(tmp_path, defect, line)
    assert believed.title == "undetected (believed a lie)"
    assert why in believed.evidence
    assert title(tmp_path, twin, line).title in ("failed cleanly", "failed partway", "recovered")


def test_an_item_that_stands_there_twice_is_worked_on_twice(tmp_path):
    line = "tool=list_orders call=1: duplicate_item"
    assert title(tmp_path, reminding(checks=False), line).title == "repeated effect"
    assert title(tmp_path, reminding(checks=True), line).title == "recovered"


@pytest.mark.parametrize(
    "line", ["tool=get_order call=1: value_changed total", "tool=refund call=1: tool_noop"], ids=["value", "noop"]
)
def test_a_lie_that_nothing_contradicts_is_no_finding(tmp_path, line):
    result = title(tmp_path, refunding(compares=None), line)
    assert result.title == "not detectable"
    assert not result.is_finding
    assert "nothing in the run contradicts it" in result.evidence


def test_a_lie_that_changes_nothing_has_done_no_harm(tmp_path):
    line = "tool=get_order call=1: value_changed status"
    assert title(tmp_path, refunding(compares=None), line).title == "recovered"


def test_lies_are_tried_where_the_recording_has_one_to_tell(tmp_path):
    recording = write_recording(tmp_path / "run.json", {"_tools": RECORDED})
    agent = refunding(compares=None, reads_back=False)
    exploration = explore_function(agent, recording, faults="lies", workers=1)
    assert [str(each.case).removeprefix("tool=") for each in exploration.results] == [
        "get_order call=2: tool_stale",
        "refund call=1: tool_noop",
        *(f"get_order call=1: field_missing {name}" for name in ("order", "total")),
        "get_order call=2: field_missing status",
        *(f"get_order call=1: value_changed {name}" for name in ("order", "total")),
        "get_order call=2: value_changed status",
    ]
