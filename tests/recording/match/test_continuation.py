"""How a model goes on after a request that was never recorded."""

import orjson
import pytest

from offbook.faults import FaultPlan, parse_fault
from offbook.faults.tools import INJECTED_TEXTS
from offbook.messages import Request
from offbook.recording.format.file import document_from_dict
from offbook.recording.match.continuation import (
    CONTINUATIONS,
    ConversationScript,
    ScriptedCall,
    WrittenAnswers,
    gave_up_mark,
    written_answers,
)
from offbook.recording.match.conversation import tells_failure
from offbook.recording.stores.memory import MemoryReader
from tests.fakes import user

MARK = "gave-up-bcdfgh"
ASK = user("Order 42 never came")[0]


def asks(*names, ids=None):
    """An answer that asks for tools, as the recording and as the conversation has it."""
    ids = ids or [f"call_{name}" for name in names]
    recorded = [
        {"id": each, "name": name, "arguments": {"order_id": 42}} for each, name in zip(ids, names, strict=True)
    ]
    functions = [{"name": name, "arguments": '{"order_id": 42}'} for name in names]
    calls = [
        {"id": each, "type": "function", "function": function} for each, function in zip(ids, functions, strict=True)
    ]
    return {"tool_calls": recorded}, {"role": "assistant", "content": None, "tool_calls": calls}


def result(call_id, text):
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def says(text):
    return {"content": text}, {"role": "assistant", "content": text}


FIND, REFUND, DONE = asks("find_order"), asks("refund"), says("Your 30 € are on their way.")
FOUND, REFUNDED = result("call_find_order", "30 €"), result("call_refund", "refunded")


def script_of(*calls, step="agent"):
    """The script of a clean run that sent these messages and got these answers."""
    document = document_from_dict({step: [answer for _, answer in calls]}, source="test")
    stored = list(MemoryReader(document, source="test"))
    scripted = [
        ScriptedCall((step, str(place)), orjson.dumps({"model": "m", "messages": messages}), each)
        for place, ((messages, _), each) in enumerate(zip(calls, stored, strict=True))
    ]
    return ConversationScript(lambda: scripted)


def clean_script():
    return script_of(
        ([ASK], FIND[0]),
        ([ASK, FIND[1], FOUND], REFUND[0]),
        ([ASK, FIND[1], FOUND, REFUND[1], REFUNDED], DONE[0]),
    )


def answer(script, messages, continuation, *, step="agent", **options):
    request = Request(tuple(messages), options.pop("model", "m"), **options)
    response = script.answer(step, request, continuation, MARK).response
    return [(call.tool, call.args) for call in response.tool_calls] or response.content


FAILED = [ASK, FIND[1], FOUND, REFUND[1], result("call_refund", "error: it failed")]
AGAIN = [("refund", {"order_id": 42})]


def test_a_stubborn_model_asks_for_the_failed_tool_again_as_often_as_it_fails():
    script = clean_script()
    assert answer(script, FAILED, "stubborn") == AGAIN
    once_more = asks("refund", ids=["call_refund_2"])[1]
    assert answer(script, [*FAILED, once_more, result("call_refund_2", "timed out")], "stubborn") == AGAIN


def test_a_stubborn_model_gives_the_call_a_new_id():
    response = clean_script().answer("agent", Request(tuple(FAILED), "m"), "stubborn", MARK).response
    assert [call.id for call in response.tool_calls] == ["call_refund_2"]


def test_a_stubborn_model_goes_on_with_the_recorded_next_answer_when_the_tool_has_succeeded():
    once_more = asks("refund", ids=["call_refund_2"])[1]
    messages = [*FAILED, once_more, result("call_refund_2", "refunded")]
    assert answer(clean_script(), messages, "stubborn") == "Your 30 € are on their way."


def test_a_stubborn_model_asks_only_for_the_tools_that_failed():
    both = asks("find_order", "refund", ids=["a", "b"])
    script = script_of(([ASK], both[0]), ([ASK, both[1], result("a", "30 €"), result("b", "refunded")], DONE[0]))
    messages = [ASK, both[1], result("a", "30 €"), result("b", "the result was lost")]
    assert answer(script, messages, "stubborn") == AGAIN
    retried = [*messages, asks("refund", ids=["b_2"])[1], result("b_2", "refunded")]
    assert answer(script, retried, "stubborn") == "Your 30 € are on their way."


def test_a_stubborn_model_does_not_repeat_what_it_never_said():
    unknown = asks("refnd")[1]
    messages = [ASK, FIND[1], FOUND, unknown, result("call_refnd", "error: there is no such tool")]
    assert answer(clean_script(), messages, "stubborn") == AGAIN


