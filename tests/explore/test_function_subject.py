"""Exploring a function."""

import pytest

from offbook.errors import InputError
from offbook.explore.divergence import Divergence
from offbook.explore.exploration import Explorer, Wish
from offbook.explore.function_subject import FunctionSubject
from offbook.explore.menu import chosen
from offbook.explore.performance import Deadlines
from offbook.faults import FaultPlan
from tests.explore.runs import plan_of, write_recording
from tests.fakes import user


class GaveUpError(Exception):
    pass


async def agent(stage):
    """Tries twice."""
    for _ in range(2):
        try:
            return (await stage.provider.complete(user("Hi"), "m", step_id="s")).content
        except ConnectionError:
            continue
    raise GaveUpError("no connection")


@pytest.fixture
def recording(tmp_path):
    return write_recording(tmp_path / "run.json", {"s": [{"content": "Hello"}]})


def test_each_run_begins_at_the_beginning(recording):
    subject = FunctionSubject(agent, recording, declared=[GaveUpError])
    assert subject.name == "agent"
    plans = [
        FaultPlan(),
        FaultPlan(),
        plan_of("call=1 attempt=1: connection_reset"),
        plan_of("call=1: connection_reset"),
    ]
    runs = [subject.run(plan) for plan in plans]
    assert [run.result for run in runs] == ["Hello", "Hello", "Hello", None]
    assert runs[3].error.kind == "declared"
    subject.close()


def test_it_is_told_what_to_do_about_divergences_and_how_long_to_wait(recording):
    subject = FunctionSubject(agent, recording, divergence=Divergence("default"), deadlines=Deadlines(virtual_s=30.0))
    subject.run(FaultPlan())
    assert subject.run(plan_of("call=1: timeout 60000")).hung == "it had not ended after 30 s"


def test_a_recording_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(InputError):
        FunctionSubject(agent, tmp_path / "none.json")


def test_the_same_exploration_twice_is_the_same(recording):
    def explore():
        return Explorer(FunctionSubject(agent, recording), Wish(dishes=chosen("all"), pairs=True)).explore()

    assert explore() == explore()
