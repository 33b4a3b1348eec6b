"""The functions of a program that are its tools, found among the calls that were noted."""

import msgspec
import pytest

from offbook.messages import Request
from offbook.recording.format.exchange import RecordedToolCall
from offbook.subjects.program.called_functions import AskedTools, NotedCall, find_tools, read_noted_calls
from offbook.wire.session import WireCall


def model_call(call, *results):
    messages = ({"role": "tool", "tool_call_id": each, "content": "ok"} for each in results)
    request = Request(messages=tuple(messages), model="m")
    return WireCall(call, "", "openai", "/v1/chat/completions", "recorded", call=call, request=request)


def asked_at(*times_s):
    """A run that asks for refund(order=7) in its second answer, and sends the result in its third request."""
    asked, turn = AskedTools(), [RecordedToolCall(id="c1", name="refund", arguments={"order": 7})]
    asked.note(model_call(1), [], at_s=times_s[0])
    asked.note(model_call(2), [turn], at_s=times_s[1])
    asked.note(model_call(3, "c1"), [turn], at_s=times_s[2])
    return asked


def noted(function, at_s, problem="", **arguments):
    return NotedCall(function, "agent.py:1", arguments, at_s, problem=problem)


@pytest.mark.parametrize(("at_s", "status"), [(0.5, "not found"), (2.5, "found"), (3.5, "not found")])
def test_only_calls_between_the_answer_and_the_result_count(at_s, status):
    found = find_tools(asked_at(1.0, 2.0, 3.0), [noted("agent:refund", at_s, order=7)])
    assert [each.status for each in found] == [status]


def test_a_call_with_other_arguments_does_not_count():
    assert find_tools(asked_at(1.0, 2.0, 3.0), [noted("agent:refund", 2.5, order=8)])[0].status == "not found"


def test_a_dispatcher_gives_way_to_the_function_that_it_calls():
    calls = [
        noted("agent:run_tool", 2.1, name="refund", arguments={"order": 7}),
        noted("agent:dispatch", 2.2, name="refund", order=7),
        noted("agent:handle", 2.3, call={"function": {"name": "refund", "arguments": '{"order": 7}'}}),
        noted("agent:give_back", 2.4, arguments='{"order": 7}'),
    ]
    found = find_tools(asked_at(1.0, 2.0, 3.0), calls)[0]
    assert (found.function, found.others) == ("agent:give_back", [])
    assert find_tools(asked_at(1.0, 2.0, 3.0), calls[:3])[0].status == "not found"


@pytest.mark.parametrize(("problem", "advice"), [("nested", "move it to"), ("generator", "let it return")])
def test_a_function_that_cannot_be_named_or_taken_over_says_what_to_do(problem, advice):
    found = find_tools(asked_at(1.0, 2.0, 3.0), [noted("agent:refund", 2.5, problem, order=7)])[0]
    assert (found.status, found.function) == ("not found", "")
    assert advice in found.reason


def test_a_line_that_was_cut_off_is_left_out_and_the_rest_is_in_order():
    lines = [msgspec.json.encode(noted("agent:refund", at_s, order=7)) for at_s in (2.0, 1.0)]
    assert [call.at_s for call in read_noted_calls([*lines, lines[0][:20]])] == [1.0, 2.0]
