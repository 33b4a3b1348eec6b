"""Matching calls against a trajectory in every mode, and the problems of a mismatch."""

import traceback
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from offbook import InputError, Response, ToolCall
from offbook.agent import Message as TranscriptMessage
from offbook.agent import MessageMeta, MessageType, ToolCallInfo
from offbook.messages import Message
from offbook.scenarios import (
    MissingCall,
    MockedCall,
    PlacedCall,
    Trajectory,
    assert_trajectory,
    expected,
    match_trajectory,
)
from tests.scenarios.trajectory.samples import can_match, exactly, few_calls, rich_calls, trajectories

MODES = ["strict", "unordered", "in_order", "contains", "within"]


def calls_of(text):
    return [ToolCall(tool) for tool in text]


def searches(*texts):
    return [ToolCall("search", {"text": text}) for text in texts]


def found(calls, trajectory):
    """The tools that are missing, extra, misplaced and forbidden."""
    match = match_trajectory(calls, trajectory)
    assert match.matched is bool(match)
    return (
        "".join(missing.expectation.tool * missing.count for missing in match.missing),
        *("".join(placed.call.tool for placed in group) for group in (match.extra, match.misplaced, match.forbidden)),
    )


@pytest.mark.parametrize(
    ("mode", "expectations", "calls", "missing", "extra", "misplaced"),
    [
        ("strict", "ab", "ab", "", "", ""),
        ("strict", "ab", "ba", "", "", "b"),
        ("strict", "ab", "abx", "", "x", ""),
        ("strict", "ab", "xab", "", "x", ""),
        ("strict", "ab", "a", "b", "", ""),
        ("strict", "ab", "xy", "ab", "xy", ""),
        ("strict", "abc", "acxb", "", "x", "c"),
        ("strict", "aa", "a", "a", "", ""),
        ("strict", "a", "aa", "", "a", ""),
        ("strict", "", "", "", "", ""),
        ("strict", "", "a", "", "a", ""),
        ("unordered", "ab", "ab", "", "", ""),
        ("unordered", "ab", "ba", "", "", ""),
        ("unordered", "ab", "bax", "", "x", ""),
        ("unordered", "ab", "b", "a", "", ""),
        ("unordered", "aab", "aba", "", "", ""),
        ("unordered", "aab", "ab", "a", "", ""),
        ("unordered", "ab", "aab", "", "a", ""),
        ("in_order", "ab", "xaxbx", "", "", ""),
        ("in_order", "ab", "ba", "", "", "b"),
        ("in_order", "ab", "xa", "b", "", ""),
        ("in_order", "ab", "bab", "", "", ""),
        ("in_order", "aa", "axa", "", "", ""),
        ("in_order", "aa", "xa", "a", "", ""),
        ("contains", "ab", "xbxax", "", "", ""),
        ("contains", "ab", "xa", "b", "", ""),
        ("contains", "aa", "xa", "a", "", ""),
        ("contains", "a", "aaa", "", "", ""),
        ("contains", "", "abc", "", "", ""),
        ("within", "abc", "ba", "", "", ""),
        ("within", "abc", "aaa", "", "", ""),
        ("within", "abc", "", "", "", ""),
        ("within", "ab", "axb", "", "x", ""),
        ("within", "", "a", "", "a", ""),
    ],
)
def test_each_mode_finds_what_is_wrong(mode, expectations, calls, missing, extra, misplaced):
    trajectory = Trajectory(mode, list(expectations))
    assert found(calls_of(calls), trajectory) == (missing, extra, misplaced, "")


def test_what_is_wrong_is_reported_with_its_place():
    call = ToolCall("x", {"n": 1})
    match = match_trajectory([ToolCall("a"), call], Trajectory("strict", ["a", expected("b", exactly=3)]))
    assert match.missing == (MissingCall(1, expected("b", exactly=3), 3),)
    assert match.extra == (PlacedCall(1, call),)
    assert str(match.missing[0]) == "position 2, b(…) exactly 3"
    assert str(match.extra[0]) == "call 2, x(n=1)"


