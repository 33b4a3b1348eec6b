"""Which entry answers, on every face, and in which order."""

from tests.contract.applies import over
from tests.contract.faces import Entry, said


@over("a key")
def test_a_key_finds_its_own_entries(face, replaying):
    run = replaying(face, {"greet": [Entry("one")], "part": [Entry("two")]})
    assert run.ask("any", "part") == said("two")
    assert run.ask("any", "greet") == said("one")


@over("a request")
def test_a_call_without_a_key_is_found_by_its_request(face, replaying):
    run = replaying(face, {None: [Entry("one", "a")]})
    assert run.ask("a") == said("one")


@over("a request")
def test_a_request_is_found_under_any_key_first_in_first_out(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")], "part": [Entry("two", "a")]})
    assert [run.ask("a"), run.ask("a", "unknown")] == [said("one"), said("two")]


@over("a key")
def test_an_object_answers_for_ever(face, replaying):
    run = replaying(face, {"greet": Entry("one", "a")})
    assert [run.ask("a", "greet") for _ in range(3)] == [said("one")] * 3
    assert (run.misses, run.unused()) == ([], [])


@over("an entry by hand")
def test_an_entry_by_hand_answers_every_request(face, replaying):
    run = replaying(face, {"greet": Entry("one")})
    assert [run.ask(text, "greet") for text in "abc"] == [said("one")] * 3


@over("an entry by hand")
def test_a_list_by_hand_answers_in_order(face, replaying):
    run = replaying(face, {"greet": [Entry("one"), Entry("two")]})
    assert [run.ask(text, "greet") for text in "ab"] == [said("one"), said("two")]
    assert run.ask("c", "greet").kind == "miss"


@over("a list")
def test_equal_requests_are_answered_in_order_each_answer_once(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "a")]})
    assert [run.ask("a", "greet"), run.ask("a", "greet")] == [said("one"), said("two")]


@over("any order")
def test_other_requests_may_come_in_any_order(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")]})
    assert [run.ask("b", "greet"), run.ask("a", "greet")] == [said("two"), said("one")]


@over("an entry by hand")
def test_an_entry_by_hand_before_a_recorded_one_answers_first(face, replaying):
    run = replaying(face, {"greet": [Entry("by hand"), Entry("recorded", "a")]})
    assert [run.ask("a", "greet"), run.ask("a", "greet")] == [said("by hand"), said("recorded")]


@over("an entry by hand")
def test_an_entry_by_hand_is_left_for_requests_that_were_not_recorded(face, replaying):
    run = replaying(face, {"greet": [Entry("recorded", "a"), Entry("by hand")]})
    assert [run.ask("b", "greet"), run.ask("a", "greet")] == [said("by hand"), said("recorded")]


@over("a miss")
def test_another_request_is_drifted(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    assert run.ask("b", "greet").kind == "miss"
    assert [miss.kind for miss in run.misses] == ["drifted"]


@over("a key")
def test_an_object_for_another_request_is_drifted(face, replaying):
    run = replaying(face, {"greet": Entry("one", "a")})
    assert run.ask("b", "greet").kind == "miss"
    assert [(miss.kind, miss.key) for miss in run.misses] == [("drifted", face.recorded_key("greet"))]


@over("any order")
def test_a_request_more_often_than_recorded_is_exhausted(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")]})
    assert run.ask("a", "greet") == said("one")
    assert run.ask("a", "greet").kind == "miss"
    assert [(miss.kind, miss.key) for miss in run.misses] == [("exhausted", face.recorded_key("greet"))]


@over("a key")
def test_an_unknown_key_is_missing_and_the_nearest_is_suggested(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    assert run.ask("b", "gret").kind == "miss"
    (miss,) = run.misses
    assert miss.kind == "missing"
    assert f"Did you mean '{face.recorded_key('greet')}'?" in miss.text


@over("a miss")
def test_a_miss_uses_up_nothing(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    run.ask("b", "greet")
    assert run.ask("a", "greet") == said("one")


@over("a miss")
def test_a_miss_shows_the_difference_to_the_nearest_entry(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "red apples")]})
    run.ask("red pears", "greet")
    (miss,) = run.misses
    lines = [line.strip() for line in miss.text.splitlines()]
    assert [line[0] for line in lines if "red" in line] == ["-", "+"]


@over("a miss in full")
def test_the_caller_reads_the_text_that_is_reported(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    outcome = run.ask("b", "greet")
    assert [miss.text for miss in run.misses] == [outcome.text]


@over("a miss")
def test_misses_that_the_caller_swallows_are_all_reported(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    for text in "bcd":
        run.ask(text, "greet")
    assert len(run.misses) == 3


@over("unused by key")
def test_what_was_never_served_is_unused_in_the_order_of_the_recording(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")], "part": [Entry("three", "c")]})
    greet, part = face.recorded_key("greet"), face.recorded_key("part")
    assert run.unused() == [(greet, 0), (greet, 1), (part, 0)]
    run.ask("b", "greet")
    assert run.unused() == [(greet, 0), (part, 0)]
    run.ask("a", "greet")
    run.ask("c", "part")
    assert run.unused() == []
