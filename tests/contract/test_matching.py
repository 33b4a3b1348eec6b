"""Which entry answers, on every face, and in which order."""

from tests.contract.applies import over
from tests.contract.faces import SECRET, Entry, read_chat, said


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


@over("an entry for anything")
def test_an_entry_by_hand_answers_calls_that_name_no_key(face, replaying):
    run = replaying(face, {"greet": [Entry("one"), Entry("two")], "part": Entry("three")})
    assert [run.ask(text) for text in "abcd"] == [said("one"), said("two"), said("three"), said("three")]


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


@over("unused by key")
def test_a_miss_leaves_the_nearest_entry_unused(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    run.ask("b", "greet")
    assert run.unused() == [(face.recorded_key("greet"), 0)]


@over("a miss")
def test_a_run_that_used_everything_has_nothing_unused(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")]})
    assert [run.ask("a", "greet"), run.ask("b", "greet")] == [said("one"), said("two")]
    assert (run.unused(), run.misses) == ([], [])


@over("overused")
def test_an_object_that_was_recorded_once_and_served_twice_is_overused(face, replaying):
    run = replaying(face, {"greet": Entry("one", "a"), "part": Entry("by hand")})
    run.ask("a", "greet")
    assert run.overused() == []
    for _ in range(2):
        run.ask("a", "greet")
        run.ask("any", "part")
    assert run.overused() == [("greet", 3)]


@over("lenient")
def test_a_lenient_replay_answers_what_is_missing_by_the_default(face, replaying):
    run = replaying(face, {"part": [Entry("one", "a")]}, strict=False, default="the default")
    assert run.ask("b", "greet") == said("the default")
    assert run.misses == []


@over("lenient")
def test_a_lenient_replay_answers_another_request_of_the_key_as_recorded(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "b")]}, strict=False, default="the default")
    assert [run.ask("c", "greet"), run.ask("d", "greet")] == [said("one"), said("two")]


@over("lenient")
def test_a_lenient_replay_repeats_the_last_answer(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "a")]}, strict=False, default="the default")
    assert [run.ask("a", "greet") for _ in range(4)] == [said("one"), said("two"), said("two"), said("two")]


@over("home folders")
def test_a_request_that_differs_in_the_home_folder_alone_is_answered(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "read /home/ann/notes")]})
    assert run.ask("read /Users/bob/notes", "greet") == said("one")
    assert (run.misses, run.unused()) == ([], [])


@over("homes in any order")
def test_an_equal_request_comes_before_one_of_another_home(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "read /home/ann/x"), Entry("two", "read /home/bob/x")]})
    assert run.ask("read /home/bob/x", "greet") == said("two")
    assert run.ask("read /home/bob/x", "greet") == said("one")


FOLDERS = ("read /tmp/pytest-of-ann/pytest-3/notes", "read /tmp/pytest-of-bob/pytest-11/notes")
IDS = ("6a204bd8-9f14-4c1b-8a55-0d2c5f0a7f11", "0f9d3c52-77aa-4e0e-b7c9-6f1b2f6a9c03")


@over("home folders")
def test_a_request_that_differs_in_a_temporary_folder_alone_is_answered(face, replaying):
    run = replaying(face, {"greet": [Entry("one", FOLDERS[0])]})
    assert run.ask(FOLDERS[1], "greet") == said("one")
    assert (run.misses, run.unused()) == ([], [])


@over("home folders")
def test_an_answer_names_the_folders_of_today(face, replaying):
    run = replaying(face, {"greet": [Entry(f"look into {FOLDERS[0]}", FOLDERS[0])]})
    assert run.ask(FOLDERS[1], "greet") == said(f"look into {FOLDERS[1]}")


@over("home folders that count")
def test_an_exact_replay_answers_equal_requests_alone(face, replaying):
    rules = {"_meta": {"normalise": {"exact": True}}}
    run = replaying(face, {"greet": [Entry("one", FOLDERS[0])]}, more=rules)
    assert run.ask(FOLDERS[1], "greet").kind == "miss"
    assert run.ask(FOLDERS[0], "greet") == said("one")