@pytest.mark.parametrize("mode", ["unordered", "contains"])
def test_a_full_assignment_is_found_where_the_first_choice_would_fail(mode):
    """The second expectation can only have the first call, and the third only the second."""
    expectations = [
        expected("search"),
        expected("search", args={"text": "tea"}),
        expected("search", args={"text": "cup"}),
    ]
    assert match_trajectory(searches("tea", "cup", "pot"), Trajectory(mode, expectations))


def test_a_long_chain_of_calls_is_moved_on_to_make_room():
    size = 60
    calls = [ToolCall("search", {"low": n, "high": n + 1}) for n in range(size)]
    chain = [expected("search", args={"high": n}) for n in range(1, size)]
    assert match_trajectory(calls, Trajectory("unordered", [*chain, expected("search", args={"low": size - 1})]))
    assert match_trajectory(calls, Trajectory("unordered", [expected("search"), *chain]))


def test_of_calls_that_could_be_missing_the_last_is():
    expectations = [expected("search", args={"text": "tea"}), expected("search")]
    match = match_trajectory(searches("tea"), Trajectory("unordered", expectations))
    assert [missing.index for missing in match.missing] == [1]


def test_a_call_with_other_arguments_is_missing_and_extra():
    trajectory = Trajectory("strict", [expected("search", args={"text": "tea"})])
    assert found(searches("cup"), trajectory) == ("search", "search", "", "")


def test_a_call_with_other_arguments_is_only_missing_where_others_are_allowed():
    for mode in ("in_order", "contains"):
        trajectory = Trajectory(mode, [expected("search", args={"text": "tea"})])
        assert found(searches("cup"), trajectory) == ("search", "", "", "")


@pytest.mark.parametrize(
    ("counts", "calls", "missing", "extra"),
    [
        ({"exactly": 2}, "a", "a", ""),
        ({"exactly": 2}, "aa", "", ""),
        ({"exactly": 2}, "aaa", "", "a"),
        ({"exactly": 2}, "", "aa", ""),
        ({"at_most": 2}, "", "", ""),
        ({"at_most": 2}, "aa", "", ""),
        ({"at_most": 2}, "aaaa", "", "aa"),
        ({"at_least": 2}, "a", "a", ""),
        ({"at_least": 2}, "aaaa", "", ""),
        ({"at_least": 1, "at_most": 2}, "", "a", ""),
        ({"at_least": 1, "at_most": 2}, "aaa", "", "a"),
        ({"exactly": 0}, "a", "", "a"),
        ({"at_least": 1_000_000}, "a", "a" * 999_999, ""),
    ],
)
def test_counts_hold_in_every_mode(counts, calls, missing, extra):
    for mode in MODES:
        assert found(calls_of(calls), Trajectory(mode, [expected("a", **counts)])) == (missing, extra, "", ""), mode


def test_counted_calls_keep_their_place_where_order_matters():
    trajectory = Trajectory("strict", [expected("search", at_most=3), "book", expected("mail", at_least=1)])
    tools = {"s": "search", "b": "book", "m": "mail"}

    def matched(text):
        return match_trajectory([ToolCall(tools[letter]) for letter in text], trajectory)

    assert matched("bm")
    assert matched("sssbmmmm")
    assert [placed.index for placed in matched("sbsm").misplaced] == [2]


def test_where_others_are_allowed_a_limit_holds_for_all_calls_that_no_other_expectation_takes():
    expectations = [expected("search", args={"text": "tea"}), expected("search", at_most=1)]
    trajectory = Trajectory("contains", expectations)
    assert match_trajectory(searches("cup", "tea"), trajectory)
    assert [placed.index for placed in match_trajectory(searches("cup", "tea", "pot"), trajectory).extra] == [2]


