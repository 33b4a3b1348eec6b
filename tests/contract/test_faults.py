"""Which fault fires at which call and attempt, on every face, and what it leaves of the recording."""

import pytest

from offbook import chaos
from offbook.faults import HttpError, Timeout
from tests.contract.applies import over
from tests.contract.faces import Entry, ProviderFace, said

BY_HAND = {"greet": [Entry("one"), Entry("two"), Entry("three")], "part": [Entry("four")]}
CHAIN = {"greet": [Entry("one", "a"), Entry("two", "b"), Entry("three", "c")]}


def kinds(outcomes):
    return [outcome.kind for outcome in outcomes]


@over("call numbers")
def test_a_fault_fires_at_its_call_and_at_no_other(face, replaying):
    run = replaying(face, BY_HAND, faults=[f"{face.site('greet', call=2)}: {face.failing}"])
    assert kinds(run.ask(text, "greet") for text in "abc") == ["answer", "error", "answer"]


@over("faults")
def test_a_fault_fires_at_its_exchange_and_not_before(face, replaying):
    run = replaying(face, CHAIN, faults=[f"{face.site('greet', call=2)}: {face.failing}"])
    assert kinds(run.ask(text, "greet") for text in "ab") == ["answer", "error"]
    assert run.unfired == []


@over("faults")
def test_since_fires_at_a_call_and_all_that_follow(face, replaying):
    run = replaying(face, CHAIN, faults=[f"{face.site('greet', since=2)}: {face.failing}"])
    assert kinds(run.ask(text, "greet") for text in "abc") == ["answer", "error", "error"]


@over("call numbers")
def test_calls_are_counted_by_key(face, replaying):
    run = replaying(face, BY_HAND, faults=[f"{face.site('part', call=1)}: {face.failing}"])
    assert kinds([run.ask("a", "greet"), run.ask("b", "part"), run.ask("c", "greet")]) == ["answer", "error", "answer"]


@over("calls of all keys")
def test_without_a_key_all_calls_are_counted(face, replaying):
    run = replaying(face, BY_HAND, faults=[f"call=2: {face.failing}"])
    assert kinds([run.ask("a", "greet"), run.ask("b", "part"), run.ask("c", "greet")]) == ["answer", "error", "answer"]


@over("call numbers")
def test_a_fault_without_a_number_fires_at_every_call_of_its_key(face, replaying):
    run = replaying(face, BY_HAND, faults=[f"{face.site('greet')}: {face.failing}"])
    assert kinds([run.ask("a", "greet"), run.ask("b", "greet"), run.ask("c", "part")]) == ["error", "error", "answer"]


@over("attempts at once")
def test_a_fault_fires_at_its_attempt_and_the_retry_is_the_same_call(face, replaying):
    lines = [face.planned(f"{face.site('greet', call=1, attempt=n)}: {face.failing}") for n in (1, 2)]
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")]}, faults=lines)
    assert run.ask("a", "greet").kind == "error"
    assert run.retry("a", "greet", attempt=2).kind == "error"
    assert run.retry("a", "greet", attempt=3) == said("one")
    assert run.fired == lines


@over("attempts")
def test_a_retry_does_not_count_as_a_call(face, replaying):
    lines = [
        f"{face.site('greet', call=1, attempt=1)}: {face.failing}",
        f"{face.site('greet', call=2)}: {face.failing}",
    ]
    run = replaying(face, BY_HAND, faults=lines)
    assert kinds([run.ask("a", "greet"), run.retry("a", "greet", attempt=2)]) == ["error", "answer"]
    assert run.ask("b", "greet").kind == "error"


@over("attempts")
def test_an_equal_request_after_an_answer_is_another_call(face, replaying):
    line = f"{face.site('greet', call=1, attempt=2)}: {face.failing}"
    run = replaying(face, BY_HAND, faults=[line])
    assert kinds([run.ask("a", "greet"), run.ask("a", "greet")]) == ["answer", "answer"]
    assert run.unfired == [line]