def test_a_resigned_model_says_that_it_gave_up():
    text = answer(clean_script(), FAILED, "resigned")
    assert text == f"I could not finish this: a step failed ({MARK})"


def test_an_oblivious_model_gives_the_recorded_next_answer():
    script = clean_script()
    assert answer(script, FAILED, "oblivious") == "Your 30 € are on their way."
    failed_early = [ASK, FIND[1], result("call_find_order", "HTTP 503: unavailable")]
    assert answer(script, failed_early, "oblivious") == AGAIN


def test_after_the_last_recorded_answer_it_is_given_again():
    messages = [ASK, FIND[1], FOUND, REFUND[1], REFUNDED, DONE[1], *user("Are you sure?")]
    assert answer(clean_script(), messages, "oblivious") == "Your 30 € are on their way."


NUDGED = [ASK, FIND[1], FOUND, *user("Your answer was empty. Please answer.")]


@pytest.mark.parametrize("continuation", ["stubborn", "oblivious"])
def test_asked_once_more_a_model_repeats_the_recorded_answer_of_the_call_that_failed(continuation):
    script = clean_script()
    assert answer(script, NUDGED, continuation) == AGAIN
    assert answer(script, [ASK, *user("Answer with JSON.")], continuation) == [("find_order", {"order_id": 42})]


def test_asked_once_more_a_resigned_model_gives_up():
    assert MARK in answer(clean_script(), NUDGED, "resigned")


def test_a_result_that_is_as_it_was_recorded_has_not_failed_even_if_it_reads_so():
    script = script_of(([ASK], FIND[0]), ([ASK, FIND[1], result("call_find_order", "error: no such order")], DONE[0]))
    messages = [ASK, FIND[1], result("call_find_order", "error: no such order"), *user("Well?")]
    assert answer(script, messages, "stubborn") == "Your 30 € are on their way."


@pytest.mark.parametrize("message", ["error: the arguments are not JSON", "Call it with JSON, please."])
def test_a_tool_call_with_broken_arguments_is_made_again_as_it_was_recorded(message):
    broken = {
        "role": "assistant",
        "tool_calls": [{"id": "x", "type": "function", "function": {"name": "find_order", "arguments": '{"ord'}}],
    }
    messages = [ASK, broken, result("x", message)]
    assert answer(clean_script(), messages, "stubborn") == [("find_order", {"order_id": 42})]


@pytest.mark.parametrize("continuation", ["stubborn", "oblivious"])
def test_an_answer_that_broke_off_is_finished_where_the_model_is_asked_to_go_on(continuation):
    script = script_of(([ASK], DONE[0]))
    assert answer(script, [ASK, says("Your 30 €")[1], *user("Continue.")], continuation) == " are on their way."


def test_a_text_protocol_is_followed_by_what_the_model_says():
    act, final = says("Action: refund[42]"), says("Final: done")
    observed = user("Observation: refunded")
    script = script_of(([ASK], act[0]), ([ASK, act[1], *observed], final[0]))
    failed = [ASK, act[1], *user("Observation: the service is unavailable")]
    assert answer(script, failed, "stubborn") == "Action: refund[42]"
    assert answer(script, failed, "oblivious") == "Final: done"
    assert answer(script, [*failed, act[1], *observed], "stubborn") == "Final: done"


def test_the_next_words_of_a_user_are_answered_as_recorded_whatever_was_said_before():
    first, second = says("Hello!"), says("It is 30 €.")
    hi, price = user("Hi"), user("How much is it?")
    script = script_of((hi, first[0]), ([*hi, first[1], *price], second[0]))
    assert answer(script, [*hi, says("Hel")[1], *price], "oblivious") == "It is 30 €."


def test_conversations_of_one_step_are_distinguished_by_how_they_begin():
    script = script_of((user("Translate: tree"), says("Baum")[0]), (user("Translate: house"), says("Haus")[0]))
    assert answer(script, [*user("Translate: house"), *user("Shorter, please")], "oblivious") == "Haus"
    assert answer(script, user("Translate: houses"), "oblivious") == "Haus"


def test_a_model_without_the_tools_of_the_recorded_answer_gives_a_recorded_text():
    tools = [{"type": "function", "function": {"name": "find_order"}}]
    document = document_from_dict({"agent": [FIND[0], DONE[0]]}, source="test")
    stored = list(MemoryReader(document, source="test"))
    fields = [orjson.dumps({"messages": [ASK], "tools": tools}), orjson.dumps({"messages": [ASK, FIND[1], FOUND]})]
    calls = [ScriptedCall(("agent", ""), each, exchange) for each, exchange in zip(fields, stored, strict=True)]
    script = ConversationScript(lambda: calls)
    assert answer(script, [ASK, *user("Summarize.")], "stubborn") == "Your 30 € are on their way."


