"""What the JSON of an answer says, whatever form its bytes have."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.recording.wire_pieces import json_documents, spelt_texts, values_by_path


@pytest.mark.parametrize(
    "content",
    [
        b'[{"a": "x"}, {"a": "y"}]',
        b'data: {"a": "x"}\n\nevent: b\ndata: {"a":\ndata:  "y"}\n\ndata: [DONE]\n\n',
        b': comment\r\n\r\ndata: {"a": "x"}\r\n\r\ndata: {"a": "y"}',
        b'{"a": "x"}\n{"a": "y"}\n',
        b'{"a": "x"}\nnonsense\n{"a": "y"}\n\xff\n',
    ],
)
def test_documents_are_found_in_lists_events_and_lines(content):
    assert json_documents(content) == [{"a": "x"}, {"a": "y"}]
    assert spelt_texts(content) == ["xy"]


@pytest.mark.parametrize("content", [b"", b"plain text", b"\xff\xfe", b"[" * 5000])
def test_what_is_no_json_has_none(content):
    assert json_documents(content) == []
    assert spelt_texts(content) == []


def test_values_are_told_by_their_paths_in_order():
    content = b'{"b": [{"c": 1}, {"c": null}], "a": {"d": "x"}, "e": []}\n{"b": [{"c": 2}]}'
    values = values_by_path(content)
    assert list(values.items()) == [("b[0].c", [1, 2]), ("b[1].c", [None]), ("a.d", ["x"])]


def test_what_is_nested_deep_is_looked_through():
    assert spelt_texts(b'{"a":' * 500 + b'"x"' + b"}" * 500) == ["x"]


@given(st.lists(st.text(min_size=1), min_size=1))
def test_a_text_in_pieces_is_put_together_unless_all_pieces_are_the_same(pieces):
    events = b"".join(b"data: " + orjson.dumps({"delta": piece}) + b"\n\n" for piece in pieces)
    assert spelt_texts(events) == [pieces[0] if len(set(pieces)) == 1 else "".join(pieces)]
