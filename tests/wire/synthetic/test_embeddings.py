"""Embeddings, in the shapes of the vendors."""

import array
import math
import subprocess
import sys
from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import RequestError
from offbook.wire.synthetic.embeddings import embeddings_answer, float32_bytes, unit_vector

OPENAI = "/v1/embeddings"
EMBED, EMBEDDINGS = "/api/embed", "/api/embeddings"
ONE, MANY = "/v1beta/models/m:embedContent", "/v1beta/models/m:batchEmbedContents"
texts = st.text(st.characters(), min_size=1, max_size=40)


def openai_vectors(inputs, **fields):
    answer = embeddings_answer("openai", OPENAI, {"model": "m", "input": inputs} | fields)
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


contents = st.binary(min_size=1, max_size=64)
sizes = st.integers(1, 300)


@given(contents, sizes)
def test_a_vector_is_finite_and_of_length_one(content, dimensions):
    vector = unit_vector(content, dimensions)
    assert len(vector) == dimensions
    assert all(math.isfinite(side) for side in vector)
    assert math.hypot(*vector) == pytest.approx(1, abs=1e-6)


@given(contents, contents, st.integers(3, 300))
def test_vectors_are_equal_if_and_only_if_what_they_embed_is(one, other, dimensions):
    assert (unit_vector(one, dimensions) == unit_vector(other, dimensions)) == (one == other)


@given(contents, st.integers(2, 100))
def test_fewer_dimensions_point_where_the_first_of_more_do(content, dimensions):
    short, long = unit_vector(content, dimensions), unit_vector(content, 3 * dimensions)[:dimensions]
    scale = math.hypot(*long)
    assert [side / scale for side in long] == pytest.approx(short, abs=1e-5)


def test_a_vector_is_the_same_for_ever():
    assert float32_bytes(unit_vector(b"hello", 4)).hex() == "6a36723f93f8663ec9876cbee2c0c53c"
    assert unit_vector(b"hello", 2) == [0.9727400541305542, 0.23189830780029297]


def test_a_vector_is_the_same_in_another_process():
    code = "from offbook.wire.synthetic.embeddings import *; print(float32_bytes(unit_vector(b'hello', 99)).hex())"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == float32_bytes(unit_vector(b"hello", 99)).hex()


def test_vectors_of_unlike_contents_are_nearly_at_right_angles():
    one, other = unit_vector(b"hello", 1536), unit_vector(b"world", 1536)
    assert abs(sum(map(math.prod, zip(one, other, strict=True)))) < 0.1
