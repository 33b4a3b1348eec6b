"""The record of a run: its sites, and texts that are the same in every run."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.run import ChunkKinds, Run, ToolRun, normalize_text, places_in, recorded_run, sites_of
from offbook.faults import At
from offbook.messages import ReasoningDelta, TextDelta, ToolCallDelta
from offbook.recording.format.file import document_from_dict
from offbook.tools.effects import Effect
from tests.explore.runs import clean_run, model_call, streamed, tool_run


def test_the_sites_are_the_tries_of_calls_of_models_and_then_the_calls_of_tools():
    calls = (model_call(1), model_call(2, attempt=2))
    sites = sites_of(clean_run(calls=calls, tools=(tool_run("refund", 1), tool_run("refund", 2))))
    assert [(site.row, site.at, site.is_tool) for site in sites] == [
        ("1", At(call=1, attempt=1), False),
        ("2 try 2", At(call=2, attempt=2), False),
        ("refund 1", At(tool="refund", call=1), True),
        ("refund 2", At(tool="refund", call=2), True),
    ]


def test_calls_of_a_step_are_named_by_it():
    call = model_call(5, step_id="answer", step_call=2, has_tools=True)
    (site,) = sites_of(clean_run(calls=(call,)))
    assert site.row == "5 answer"
    assert site.at == At(step_id="answer", call=2, attempt=1)
    assert site.has_tools
    assert model_call(5, step_id="answer", attempt=3).row == "5 answer try 3"


def test_the_places_in_a_stream_are_those_of_its_chunks_and_what_is_not_streamed_has_none():
    whole = model_call(2, chunks=("text", "text"))
    first, second, third = sites_of(clean_run(calls=(streamed("text", "text"), whole, streamed())))
    assert first.positions == (("start", 0), ("text", 1), ("end", 2))
    assert second.positions == ()
    assert third.positions == ()


def test_a_site_knows_whether_its_answer_asks_for_tools():
    calls = (model_call(1, asks_for=(("refund", {}),)), model_call(2))
    assert [site.asks_for_tools for site in sites_of(clean_run(calls=calls))] == [True, False]


TOOL = {"function": {"name": "refund"}, "type": "function"}


def run_of(**entries):
    return recorded_run(document_from_dict({"_version": 2, **entries}, source="test"))


def test_calls_are_numbered_overall_and_by_step():
    run = run_of(plan={"content": "a"}, say=[{"content": "b"}, {"content": "c"}])
    fields = [(call.number, call.step_id, call.step_call, call.attempt) for call in run.calls]
    assert fields == [(1, "plan", 1, 1), (2, "say", 1, 1), (3, "say", 2, 1)]


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
    assert [call.asks_for for call in run.calls] == [(), (("refund", {}),), ()]
    assert [call.is_streamed for call in run.calls] == [True, True, False]
    assert [call.has_tools for call in run.calls] == [False, True, True]


def test_plain_http_is_no_call_of_a_model():
    run = run_of(say={"request": {"method": "GET", "path": "/v1/models", "body": None}})
    assert run.calls == ()


def test_calls_of_tools_are_numbered_by_tool():
    run = run_of(_tools={"refund": [{"arguments": {"id": 1}, "result": 1}, {"result": 2}], "find": [{"result": 3}]})
    fields = [(each.tool, each.call, each.arguments) for each in run.tools]
    assert fields == [("refund", 1, {"id": 1}), ("refund", 2, {}), ("find", 1, {})]


def test_names_are_replaced_longest_first():
    names = {"http://127.0.0.1:4010": "URL", "http://127.0.0.1:4010/s/x": "SESSION", "127.0.0.1:4010": "HOST"}
    text = "http://127.0.0.1:4010/s/x/v1 http://127.0.0.1:4010/v1 127.0.0.1:4010"
    assert normalize_text(text, names) == "SESSION/v1 URL/v1 HOST"


def test_addresses_of_objects_are_taken_out_and_other_numbers_are_left():
    assert normalize_text("<Thing at 0x7f1122334455> 0xff 0x12") == "<Thing at 0x…> 0xff 0x12"


def test_without_recorded_tools_they_are_those_that_the_answers_ask_for():
    calls = [{"id": "a", "name": "refund", "arguments": {"order": 42}}]
    document = document_from_dict({"_version": 2, "agent": [{"tool_calls": calls}, {"content": "Done"}]}, source="test")
    assert recorded_run(document).trajectory == [("refund", {"order": 42})]


def kinds_of(*pieces, index=0):
    """The kinds of the chunks of a tool call whose arguments come in these pieces."""
    kinds = ChunkKinds()
    return [kinds.next(ToolCallDelta(index, piece)) for piece in pieces]


def test_text_and_reasoning_are_distinguished():
    kinds = ChunkKinds()
    assert [kinds.next(delta) for delta in (ReasoningDelta("Hm"), TextDelta("So"))] == ["reasoning", "text"]


@pytest.mark.parametrize(
    ("pieces", "kinds"),
    [
        (["", '{"ord', 'er_id": 4', "2}"], ["tool_call", "tool_call", "tool_key", "tool_value"]),
        (['{"a": "x', 'y", "', 'b": tr', "ue}"], ["tool_call", "tool_value", "tool_key", "tool_value"]),
        (['{"a": "\\"', '", ', '"b": 1}'], ["tool_call", "tool_value", "tool_call"]),
        (['{"a": ["', 'x"], "', 'b": {"c', '": 1}}'], ["tool_call", "tool_value", "tool_key", "tool_key"]),
        (['{"a":', " 1,", ' "b": 2}'], ["tool_call", "tool_call", "tool_call"]),
    ],
)
def test_a_chunk_of_a_tool_call_continues_a_key_or_a_value_or_begins_something(pieces, kinds):
    assert kinds_of(*pieces) == kinds


def test_every_tool_call_of_an_answer_has_arguments_of_its_own():
    kinds = ChunkKinds()
    deltas = [ToolCallDelta(0, '{"a": "'), ToolCallDelta(1, '{"b'), ToolCallDelta(0, 'x"}'), ToolCallDelta(1, '": 1}')]
    assert [kinds.next(delta) for delta in deltas] == ["tool_call", "tool_call", "tool_value", "tool_key"]


texts = st.text(max_size=4)


@given(st.dictionaries(texts, texts | st.integers() | st.lists(texts, max_size=2), max_size=3))
def test_a_whole_object_ends_outside_keys_and_values(arguments):
    assert kinds_of(json.dumps(arguments), "")[-1] == "tool_call"
    assert kinds_of(*json.dumps(arguments), "")[-1] == "tool_call"


@pytest.mark.parametrize(
    ("chunks", "places"),
    [
        (["text"], [("start", 0)]),
        (["text"] * 3, [("start", 0), ("text", 1), ("end", 3)]),
        (["reasoning", "text"], [("start", 0), ("end", 2)]),
        (
            ["text", "text", "tool_call", "tool_key"],
            [("start", 0), ("text", 1), ("tool call 1", 2), ("tool call 2", 3), ("end", 4)],
        ),
        (["tool_call", "tool_value"], [("start", 0), ("tool call 1", 1), ("end", 2)]),
        (["other", "text", "text", "other", "other"], [("start", 0), ("text", 2), ("end", 3)]),
        (["other", "text", "other"], [("start", 0), ("end", 2)]),
        (["other", "other"], [("start", 0)]),
    ],
)
def test_a_stream_has_places_before_it_inside_text_and_tool_calls_and_before_its_end(chunks, places):
    assert list(places_in(chunks)) == places


def test_few_places_inside_tool_calls_are_all_tried():
    names = [name for name, _ in places_in(["other", *["tool_call"] * 8, "other"])]
    assert names == ["start", *(f"tool call {number}" for number in range(1, 9)), "end"]


def test_of_many_places_inside_tool_calls_one_of_each_kind_is_tried():
    chunks = ["other", "tool_call", *["tool_key"] * 3, *["tool_value"] * 20, "tool_call", "other"]
    assert list(places_in(chunks)) == [
        ("start", 0),
        ("tool call, first", 1),
        ("tool call, key", 3),
        ("tool call, value", 15),
        ("tool call, last", 25),
        ("end", 26),
    ]


def test_a_misspelt_side_effect_is_an_error_and_one_that_did_not_happen_is_none():
    run = Run(effects=(Effect(tool="refund", arguments={}),))
    assert run.side_effects["refund"] == 1
    assert run.side_effects["notify"] == 0
    with pytest.raises(KeyError, match="there is no tool 'refnd'; did you mean 'refund'"):
        run.side_effects["refnd"]
    assert Run(tools=(ToolRun(tool="refund", call=1, arguments={}),)).side_effects["refund"] == 0