@over("home folders")
def test_what_a_mask_of_the_recording_matches_does_not_count(face, replaying):
    rules = {"_meta": {"normalise": {"mask": ["(?<=run )[0-9a-f]+"]}}}
    run = replaying(face, {"greet": [Entry("one", "look into run 17ab")]}, more=rules)
    assert run.ask("look at run 93cd", "greet").kind == "miss"
    assert run.ask("look into run 93cd", "greet") == said("one")


@over("an environment")
def test_what_a_program_says_of_its_run_does_not_count(face, replaying):
    old, new = (f"<env>session id: {each}</env> Who are you?" for each in IDS)
    run = replaying(face, {"greet": [Entry("one", old)]})
    assert run.ask(new.replace("Who are", "Where are"), "greet").kind == "miss"
    assert run.ask(new, "greet") == said("one")


@over("home folders")
def test_the_same_words_of_a_user_do_count(face, replaying):
    run = replaying(face, {"greet": [Entry("one", f"resume session id: {IDS[0]}")]})
    assert run.ask(f"resume session id: {IDS[1]}", "greet").kind == "miss"


@over("home folders that count")
def test_home_folders_count_if_the_recording_says_so(face, replaying):
    rules = {"_meta": {"normalise": {"home_paths": False}}}
    run = replaying(face, {"greet": [Entry("one", "read /home/ann/notes")]}, more=rules)
    assert run.ask("read /home/bob/notes", "greet").kind == "miss"


@over("null fields")
def test_null_fields_of_messages_do_not_count(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    blocks = [{"role": "user", "content": "a", "name": None}]
    assert run.request({"messages": blocks}, "greet", read_chat) == said("one")


@over("protocols")
def test_a_conversation_answers_in_another_protocol(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    assert run.request_claude("a") == said("one")
    assert run.unused() == []


@over("streams")
def test_a_stream_and_a_whole_answer_share_their_entries(face, replaying):
    run = replaying(face, {"greet": [Entry("one fine day", "a"), Entry("two", "a")]})
    assert [run.stream("a", "greet"), run.ask("a", "greet")] == [said("one fine day"), said("two")]
    assert run.stream("a", "greet").kind == "miss"


@over("sessions of their own")
def test_another_session_starts_at_the_beginning(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    assert run.ask("a", "greet") == said("one")
    run.hang_up()
    run.session = "other"
    assert run.ask("a", "greet") == said("one")


@over("sessions")
def test_each_session_has_its_own_position(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a"), Entry("two", "a")]})
    assert run.ask("a", "greet") == said("one")
    run.hang_up()
    run.session = "other"
    assert run.ask("a", "greet") == said("one")
    run.hang_up()
    run.session = ""
    assert run.ask("a", "greet") == said("two")


@over("the hint of a miss")
def test_the_hint_of_a_miss_says_what_to_do(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    run.ask("b", "greet")
    assert "record it again" in run.misses[0].text
    assert "or undo the change" in run.misses[0].text


@over("secrets")
def test_a_miss_shows_no_secret(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    outcome = run.ask(f"my key is {SECRET}", "greet")
    assert outcome.kind == "miss"
    assert SECRET not in outcome.text + run.misses[0].text


@over("a tool in its own list")
def test_a_tool_never_gets_the_answer_of_another(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]})
    assert run.ask("a", "part").kind == "miss"
    assert [miss.kind for miss in run.misses] == ["missing"]


@over("latency")
def test_an_answer_takes_the_latency_that_was_asked_for(face, replaying):
    run = replaying(face, {"greet": [Entry("one", "a")]}, latency_ms=20.0)
    assert run.ask("a", "greet") == said("one")
    assert 0.019 <= run.took_s < 10