@over("repeated tool calls")
def test_a_tool_that_is_called_again_is_the_next_call(face, replaying):
    lines = [f"{face.site('greet', call=n)}: {face.failing}" for n in (1, 2)]
    run = replaying(face, {"greet": [Entry("one", "a")]}, faults=lines)
    assert kinds(run.ask("a", "greet") for _ in range(3)) == ["error", "error", "answer"]
    assert run.fired == lines


@over("faults")
def test_a_fault_that_needs_no_answer_uses_up_no_entry(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]}, faults=[f"{face.first_site('greet')}: {face.failing}"])
    assert run.ask("a", "greet").kind == "error"
    assert run.retry("a", "greet", attempt=2) == said("one")
    assert (run.unused(), run.misses) == ([], [])


@over("lost answers")
def test_an_answer_that_is_lost_stays_for_the_next_try(face, replaying):
    run = replaying(
        face, {"greet": [Entry("one fine day", "a")]}, faults=[f"{face.first_site('greet')}: {face.losing}"]
    )
    assert run.stream("a", "greet").kind == "error"
    assert run.retry("a", "greet", attempt=2) == said("one fine day")
    assert run.misses == []


@over("changed answers")
def test_an_answer_that_arrives_changed_uses_up_its_entry(face, replaying):
    book = {"greet": [Entry("one fine day", "a"), Entry("two", "a")]}
    run = replaying(face, book, faults=[f"{face.first_site('greet')}: {face.changing}"])
    changed = run.ask("a", "greet")
    assert changed.kind == "answer"
    assert changed.text != "one fine day"
    assert run.ask("a", "greet") == said("two")


@over("faults of what is not recorded")
def test_a_fault_that_needs_no_answer_fires_where_nothing_is_recorded(face, replaying):
    run = replaying(face, {"part": [Entry("one", "z")]}, faults=[f"{face.site('greet')}: {face.failing}"])
    assert run.ask("a", "greet").kind == "error"
    assert run.misses == []


@over("faults of what is not recorded")
def test_a_fault_that_needs_an_answer_is_a_miss_where_nothing_is_recorded(face, replaying):
    run = replaying(face, {"part": [Entry("one", "z")]}, faults=[f"{face.site('greet')}: {face.changing}"])
    assert run.ask("a", "greet").kind == "miss"
    assert [miss.kind for miss in run.misses] == ["missing"]


@over("call numbers")
def test_the_first_line_that_matches_fires(face, replaying):
    lines = [f"{face.site('greet', call=1)}: {face.failing}", f"{face.site('greet')}: {face.changing}"]
    run = replaying(face, BY_HAND, faults=lines)
    assert kinds([run.ask("a", "greet"), run.ask("b", "greet")]) == ["error", "answer"]
    assert [line.rpartition(": ")[2] for line in run.fired] == [face.failing, face.changing]


@over("call numbers")
def test_lines_that_did_not_fire_are_listed(face, replaying):
    fires = f"{face.site('greet')}: {face.failing}"
    others = [f"{face.site('gret')}: {face.failing}", f"{face.site('greet', call=1)}: {face.changing}"]
    run = replaying(face, BY_HAND, faults=[fires, *others])
    assert run.unfired == [fires, *others]
    run.ask("a", "greet")
    assert run.unfired == others


@over("faults")
def test_what_fired_fires_again_at_the_same_calls(face, replaying):
    run = replaying(face, CHAIN, faults=[f"{face.site('greet', since=2)}: {face.failing}"])
    outcomes = [run.ask(text, "greet") for text in "abc"]
    again = replaying(face, CHAIN, faults=run.fired)
    assert [again.ask(text, "greet") for text in "abc"] == outcomes
    assert again.fired == run.fired


