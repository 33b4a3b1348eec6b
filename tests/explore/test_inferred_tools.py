"""What a conversation shows of the tools that a program ran."""

import pytest
from msgspec.structs import replace

from offbook.explore.inferred_tools import (
    ToolResult,
    ToolTurn,
    infer_tools,
    inferred_effects,
    inferred_runs,
    unseen_calls,
)
from offbook.messages import ToolCall

REFUND = ToolCall("refund", {"order": 42}, "a")
MAIL = ToolCall("mail", {"to": "Ann"}, "b")
PAID = ToolResult("a", "refund", "paid")
SENT = ToolResult("b", "mail", "sent")
SCHEMA = {"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}


def outcomes(*turns):
    return [(each.tool, each.outcome, each.result) for each in infer_tools(turns)]


def asks(*calls, sends=(), offers=()):
    return ToolTurn(asked=calls, results=sends, offered=dict(offers))


def test_a_call_whose_result_is_sent_has_run():
    assert outcomes(asks(REFUND), asks(sends=[PAID])) == [("refund", "done", "paid")]
    (tool,) = infer_tools([asks(REFUND), asks(sends=[PAID])])
    effect = tool.effect()
    assert effect.tool == "refund"
    assert effect.arguments == {"order": 42}
    assert effect.source == "inferred"


def test_a_call_whose_result_is_never_sent_may_have_run():
    assert outcomes(asks(REFUND)) == [("refund", "unknown", "")]


def test_nobody_sees_a_call_that_is_asked_for_again_before_its_result():
    unseen, seen = infer_tools([asks(REFUND), asks(REFUND), asks(sends=[PAID])])
    assert (unseen.is_unseen, unseen.outcome) == (True, "unknown")
    assert (seen.is_unseen, seen.outcome) == (False, "done")
    assert unseen_calls([unseen, seen]) == (unseen.effect(),)
    assert inferred_effects([unseen, seen], {}) == [seen.effect()]
    assert len(inferred_runs([unseen, seen], {})) == 1


def test_a_refused_call_that_is_asked_for_again_has_not_run():
    wrong = ToolCall("refund", {"order": "x"}, "a")
    assert outcomes(asks(wrong, offers={"refund": SCHEMA}), asks(REFUND), asks(sends=[PAID])) == [
        ("refund", "done", "paid")
    ]


def test_a_call_in_an_answer_that_was_cut_has_run_if_its_result_is_sent():
    cut = ToolTurn(asked=[REFUND], is_cut=True)
    assert outcomes(cut, asks(sends=[PAID])) == [("refund", "done", "paid")]
    (unanswered,) = infer_tools([cut])
    assert unanswered.is_unseen


@pytest.mark.parametrize(
    ("result", "failed"),
    [
        (ToolResult("a", "refund", "Error: the till is closed"), {}),
        (ToolResult("a", "refund", '{"error": "closed"}'), {}),
        (ToolResult("a", "refund", "geschlossen", is_error=True), {}),
        (ToolResult("a", "refund", "geschlossen"), {"refund": "^geschlossen"}),
    ],
)
def test_a_result_that_is_a_failure_shows_that_the_tool_has_failed(result, failed):
    (tool,) = infer_tools([asks(REFUND), asks(sends=[result])], failed)
    assert tool.outcome == "failed"


def test_results_of_equal_calls_in_one_request_show_that_both_ran():
    again = ToolCall("refund", {"order": 42}, "c")
    one, two = infer_tools([asks(REFUND), asks(again, sends=[PAID]), asks(sends=[PAID, replace(PAID, id="c")])])
    assert (one.effect().source, two.effect().source) == ("shown", "shown")
    over = infer_tools([asks(REFUND), asks(sends=[PAID]), asks(again), asks(sends=[replace(PAID, id="c")])])
    assert {each.effect().source for each in over} == {"inferred"}


@pytest.mark.parametrize(("text", "is_unseen"), [("paid", True), ("paid again", False)])
def test_one_result_for_two_equal_calls_of_an_answer_may_be_that_of_one_run(text, is_unseen):
    doubled = asks(REFUND, ToolCall("refund", {"order": 42}, "c"))
    tools = infer_tools([doubled, asks(sends=[PAID, replace(PAID, id="c", text=text)])])
    assert [each.is_unseen for each in tools] == [False, is_unseen]
    assert {each.was_shown for each in tools} == {not is_unseen}


def test_more_results_than_were_asked_for_show_what_the_program_ran_by_itself():
    own = [ToolResult(name, "refund", "paid", arguments={"order": 42}) for name in ("own-1", "own-2")]
    tools = infer_tools([asks(REFUND), asks(sends=own), asks(sends=own)])
    assert [(each.outcome, each.was_shown, each.is_unseen) for each in tools] == [("done", True, False)] * 2


@pytest.mark.parametrize(
    ("text", "outcome", "is_unseen"),
    [("paid again", "done", False), ("Error: paid already", "failed", False), ("paid", "done", True)],
)
def test_a_second_result_under_one_id_is_a_second_run_unless_it_is_a_copy(text, outcome, is_unseen):
    cut = ToolTurn(asked=[REFUND], is_cut=True)
    for turns in ([asks(REFUND)], [cut, asks(REFUND)]):
        tools = infer_tools([*turns, asks(sends=[PAID, replace(PAID, text=text)])])
        assert [each.result for each in tools] == ["paid", text]
        assert (tools[1].outcome, tools[1].is_unseen) == (outcome, is_unseen)


def test_results_from_before_the_model_asked_are_not_of_its_call():
    before = ToolResult("old", "refund", "paid", arguments={"order": 42})
    tools = infer_tools([asks(REFUND, sends=[before]), asks(sends=[before, PAID])])
    assert [each.was_shown for each in tools] == [False]


def test_a_request_that_is_sent_again_shows_the_same_run_of_a_tool():
    assert len(outcomes(asks(REFUND), asks(sends=[PAID]), asks(sends=[PAID]))) == 1


def test_a_conversation_that_is_started_over_runs_its_tools_again():
    assert outcomes(asks(REFUND), asks(sends=[PAID]), asks(REFUND), asks(sends=[PAID])) == [
        ("refund", "done", "paid"),
        ("refund", "done", "paid"),
    ]


def test_a_conversation_that_goes_on_does_not_run_its_tools_again():
    turns = [asks(REFUND), asks(MAIL, sends=[PAID]), asks(sends=[PAID, SENT])]
    assert outcomes(*turns) == [("refund", "done", "paid"), ("mail", "done", "sent")]


def test_calls_of_one_answer_are_distinguished_by_their_ids():
    first, second = ToolCall("refund", {"order": 1}, "x"), ToolCall("refund", {"order": 2}, "y")
    (one, two) = infer_tools([asks(first, second), asks(sends=[ToolResult("y", "refund", "paid")])])
    assert one.outcome == "unknown"
    assert two.outcome == "done"
    assert two.arguments == {"order": 2}


def test_calls_without_ids_are_distinguished_by_their_order():
    first, second = ToolCall("refund", {"order": 1}), ToolCall("refund", {"order": 2})
    sent = [ToolResult("call_0", "refund", "one"), ToolResult("call_1", "refund", "two")]
    assert outcomes(asks(first, second), asks(sends=sent)) == [("refund", "done", "one"), ("refund", "done", "two")]


def test_every_call_may_have_the_same_id():
    turns = [asks(REFUND), asks(REFUND, sends=[PAID]), asks(sends=[PAID, PAID])]
    assert [outcome for _, outcome, _ in outcomes(*turns)] == ["done", "done"]
    assert [outcome for _, outcome, _ in outcomes(*turns[:2])] == ["done", "unknown"]


def test_a_tool_that_was_not_offered_is_refused():
    assert outcomes(asks(REFUND, offers={"mail": {}}), asks(sends=[PAID])) == [("refund", "refused", "paid")]
    assert outcomes(asks(REFUND, offers={"mail": {}})) == [("refund", "refused", "")]


def test_whether_a_tool_ran_with_arguments_that_do_not_fit_is_not_known():
    wrong = ToolCall("refund", {"order": "forty-two"}, "a")
    assert outcomes(asks(wrong, offers={"refund": SCHEMA}), asks(sends=[PAID])) == [("refund", "unknown", "paid")]
    assert outcomes(asks(REFUND, offers={"refund": SCHEMA}), asks(sends=[PAID])) == [("refund", "done", "paid")]


def test_a_schema_that_cannot_be_read_says_nothing():
    odd = {"refund": {"type": "OBJECT"}}
    assert outcomes(asks(REFUND, offers=odd), asks(sends=[PAID])) == [("refund", "done", "paid")]


def test_arguments_that_are_not_json_run_nothing():
    assert outcomes(asks(ToolCall("refund", raw_arguments="{", id="a")), asks(sends=[PAID])) == []


def test_any_number_of_calls_may_stay_without_a_result():
    turns = [ToolTurn(asked=[ToolCall("finish", {"number": number}, id=f"call_{number}")]) for number in range(20_000)]
    found = infer_tools(turns)
    assert [tool.arguments["number"] for tool in found] == list(range(20_000))
    assert {tool.outcome for tool in found} == {"unknown"}
