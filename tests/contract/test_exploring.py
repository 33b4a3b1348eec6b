"""What answers an explored run, on every face: its script, what is written by hand, and the policy of divergences."""

import pytest

from tests.contract.applies import over, over_explored, over_pairs
from tests.contract.explored import BOOK, DEFAULT
from tests.contract.faces import Entry

OPENING, FOLLOWING = "a", "a\none\nb"
CONVERSATION = {"greet": [Entry("one", OPENING), Entry("two", FOLLOWING)]}
TELLS_FAILURE, ASKS_AGAIN = "a\none\nError: it failed", "a\none\nPlease answer."


def fault_at(face, call=1, kind="failing"):
    """A line of a plan that breaks the first attempt of a call."""
    return face.planned(f"{face.site('greet', call=call, **face.first_attempt)}: {getattr(face, kind)}")


@over("exploring")
def test_the_clean_run_is_a_strict_replay(face, exploring):
    clean = exploring(face, asks="c").clean
    assert clean.answers == ["miss"]
    assert clean.run.diverged


@over("exploring")
def test_a_run_without_a_fault_repeats_the_clean_run(face, exploring):
    explored = exploring(face)
    again = explored.run()
    assert explored.clean.answers == again.answers == ["one", "two"]
    assert (explored.clean.run.calls, explored.clean.run.tools) == (again.run.calls, again.run.tools)


@over("exploring")
def test_an_agent_that_starts_over_gets_its_answers_again(face, exploring):
    run = exploring(face, instead="ab").run(fault_at(face, call=2))
    assert run.answers == ["one", "error", "one", "two"]
    assert not run.run.diverged


@over_explored("any order")
def test_equal_requests_get_their_answers_in_order_and_the_last_one_again(face, exploring):
    book = {"greet": [Entry("one", "a"), Entry("two", "a"), Entry("three", "b")]}
    run = exploring(face, book=book, asks="aab", instead="aa").run(fault_at(face, call=3))
    assert run.answers == ["one", "two", "error", "two", "two"]


@over_explored("retries")
@pytest.mark.parametrize("kind", ["failing", "losing"])
def test_an_answer_that_a_fault_withholds_is_due_again(kind, face, exploring):
    run = exploring(face, retries=1).run(fault_at(face, kind=kind))
    assert run.answers == ["error", "one", "two"]


@over_explored("streams")
@pytest.mark.parametrize("fault", ["http_error 500", "stream_truncate 1"])
def test_a_stream_is_scripted_and_broken_like_a_whole_answer(fault, face, exploring):
    line = f"{face.first_site('greet')}: {fault}"
    run = exploring(face, streams=True, retries=1).run(line)
    assert run.answers == ["error", "one", "two"]
    assert run.run.fired == (line,)


@over("exploring")
def test_a_fault_fires_at_its_call_of_an_explored_run(face, exploring):
    line = fault_at(face, call=2)
    run = exploring(face).run(line)
    assert run.answers == ["one", "error"]
    assert run.run.fired == (line,)


@over_explored("attempts")
def test_a_fault_fires_at_its_attempt_of_an_explored_call(face, exploring):
    lines = [f"{face.site('greet', call=2, attempt=attempt)}: {face.failing}" for attempt in (1, 2)]
    run = exploring(face, retries=2).run(*lines)
    assert run.answers == ["one", "error", "error", "two"]
    assert run.run.fired == tuple(lines)


@over_explored("retries")
def test_the_calls_of_an_explored_run_have_the_numbers_of_its_plan(face, exploring):
    assert exploring(face, retries=1).run(fault_at(face, call=2)).numbers == face.numbers_with_a_retry


@over_pairs("faces together")
def test_the_faces_of_one_harness_count_their_calls_together(faces, exploring):
    explored, line = exploring(*faces), fault_at(faces[1], call=2)
    assert explored.clean.answers == ["one", "two"]
    assert explored.clean.numbers == ((1, 1), (2, 1))
    assert explored.run(line).run.fired == (line,)


@over_pairs("models and tools")
def test_faults_of_models_and_of_tools_fire_in_one_run(faces, exploring):
    run = exploring(*faces, retries=1).run(*map(fault_at, faces))
    assert run.answers == ["error", "one", "error", "two"]


@over_pairs("the order of faults")
def test_faults_that_fired_are_listed_in_the_order_of_the_run(faces, exploring):
    lines = [fault_at(face) for face in faces]
    assert list(exploring(*faces, retries=1).run(*reversed(lines)).run.fired) == lines


@over_explored("calls that are noted")
def test_a_call_that_got_its_answer_is_noted_as_answered(face, exploring):
    assert {call.outcome for call in exploring(face).clean.run.calls} == {"answered"}


@over_explored("default answers that are noted")
def test_a_call_that_got_the_default_is_noted_as_answered(face, exploring):
    run = exploring(face, policy="default", instead="c").run(fault_at(face))
    assert [call.outcome for call in run.run.calls] == ["failed", "answered"]


