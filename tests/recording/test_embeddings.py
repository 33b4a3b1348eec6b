"""Embeddings are read from the answers of all vendors, and what is none is not taken for one."""

import orjson
import pytest

from offbook.recording.embeddings import Embeddings, cosine_similarity, embeddings_of


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