def test_room_under_a_limit_is_made_by_moving_a_call_that_fits_elsewhere():
    expectations = [expected("search", at_most=1), expected("search", args={"text": "tea"}, at_most=2)]
    assert match_trajectory(searches("tea", "tea", "cup"), Trajectory("unordered", expectations))
    assert match_trajectory(searches("tea", "cup"), Trajectory("contains", [expected("search"), *expectations[:1]]))


def test_a_call_that_is_allowed_anyway_makes_room_for_one_that_is_limited():
    expectations = [expected("search"), expected("search", args={"text": "tea"}, at_most=1)]
    trajectory = Trajectory("contains", expectations)
    assert match_trajectory(searches("cup", "tea", "tea"), trajectory)
    assert [placed.index for placed in match_trajectory(searches("cup", "tea", "tea", "tea"), trajectory).extra] == [3]


@pytest.mark.parametrize("mode", MODES)
def test_a_forbidden_call_is_found_in_every_mode_and_is_not_extra_as_well(mode):
    trajectory = Trajectory(mode, ["a"], forbidden=["x"])
    assert found(calls_of("a"), trajectory) == ("", "", "", "")
    assert found(calls_of("ax"), trajectory) == ("", "", "", "x")


def test_only_calls_with_the_forbidden_arguments_are_forbidden():
    trajectory = Trajectory("contains", forbidden=["drop", expected("search", args={"text": "gin"})])
    match = match_trajectory(searches("tea", "gin"), trajectory)
    assert [placed.index for placed in match.forbidden] == [1]


def test_a_forbidden_call_is_forbidden_even_if_it_is_expected():
    assert found(calls_of("a"), Trajectory("strict", ["a"], forbidden=["a"])) == ("", "", "", "a")


@pytest.mark.parametrize(
    ("calls", "misplaced"),
    [("fr", ""), ("frr", ""), ("fxrf", ""), ("rf", "r"), ("rfr", "r"), ("r", "r"), ("f", ""), ("", "")],
)
def test_the_first_of_what_comes_second_must_have_one_of_what_comes_first_before_it(calls, misplaced):
    trajectory = Trajectory("contains", before=[("f", "r")])
    assert found(calls_of(calls), trajectory) == ("", "", misplaced, "")


def test_order_may_be_asked_of_calls_with_certain_arguments():
    order = (expected("search", args={"text": "tea"}), expected("search", args={"text": "cup"}))
    trajectory = Trajectory("contains", before=[order])
    assert match_trajectory(searches("pot", "tea", "cup"), trajectory)
    assert not match_trajectory(searches("pot", "cup", "tea"), trajectory)


def test_a_call_that_is_extra_and_too_early_is_both():
    trajectory = Trajectory("strict", ["f"], before=[("f", "r")])
    assert found(calls_of("rf"), trajectory) == ("", "r", "r", "")


ARGS = {"text": "tea"}
META = MessageMeta(MessageType.TOOL_CALL)
SEARCH = Trajectory("strict", [expected("search", args=ARGS, match="exact")])
NO_ARGUMENTS = Trajectory("strict", [expected("search", args={}, match="exact")])


@pytest.mark.parametrize(
    "call",
    [
        ToolCall("search", ARGS),
        ToolCallInfo("search", ARGS),
        ToolCallInfo("search", '{"text": "tea"}'),
        MockedCall("search", ARGS),
        {"name": "search", "args": ARGS},
        {"tool": "search", "arguments": ARGS},
        {"name": "search", "arguments": '{"text": "tea"}'},
        {"type": "tool_use", "id": "toolu_1", "name": "search", "input": ARGS},
        {"id": "call_1", "type": "function", "function": {"name": "search", "arguments": '{"text": "tea"}'}},
        SimpleNamespace(id="call_1", function=SimpleNamespace(name="search", arguments='{"text": "tea"}')),
        Message("assistant", tool_calls=(ToolCall("search", ARGS),)),
        Response(tool_calls=(ToolCall("search", ARGS),)),
        TranscriptMessage("assistant", "", META, (ToolCallInfo("search", ARGS),)),
        {"role": "assistant", "tool_calls": [{"function": {"name": "search", "arguments": ARGS}}]},
    ],
    ids=lambda call: f"{type(call).__name__}",
)
def test_a_call_may_have_any_usual_shape(call):
    assert match_trajectory([call], SEARCH)
    assert not match_trajectory([call], NO_ARGUMENTS)