def test_the_same_messages_to_another_model_are_the_same_call():
    script = clean_script()
    assert script.same_conversation("agent", {"model": "other", "messages": [ASK]}) == ("agent", "0")
    assert script.same_conversation("agent", {"model": "other", "messages": user("Hi")}) is None


@pytest.mark.parametrize("continuation", CONTINUATIONS)
def test_without_recorded_calls_every_model_gives_up(continuation):
    assert MARK in answer(ConversationScript(list), FAILED, continuation)


def test_a_request_reports_a_failure_to_its_model_that_the_clean_run_did_not_have():
    known = clean_script().known_texts
    assert tells_failure(FAILED, known)
    assert tells_failure(user("the gateway said fault-qgtdbc"), known)
    assert not tells_failure([ASK, FIND[1], FOUND], known)
    assert not tells_failure(user("What is an error?"), known)


@pytest.mark.parametrize("arguments", ['{"order_id": "42 fault-qgtdbc"}', '{"order'])
def test_whatever_an_agent_says_of_broken_arguments_tells_its_model_of_a_failure(arguments):
    script, call = clean_script(), {"id": "c1", "type": "function", "function": {"name": "refund"}}
    broken = {"role": "assistant", "tool_calls": [{**call, "function": {"name": "refund", "arguments": arguments}}]}
    told = [ASK, FIND[1], FOUND, broken, result("c1", "an order has digits only")]
    assert tells_failure(told, script.known_texts)
    assert not tells_failure([*told[:-1], result("c1", "refunded")], script.known_texts)  # it says that all is well
    assert answer(script, told, "stubborn") == [("refund", {"order_id": 42})]


def test_the_mark_of_giving_up_depends_on_the_plan_alone():
    plan = FaultPlan([parse_fault("call=1: timeout")])
    assert gave_up_mark(plan) == gave_up_mark(FaultPlan([parse_fault("call=1: timeout")]))
    assert gave_up_mark(plan) != gave_up_mark(FaultPlan([parse_fault("call=2: timeout")]))


def written_of(**entries):
    reader = MemoryReader(document_from_dict(entries, source="test"), source="test")
    return WrittenAnswers(lambda: written_answers(reader))


def test_answers_written_by_hand_are_served_in_order_and_then_the_last_one_again():
    written = written_of(
        agent=[{"content": "x"}, {"when": "tool_error", "content": "one"}, {"when": "any", "content": "two"}]
    )
    found = [written.find(("agent", each), "tool_error") for each in "abac"]
    assert [each.exchange.content for each in found] == ["one", "two", "one", "two"]


def test_an_answer_written_by_hand_needs_its_step_and_its_condition():
    written = written_of(agent=[{"when": "tool_error", "content": "one"}])
    assert written.find(("agent", "a"), "empty") is None
    assert written.find(("other", "b"), "tool_error") is None
    assert written.find(("", "c"), "tool_error").exchange.content == "one"


@pytest.mark.parametrize(
    ("messages", "condition"),
    [(FAILED, "tool_error"), (NUDGED, "empty"), ([ASK, FIND[1], result("call_find_order", "31 €")], None)],
)
def test_a_request_meets_the_condition_of_what_it_reports(messages, condition):
    assert clean_script().condition("agent", {"messages": messages}) == condition


@pytest.mark.parametrize(
    "text",
    [
        "Connection closed",
        "SSE stream ended without a response",
        "Session terminated",
        "Unauthorized",
        "Unknown tool: refund",
        "Elicitation not supported",
        '{"task": {"taskId": "offbook-stuck-task", "status": "working"}}',
        "(no output)",
        "",
        "[]",
    ],
)
def test_what_clients_of_mcp_make_of_failures_tells_a_model_of_one(text):
    assert tells_failure([{"role": "tool", "tool_call_id": "1", "content": text}], known=frozenset())


def test_an_injected_instruction_is_no_failure():
    texts = [f"found\n\n{text} injected-qgtdbc" for text in INJECTED_TEXTS.values()]
    assert not tells_failure([{"role": "tool", "tool_call_id": "1", "content": text} for text in texts], frozenset())


@pytest.mark.parametrize(
    ("text", "is_told"),
    [("Error: {}", True), ("{} it timed out", True), ("{} fault-qgtdbc {}", True), ("{} an error code {}", False)],
)
def test_of_a_long_result_its_start_and_its_end_are_read_for_words_of_failure(text, is_told):
    result = {"role": "tool", "tool_call_id": "1", "content": text.replace("{}", "row 17; " * 100_000)}
    assert tells_failure([result], known=frozenset()) == is_told
