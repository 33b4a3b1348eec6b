"""Which vendor's API stands at a path, and which of its operations."""

import pytest

from offbook.codecs.catalog import CODECS
from offbook.wire.route import route_of

ANTHROPIC = {"anthropic-version": "2023-06-01"}
GOOGLE = {"x-goog-api-key": "k"}
GENERATED = {
    "openai_chat": (
        "/v1/chat/completions",
        "/chat/completions",
        "/openai/deployments/gpt-4o/chat/completions",
        "/openai/v1/chat/completions",
        "/api/v1/chat/completions",
        "/v1beta/openai/chat/completions",
    ),
    "openai_responses": ("/v1/responses", "/responses", "/openai/responses", "/openai/v1/responses"),
    "anthropic": ("/v1/messages", "/messages", "/anthropic/v1/messages", "/api/v1/messages"),
    "gemini": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
        "/v1/models/gemini-2.5-flash:generateContent",
        "/v1beta/tunedModels/mine:generateContent",
        "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:streamGenerateContent",
    ),
    "ollama": ("/api/chat",),
}
POSTED = {
    ("openai", "embed"): ("/v1/embeddings", "/embeddings", "/openai/deployments/e/embeddings"),
    ("openai", "count_tokens"): ("/v1/responses/input_tokens", "/responses/input_tokens"),
    ("openai", "other"): ("/v1/completions", "/v1/threads/t/messages", "/v1/audio/speech", "/", ""),
    ("anthropic", "count_tokens"): ("/v1/messages/count_tokens", "/messages/count_tokens"),
    ("google", "embed"): ("/v1beta/models/e:embedContent", "/v1beta/models/e:batchEmbedContents"),
    ("google", "count_tokens"): ("/v1beta/models/g:countTokens",),
    ("google", "other"): ("/v1beta/files", "/upload/v1beta/files"),
    ("ollama", "embed"): ("/api/embed", "/api/embeddings"),
    ("ollama", "models"): ("/api/show",),
    ("ollama", "other"): ("/api/pull", "/api/generate"),
}
GOT = {
    ("openai", "models"): ("/v1/models", "/models", "/v1/models/gpt-4o", "/v1/models/org/name", "/api/v1/models"),
    ("openai", "other"): ("/v1/chat/completions", "/v1/files", "/v1/responses/resp_1"),
    ("google", "models"): ("/v1beta/models", "/v1beta/models/gemini-2.5-flash"),
    ("ollama", "models"): ("/api/tags", "/api/ps", "/api/version"),
}


@pytest.mark.parametrize(("protocol", "path"), [(name, path) for name, paths in GENERATED.items() for path in paths])
def test_a_model_is_asked_at_every_address_that_clients_use(protocol, path):
    route = route_of("POST", path, {})
    assert (route.operation, route.protocol, route.codec) == ("generate", protocol, CODECS[protocol])
    assert route.vendor_codec is CODECS[protocol]


@pytest.mark.parametrize(("what", "path"), [(what, path) for what, paths in POSTED.items() for path in paths])
def test_what_is_posted_beside_is_known_by_its_path(what, path):
    route = route_of("POST", path, {})
    assert (route.vendor, route.operation, route.codec, route.protocol) == (*what, None, "http")


@pytest.mark.parametrize(("what", "path"), [(what, path) for what, paths in GOT.items() for path in paths])
def test_what_is_got_is_known_by_its_path(what, path):
    route = route_of("GET", path, {})
    assert (route.vendor, route.operation) == what


@pytest.mark.parametrize(
    ("headers", "vendor"),
    [({}, "openai"), (ANTHROPIC, "anthropic"), ({"anthropic-beta": "x"}, "anthropic"), (GOOGLE, "google")],
)
def test_a_path_that_several_vendors_have_is_told_apart_by_its_headers(headers, vendor):
    route = route_of("GET", "/v1/models", headers)
    assert (route.vendor, route.operation) == (vendor, "models")


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "PUT", "DELETE", "BREW", "post", ""])
def test_a_model_is_asked_by_post_alone(method):
    assert route_of(method, "/v1/chat/completions", {}).operation == "other"


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google", "ollama"])
def test_errors_are_written_as_the_vendor_writes_them(vendor):
    path = {"openai": "/v1/x", "anthropic": "/v1/x", "google": "/v1beta/x", "ollama": "/api/x"}[vendor]
    error = route_of("GET", path, ANTHROPIC if vendor == "anthropic" else {}).vendor_codec.encode_error(404, "no")
    shapes = {
        "openai": lambda: error["error"]["message"],
        "anthropic": lambda: (error["type"] == "error") and error["error"]["message"],
        "google": lambda: (error["error"]["code"] == 404) and error["error"]["message"],
        "ollama": lambda: error["error"],
    }
    assert shapes[vendor]() == "no"