@pytest.mark.parametrize(
    "call", [{"name": "search"}, {"name": "search", "args": None}, {"name": "search", "arguments": ""}]
)
def test_a_call_may_have_no_arguments(call):
    assert match_trajectory([call], NO_ARGUMENTS)


def test_messages_without_calls_are_passed_over():
    messages = [
        {"role": "user", "content": "Find tea"},
        {"role": "assistant", "tool_calls": [{"name": "search", "args": ARGS}]},
        {"role": "tool", "content": "found"},
        Message("assistant", "There is tea."),
    ]
    assert match_trajectory(messages, SEARCH)


def test_calls_may_come_one_by_one():
    assert match_trajectory((call for call in [ToolCall("search", ARGS)]), SEARCH)


def test_arguments_that_are_no_json_object_fit_only_where_arguments_do_not_matter():
    broken = {"name": "search", "arguments": '{"text": '}
    assert match_trajectory([broken], Trajectory("strict", ["search"]))
    for trajectory in (SEARCH, NO_ARGUMENTS):
        match = match_trajectory([broken], trajectory)
        assert (
            match.reason == """arguments differ: call 1, search: arguments: expected a JSON object, got '{"text": '"""
        )


@pytest.mark.parametrize("calls", ["search", b"search", {"name": "search"}, None, 7])
def test_calls_that_are_no_list_are_refused(calls):
    with pytest.raises(InputError, match="calls: expected a list of tool calls, got"):
        match_trajectory(calls, SEARCH)


@pytest.mark.parametrize("call", ["search", None, 7, {}, {"name": ""}, {"name": 7}, SimpleNamespace(name="search")])
def test_something_else_among_the_calls_is_refused_with_its_place(call):
    with pytest.raises(InputError, match="expected a tool call, got") as caught:
        match_trajectory([ToolCall("search"), call], SEARCH)
    assert caught.value.source == "calls"
    assert caught.value.place == "[1]"
    assert caught.value.hint.startswith("a call is a ToolCall, or like")


def test_a_wrong_call_in_a_message_is_refused_with_its_place():
    with pytest.raises(InputError) as caught:
        match_trajectory([{"role": "assistant", "tool_calls": [{"name": "search"}, 7]}], SEARCH)
    assert caught.value.place == "[0].tool_calls[1]"


def test_arguments_of_a_wrong_type_are_refused_with_their_place():
    with pytest.raises(InputError, match="expected a dict or JSON text, got 7") as caught:
        match_trajectory([{"name": "search", "args": 7}], SEARCH)
    assert caught.value.place == "[0].args"


CALLS = [ToolCall("look"), ToolCall("pay", {"amount": 30})]


def test_nothing_happens_if_the_calls_match():
    assert assert_trajectory(CALLS, Trajectory("strict", ["look", "pay"])) is None


def test_the_message_is_the_reason_and_the_difference():
    trajectory = Trajectory("strict", ["look", "book", "pay"])
    match = match_trajectory(CALLS, trajectory)
    with pytest.raises(AssertionError) as caught:
        assert_trajectory(CALLS, trajectory)
    assert str(caught.value) == f"{match.reason}\n{match.difference}" == str(match)


