"""What the witness at the wire sees."""

from offbook.explore.wire_witness import WireWitness
from offbook.recording.script import Script
from offbook.wire.http_call import HttpCall
from offbook.wire.rehearsal import Rehearsal
from offbook.wire.stage import Stage, StageOptions, plan_of
from tests.wire.calls import TOOL, answer_to, call_of, recording_of

ASKING = {"content": "", "tool_calls": [{"id": "a", "name": "look_up", "arguments": {"word": "tree"}}]}
STREAM = call_of(text="Hi", stream=True, tools=(TOOL,))
STALL = "call=1 attempt=1: stream_stall 1 for_ms=60000"


def watched(*faults, max_calls=100, on_endless=lambda: None):
    """A session, and the witness who watches it."""
    stage = Stage(StageOptions(responses=recording_of(any=[ASKING, ASKING]), strict=True))
    witness = WireWitness(max_calls=max_calls, on_endless=on_endless)
    return stage.start("run", plan_of(faults), Rehearsal(Script(), witness, is_first=True)), witness


def test_only_calls_of_models_are_noted():
    session, witness = watched()
    answer_to(session, HttpCall("GET", "/v1/models", "", {}, b""))
    answer_to(session, STREAM)
    assert [call.number for call in witness.calls] == [1]


def test_embeddings_are_calls_of_models_too():
    session, witness = watched()
    answer_to(session, HttpCall("POST", "/v1/embeddings", "", {}, b'{"model": "e", "input": "Hi"}'))
    (call,) = witness.calls
    assert (call.model, call.outcome, call.has_tools) == ("e", "diverged", False)


def test_an_answer_that_is_late_has_failed_until_it_has_arrived():
    session, witness = watched(STALL)
    taken = session.take(STREAM)
    session.answer(taken)
    assert [(call.outcome, call.error) for call in witness.calls] == [("failed", "stream_stall")]
    assert witness.tools(["look_up"]) == ()
    session.arrived(taken)
    assert [call.outcome for call in witness.calls] == ["answered"]
    assert [(run.tool, run.side_effect) for run in witness.tools(["look_up"])] == [("look_up", True)]


def test_a_run_that_makes_too_many_calls_is_endless_which_is_told_once():
    told = []
    session, witness = watched(max_calls=2, on_endless=lambda: told.append("endless"))
    for text in "abcd":
        answer_to(session, call_of(text=text))
    assert told == ["endless"]
    assert (witness.endless, len(witness.calls)) == ("it made more than 2 calls of models", 2)
