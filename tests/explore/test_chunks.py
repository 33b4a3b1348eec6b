"""What the chunks of a stream carry, and which places among them are worth a fault."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.explore.chunks import ChunkKinds, places_in
from offbook.messages import ReasoningDelta, TextDelta, ToolCallDelta


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
