"""What a recording tells of its run, without running it."""

from offbook.explore.recorded_run import recorded_run
from offbook.explore.site import sites_of
from offbook.recording.file_format import convert

TOOL = {"function": {"name": "refund"}, "type": "function"}


def run_of(**entries):
    return recorded_run(convert({"_version": 2, **entries}, source="test"))


def test_calls_are_numbered_overall_and_by_step():
    run = run_of(plan={"content": "a"}, say=[{"content": "b"}, {"content": "c"}])
    told = [(call.number, call.step_id, call.step_call, call.attempt) for call in run.calls]
    assert told == [(1, "plan", 1, 1), (2, "say", 1, 1), (3, "say", 2, 1)]


def test_calls_are_in_the_order_of_their_moments():
    run = run_of(a={"content": "a", "recorded_at": "2026-01-02"}, b={"content": "b", "recorded_at": "2026-01-01"})
    assert [call.step_id for call in run.calls] == ["b", "a"]


def test_a_call_that_had_failed_is_tried_again():
    run = run_of(say=[{"fault": {"type": "timeout", "after_ms": 5}}, {"content": "b"}, {"content": "c"}])
    assert [(call.number, call.step_call, call.attempt) for call in run.calls] == [(1, 1, 1), (1, 1, 2), (2, 2, 1)]


def test_a_call_without_a_step_is_known_by_its_number():
    digest = "a" * 64
    run = run_of(**{digest: {"content": "b", "request_hash": digest}})
    assert [str(site.at) for site in sites_of(run)] == ["call=1 attempt=1"]


def test_streams_and_tools_are_known_from_the_entry():
    run = run_of(
        say={"content": "a b", "chunks": [[0, "a "], [1, {"reasoning": "hm"}], [2, "b"]]},
        act={"tool_calls": [{"name": "refund"}], "chunks": [[0, {"tool_call": {"index": 0, "name": "refund"}}]]},
        ask={"content": "c", "request": {"messages": [], "model": "m", "tools": [TOOL]}},
    )
    assert [call.chunks for call in run.calls] == [("text", "reasoning", "text"), ("tool_call",), ()]
    assert [call.is_streamed for call in run.calls] == [True, True, False]
    assert [call.has_tools for call in run.calls] == [False, True, True]


def test_plain_http_is_no_call_of_a_model():
    run = run_of(say={"request": {"method": "GET", "path": "/v1/models", "body": None}})
    assert run.calls == ()


def test_calls_of_tools_are_numbered_by_tool():
    run = run_of(_tools={"refund": [{"arguments": {"id": 1}, "result": 1}, {"result": 2}], "find": [{"result": 3}]})
    told = [(each.tool, each.call, each.arguments) for each in run.tools]
    assert told == [("refund", 1, {"id": 1}), ("refund", 2, {}), ("find", 1, {})]
