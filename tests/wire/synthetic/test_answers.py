"""Lists of models, single models and token counts."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from offbook.errors import RequestError
from offbook.wire.synthetic.answers import models_answer, token_count_answer


@pytest.mark.parametrize(
    ("vendor", "path", "empty"),
    [
        ("openai", "/v1/models", {"object": "list", "data": []}),
        ("anthropic", "/v1/models", {"data": [], "has_more": False, "first_id": None, "last_id": None}),
        ("google", "/v1beta/models", {"models": []}),
        ("ollama", "/api/tags", {"models": []}),
        ("ollama", "/api/ps", {"models": []}),
    ],
)
def test_a_list_of_no_models_is_empty(vendor, path, empty):
    assert models_answer(vendor, path, []) == empty


@pytest.mark.parametrize("path", ["/v1/models", "/models", "/v1/models/", "/openai/v1/models"])
def test_a_list_has_each_name_once_and_in_order(path):
    listed = models_answer("openai", path, ["b", "a", "b"])
    assert [model["id"] for model in listed["data"]] == ["b", "a"]


@pytest.mark.parametrize("path", ["/v1/models/org/a:b", "/v1/models/org%2Fa%3Ab"])
def test_a_name_may_hold_slashes_and_colons(path):
    assert models_answer("openai", path, ["org/a:b"])["id"] == "org/a:b"


def test_a_gemini_name_is_the_same_with_and_without_its_prefix():
    with_prefix, without = (models_answer("google", "/v1beta/models/a", [name]) for name in ("models/a", "a"))
    assert with_prefix == without
    assert without["name"] == "models/a"


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google"])
@pytest.mark.parametrize("path", ["/v1/models/b", "/v1/modelsa", "/v1/files"])
def test_nothing_is_answered_where_there_is_nothing(vendor, path):
    assert models_answer(vendor, path, ["a"]) is None


@pytest.mark.parametrize("known", ["a", "a:latest"])
@pytest.mark.parametrize("body", [{"model": "a"}, {"model": "a:latest"}, {"name": "a"}])
def test_an_ollama_name_without_a_tag_is_the_latest(known, body):
    assert models_answer("ollama", "/api/show", [known], body=body) is not None
    assert [model["name"] for model in models_answer("ollama", "/api/tags", [known, "a"])["models"]] == ["a:latest"]


def test_the_port_of_a_registry_is_no_tag():
    listed = models_answer("ollama", "/api/tags", ["host:5000/a", "b:7b"])
    assert [model["model"] for model in listed["models"]] == ["host:5000/a:latest", "b:7b"]


@pytest.mark.parametrize(("path", "body"), [("/api/show", {"model": "a:7b"}), ("/api/pull", {"model": "a"})])
def test_ollama_answers_nothing_where_there_is_nothing(path, body):
    assert models_answer("ollama", path, ["a"], body=body) is None


@pytest.mark.parametrize("body", [None, {}, {"model": ""}, {"model": 7}])
def test_ollama_shows_no_model_that_is_not_named(body):
    with pytest.raises(RequestError) as caught:
        models_answer("ollama", "/api/show", ["a"], body=body)
    assert caught.value.place == "model"


MEDIUM = 258


def anthropic_count(*contents, **fields):
    messages = [{"role": "user", "content": content} for content in contents]
    return token_count_answer("anthropic", {"model": "m", "messages": messages} | fields)["input_tokens"]


def openai_count(**body):
    return token_count_answer("openai", body)["input_tokens"]


def google_count(body):
    return token_count_answer("google", body)["totalTokens"]


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_text_counts_alike_for_every_vendor_and_never_less_for_being_longer(text, more):
    counted = anthropic_count(text)
    assert google_count({"contents": [{"role": "user", "parts": [{"text": text}]}]}) == counted
    assert openai_count(input=text) == openai_count(input=[{"role": "user", "content": text}]) == counted
    assert anthropic_count([{"type": "text", "text": text}]) == counted
    assert 4 < anthropic_count(text + more + "!") >= counted


def test_four_characters_are_a_token_and_a_message_is_four_more():
    assert anthropic_count("x" * 8) == 6
    assert anthropic_count("x" * 9) == 7
    assert anthropic_count("x" * 4, "x" * 4) == 10


def test_instructions_and_tools_count():
    assert anthropic_count("x" * 4, system="s" * 8, tools=[{"name": "tool", "input_schema": {"type": "object"}}]) == 8
    assert openai_count(input="x" * 4, instructions="s" * 8, tools=[{"type": "function", "name": "tool"}]) == 8
    contents, system = [{"parts": [{"text": "x" * 4}]}], {"parts": [{"text": "s" * 8}]}
    assert google_count({"contents": contents, "systemInstruction": system, "tools": [{"name": "tool"}]}) == 8
    assert google_count({"contents": contents, "system_instruction": system}) == 7


def test_gemini_may_wrap_the_request_that_is_counted():
    contents = [{"parts": [{"text": "x" * 4}]}]
    assert google_count({"generateContentRequest": {"model": "models/m", "contents": contents}}) == 5


def test_nothing_is_no_tokens_to_openai():
    assert openai_count() == 0


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 9999}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "A" * 9999}},
        {"type": "input_image", "image_url": "data:image/png;base64," + "A" * 9999},
        {"inlineData": {"mimeType": "image/png", "data": "A" * 9999}},
        {"inline_data": {"mime_type": "image/png", "data": "A" * 9999}},
    ],
)
def test_a_medium_counts_the_same_whatever_its_size(part):
    assert anthropic_count([part]) == 4 + MEDIUM


def test_a_document_that_is_text_counts_as_text():
    source = {"type": "text", "media_type": "text/plain", "data": "x" * 390}
    assert anthropic_count([{"type": "document", "source": source}]) == 4 + 100


def test_a_parameter_that_is_called_as_media_types_are_is_no_medium():
    tool = {"name": "send", "parameters": {"properties": {"mimeType": {"type": "string"}}}}
    assert openai_count(input="x" * 4, tools=[tool]) == 6


def test_a_request_may_be_nested_deeply():
    content = "x" * 4
    for _ in range(5000):
        content = [content]
    assert anthropic_count(content) == 5


@pytest.mark.parametrize(
    ("vendor", "body", "place"),
    [
        ("anthropic", {}, "messages"),
        ("anthropic", {"messages": []}, "messages"),
        ("anthropic", {"messages": ["Hi"]}, "messages[0]"),
        ("google", {}, "contents"),
        ("google", {"contents": "Hi"}, "contents"),
        ("google", {"generateContentRequest": {"contents": []}}, "generateContentRequest.contents"),
        ("openai", {"input": 5}, "input"),
        ("openai", {"instructions": 5}, "instructions"),
        ("ollama", {}, "ollama"),
    ],
)
def test_what_cannot_be_counted_is_refused_at_its_place(vendor, body, place):
    with pytest.raises(RequestError) as caught:
        token_count_answer(vendor, body)
    assert caught.value.place == place
