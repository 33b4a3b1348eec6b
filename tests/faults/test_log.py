"""What a run has reached, and why a planned fault never fired."""

import pytest

from offbook.faults import (
    At,
    Site,
    ToolSite,
    parse_fault,
)
from offbook.faults.log import ReachedSites, describe_unfired


def reached_by(*sites):
    reached = ReachedSites()
    for site in sites:
        reached.add(site)
    return reached


@pytest.mark.parametrize(
    ("at", "reason"),
    [
        ("call=9", "the run made 2 model calls; the last place is 'call=2'"),
        ("since=3 attempt=2", "the run made 2 model calls; the last place is 'call=2'"),
        ("call=2 attempt=3", "call 2 had 2 attempts; the last place is 'call=2 attempt=2'"),
        ("attempt=5", "no call had more than 2 attempts; the last place is 'attempt=2'"),
        ("step=ask call=2", "step 'ask' made 1 model call; the last place is 'step=ask call=1'"),
        ("step=aks", "step 'aks' made no model call; steps with calls: ask"),
        ("step=other", "step 'other' made no model call; steps with calls: ask"),
        ("workflow=other step=ask", "step 'ask' made no model call"),
        ("call=1", "the run made 2 model calls"),
        ("tool=refund call=3", "refund was called once; the last place is 'tool=refund call=1'"),
        ("tool=refnd", "refnd was never called; did you mean 'refund'?"),
        ("tool=mail", "mail was never called; tools called: refund"),
    ],
)
def test_a_fault_that_never_fired_says_how_many_calls_there_were_and_the_nearest_place(at, reason):
    line = parse_fault(f"{at}: {'tool_lost' if 'tool=' in at else 'timeout'}")
    first, retried = Site("flow", "ask", 1, 1, 1), [Site("flow", None, 1, 2, attempt) for attempt in (1, 2)]
    reached = reached_by(first, *retried, ToolSite("refund", 1))
    assert describe_unfired(line, reached) == f"{str(line)!r} never fired: {reason}"


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("delivered_twice", "only an MCP server can deliver an answer twice; a function returns once"),
        ("held_until tool=mail call=2", "call 2 of mail did not end while the answer was held"),
    ],
)
def test_a_fault_of_order_that_changed_nothing_at_its_call_says_so(fault, reason):
    line = parse_fault(f"tool=refund call=1: {fault}")
    assert describe_unfired(line, reached_by(ToolSite("refund", 1))) == f"{str(line)!r} never fired: {reason}"
    assert "never called" in describe_unfired(line, ReachedSites())


@pytest.mark.parametrize(
    ("at", "reason"), [("call=1", "the run made no model call"), ("tool=mail", "mail was never called")]
)
def test_a_run_without_calls_has_no_nearest_place(at, reason):
    assert ReachedSites().explain(parse_fault(f"{at}: {'tool_lost' if 'tool=' in at else 'timeout'}").at) == reason


def test_the_sites_of_several_sessions_are_those_of_the_longest():
    total = reached_by(Site("", None, 1, 1, 3))
    total.update(reached_by(Site("", None, 1, 1, 1), Site("", None, 2, 2, 1), ToolSite("refund", 2)))
    assert total.explain(At(call=1, attempt=4)).startswith("call 1 had 3 attempts")
    assert total.explain(At(call=3)).startswith("the run made 2 model calls")
    assert total.explain(At(tool="refund", call=3)).startswith("refund was called 2 times")
