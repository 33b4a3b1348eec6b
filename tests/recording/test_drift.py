"""What counts as drift between a recorded answer and one of today."""

import json

import orjson
import pytest

from offbook.messages import Usage
from offbook.recording.drift import Embeddings, cosine_similarity, differences_between, embeddings_of
from offbook.recording.format.exchange import Exchange, RecordedToolCall
from offbook.recording.format.wire_record import WireRecord


def calls(*made):
    return [RecordedToolCall(id=f"call_{id(name)}", name=name, arguments=arguments) for name, arguments in made]


def body(**fields):
    return WireRecord(protocol="openai_chat", body=json.dumps(fields))


REFUND = calls(("refund", {"amount": 10, "order": 7}))
CASES = {
    "text for a tool call": (
        {"tool_calls": REFUND},
        {"content": "Done."},
        ["answer: tool call → text", "finish reason: tool_calls → stop"],
    ),
    "another tool": ({"tool_calls": REFUND}, {"tool_calls": calls(("cancel", {}))}, ["tool: refund → cancel"]),
    "one more call": (
        {"tool_calls": REFUND},
        {"tool_calls": [*REFUND, *calls(("mail", {}))]},
        ["tool: (none) → mail"],
    ),
    "another value, and another name": (
        {"tool_calls": REFUND},
        {"tool_calls": calls(("refund", {"amount": 12, "id": 7}))},
        ["refund.amount: 10 → 12", "refund.order: 7 → (none)", "refund.id: (none) → 7"],
    ),
    "arguments that are no object": (
        {"tool_calls": REFUND},
        {"tool_calls": calls(("refund", "{amount"))},
        ['refund arguments: {"amount":10,"order":7} → {amount'],
    ),
    "another ending": ({"finish_reason": "stop"}, {"finish_reason": "length"}, ["finish reason: stop → length"]),
    "another model": ({"model": "m-1"}, {"model": "m-2"}, ["model: m-1 → m-2"]),
    "another count of the prompt": (
        {"usage": Usage.of(10, 5)},
        {"usage": Usage.of(12, 5)},
        ["prompt tokens: 10 → 12"],
    ),
    "fields that come and go": (
        {"wire": body(id="1", choices=[{"text": "a", "index": 0}])},
        {"wire": body(id="2", choices=[{"text": "b", "rank": 0}, {"text": "c", "rank": 1}])},
        ["choices[*].index: there → (none)", "choices[*].rank: (none) → there"],
    ),
    "fields of an answer in JSON": (
        {"content": '{"city": "Rome", "days": [{"max": 3}]}'},
        {"content": '{"city": "Bonn", "days": [{"min": 3}]}'},
        ["text: days[*].max: there → (none)", "text: days[*].min: (none) → there"],
    ),
}


def exchange(fields):
    return Exchange(**{"content": "" if "tool_calls" in fields else "Hi", **fields})


@pytest.mark.parametrize(("old", "new", "found"), CASES.values(), ids=CASES)
def test_a_change_of_kind_is_drift(old, new, found):
    drift = [each for each in differences_between(exchange(old), exchange(new)) if each.is_drift]
    assert [f"{each.place}: {each.recorded} → {each.live}" for each in drift] == found


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        ({"content": "Hi"}, {"content": "Hello"}, ["text"]),
        ({"usage": Usage.of(9, 5), "cost_usd": 1.0}, {"usage": Usage.of(9, 6), "cost_usd": 2.0}, ["tokens", "cost"]),
        ({"usage": Usage.of(9, 5)}, {"usage": None}, []),
        ({"reasoning": "so"}, {"reasoning": "thus"}, []),
        ({"tool_calls": calls(("a", {}), ("b", {}))}, {"tool_calls": calls(("b", {}), ("a", {}))}, []),
    ],
)
def test_other_words_counts_of_the_answer_ids_and_the_order_of_parallel_calls_are_none(old, new, kinds):
    found = differences_between(exchange(old), exchange(new))
    assert [each.kind for each in found] == kinds
    assert not any(each.is_drift for each in found)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ({"data": [{"embedding": [1, 2.5]}], "model": "m", "usage": {"prompt_tokens": 3}}, ([[1, 2.5]], "m", 3)),
        ({"data": [{"embedding": "AACAPwAAIEA="}]}, ([(1.0, 2.5)], "", 0)),
        ({"embedding": {"values": [1]}, "usageMetadata": {"promptTokenCount": 2}}, ([[1]], "", 2)),
        ({"embeddings": [{"values": [1]}, {"values": [2]}]}, ([[1], [2]], "", 0)),
        ({"embeddings": [[1], [2]], "model": "m", "prompt_eval_count": 4}, ([[1], [2]], "m", 4)),
        ({"embedding": [1, 2]}, ([[1, 2]], "", 0)),
    ],
)
def test_the_answer_of_a_vendor_is_read(body, found):
    assert embeddings_of(orjson.dumps(body)) == Embeddings(*found)


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"{", b"[]", b"null", b'"x"', b"{}", b'{"data": []}', b'{"data": 5}', b'{"data": [5]}'),
        *(b'{"data": [{"embedding": "@@"}]}', b'{"data": [{"embedding": "AAAA"}]}', b'{"embedding": ["1"]}'),
        b'{"data": [{"embedding": [1]}, {}]}',
    ],
)
def test_what_is_no_embedding_is_none(content):
    assert embeddings_of(content) is None


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [([3, 4], [6, 8], 1.0), ([1, 0], [0, 1], 0.0), ([1, 2], [-1, -2], -1.0), ([0, 0], [1, 2], 0.0), ([], [], 0.0)],
)
def test_similarity_is_the_cosine_of_the_angle(one, other, similarity):
    assert cosine_similarity(one, other) == pytest.approx(similarity)


@pytest.mark.parametrize("vector", [[1e308, 1e308], [1e154, 1e154], [1e308, -1e308]])
def test_numbers_beyond_any_length_have_no_direction(vector):
    assert cosine_similarity(vector, [1e308, 1e154]) == 0.0
