"""Exploring a function in one call."""

import json

import pytest

from offbook import InputError, explore_function
from offbook.explore.divergence import Divergence
from offbook.explore.performance import Deadlines


@pytest.fixture
def recording(tmp_path):
    file = tmp_path / "run.json"
    file.write_text(json.dumps({"_version": 2, "hello": {"content": "Hello!"}, "bye": {"content": "Bye!"}}))
    return file


async def careless(stage):
    first = await stage.provider.complete([{"role": "user", "content": "Hi"}], "m", step_id="hello")
    last = await stage.gateway.complete([{"role": "user", "content": first.content}], "m", step_id="bye")
    return last.content


def test_a_function_is_replayed_with_each_fault_at_each_place(recording):
    exploration = explore_function(careless, recording, faults=["connection_reset", "timeout"])
    assert exploration.subject == "careless"
    assert exploration.clean.result == "Bye!"
    assert {str(each.case) for each in exploration.findings} == {
        "step=hello call=1 attempt=1: connection_reset",
        "step=hello call=1: connection_reset",
        "step=hello call=1 attempt=1: timeout 60000",
        "step=hello call=1: timeout 60000",
    }


def test_errors_that_are_declared_are_no_findings(recording):
    declared = ["ProviderConnectionError"]
    exploration = explore_function(careless, recording, faults="connection_reset", declared=declared)
    assert exploration.findings == []


def test_a_budget_deadlines_and_what_must_hold_are_kept(recording):
    def invariant_says_something(run):
        assert run.result, "it says nothing"

    exploration = explore_function(
        careless,
        recording,
        faults="timeout",
        budget=2,
        invariants=[invariant_says_something],
        divergence=Divergence("default"),
        deadlines=Deadlines(virtual_s=30.0),
    )
    assert (len(exploration.explored), exploration.left) == (2, 2)
    assert exploration.tally == {"hung": 2}


def test_a_second_fault_is_tried_behind_the_first(recording):
    exploration = explore_function(careless, recording, faults="connection_reset", pairs=True)
    pairs = {str(each.case) for each in exploration.explored if len(each.case.lines) > 1}
    both = "step=bye call=1 attempt=1: connection_reset; step=bye call=1 attempt=2: connection_reset"
    assert both in pairs


def test_a_fault_that_there_is_not_is_bad_input(recording):
    with pytest.raises(InputError, match="there is no fault 'timeot' to try"):
        explore_function(careless, recording, faults="timeot")


def test_an_invariant_that_raises_something_else_does_not_hold(recording):
    def invariant_is_wrong(run):
        return run.error.message

    with pytest.raises(InputError, match="invariant_is_wrong raised AttributeError"):
        explore_function(careless, recording, invariants=[invariant_is_wrong])