def test_the_frame_of_the_assertion_is_hidden():
    with pytest.raises(AssertionError) as caught:
        assert_trajectory(CALLS, Trajectory("strict"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) == 2
    assert [entry.name for entry in caught.traceback.filter(caught)] == ["test_the_frame_of_the_assertion_is_hidden"]


def test_calls_that_cannot_be_read_are_no_failed_assertion():
    with pytest.raises(InputError):
        assert_trajectory("look", Trajectory("strict"))


def test_a_match_reads_as_such():
    assert str(match_trajectory(CALLS, Trajectory("strict", ["look", "pay"]))) == "matched"


STRANGER = ToolCall("stranger", {"n": 1})
quick = settings(max_examples=30)


@settings(max_examples=120)
@given(few_calls, trajectories)
def test_calls_match_if_and_only_if_some_assignment_is_allowed(calls, trajectory):
    assert match_trajectory(calls, trajectory).matched is can_match(calls, trajectory)


@given(few_calls, trajectories)
def test_a_match_says_nothing_and_a_mismatch_says_what_and_where(calls, trajectory):
    match = match_trajectory(calls, trajectory)
    assert match == match_trajectory(calls, trajectory)
    found = [*match.missing, *match.extra, *match.misplaced]
    assert match.matched is not bool(found)
    assert match.matched is not bool(match.reason)
    assert match.matched is not bool(match.difference)
    assert match.matched or match.difference.count("\n> ") == 1
    assert all(len(line) <= 100 for line in match.difference.splitlines())
    for placed in [*match.extra, *match.misplaced]:
        assert calls[placed.index] is placed.call
    for missing in match.missing:
        assert trajectory.expected[missing.index] is missing.expectation


@quick
@given(rich_calls)
def test_calls_match_strictly_what_is_expected_from_themselves(calls):
    assert match_trajectory(calls, Trajectory("strict", map(exactly, calls)))


@quick
@given(few_calls, st.data())
def test_permuted_calls_match_unordered(calls, data):
    permuted = data.draw(st.permutations(calls))
    assert match_trajectory(permuted, Trajectory("unordered", map(exactly, calls)))


@quick
@given(few_calls.filter(bool), st.sampled_from(["strict", "unordered", "in_order", "contains"]), st.data())
def test_a_dropped_call_is_missing_and_nothing_else_is_wrong(calls, mode, data):
    dropped = data.draw(st.integers(0, len(calls) - 1))
    match = match_trajectory(calls[:dropped] + calls[dropped + 1 :], Trajectory(mode, map(exactly, calls)))
    assert [missing.expectation for missing in match.missing] == [exactly(calls[dropped])]
    assert match.extra == match.misplaced == match.forbidden == ()


@quick
@given(few_calls, st.sampled_from(["strict", "unordered", "within"]), st.data())
def test_an_added_call_is_extra_and_nothing_else_is_wrong(calls, mode, data):
    place = data.draw(st.integers(0, len(calls)))
    match = match_trajectory([*calls[:place], STRANGER, *calls[place:]], Trajectory(mode, map(exactly, calls)))
    assert match.extra == (PlacedCall(place, STRANGER),)
    assert match.missing == match.misplaced == match.forbidden == ()


@quick
@given(few_calls, st.sampled_from(["in_order", "contains"]), st.data())
def test_an_added_call_does_not_matter_where_others_are_allowed(calls, mode, data):
    place = data.draw(st.integers(0, len(calls)))
    assert match_trajectory([*calls[:place], STRANGER, *calls[place:]], Trajectory(mode, map(exactly, calls)))


@given(few_calls, trajectories)
def test_what_matches_a_narrow_mode_matches_the_wider_ones(calls, trajectory):
    matched = {
        mode: match_trajectory(calls, Trajectory(mode, trajectory.expected)).matched
        for mode in ("strict", "unordered", "in_order", "contains", "within")
    }
    for narrow, wide in [
        ("strict", "unordered"),
        ("strict", "in_order"),
        ("unordered", "contains"),
        ("in_order", "contains"),
        ("unordered", "within"),
    ]:
        assert matched[wide] or not matched[narrow], (narrow, wide)


@quick
@given(few_calls)
def test_a_missing_call_is_counted(calls):
    wanted = Trajectory("contains", [exactly(ToolCall("c"))])
    assert match_trajectory(calls, wanted).missing == (MissingCall(0, exactly(ToolCall("c"))),)