@over_explored("tools that ran")
@pytest.mark.parametrize(("kind", "has_run"), [("failing", False), ("losing", True), ("changing", True)])
def test_a_tool_has_run_unless_its_fault_prevents_it(kind, has_run, face, exploring):
    run = exploring(face).run(fault_at(face, kind=kind))
    assert run.run.tools[0].has_run is has_run


@over_explored("stopped runs")
def test_stop_refuses_what_was_never_recorded_and_all_that_follows(face, exploring):
    run = exploring(face, policy="stop", instead="ca").run(fault_at(face))
    assert run.answers == ["error", "miss", "miss"]
    assert run.run.diverged
    assert not run.run.continuation


@over_pairs("stopped together")
def test_a_call_that_stops_a_run_stops_all_faces_of_its_harness(faces, exploring):
    run = exploring(*faces, policy="stop", instead="ca").run(fault_at(faces[0]))
    assert run.answers == ["error", "miss", "miss"]


@over_explored("what diverged")
def test_what_diverged_is_what_its_caller_read(face, exploring):
    run = exploring(face, policy="stop", instead="c").run(fault_at(face))
    assert run.run.diverged == run.outcomes[-1].text


@over_explored("default answers")
def test_default_answers_what_was_never_recorded(face, exploring):
    run = exploring(face, policy="default", instead="ca").run(fault_at(face))
    assert run.answers == ["error", DEFAULT, "one"]
    assert run.run.diverged


@over_explored("default answers that are named")
def test_the_default_is_named_as_what_answered(face, exploring):
    assert exploring(face, policy="default", instead="c").run(fault_at(face)).run.continuation == "default"


@over_explored("live")
def test_live_asks_a_model_what_was_never_recorded(face, exploring):
    run = exploring(face, policy="live", instead="ca").run(fault_at(face))
    assert run.answers == ["error", "c #1", "one"]
    assert run.run.diverged
    assert run.run.continuation == "live"


@over_explored("live without a provider")
def test_live_stops_the_run_of_an_http_client_and_asks_nobody(face, exploring):
    run = exploring(face, policy="live", instead="ca").run(fault_at(face))
    assert run.answers == ["error", "miss", "miss"]
    assert not run.run.continuation


@over_explored("continuations")
@pytest.mark.parametrize(
    ("continuation", "answer"), [("stubborn", "one"), ("resigned", "I could not finish this"), ("oblivious", "two")]
)
def test_a_continuation_answers_what_was_never_recorded(continuation, answer, face, exploring):
    explored = exploring(face, book=CONVERSATION, asks=[OPENING, FOLLOWING], instead=[TELLS_FAILURE])
    run = explored.run(fault_at(face, call=2), continuation=continuation)
    assert run.answers[:2] == ["one", "error"]
    assert run.answers[2].startswith(answer)
    assert run.run.diverged
    assert run.run.continuation == continuation


@over_explored("results of tools")
def test_an_unrecorded_call_of_a_tool_gets_a_recorded_result(face, exploring):
    run = exploring(face, instead="cb").run(fault_at(face))
    assert run.answers == ["error", "one", "two"]
    assert run.run.diverged


@over_explored("results that are named")
@pytest.mark.parametrize("policy", ["explore", "default"])
def test_what_a_tool_got_is_named_as_a_result(policy, face, exploring):
    run = exploring(face, policy=policy, instead="c").run(fault_at(face))
    assert run.run.continuation == {"explore": "nearest result", "default": "default result"}[policy]


@over_explored("answers by hand")
@pytest.mark.parametrize("policy", ["explore", "stop", "default"])
def test_answers_by_hand_come_before_the_policy_in_order(policy, face, exploring):
    book = {"greet": [*BOOK["greet"], *(Entry(text, fields={"when": "any"}) for text in ("first", "last"))]}
    run = exploring(face, book=book, policy=policy, instead="cdce").run(fault_at(face))
    assert run.answers == ["error", "first", "last", "first", "last"]
    assert not run.run.diverged


@over_explored("answers by hand")
@pytest.mark.parametrize(("condition", "fitting"), [("tool_error", TELLS_FAILURE), ("empty", ASKS_AGAIN)])
def test_an_answer_by_hand_is_for_its_condition_only(condition, fitting, face, exploring):
    book = {"greet": [*CONVERSATION["greet"], Entry("by hand", fields={"when": condition})]}
    asked = [TELLS_FAILURE, ASKS_AGAIN]
    run = exploring(face, book=book, policy="default", asks=[OPENING, FOLLOWING], instead=asked).run(fault_at(face, 2))
    assert run.answers[2:] == ["by hand" if text == fitting else DEFAULT for text in asked]


@over_explored("answers by hand")
def test_an_answer_by_hand_with_a_condition_is_not_for_the_clean_run(face, exploring):
    book = {"greet": [Entry("by hand", fields={"when": "any"})]}
    assert exploring(face, book=book, asks="a").clean.answers == ["miss"]
