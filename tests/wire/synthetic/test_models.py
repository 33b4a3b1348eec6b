"""Which models there are, in the shapes of the vendors."""

import pytest

from offbook.errors import RequestError
from offbook.wire.synthetic.models import models_answer


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