@over("call numbers")
def test_a_miss_after_a_fault_names_it_to_the_caller(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]}, faults=[f"{face.site('greet', call=1)}: {face.failing}"])
    run.ask("a", "greet")
    outcome = run.ask("something else", "greet")
    assert outcome.kind == "miss"
    assert run.fired[0] in outcome.text


@over("misses after faults")
def test_a_miss_after_a_fault_is_reported_with_it(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]}, faults=[f"{face.site('greet', call=1)}: {face.failing}"])
    run.ask("a", "greet")
    run.ask("something else", "greet")
    assert run.fired[0] in run.misses[0].text


@over("overused after faults")
def test_what_is_served_again_after_a_fault_is_not_overused(face, replaying):
    book = {"greet": Entry("one", "a"), "part": [Entry("two")]}
    run = replaying(face, book, faults=[f"{face.site('part')}: {face.failing}"])
    run.ask("b", "part")
    assert kinds(run.ask("a", "greet") for _ in range(2)) == ["answer", "answer"]
    assert run.overused() == []


@over("chaos")
def test_chaos_draws_alike_on_every_face(face, replaying):
    def fired(face):
        storm = chaos(seed=7, rate=0.5, faults=[HttpError(500), HttpError(503)])
        run = replaying(face, {"greet": Entry("one")}, faults=storm)
        outcomes = kinds(run.ask(f"text {number}", "greet") for number in range(8))
        assert outcomes.count("error") == len(run.fired)
        assert run.unfired == []
        return run.fired

    assert fired(face) == fired(ProviderFace) != []


@over("streams")
@pytest.mark.parametrize("fault", ["http_error 500", "stream_truncate 1"])
def test_a_fault_breaks_a_stream_as_it_breaks_a_whole_answer(fault, face, replaying):
    line = f"{face.site('greet', call=1, attempt=1)}: {fault}"
    run = replaying(face, {"greet": [Entry("one fine day", "a")]}, faults=[line])
    assert run.stream("a", "greet").kind == "error"
    assert run.fired == [line]


@over("latency of faults")
def test_a_timeout_takes_its_time_on_the_clock_of_the_caller(face, replaying):
    run = replaying(face, BY_HAND, faults=[f"{face.site('greet', call=1)}: {Timeout(after_ms=5000).type} 5000"])
    assert run.ask("a", "greet").kind == "error"
    assert run.took_s == pytest.approx(5.0)


@over("sessions of their own")
def test_each_session_counts_its_own_calls(face, replaying):
    run = replaying(face, CHAIN, faults=[f"{face.site('greet', call=2)}: {face.failing}"])
    assert run.ask("a", "greet").kind == "answer"
    run.hang_up()
    run.session = "other"
    assert kinds([run.ask("a", "greet"), run.ask("b", "greet")]) == ["answer", "error"]


@over("a connection")
def test_a_session_that_a_fault_closed_can_be_started_again(face, replaying):
    line = f"{face.site(call=2, attempt=1)}: ws_close 1013"
    run = replaying(face, CHAIN, faults=[line])
    assert kinds([run.ask("a"), run.ask("b")]) == ["answer", "error"]
    assert [run.ask(text) for text in "abc"] == [said("one"), said("two"), said("three")]
    assert (run.fired, run.unfired, run.unused()) == ([line], [], [])


TOLD = {"tool_stale": "one", "tool_other": "three", "tool_noop": "two", "duplicate_item": "two"}


@over("tools that ran")
@pytest.mark.parametrize("lie", TOLD)
def test_a_lie_takes_its_words_from_the_run_and_from_the_recording(lie, face, replaying):
    line = f"{face.site('greet', call=2)}: {lie}"
    run = replaying(face, CHAIN, faults=[line])
    assert [run.ask(text, "greet") for text in "abc"] == [said("one"), said(TOLD[lie]), said("three")]
    assert run.fired == ([line] if lie != "duplicate_item" else [])  # there is no list
