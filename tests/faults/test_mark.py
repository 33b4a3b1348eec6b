"""Marks: what the texts of faults carry in an exploration, and what they never change."""

import json
import re

import pytest

from offbook import MockProvider, ProviderError, Response, ToolCall, run
from offbook.codecs.base import error_message
from offbook.errors import ToolFaultError
from offbook.faults import FaultInjector, FaultLog, FaultPlan, inject_tools, mark_of, parse_fault
from offbook.faults.mark import add_mark
from tests.fakes import Scripted, user
from tests.faults.samples import SAMPLES, TOOL_SAMPLES
from tests.faults.tool_kinds import Till

ASKS = Response("one two three", "m", tool_calls=(ToolCall("find", {"order": "x", "n": 1}, "c1"),))
TOOLS = [{"type": "function", "function": {"name": "find"}}]
WITHOUT_TEXT = {"connection_reset", "timeout", "content_filter", "empty_response", "slow", "slow_drip", "stream_stall"}
WITHOUT_TEXT |= {"wrong_content_type", "doubled_tool_calls", "one_more_tool"}


def texts_of(fault, *, marked):
    """All that an agent sees of a call with the fault, as text, and the marks in the log."""
    log = FaultLog()
    plan = FaultPlan([parse_fault(f"everywhere: {fault}")])
    injector = FaultInjector(Scripted(ASKS, ASKS), plan, fault_log=log, marked=marked)

    async def work():
        try:
            response = await injector.complete(user("Hi"), "m", tools=TOOLS)
        except ProviderError as error:
            return f"{error} {error.body}"
        return repr(response)

    return run(work(), virtual_time=True), log.marks


def test_a_mark_is_that_of_its_line_and_of_no_other():
    line = parse_fault("call=1: http_error 500")
    assert re.fullmatch(r"fault-[0-9a-f]{6}", mark_of(line))
    assert mark_of(line) == mark_of(parse_fault("call=1: http_error 500"))
    assert mark_of(line) != mark_of(parse_fault("call=2: http_error 500"))


@pytest.mark.parametrize("fault", [fault for fault in SAMPLES if fault.type != "partial_response"], ids=str)
def test_the_texts_of_a_fault_carry_the_mark_in_an_exploration_and_nowhere_else(fault):
    plain, no_marks = texts_of(fault, marked=False)
    marked, (mark,) = texts_of(fault, marked=True)
    assert mark == mark_of(parse_fault(f"everywhere: {fault}"))
    assert ("fault-" in plain, no_marks) == (False, [])
    assert (mark in marked) is (fault.type not in WITHOUT_TEXT)


@pytest.mark.parametrize("fault", TOOL_SAMPLES, ids=str)
def test_the_errors_and_results_of_tools_carry_the_mark_in_an_exploration_and_nowhere_else(fault):
    seen = []
    for marked in (False, True):
        plan = FaultPlan([parse_fault(f"tool=refund: {fault}")])
        tools = inject_tools([Till().tool("plain")], plan, marked=marked)

        async def work(tools=tools):
            try:
                return str(tools["refund"].callable(order_id=7))
            except ToolFaultError as error:
                return str(error)
            except TimeoutError as error:
                return str(error)

        seen.append(run(work(), virtual_time=True))
    mark = mark_of(parse_fault(f"tool=refund: {fault}"))
    assert "fault-" not in seen[0]
    assert (mark in seen[1]) is (fault.type not in ("tool_empty", "tool_timeout"))


def test_cut_text_ends_with_the_mark_and_cut_arguments_have_none():
    plan = FaultPlan([parse_fault("everywhere: partial_response half")])
    mark = mark_of(plan.faults[0])

    async def work(response):
        return await FaultInjector(Scripted(response), plan, marked=True).complete(user("Hi"), "m")

    assert run(work(Response("one two three"))).content == f"one tw {mark}"
    assert mark not in repr(run(work(ASKS)))


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("", ""),
        ("busy", "busy fault-0"),
        ("<html>", "<html> fault-0"),
        ('{"status": "ok", "resu', '{"status": "ok", "resu fault-0'),
        ('{"error": {"message": "busy", "code": 7}}', '{"error":{"message":"busy fault-0","code":7}}'),
        ('{"message": "busy"}', '{"message":"busy fault-0"}'),
        ('{"status": "ok"}', '{"status":"ok","mark":"fault-0"}'),
        ("[1]", '[1,"fault-0"]'),
        ('"a"', '"a fault-0"'),
        ("17", "17"),
    ],
)
def test_a_mark_keeps_json_json_and_other_text_other_text(text, marked):
    assert add_mark(text, "fault-0") == marked
    assert add_mark(text, "") == text


def test_an_overflow_is_recognised_with_its_mark_too():
    text, (mark,) = texts_of(parse_fault("call=1: context_overflow").fault, marked=True)
    body = text[text.index("{") :]
    assert json.loads(body)["error"]["code"] == "context_length_exceeded"
    message = error_message(body.encode(), "error", "message")
    assert "maximum context length" in message
    assert message.endswith(mark)


def test_a_response_file_never_has_marks():
    async def work():
        mock = MockProvider(responses={"a": {"fault": {"type": "refusal", "content": "No."}}})
        return (await mock.complete(user("Hi"), "m", step_id="a")).content

    assert run(work()) == "No."
