"""Embeddings, in the shapes of the vendors."""

import array
import math
import sys
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import RequestError
from offbook.wire.side import embeddings_answer

OPENAI = "/v1/embeddings"
EMBED, EMBEDDINGS = "/api/embed", "/api/embeddings"
ONE, MANY = "/v1beta/models/m:embedContent", "/v1beta/models/m:batchEmbedContents"
texts = st.text(st.characters(), min_size=1, max_size=40)


def openai_vectors(given, **fields):
    answer = embeddings_answer("openai", OPENAI, {"model": "m", "input": given} | fields)
    return [each["embedding"] for each in answer["data"]]


def google_vector(*parts, path=ONE, **fields):
    body = {"content": {"parts": list(parts)}} | fields
    return embeddings_answer("google", path, body)["embedding"]["values"]


def complaint_place(vendor, path, body):
    with pytest.raises(RequestError) as caught:
        embeddings_answer(vendor, path, body)
    return caught.value.place


@given(texts)
def test_a_text_has_one_vector_in_every_protocol_and_format(text):
    [vector] = openai_vectors(text, dimensions=768)
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)
    assert openai_vectors([text], dimensions=768) == [vector]
    assert google_vector({"text": text}, outputDimensionality=768) == vector
    assert embeddings_answer("ollama", EMBED, {"model": "m", "input": text})["embeddings"] == [vector]
    assert embeddings_answer("ollama", EMBEDDINGS, {"model": "m", "prompt": text})["embedding"] == vector
    floats = array.array("f", b64decode(openai_vectors(text, dimensions=768, encoding_format="base64")[0]))
    if sys.byteorder == "big":
        floats.byteswap()
    assert floats.tolist() == vector


def test_half_a_surrogate_pair_is_a_text_too():
    assert openai_vectors("\ud800") != openai_vectors("\ud801")


@pytest.mark.parametrize("text", ["1,2,3", "[1,2,3]", "1 2 3"])
def test_token_ids_have_another_vector_than_their_digits(text):
    assert openai_vectors([1, 2, 3]) != openai_vectors(text)


def test_the_default_dimensions_are_those_of_the_model():
    assert len(openai_vectors("a")[0]) == 1536
    assert len(openai_vectors("a", model="text-embedding-3-large")[0]) == 3072
    assert len(google_vector({"text": "a"})) == 3072
    assert len(google_vector({"text": "a"}, path="/v1beta/models/text-embedding-004:embedContent")) == 768
    assert len(embeddings_answer("ollama", EMBED, {"model": "m", "input": "a"})["embeddings"][0]) == 768


def test_gemini_joins_the_texts_of_a_content():
    assert google_vector({"text": "a"}, {"text": "b"}) == google_vector({"text": "ab"}, {"text": ""})


def test_gemini_embeds_what_is_not_text():
    image, other = ({"inlineData": {"mimeType": "image/png", "data": data}} for data in ("aGk=", "aG8="))
    assert google_vector(image) == google_vector(image) != google_vector(other)
    assert google_vector({"text": "a"}, image) != google_vector({"text": "a"})


@pytest.mark.parametrize(
    "fields",
    [
        {"outputDimensionality": 9},
        {"output_dimensionality": 9},
        {"embedContentConfig": {"outputDimensionality": 9}},
        {"embed_content_config": {"output_dimensionality": 9}},
    ],
)
def test_gemini_takes_its_dimensions_wherever_clients_put_them(fields):
    assert len(google_vector({"text": "a"}, **fields)) == 9


def test_gemini_gives_each_request_of_a_batch_its_own_dimensions():
    content = {"parts": [{"text": "a"}]}
    body = {"requests": [{"content": content, "outputDimensionality": size} for size in (3, 5)]}
    assert [len(each["values"]) for each in embeddings_answer("google", MANY, body)["embeddings"]] == [3, 5]


def test_as_many_inputs_as_may_be_are_embedded():
    assert len(openai_vectors(["a"] * 2048, dimensions=1)) == 2048
    assert len(openai_vectors([1] * 2049, dimensions=1)) == 1


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": None}, "input"),
        ({"input": {"text": "a"}}, "input"),
        ({"input": ["a", ""]}, "input[1]"),
        ({"input": [[1], []]}, "input[1]"),
        ({"input": [[1], ["a"]]}, "input[1][0]"),
        ({"input": [True]}, "input[0]"),
        ({"input": [-1]}, "input[0]"),
        ({"input": [1.5]}, "input[0]"),
        ({"input": ["a", 1]}, "input"),
        ({"input": [[1], 1]}, "input"),
        ({"input": ["a"] * 2049}, "input"),
        ({"input": [[1]] * 2049}, "input"),
        ({"dimensions": 0}, "dimensions"),
        ({"dimensions": 10_001}, "dimensions"),
        ({"dimensions": "8"}, "dimensions"),
        ({"dimensions": True}, "dimensions"),
        ({"encoding_format": "int8"}, "encoding_format"),
        ({"model": 4}, "model"),
    ],
)
def test_openai_input_that_cannot_be_embedded_is_refused_at_its_place(fields, place):
    assert complaint_place("openai", OPENAI, {"model": "m", "input": "a"} | fields) == place


@pytest.mark.parametrize(("body", "place"), [({"input": "a"}, "model"), ({"model": "m"}, "input"), ([], "")])
def test_an_openai_body_that_lacks_a_field_is_refused_at_that_field(body, place):
    assert complaint_place("openai", OPENAI, body) == place


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "content"),
        ({"content": "a"}, "content"),
        ({"content": {}}, "content.parts"),
        ({"content": {"parts": []}}, "content.parts"),
        ({"content": {"parts": [{"text": ""}]}}, "content"),
        ({"content": {"parts": [{"text": "a"}, {"text": 1}]}}, "content.parts[1].text"),
        ({"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 0}, "outputDimensionality"),
        (
            {"content": {"parts": [{"text": "a"}]}, "embedContentConfig": {"outputDimensionality": 10_001}},
            "embedContentConfig.outputDimensionality",
        ),
    ],
)
def test_gemini_content_that_cannot_be_embedded_is_refused_at_its_place(body, place):
    assert complaint_place("google", ONE, body) == place
    batch = {"requests": [{"content": {"parts": [{"text": "a"}]}}, body]}
    assert complaint_place("google", MANY, batch) == f"requests[1].{place}"


@pytest.mark.parametrize("requests", [[], "a", [{}] * 2049])
def test_a_gemini_batch_that_is_empty_no_list_or_too_long_is_refused(requests):
    assert complaint_place("google", MANY, {"requests": requests}) == "requests"


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"input": ""}, "input"),
        ({"input": []}, "input"),
        ({"input": [1]}, "input[0]"),
        ({"input": ["a"] * 2049}, "input"),
        ({"dimensions": 0}, "dimensions"),
    ],
)
def test_ollama_input_that_cannot_be_embedded_is_refused_at_its_place(fields, place):
    assert complaint_place("ollama", EMBED, {"model": "m", "input": "a"} | fields) == place


def test_an_ollama_prompt_must_be_a_text():
    assert complaint_place("ollama", EMBEDDINGS, {"model": "m", "prompt": ""}) == "prompt"


@pytest.mark.parametrize(("vendor", "path"), [("anthropic", OPENAI), ("ollama", "/api/tags"), ("google", OPENAI)])
def test_no_embeddings_are_made_where_the_vendor_has_none(vendor, path):
    assert complaint_place(vendor, path, {"model": "m", "input": "a"}) == path
