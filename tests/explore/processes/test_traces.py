"""Processes of runs: used again after a run that has left nothing, and never after another one."""

import json
import threading
from contextlib import closing
from types import FunctionType

import httpx2
import hypothesis
import pytest

from offbook.explore.explorer import Explorer
from offbook.explore.options import ExploreOptions, select_variants
from offbook.explore.processes.traces import AgentState, UnknownStateError
from offbook.faults import FaultPlan
from offbook.subjects.function import FunctionSubject
from tests.explore.leaving_agents import LEAVE_NOTHING, LEAVE_SOMETHING, agent_that, refunding

ANSWERS = {
    "_version": 2,
    "agent": [
        {"tool_calls": [{"id": "call_1", "name": "refund", "arguments": {"order": 42}}]},
        {"content": "Order 42 is refunded."},
    ],
}


def pids(agent, tmp_path, runs=2):
    """The processes of some runs after the clean one, which the agent returns."""
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps(ANSWERS))
    with closing(FunctionSubject(agent, recording)) as subject:
        subject.run(FaultPlan())
        return [subject.run(FaultPlan()).result for _ in range(runs)]


@pytest.mark.parametrize("leave", LEAVE_NOTHING.values(), ids=LEAVE_NOTHING.keys())
def test_a_process_is_used_again_if_the_run_has_left_only(leave, tmp_path):
    assert len(set(pids(agent_that(leave), tmp_path, runs=3))) == 1


@pytest.mark.parametrize("leave", LEAVE_SOMETHING.values(), ids=LEAVE_SOMETHING.keys())
def test_a_process_is_not_used_again_if_the_run_has_left(leave, tmp_path):
    assert len(set(pids(agent_that(leave), tmp_path))) == 2


def alone(function, **names):
    """The same function as in a module that has nothing but these names."""
    return FunctionType(function.__code__, names, closure=function.__closure__)


@pytest.mark.parametrize(
    ("held", "why"),
    [
        (iter([1, 2]), "builtins.list_iterator"),
        ((each for each in [1]), "builtins.generator"),
        (threading.local(), "_thread._local"),
        (bytearray(b"x"), "builtins.bytearray"),
    ],
)
def test_what_python_does_not_show_is_not_compared(held, why):
    with pytest.raises(UnknownStateError, match=why):
        AgentState(alone(lambda _: held))


def test_packages_that_may_keep_something_are_not_trusted():
    with pytest.raises(UnknownStateError, match="it uses hypothesis"):
        AgentState(alone(lambda _: hypothesis.given, hypothesis=hypothesis))


def test_code_that_may_change_anything_is_not_trusted():
    with pytest.raises(UnknownStateError, match="it uses setattr"):
        AgentState(alone(lambda name: setattr(httpx2, name, 1), httpx2=httpx2))


class NewProcesses(FunctionSubject):
    def _process_state(self):
        return None


@pytest.mark.loads_sdk
def test_runs_in_a_used_process_are_those_in_new_ones(tmp_path):
    recording = tmp_path / "recording.json"
    recording.write_text(json.dumps(ANSWERS))
    found = []
    for kind, order in ((NewProcesses, 1), (FunctionSubject, -1)):
        with closing(kind(refunding, recording)) as subject:
            variants = select_variants("connection_reset,empty_response,unknown_tool,http_error 429")
            explorer = Explorer(subject, ExploreOptions(variants=variants))
            results = explorer.explore(explorer.cases[::order]).results
            found.append({str(each.case): (each.run, each.verdict) for each in results})
    assert found[0] == found[1]
